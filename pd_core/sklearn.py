"""`pd.sklearn`: estimators with scikit-learn's interface, which needs the package scikit-learn."""

try:
    import sklearn as _sklearn  # noqa: F401
except ImportError as error:
    raise ImportError("pd.sklearn: needs scikit-learn\n  hint: pip install scikit-learn") from error

from .training.estimators.supervised import Classifier, Regressor

__all__ = ["Classifier", "Regressor"]
