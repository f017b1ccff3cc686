"""Estimators on float64 data beside their own library: time of 1 and of 10,000 rows, also beside
ONNX Runtime on skl2onnx's file (in float64 where that converts and runs, else in float32), and
whether the results agree: `python -m benchmarks.estimators trees|sklearn [NAME …]`.

trees: forests of XGBoost, LightGBM and scikit-learn, of `--estimators` trees. sklearn: one
estimator of each class that the tests fit; Infuse and ONNX Runtime compute all outputs (classes and
probabilities), scikit-learn one. Needs xgboost, lightgbm, scikit-learn, skl2onnx and onnxruntime.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import infuse
from benchmarks import machine
from benchmarks.measure import geomean

Predict = Callable[[Any], Any]
COLUMNS, TRAINED = 30, 20_000
ROWS = (1, 10_000)
RNG = np.random.default_rng(0)
RUNTIME = "ONNX Runtime"


class Fitted(NamedTuple):
    """What Infuse loads, the library's ways to predict by name, and what makes rows."""

    model: Any
    peers: dict[str, Predict]
    rows: Callable[[int], Any]


# -- trees -----------------------------------------------------------------------------------------


def data() -> tuple[Any, Any]:
    """Examples of two classes."""
    x = RNG.normal(size=(TRAINED, COLUMNS))
    return x, (x[:, 0] * x[:, 1] + x[:, 2] > 0).astype(np.int64)


def random_rows(count: int) -> Any:
    """Rows like those of `data`."""
    return RNG.normal(size=(count, COLUMNS))


def xgboost_model(count: int) -> Fitted:
    """A model as bytes, and the library's two ways to predict."""
    import xgboost

    options = {"objective": "binary:logistic", "max_depth": 6}
    model = xgboost.train(options, xgboost.DMatrix(*data()), count)
    peers = {
        "Booster.predict": lambda rows: model.predict(xgboost.DMatrix(rows)),
        "Booster.inplace_predict": model.inplace_predict,
    }
    return Fitted(bytes(model.save_raw("ubj")), peers, random_rows)


def lightgbm_model(count: int) -> Fitted:
    """A model as text."""
    import lightgbm

    options = {"objective": "binary", "verbose": -1}
    model = lightgbm.train(options, lightgbm.Dataset(*data()), count)
    text = model.model_to_string().encode()
    return Fitted(text, {"Booster.predict": model.predict}, random_rows)


def forest(name: str, **options: Any) -> Callable[[int], Fitted]:
    """What fits an estimator of sklearn.ensemble."""

    def make(count: int) -> Fitted:
        from sklearn import ensemble

        number = "max_iter" if name.startswith("Hist") else "n_estimators"
        model = getattr(ensemble, name)(**{number: count}, **options).fit(*data())
        return Fitted(model, {"predict": model.predict, **onnxruntime(model, COLUMNS)}, random_rows)

    return make


TREES: dict[str, Callable[[int], Fitted]] = {
    "xgboost": xgboost_model,
    "lightgbm": lightgbm_model,
    "RandomForestClassifier": forest("RandomForestClassifier", random_state=0),
    "RandomForestRegressor": forest("RandomForestRegressor", max_depth=10, random_state=0),
    "GradientBoostingClassifier": forest("GradientBoostingClassifier"),
    "HistGradientBoostingClassifier": forest("HistGradientBoostingClassifier"),
}


# -- classes of scikit-learn -----------------------------------------------------------------------


def one_of_each() -> dict[str, Callable[[int], Fitted]]:
    """The first case of each class, by its name; those of texts are left out."""
    from tests.models.sklearn_cases import CASES

    chosen: dict[str, Callable[[int], Fitted]] = {}
    for name, case in CASES.items():
        if np.asarray(case.x).dtype == np.float64:
            chosen.setdefault(name.partition("(")[0], lambda count, case=case: fitted(case))
    return chosen


def fitted(case: Any) -> Fitted:
    """An estimator of the tests."""
    model, x = case.fitted(), np.asarray(case.x)
    own = model.predict if hasattr(model, "predict") else model.transform
    peers = {"scikit-learn": own, **onnxruntime(model, x.shape[1])}
    return Fitted(model, peers, lambda count: rows_near(x, count))


