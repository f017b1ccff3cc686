"""Live fitted estimators of scikit-learn, XGBoost, LightGBM and CatBoost."""

from infuse.frontends.sklearn import (  # noqa: F401  they fill the table of estimators
    boosting,
    calibration,
    compose,
    coupling,
    densities,
    encoders,
    ensembles,
    features,
    imputation,
    kernel_maps,
    kernels,
    linear,
    splines,
    texts,
    trees,
)
from infuse.frontends.sklearn.boosting import booster_graph
from infuse.frontends.sklearn.reader import load

__all__ = ["booster_graph", "load"]
