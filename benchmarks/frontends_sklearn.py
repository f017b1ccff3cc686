"""Estimators of scikit-learn on float64 data, one of each class that the tests fit: time of 1 and
of 10,000 rows beside its own `predict` or `transform`, and beside ONNX Runtime on skl2onnx's file
(in float64 where that converts, else in float32).

Needs scikit-learn, skl2onnx and onnxruntime: `python -m benchmarks.frontends_sklearn [NAME ...]`.
Infuse and ONNX Runtime compute all outputs (classes and probabilities), scikit-learn one.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import infuse
from benchmarks import machine
from benchmarks.frontends_trees import paired
from benchmarks.measure import geomean
from tests.models.sklearn_cases import CASES, Case

ROWS = (1, 10_000)
RNG = np.random.default_rng(0)


def one_of_each() -> dict[str, Case]:
    """The first case of each class, by its name; those of texts are left out."""
    chosen: dict[str, Case] = {}
    for name, case in CASES.items():
        if np.asarray(case.x).dtype == np.float64:
            chosen.setdefault(name.partition("(")[0], case)
    return chosen


def rows_near(x: Any, rows: int) -> Any:
    """Rows near those that the estimator was fitted to; whole numbers stay as they are."""
    chosen = x[RNG.integers(0, len(x), rows)]
    is_whole = (x == np.floor(x)) | np.isnan(x)
    noise = RNG.normal(size=chosen.shape) * 0.01 * (~is_whole.all(axis=0))
    return np.ascontiguousarray(chosen + noise)


def onnxruntime(model: Any, width: int) -> tuple[str, Callable[[Any], Any]] | None:
    """The type of its input, and what runs skl2onnx's file."""
    import onnxruntime as peer
    import skl2onnx
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType

    options = {id(model): {"zipmap": False}} if hasattr(model, "classes_") else None
    for kind, dtype in ((DoubleTensorType, np.float64), (FloatTensorType, np.float32)):
        try:
            proto = skl2onnx.convert_sklearn(
                model, initial_types=[("x", kind([None, width]))], options=options
            )
            session = peer.InferenceSession(proto.SerializeToString())
            run = _runner(session, dtype)
            run(np.ones((2, width)))
        except Exception:  # whatever a peer raises means that it does not run this
            continue
        return np.dtype(dtype).name, run
    return None


def _runner(session: Any, dtype: Any) -> Callable[[Any], Any]:
    return lambda rows: session.run(None, {"x": rows.astype(dtype, copy=False)})


def rows_of(name: str, case: Case) -> Iterator[dict[str, Any]]:
    """A row for each peer and number of rows."""
    model = case.fitted()
    own = model.predict if hasattr(model, "predict") else model.transform
    peers: list[tuple[str, Callable[[Any], Any]]] = [("scikit-learn", own)]
    converted = onnxruntime(model, np.shape(case.x)[1])
    if converted is not None:
        peers.append((f"ONNX Runtime ({converted[0]})", converted[1]))
    session = infuse.compile(infuse.load(model))
    (source,) = session.inputs
    for peer, run in peers:
        for rows in ROWS:
            x = rows_near(case.x, rows)
            ours, theirs = paired(
                lambda x=x: session.run({source.name: x}), lambda x=x, run=run: run(x), 3, 0.12
            )
            yield {
                "model": name,
                "peer": peer,
                "rows": rows,
                "ms": ours * 1e3,
                "peer_ms": theirs * 1e3,
                "speed": theirs / ours,
            }


def main() -> None:
    """Run the benchmark."""
    cases = one_of_each()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *cases], default=[], metavar="NAME")
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    table = []
    for name in options.names or cases:
        for row in rows_of(name, cases[name]):
            table.append(row)
            print(
                f"{name:32} {row['peer']:24} {row['rows']:6} rows: {row['ms']:8.3f} ms, "
                f"{row['peer_ms']:8.3f} ms ({row['speed']:.2f} ×)",
                flush=True,
            )
    for peer in ("scikit-learn", "ONNX Runtime"):
        for rows in ROWS:
            chosen = [r for r in table if r["rows"] == rows and r["peer"].startswith(peer)]
            if chosen:
                speeds = [row["speed"] for row in chosen]
                print(
                    f"{peer}, {rows} rows, {len(speeds)} estimators: geomean "
                    f"{geomean(speeds):.2f}, lowest {min(speeds):.2f}"
                )
    if options.json:
        content = {"machine": machine.describe(), "models": table}
        options.json.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
