"""Estimators of scikit-learn: networks behind fit and predict, which `pd.sklearn` has."""
