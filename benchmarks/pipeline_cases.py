"""Sixty pipelines as the guides and examples of scikit-learn, XGBoost, LightGBM and CatBoost write
them: each a name, where it is from, its data, and what makes the estimator.
"""

# ruff: noqa: D103  names of pipelines say what they are

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

from benchmarks import pipeline_frames as data


class Case(NamedTuple):
    """A pipeline: `make` gives the estimator, which is fitted with `options`."""

    data: Callable[[], data.Data]
    make: Callable[[], Any]
    options: dict[str, Any]


CASES: Final[dict[str, Case]] = {}


def case(source: Callable[[], data.Data], **options: Any) -> Callable[[Any], Any]:
    """Register what makes an estimator, by its name."""

    def register(make: Callable[[], Any]) -> Any:
        CASES[make.__name__.replace("_", " ")] = Case(source, make, options)
        return make

    return register


NUMBERS, TEXTS = ["age", "fare"], ["embarked", "sex", "pclass"]


def titanic_columns(handle_unknown: str = "ignore", **options: Any) -> Any:
    """Scikit-learn, Column Transformer with Mixed Types."""
    from sklearn.compose import ColumnTransformer
    from sklearn.feature_selection import SelectPercentile, chi2
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    numbers = Pipeline(
        [("imputer", SimpleImputer(strategy="median")), ("scaler", StandardScaler())]
    )
    texts = Pipeline(
        [
            ("encoder", OneHotEncoder(handle_unknown=handle_unknown, **options)),
            ("selector", SelectPercentile(chi2, percentile=50)),
        ]
    )
    return ColumnTransformer([("num", numbers, NUMBERS), ("cat", texts, TEXTS)])


@case(data.titanic)
def mixed_types() -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import Pipeline

    return Pipeline([("preprocessor", titanic_columns()), ("classifier", LogisticRegression())])


@case(data.titanic_unknown)
def mixed_types_with_unknown_ports() -> Any:
    return mixed_types()


@case(data.titanic)
def mixed_types_by_selector() -> Any:
    from sklearn.compose import ColumnTransformer, make_column_selector
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    texts = OneHotEncoder(handle_unknown="ignore")
    columns = ColumnTransformer(
        [
            ("num", numbers, make_column_selector(dtype_exclude=["category", "object", "str"])),
            ("cat", texts, make_column_selector(dtype_include=["category"])),
        ]
    )
    return make_pipeline(columns, LogisticRegression())


@case(data.titanic)
def grid_search_over_mixed_types() -> Any:
    from sklearn.model_selection import GridSearchCV

    grid = {
        "preprocessor__num__imputer__strategy": ["mean", "median"],
        "preprocessor__cat__selector__percentile": [10, 50],
        "classifier__C": [0.1, 10],
    }
    return GridSearchCV(mixed_types(), grid, cv=3)


@case(data.titanic_unknown)
def forest_of_imputed_titanic() -> Any:
    """Scikit-learn, Permutation Importance vs Random Forest Feature Importance."""
    from sklearn.compose import ColumnTransformer
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import OrdinalEncoder

    encoder = OrdinalEncoder(
        handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=-1
    )
    columns = ColumnTransformer(
        [("cat", encoder, TEXTS), ("num", SimpleImputer(strategy="mean"), NUMBERS)],
        verbose_feature_names_out=False,
    )
    forest = RandomForestClassifier(100, random_state=42)
    return Pipeline([("preprocess", columns), ("rf", forest)])


@case(data.titanic)
def imputed_constants_and_indicators() -> Any:
    from sklearn.compose import make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    texts = make_pipeline(
        SimpleImputer(strategy="constant", fill_value="missing"), OneHotEncoder(drop="first")
    )
    columns = make_column_transformer(
        (SimpleImputer(add_indicator=True), NUMBERS),
        (texts, ["embarked", "sex"]),
        ("passthrough", ["sibsp", "parch"]),
    )
    return make_pipeline(columns, LogisticRegression(max_iter=2000))


@case(data.adult)
def census_with_strings() -> Any:
    from sklearn.compose import ColumnTransformer, make_column_selector
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    columns = ColumnTransformer(
        [
            (
                "cat",
                OneHotEncoder(handle_unknown="ignore"),
                make_column_selector(dtype_include=object),
            ),
            ("num", StandardScaler(), make_column_selector(dtype_exclude=object)),
        ]
    )
    return make_pipeline(columns, LogisticRegression(max_iter=500))


@case(data.adult_unknown)
def census_by_ordinals_in_boosted_trees() -> Any:
    """INRIA's scikit-learn course, Using numerical and categorical variables together."""
    from sklearn.compose import ColumnTransformer, make_column_selector
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OrdinalEncoder

    encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    columns = ColumnTransformer(
        [("categorical", encoder, make_column_selector(dtype_include=object))],
        remainder="passthrough",
    )
    return make_pipeline(columns, HistGradientBoostingClassifier(max_iter=50))


@case(data.adult_unknown)
def census_with_rare_countries() -> Any:
    from sklearn.compose import make_column_transformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import KBinsDiscretizer, OneHotEncoder
    from sklearn.svm import LinearSVC

    rare = OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=30)
    columns = make_column_transformer(
        (rare, ["workclass", "education", "country"]),
        (KBinsDiscretizer(8, quantile_method="averaged_inverted_cdf"), ["age", "hours-per-week"]),
        remainder="drop",
    )
    return make_pipeline(columns, LinearSVC())


