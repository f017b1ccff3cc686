"""Pipelines of XGBoost, LightGBM and CatBoost."""

# ruff: noqa: D103  names of pipelines say what they are

from __future__ import annotations

from typing import Any

from benchmarks import pipeline_frames as data
from benchmarks.pipeline_cases import case, titanic_columns


@case(data.titanic_unknown)
def xgboost_behind_columns() -> Any:
    from sklearn.pipeline import make_pipeline
    from xgboost import XGBClassifier

    return make_pipeline(titanic_columns(), XGBClassifier(n_estimators=50))


def _with_categories(source: Any) -> Any:
    """Their texts as categories of pandas, and no names of passengers."""

    def make() -> data.Data:
        given = source()

        def change(frame: Any) -> Any:
            frame = frame.drop(columns=["name"], errors="ignore")
            for column in frame.select_dtypes(include=["object", "str"]):
                frame[column] = frame[column].astype("category")
            return frame

        return given._replace(x=change(given.x), held=change(given.held))

    make.__name__ = source.__name__
    return make


@case(_with_categories(data.titanic))
def xgboost_with_categories() -> Any:
    """XGBoost, Categorical Data."""
    from xgboost import XGBClassifier

    return XGBClassifier(tree_method="hist", enable_categorical=True, n_estimators=40)


@case(data.bikes)
def xgboost_regression_with_categories() -> Any:
    from xgboost import XGBRegressor

    return XGBRegressor(enable_categorical=True, max_cat_to_onehot=1, n_estimators=60, max_depth=5)


@case(data.built_in("iris"))
def xgboost_of_three_classes() -> Any:
    from xgboost import XGBClassifier

    return XGBClassifier(n_estimators=20, max_depth=2, objective="multi:softprob")


def _numbered(source: Any) -> Any:
    """With numbers for classes, which XGBoost needs."""

    def make() -> data.Data:
        import numpy as np

        given = source()
        return given._replace(y=np.unique(given.y, return_inverse=True)[1])

    make.__name__ = source.__name__
    return make


@case(_numbered(data.news))
def xgboost_of_texts() -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_pipeline
    from xgboost import XGBClassifier

    return make_pipeline(TfidfVectorizer(max_features=300), XGBClassifier(n_estimators=20))


@case(data.bikes)
def lightgbm_with_categories() -> Any:
    """LightGBM's Python guide: categorical features of pandas are used as they are."""
    from lightgbm import LGBMRegressor

    return LGBMRegressor(n_estimators=50, verbose=-1)


@case(_with_categories(data.titanic_unknown))
def lightgbm_with_unknown_categories() -> Any:
    from lightgbm import LGBMClassifier

    return LGBMClassifier(n_estimators=50, verbose=-1)


@case(data.adult_unknown)
def lightgbm_behind_columns() -> Any:
    from lightgbm import LGBMClassifier
    from sklearn.compose import ColumnTransformer, make_column_selector
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OrdinalEncoder

    encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    columns = ColumnTransformer(
        [("cat", encoder, make_column_selector(dtype_include=object))], remainder="passthrough"
    )
    columns.set_output(transform="pandas")
    return make_pipeline(columns, LGBMClassifier(n_estimators=50, verbose=-1))


@case(data.built_in("wine"))
def lightgbm_of_three_classes() -> Any:
    from lightgbm import LGBMClassifier

    return LGBMClassifier(n_estimators=20, verbose=-1)


@case(data.titanic)
def catboost_behind_imputers() -> Any:
    from catboost import CatBoostClassifier
    from sklearn.pipeline import make_pipeline

    return make_pipeline(
        titanic_columns(),
        CatBoostClassifier(iterations=50, verbose=False, allow_writing_files=False),
    )


def _filled() -> data.Data:
    """CatBoost takes no missing categories: tutorials fill them with a text."""
    given = _with_categories(data.titanic_unknown)()

    def change(frame: Any) -> Any:
        texts = frame[["sex", "embarked"]].astype(object).fillna("unknown")
        return frame.assign(sex=texts["sex"], embarked=texts["embarked"])

    return given._replace(x=change(given.x), held=change(given.held))


@case(_filled, cat_features=["sex", "embarked"])
def catboost_with_categories() -> Any:
    """CatBoost, Titanic tutorial."""
    from catboost import CatBoostClassifier

    return CatBoostClassifier(
        iterations=60, verbose=False, allow_writing_files=False, random_seed=42
    )


@case(_filled)
def catboost_with_categories_by_name() -> Any:
    from catboost import CatBoostClassifier

    return CatBoostClassifier(
        iterations=40,
        verbose=False,
        allow_writing_files=False,
        cat_features=["sex", "embarked", "pclass", "parch"],
    )


@case(data.built_in("diabetes", frame=True, share=0.1))
def catboost_regression() -> Any:
    from catboost import CatBoostRegressor

    return CatBoostRegressor(iterations=100, depth=4, verbose=False, allow_writing_files=False)


def _of_reviews() -> data.Data:
    given = data.reviews()

    def change(frame: Any) -> Any:
        texts = frame["department"].astype(object).fillna("none")
        return frame.assign(department=texts, verified=frame["verified"].astype(int))

    return given._replace(x=change(given.x), y=given.y.astype(int), held=change(given.held))


@case(_of_reviews, text_features=["text"], cat_features=["department"])
def catboost_with_texts() -> Any:
    """CatBoost, Text features."""
    from catboost import CatBoostClassifier

    return CatBoostClassifier(iterations=30, verbose=False, allow_writing_files=False)
