"""Forests of scikit-learn, XGBoost and LightGBM on float64 data: results beside the library's own,
and time beside its `predict` (and beside ONNX Runtime for scikit-learn, by skl2onnx).

Needs xgboost, lightgbm, scikit-learn, skl2onnx and onnxruntime:
`python -m benchmarks.frontends_trees [--estimators 100] [NAME ...]`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import infuse
from benchmarks import machine
from benchmarks.measure import geomean
from infuse.ops.core.evaluate import evaluate

Predict = Callable[[Any], Any]
COLUMNS, TRAINED, ASKED = 30, 20_000, 10_000
TURNS, TURN_SECONDS = 5, 0.25
RNG = np.random.default_rng(0)


def xgboost_model(count: int, x: Any, y: Any) -> tuple[Any, dict[str, Predict]]:
    """A model as bytes, and the library's two ways to predict."""
    import xgboost

    options = {"objective": "binary:logistic", "max_depth": 6}
    model = xgboost.train(options, xgboost.DMatrix(x, y), count)
    return bytes(model.save_raw("ubj")), {
        "Booster.predict": lambda rows: model.predict(xgboost.DMatrix(rows)),
        "Booster.inplace_predict": model.inplace_predict,
    }


def lightgbm_model(count: int, x: Any, y: Any) -> tuple[Any, dict[str, Predict]]:
    """A model as text."""
    import lightgbm

    model = lightgbm.train({"objective": "binary", "verbose": -1}, lightgbm.Dataset(x, y), count)
    return model.model_to_string().encode(), {"Booster.predict": model.predict}


def estimator(name: str, **options: Any) -> Any:
    """What fits an estimator of sklearn.ensemble."""

    def make(count: int, x: Any, y: Any) -> tuple[Any, dict[str, Predict]]:
        from sklearn import ensemble

        number = "max_iter" if name.startswith("Hist") else "n_estimators"
        model = getattr(ensemble, name)(**{number: count}, **options).fit(x, y)
        return model, {"predict": model.predict, **_onnxruntime(model)}

    return make


def _onnxruntime(model: Any) -> dict[str, Predict]:
    import onnxruntime
    import skl2onnx
    from skl2onnx.common.data_types import FloatTensorType

    inputs = [("x", FloatTensorType([None, COLUMNS]))]
    options = {id(model): {"zipmap": False}} if hasattr(model, "classes_") else None
    try:
        proto = skl2onnx.convert_sklearn(model, initial_types=inputs, options=options)
    except Exception as error:  # whatever a peer raises is its result
        print(f"skl2onnx does not convert it: {type(error).__name__}: {str(error)[:100]}")
        return {}
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    return {"ONNX Runtime": lambda rows: session.run(None, {"x": rows.astype(np.float32)})[0]}


MODELS: dict[str, Callable[[int, Any, Any], tuple[Any, dict[str, Predict]]]] = {
    "xgboost": xgboost_model,
    "lightgbm": lightgbm_model,
    "RandomForestClassifier": estimator("RandomForestClassifier", random_state=0),
    "RandomForestRegressor": estimator("RandomForestRegressor", max_depth=10, random_state=0),
    "GradientBoostingClassifier": estimator("GradientBoostingClassifier"),
    "HistGradientBoostingClassifier": estimator("HistGradientBoostingClassifier"),
}


def paired(
    one: Callable[[], Any],
    other: Callable[[], Any],
    turns: int = TURNS,
    seconds: float = TURN_SECONDS,
) -> tuple[float, float]:
    """The median times of two calls that take turns of so many seconds. Only the second half of a
    turn counts: during the first, threads of the other side may still wait for work, and use a
    processor (those of ONNX Runtime do for some 50 ms).
    """
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(turns):
        for run, spent in zip((one, other), times):
            begin = time.perf_counter()
            start = end = begin
            while end < begin + seconds or start < begin + seconds / 2:
                start = time.perf_counter()
                run()
                end = time.perf_counter()
                if start > begin + seconds / 2:
                    spent.append(end - start)
    return statistics.median(times[0]), statistics.median(times[1])


def difference(found: Any, expected: Any) -> str:
    """How results differ: the share of equal classes, or the largest difference."""
    value, other = np.asarray(found), np.asarray(expected).reshape(np.shape(found))
    if value.dtype.kind in "iu":
        return f"{(value == other).mean():.2%} equal"
    return f"{np.abs(value - other).max():.1e} apart"


def rows_of(name: str, count: int) -> Iterator[dict[str, Any]]:
    """A row for each way to predict and number of rows."""
    x = RNG.normal(size=(TRAINED, COLUMNS))
    y = (x[:, 0] * x[:, 1] + x[:, 2] > 0).astype(np.int64)
    queries = RNG.normal(size=(ASKED, COLUMNS))
    model, others = MODELS[name](count, x, y)
    graph = infuse.load(model)
    session = infuse.compile(graph)
    first = next(iter(evaluate(graph, {"x": queries[:500]}).values()))
    native = next(iter(session.run({"x": queries[:500]}).values()))
    print(f"{name}: interpreter and native code {difference(native, first)}")
    for other, predict in others.items():
        for rows in (1, ASKED):
            part = np.ascontiguousarray(queries[:rows])
            result = next(iter(session.run({"x": part}).values()))
            ours, theirs = paired(
                lambda part=part: session.run({"x": part}),
                lambda part=part, predict=predict: predict(part),
            )
            yield {
                "model": name,
                "peer": other,
                "rows": rows,
                "ms": ours * 1e3,
                "peer_ms": theirs * 1e3,
                "speed": theirs / ours,
                "agreement": difference(result, predict(part)),
            }


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *MODELS], default=[])
    parser.add_argument("--estimators", type=int, default=100)
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    table = []
    for name in options.names or MODELS:
        for row in rows_of(name, options.estimators):
            table.append(row)
            print(
                f"  {row['rows']:6} rows: {row['ms']:8.3f} ms, {row['peer']} {row['peer_ms']:8.3f} "
                f"ms ({row['speed']:.1f} ×), {row['agreement']}",
                flush=True,
            )
    for rows in (1, ASKED):
        for peer, is_peer in (("the libraries", False), ("ONNX Runtime", True)):
            speeds = [
                row["speed"]
                for row in table
                if row["rows"] == rows and (row["peer"] == "ONNX Runtime") == is_peer
            ]
            if speeds:
                least = f"geomean {geomean(speeds):.2f}, lowest {min(speeds):.2f}"
                print(f"{rows} rows against {peer}: {least}")
    if options.json:
        content = {"machine": machine.describe(), "models": table}
        options.json.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
