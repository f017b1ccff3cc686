"""Ensembles of trees that XGBoost, LightGBM and CatBoost save, read without them."""

from infuse.frontends.trees import catboost, lightgbm, xgboost

__all__ = ["catboost", "lightgbm", "xgboost"]