def rows_near(x: Any, count: int) -> Any:
    """Rows near those that the estimator was fitted to; whole numbers stay as they are."""
    chosen = x[RNG.integers(0, len(x), count)]
    is_whole = (x == np.floor(x)) | np.isnan(x)
    return chosen + RNG.normal(size=chosen.shape) * 0.01 * (~is_whole.all(axis=0))


def onnxruntime(model: Any, width: int) -> dict[str, Predict]:
    """What runs skl2onnx's file, by name with the type of its input; nothing where none does."""
    import onnxruntime as peer
    import skl2onnx
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType

    options = {id(model): {"zipmap": False}} if hasattr(model, "classes_") else None
    for kind, dtype in ((DoubleTensorType, np.float64), (FloatTensorType, np.float32)):
        try:
            inputs = [("x", kind([None, width]))]
            proto = skl2onnx.convert_sklearn(model, initial_types=inputs, options=options)
            session = peer.InferenceSession(proto.SerializeToString())
            session.run(None, {"x": np.ones((2, width), dtype)})
        except Exception:  # whatever a peer raises means that it does not run this
            continue
        return {
            f"{RUNTIME} ({np.dtype(dtype).name})": lambda rows, session=session, dtype=dtype: (
                session.run(None, {"x": rows.astype(dtype, copy=False)})[0]
            )
        }
    return {}


# -- measuring -------------------------------------------------------------------------------------


def paired(one: Callable[[], Any], other: Callable[[], Any], turns: int = 5, seconds: float = 0.25
           ) -> tuple[float, float]:  # fmt: skip
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


def agreement(found: Any, expected: Any) -> str:
    """How results agree: the share of equal classes, or the largest difference."""
    value, other = np.asarray(found), np.asarray(expected)
    if value.size != other.size:
        return "another output"
    other = other.reshape(value.shape)
    if value.dtype.kind not in "fc" or other.dtype.kind not in "fc":
        return f"{(value == other).mean():.2%} equal"
    return f"{np.abs(value - other).max():.1e} apart"


def rows_of(name: str, given: Fitted, turns: int, seconds: float) -> Iterator[dict[str, Any]]:
    """A row for each way to predict and number of rows."""
    session = infuse.compile(infuse.load(given.model))
    (source,) = session.inputs
    for peer, predict in given.peers.items():
        for count in ROWS:
            x = np.ascontiguousarray(given.rows(count))
            ours, theirs = paired(
                lambda x=x: session.run({source.name: x}),
                lambda x=x, predict=predict: predict(x),
                turns,
                seconds,
            )
            result = next(iter(session.run({source.name: x}).values()))
            yield {
                "model": name,
                "peer": peer,
                "rows": count,
                "ms": ours * 1e3,
                "peer_ms": theirs * 1e3,
                "speed": theirs / ours,
                "agreement": agreement(result, predict(x)),
            }


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", choices=("trees", "sklearn"))
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all of the table")
    parser.add_argument("--estimators", type=int, default=100)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.25, help="of each turn")
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    makers = TREES if options.table == "trees" else one_of_each()
    if unknown := set(options.names) - makers.keys():
        parser.error(f"no such model: {', '.join(sorted(unknown))}; there are {', '.join(makers)}")
    warnings.simplefilter("ignore")
    table = []
    for name in options.names or makers:
        made = makers[name](options.estimators)
        for row in rows_of(name, made, options.turns, options.seconds):
            table.append(row)
            print(
                f"{name:32} {row['peer']:24} {row['rows']:6} rows: {row['ms']:8.3f} ms, "
                f"{row['peer_ms']:8.3f} ms ({row['speed']:.2f} ×), {row['agreement']}",
                flush=True,
            )
    for count in ROWS:
        for peer, is_runtime in (("the libraries", False), (RUNTIME, True)):
            speeds = [
                row["speed"]
                for row in table
                if row["rows"] == count and row["peer"].startswith(RUNTIME) == is_runtime
            ]
            if speeds:
                least = f"geomean {geomean(speeds):.2f}, lowest {min(speeds):.2f}"
                print(f"{count} rows, {len(speeds)} times against {peer}: {least}")
    if options.json:
        machine.save(options.json, {"models": table})


if __name__ == "__main__":
    main()
