"""Makes the models in data/trees, with inputs and what their libraries predict.

Run it where xgboost, lightgbm and catboost are installed; the tests need none of them.
"""

import re
from pathlib import Path
from typing import Any

import catboost
import lightgbm
import numpy as np
import xgboost

FOLDER = Path(__file__).parent / "data" / "trees"
RNG = np.random.default_rng(0)
TINY = [1e-36, -1e-36, 1e-35, -1e-35, 2e-35, -2e-35, 0.0, -0.0, 5e-324, 1e-300]
CODES = [-1, -0.5, 2.7, 100, 1e9, -3, 0.5, 40, 4.999, 31]


def data() -> tuple[Any, Any]:
    """Data with gaps, categories in column 4 and zeros in column 5, and what to predict."""
    x = RNG.normal(size=(600, 6))
    x[RNG.random(x.shape) < 0.1] = np.nan
    x[:, 4] = RNG.integers(0, 9, 600)
    x[:, 5] = np.where(RNG.random(600) < 0.5, 0, x[:, 5])
    return x, np.nan_to_num(x[:, 0] * x[:, 1]) + (x[:, 4] % 3 == 1) * 0.7


def xgboost_models(x: Any, y: Any) -> dict[str, tuple[bytes, Any]]:
    two, three = (y > 0).astype(int), np.digitize(y, [-0.3, 0.4])
    kinds: dict[str, tuple[dict[str, Any], Any, bool]] = {
        "squared": ({"objective": "reg:squarederror"}, y, False),
        "logistic": ({"objective": "binary:logistic", "base_score": 0.3}, two, True),
        "softprob": ({"objective": "multi:softprob", "num_class": 3}, three, False),
        "softmax": ({"objective": "multi:softmax", "num_class": 3}, three, False),
        "poisson": ({"objective": "count:poisson"}, three, False),
        "hinge": ({"objective": "binary:hinge"}, two, False),
        "quantiles": (
            {"objective": "reg:quantileerror", "quantile_alpha": [0.2, 0.8]},
            y,
            False,
        ),
        "dart": ({"objective": "reg:squarederror", "booster": "dart", "rate_drop": 0.5}, y, False),
        "linear": ({"objective": "binary:logistic", "booster": "gblinear"}, two, False),
    }
    made = {}
    for name, (options, target, has_categories) in kinds.items():
        types = ["q"] * 4 + ["c" if has_categories else "q", "q"]
        matrix = xgboost.DMatrix(x, target, feature_types=types, enable_categorical=True)
        model = xgboost.train({"max_depth": 3, **options}, matrix, 4)
        asked = xgboost.DMatrix(ASKED, feature_types=types, enable_categorical=True)
        for form in ("json", "ubj") if name in ("logistic", "softprob") else ("json",):
            made[f"xgboost-{name}.{form}"] = bytes(model.save_raw(form)), model.predict(asked)
    return made


def lightgbm_models(x: Any, y: Any) -> dict[str, tuple[bytes, Any]]:
    two, three = (y > 0).astype(int), np.digitize(y, [-0.3, 0.4])
    bag = {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6}
    kinds: dict[str, tuple[dict[str, Any], Any]] = {
        "regression": ({"objective": "regression"}, y),
        "zero": ({"objective": "regression", "zero_as_missing": True}, y),
        "none": ({"objective": "regression", "use_missing": False}, y),
        "sqrt": ({"objective": "regression", "reg_sqrt": True}, np.abs(y)),
        "binary": ({"objective": "binary", "sigmoid": 1.7}, two),
        "categories": ({"objective": "binary", "categorical_feature": [4]}, two),
        "multiclass": ({"objective": "multiclass", "num_class": 3}, three),
        "ova": ({"objective": "multiclassova", "num_class": 3}, three),
        "forest": ({"objective": "binary", **bag}, two),
        "poisson": ({"objective": "poisson"}, three),
        "entropy": ({"objective": "cross_entropy_lambda"}, two),
    }
    made = {}
    for name, (options, target) in kinds.items():
        more = {"verbose": -1, "num_leaves": 6, "min_data_per_group": 5, "max_cat_to_onehot": 1}
        columns = options.pop("categorical_feature", [])
        dataset = lightgbm.Dataset(x, target, categorical_feature=columns)
        model = lightgbm.train({**more, **options}, dataset, 4)
        made[f"lightgbm-{name}.txt"] = model.model_to_string().encode(), model.predict(ASKED)
    return made


