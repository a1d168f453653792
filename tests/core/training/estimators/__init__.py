"""Tests of estimators with scikit-learn's interface."""
