"""Live fitted estimators of scikit-learn."""

from infuse.frontends.sklearn import (  # noqa: F401  they fill the table of estimators
    calibration,
    compose,
    densities,
    encoders,
    ensembles,
    features,
    kernels,
    linear,
    trees,
)
from infuse.frontends.sklearn.reader import load

__all__ = ["load"]