@case(data.adult_unknown)
def target_encoded_countries() -> Any:
    """Scikit-learn, Comparing Target Encoder with Other Encoders."""
    from sklearn.compose import ColumnTransformer
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import TargetEncoder

    columns = ColumnTransformer(
        [
            ("categorical", TargetEncoder(random_state=0), ["workclass", "education", "country"]),
            ("numerical", "passthrough", ["age", "hours-per-week", "native"]),
        ]
    )
    return make_pipeline(columns, HistGradientBoostingClassifier(max_iter=30))


@case(data.bikes)
def native_categories_of_pandas() -> Any:
    """Scikit-learn, Categorical Feature Support in Gradient Boosting."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    return HistGradientBoostingRegressor(categorical_features="from_dtype", max_iter=50)


@case(data.bikes)
def native_categories_behind_ordinals() -> Any:
    from sklearn.compose import make_column_selector, make_column_transformer
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OrdinalEncoder

    encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan)
    columns = make_column_transformer(
        (encoder, make_column_selector(dtype_include="category")),
        remainder="passthrough",
        verbose_feature_names_out=False,
    )
    trees = HistGradientBoostingRegressor(categorical_features=[0, 1, 2], max_iter=50)
    return make_pipeline(columns.set_output(transform="pandas"), trees)


@case(data.bikes)
def hours_as_splines_and_sines() -> Any:
    """Scikit-learn, Time-related feature engineering."""
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, SplineTransformer

    knots = np.linspace(0, 24, 13).reshape(13, 1)
    periodic = SplineTransformer(degree=3, knots=knots, extrapolation="periodic", include_bias=True)
    columns = ColumnTransformer(
        [
            ("cat", OneHotEncoder(handle_unknown="ignore"), ["season", "holiday", "weather"]),
            ("hour", periodic, ["hour"]),
            ("weekday", OneHotEncoder(handle_unknown="ignore"), ["weekday"]),
            ("temp", make_pipeline(SimpleImputer(), MinMaxScaler()), ["temp"]),
        ]
    )
    return make_pipeline(columns, RidgeCV(alphas=np.logspace(-6, 6, 25)))


@case(data.bikes)
def poisson_of_interactions() -> Any:
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import PoissonRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures, StandardScaler

    numbers = make_pipeline(
        SimpleImputer(), StandardScaler(), PolynomialFeatures(2, interaction_only=True)
    )
    columns = ColumnTransformer(
        [("num", numbers, ["hour", "temp"]), ("cat", OneHotEncoder(), ["season", "weather"])]
    )
    return make_pipeline(columns, PoissonRegressor(alpha=1e-3, max_iter=300))


def _houses_columns() -> Any:
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

    quality = OrdinalEncoder(categories=[["Po", "Fa", "TA", "Gd", "Ex"]])
    texts = make_pipeline(
        SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore")
    )
    return ColumnTransformer(
        [
            ("num", make_pipeline(SimpleImputer(), StandardScaler()), ["GrLivArea", "LotFrontage"]),
            ("nullable", SimpleImputer(strategy="median"), ["LotArea"]),
            ("quality", quality, ["ExterQual"]),
            ("air", "passthrough", ["CentralAir"]),
            ("cat", texts, ["SaleType"]),
        ]
    )


@case(data.houses)
def houses_with_nullable_types() -> Any:
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline

    return make_pipeline(_houses_columns(), Ridge())


@case(data.houses)
def houses_stacked() -> Any:
    """Scikit-learn, Combine predictors using stacking."""
    from sklearn.ensemble import (
        GradientBoostingRegressor,
        RandomForestRegressor,
        StackingRegressor,
    )
    from sklearn.linear_model import LassoCV, RidgeCV
    from sklearn.pipeline import make_pipeline

    estimators = [
        ("forest", make_pipeline(_houses_columns(), RandomForestRegressor(30, random_state=0))),
        ("lasso", make_pipeline(_houses_columns(), LassoCV())),
        ("boosted", make_pipeline(_houses_columns(), GradientBoostingRegressor(random_state=0))),
    ]
    return StackingRegressor(estimators, final_estimator=RidgeCV())


@case(data.houses)
def logarithms_of_prices() -> Any:
    """Scikit-learn, Effect of transforming the targets in regression model."""
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.linear_model import RidgeCV
    from sklearn.pipeline import make_pipeline

    regressor = make_pipeline(_houses_columns(), RidgeCV())
    return TransformedTargetRegressor(regressor, func=np.log1p, inverse_func=np.expm1)


@case(data.houses_numbers)
def logarithms_of_columns() -> Any:
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import ElasticNetCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, StandardScaler

    log = FunctionTransformer(np.log1p, validate=True, feature_names_out="one-to-one")
    return make_pipeline(SimpleImputer(), log, StandardScaler(), ElasticNetCV())


@case(data.houses_numbers)
def imputed_by_turns() -> Any:
    """Scikit-learn, Imputing missing values with variants of IterativeImputer."""
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer
    from sklearn.linear_model import BayesianRidge
    from sklearn.pipeline import make_pipeline

    return make_pipeline(IterativeImputer(random_state=0), BayesianRidge())


@case(data.houses_numbers)
def powers_and_quantiles() -> Any:
    from sklearn.compose import make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import HuberRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import PowerTransformer, QuantileTransformer, RobustScaler

    columns = make_column_transformer(
        (PowerTransformer(), [0]),
        (QuantileTransformer(n_quantiles=100, output_distribution="normal"), [1]),
        (RobustScaler(), [2, 3]),
    )
    return make_pipeline(SimpleImputer(), columns, HuberRegressor(max_iter=500))