def save_catboost(model: Any, path: Path) -> None:
    """Its JSON, without what names those who built the library."""
    model.save_model(str(path), format="json")
    text = path.read_text(encoding="utf-8")
    path.write_text(re.sub(r'\n *"catboost_version_info":.*', "", text), encoding="utf-8")


def make_categories() -> None:
    """Models with numbers, texts and integers that are categories."""
    rng = np.random.default_rng(0)
    x = np.empty((240, 4), object)
    x[:, 0], x[:, 3] = rng.normal(size=(2, 240)).astype(np.float32).astype(float)
    x[:, 1] = rng.choice(["red", "green", "ünï", ""], 240)
    x[:, 2] = rng.integers(-4, 5, 240)
    y = (x[:, 1] == "red") + (x[:, 2] > 1) + 0.5 * (x[:, 0] > 0.3) * (x[:, 2] % 2)
    y = y.astype(float) + rng.normal(size=240) * 0.2
    asked = np.concatenate([x[:24], np.array([[np.nan, "never", 77, np.inf]], object)])
    made: dict[str, Any] = {f"x{i}": asked[:, [i]].astype(float) for i in (0, 3)}
    made |= {f"x{i}": asked[:, [i]].astype(str) for i in (1, 2)}
    options = {"iterations": 6, "depth": 3, "verbose": 0, "cat_features": [1, 2]}
    kinds = {
        "one-hot": {"one_hot_max_size": 20},
        "statistics": {"one_hot_max_size": 2, "max_ctr_complexity": 4},
        "buckets": {"one_hot_max_size": 4, "simple_ctr": ["Buckets", "Counter"]},
    }
    for name, more in kinds.items():
        model = catboost.CatBoostRegressor(allow_writing_files=False, **options, **more).fit(x, y)
        save_catboost(model, FOLDER / f"categories-{name}.json")
        made[name] = model.predict(asked)
    np.savez_compressed(FOLDER / "categories.npz", **made)


def catboost_models(x: Any, y: Any) -> dict[str, tuple[bytes, Any]]:
    two, three = np.array(["no", "yes"])[(y > 0).astype(int)], np.digitize(y, [-0.3, 0.4])
    options = {"iterations": 5, "depth": 3, "verbose": 0, "allow_writing_files": False}
    made = {}
    for name, loss, target in (
        ("rmse", "RMSE", y),
        ("poisson", "Poisson", three),
        ("two", "Logloss", two),
        ("three", "MultiClass", three),
        ("several", "MultiRMSE", np.stack([y, 2 * y], axis=1)),
        ("depthwise-three", "MultiClass", three),
        ("lossguide", "RMSE", y),
    ):
        classes = name.endswith(("two", "three"))
        kind = catboost.CatBoostClassifier if classes else catboost.CatBoostRegressor
        nan_mode = "Max" if name == "poisson" else "Min"
        grown = {"depthwise": "Depthwise", "lossguide": "Lossguide"}
        policy = grown.get(name.partition("-")[0], "SymmetricTree")
        model = kind(loss_function=loss, nan_mode=nan_mode, grow_policy=policy, **options)
        model.fit(x, target)
        path = FOLDER / f"catboost-{name}.json"
        save_catboost(model, path)
        expected = model.predict_proba(ASKED) if classes else model.predict(ASKED)
        made[path.name] = path.read_bytes(), expected
    return made


X, Y = data()
ASKED = np.concatenate([X[:60], np.full((1, 6), np.nan), RNG.normal(size=(60, 6)) * 2])
ASKED[60:70, 5], ASKED[70:80, 4] = TINY, CODES


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    expected = {"x": ASKED}
    make_categories()
    for make in (xgboost_models, lightgbm_models, catboost_models):
        for name, (content, prediction) in make(X, Y).items():
            (FOLDER / name).write_bytes(content)
            expected[name] = prediction
    np.savez_compressed(FOLDER / "expected.npz", **expected)


if __name__ == "__main__":
    main()
