"""Sixty pipelines as tutorials write them, live and through skl2onnx, beside their own library:
`python -m benchmarks.pipelines [NAME …]`.

Each is fitted, read by Infuse and run on rows that it has not seen, with missing values and unknown
categories among them; a row says whether classes, probabilities and numbers are the library's, what
ONNX Runtime and Infuse make of the file of skl2onnx, and how often faster a call is than the
library's own on the same table. Needs pandas, scikit-learn, xgboost, lightgbm, catboost, skl2onnx,
onnxmltools and onnxruntime.
"""

from __future__ import annotations

import argparse
import logging
import math
import re
import time
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import infuse
from benchmarks import machine, pipeline_cases_boosted, pipeline_cases_texts
from benchmarks.measure import geomean
from benchmarks.pipeline_cases import CASES, Case
from infuse.errors import InfuseError
from infuse.runtime.feeds import by_name

assert all((pipeline_cases_boosted, pipeline_cases_texts)), "they register their cases"
RIGHT, REFUSED, WRONG, OTHER = "right", "refused", "wrong", "not converted"
AS_PEER = "as ONNX Runtime"
_CLOSE = 1e-5
"""The largest difference of probabilities and numbers, relative to the largest of them:
scikit-learn computes some steps in float32.
"""


def fastest(calls: Mapping[str, Callable[[], Any]], seconds: float, turns: int = 5
            ) -> dict[str, float]:  # fmt: skip
    """The least time of each of some calls that take turns of so many seconds, in milliseconds."""
    least = dict.fromkeys(calls, math.inf)
    for _ in range(turns):
        for name, run in calls.items():
            end = time.perf_counter() + seconds
            while (begin := time.perf_counter()) < end:
                run()
                least[name] = min(least[name], time.perf_counter() - begin)
    return {name: spent * 1e3 for name, spent in least.items()}


def feeds(model: Any, rows: Any) -> Any:
    """What a model is given for a table, a list of texts or an array."""
    specs = {spec.name: spec for spec in model.inputs}
    if hasattr(rows, "columns") and set(specs) <= set(rows.columns):
        return rows
    ((name, spec),) = specs.items()
    if isinstance(rows, list):
        return {name: np.array(rows, object)}
    if hasattr(rows, "to_numpy"):
        rows = rows.to_numpy(spec.dtype, na_value=np.nan)
    return {name: np.ascontiguousarray(rows, spec.dtype)}


def _column(column: Any, dtype: Any) -> Any:
    """A column of a table as a matrix; what is missing is NaN."""
    if dtype.kind == "O" and column.dtype.kind in "iub":
        return column.astype(str).to_numpy(object).reshape(-1, 1)
    if column.hasnans or dtype.kind == "O":
        return column.to_numpy(dtype, na_value=np.nan).reshape(-1, 1)
    return column.to_numpy(dtype).reshape(-1, 1)


# -- what the library says -------------------------------------------------------------------------


def expected(model: Any, rows: Any) -> dict[str, Any]:
    """The library's answers by the names of Infuse's outputs."""
    if not hasattr(model, "predict"):
        return {"transformed": model.transform(rows)}
    answer = model.predict(rows)
    is_classifier = hasattr(model, "predict_proba") or hasattr(model, "decision_function")
    result = {"label" if is_classifier or answer.dtype == np.int32 else "variable": answer}
    if hasattr(model, "predict_proba"):
        result["probabilities"] = model.predict_proba(rows)
    elif hasattr(model, "decision_function"):
        result["scores"] = model.decision_function(rows)
    return result


def fault(ours: Any, theirs: Any) -> str:
    """How an answer is not the library's; nothing where it is."""
    theirs = theirs.toarray() if hasattr(theirs, "toarray") else np.asarray(theirs)
    ours = np.asarray(ours)
    if ours.size != theirs.size:
        return f"shape {ours.shape}, not {theirs.shape}"
    ours = ours.reshape(theirs.shape)
    if theirs.dtype.kind not in "fc":
        same = (ours.astype(str) == theirs.astype(str)).mean()
        return "" if same == 1 else f"{1 - same:.2%} of the classes differ"
    scale = float(np.nanmax(np.abs(theirs), initial=1.0))
    error = np.abs(ours.astype(np.float64) - theirs)
    apart = np.isnan(ours) != np.isnan(theirs)
    worst = float(np.nanmax(error, initial=0.0)) / scale
    return "" if worst <= _CLOSE and not apart.any() else f"{worst:.1e} apart"


def compared(answers: Mapping[str, Any], truth: Mapping[str, Any]) -> str:
    """The faults of all answers; an output that is not there is none of a single other name."""
    faults = []
    for name, theirs in truth.items():
        if name not in answers:
            faults.append(f"no {name} (but {', '.join(answers)})")
        elif found := fault(answers[name], theirs):
            faults.append(f"{name}: {found}")
    return "; ".join(faults)


# -- live ------------------------------------------------------------------------------------------


def live(name: str, model: Any, rows: Any, seconds: float) -> dict[str, Any]:
    """What Infuse makes of the fitted object."""
    try:
        compiled = infuse.compile(infuse.optimize(infuse.load(model)))
    except InfuseError as error:
        return {"live": REFUSED, "note": str(error)}
    except Exception as error:  # a traceback is a fault
        return {"live": WRONG, "note": f"{type(error).__name__}: {error}"}
    try:
        answers = compiled.run(feeds(compiled, rows))
    except (InfuseError, ValueError) as error:
        return {"live": WRONG, "note": f"{type(error).__name__}: {error}"}
    found = compared(answers, expected(model, rows))
    result: dict[str, Any] = {"live": WRONG if found else RIGHT, "note": found}
    if found or not seconds:
        return result
    return result | timed(compiled, model, rows, seconds)


def timed(compiled: Any, model: Any, rows: Any, seconds: float) -> dict[str, Any]:
    """How long a call takes, Infuse's and the library's in turns, for one row and for all."""
    own = model.predict if hasattr(model, "predict") else model.transform
    result: dict[str, Any] = {}
    for count in (1, len(rows)):
        some = rows.iloc[:count] if hasattr(rows, "iloc") else rows[:count]
        bare = by_name(feeds(compiled, some), compiled.inputs)
        key = "one" if count == 1 else "all"
        spent = fastest(
            {
                f"ms_{key}": lambda some=some: compiled.run(feeds(compiled, some)),
                f"library_ms_{key}": lambda some=some: own(some),
                f"arrays_ms_{key}": lambda bare=bare: compiled.run(bare),
            },
            seconds,
        )
        result |= spent | {f"speed_{key}": spent[f"library_ms_{key}"] / spent[f"ms_{key}"]}
    return result


# -- through skl2onnx ------------------------------------------------------------------------------


def converted(model: Any, rows: Any) -> bytes:
    """The file of skl2onnx, with the converters of onnxmltools for boosted trees."""
    import skl2onnx
    from onnx import helper

    _register()
    types = _types(rows)
    options = {"zipmap": False} if hasattr(model, "classes_") else None
    options = {id(model): options} if options else None
    proto = skl2onnx.convert_sklearn(
        model, initial_types=types, options=options, target_opset={"": 18, "ai.onnx.ml": 3}
    )
    for node in proto.graph.node:
        if node.op_type == "StringNormalizer":
            # Without it, ONNX Runtime asks for a locale that few systems have.
            node.attribute.append(helper.make_attribute("locale", "C.utf8"))
    return bytes(proto.SerializeToString())


def _types(rows: Any) -> list[tuple[str, Any]]:
    from skl2onnx.common.data_types import FloatTensorType, StringTensorType

    if isinstance(rows, list):
        return [("x", StringTensorType([None]))]
    if not hasattr(rows, "columns"):
        return [("x", FloatTensorType([None, rows.shape[1]]))]
    if all(kind.kind in "fiub" for kind in rows.dtypes):
        return [("x", FloatTensorType([None, rows.shape[1]]))]
    return [
        (
            column,
            StringTensorType([None, 1])
            if rows[column].dtype.kind == "O"
            else FloatTensorType([None, 1]),
        )
        for column in rows.columns
    ]


def _register() -> None:
    """Tell skl2onnx about boosted trees, as its documentation says."""
    from catboost import CatBoostClassifier, CatBoostRegressor  # noqa: F401
    from lightgbm import LGBMClassifier, LGBMRegressor
    from onnxmltools.convert.lightgbm.operator_converters.LightGbm import convert_lightgbm
    from onnxmltools.convert.xgboost.operator_converters.XGBoost import convert_xgboost
    from skl2onnx import update_registered_converter
    from skl2onnx.common.shape_calculator import (
        calculate_linear_classifier_output_shapes as classes,
        calculate_linear_regressor_output_shapes as numbers,
    )
    from xgboost import XGBClassifier, XGBRegressor

    options = {"nocl": [True, False], "zipmap": [True, False, "columns"]}
    update_registered_converter(
        LGBMClassifier, "LightGbmLGBMClassifier", classes, convert_lightgbm, options=options
    )
    update_registered_converter(
        LGBMRegressor,
        "LightGbmLGBMRegressor",
        numbers,
        convert_lightgbm,
        options={"split": None},
    )
    update_registered_converter(
        XGBClassifier, "XGBoostXGBClassifier", classes, convert_xgboost, options=options
    )
    update_registered_converter(XGBRegressor, "XGBoostXGBRegressor", numbers, convert_xgboost)


def through_file(model: Any, rows: Any) -> dict[str, Any]:
    """What ONNX Runtime and Infuse make of skl2onnx's file."""
    import onnxruntime

    try:
        content = converted(model, rows)
    except Exception as error:  # whatever a peer raises means that it has no file
        return {"file": OTHER, "file_note": f"{type(error).__name__}: {error}"[:120]}
    truth = expected(model, rows)
    inputs = _for_file(content, rows)
    try:
        session = onnxruntime.InferenceSession(content)
        peer = dict(zip(truth, session.run(None, inputs)))
        peer_fault = compared(peer, truth)
    except Exception as error:  # a file that it cannot run
        peer, peer_fault = {}, f"{type(error).__name__}: {error}"[:120]
    peer_note = f"ONNX Runtime: {peer_fault}" if peer_fault else ""
    try:
        answers = infuse.compile(infuse.optimize(infuse.load(content))).run(inputs)
    except InfuseError as error:
        return {"file": REFUSED, "file_note": "; ".join(filter(None, (str(error), peer_note)))}
    ours = dict(zip(truth, answers.values()))
    found = compared(ours, truth)
    is_same = bool(peer) and not compared(ours, peer)
    state = RIGHT if not found else AS_PEER if is_same else WRONG
    return {"file": state, "file_note": "; ".join(filter(None, (found, peer_note)))}


def _for_file(content: bytes, rows: Any) -> dict[str, Any]:
    import onnx

    dtypes = {8: np.dtype(object), 1: np.dtype(np.float32), 11: np.dtype(np.float64)}
    inputs = onnx.load_from_string(content).graph.input
    result = {}
    # skl2onnx makes identifiers of names.
    columns = {re.sub(r"\W", "_", name): name for name in getattr(rows, "columns", ())}
    for one in inputs:
        dtype = dtypes[one.type.tensor_type.elem_type]
        if len(inputs) > 1:
            array = _column(rows[columns[one.name]], dtype)
        else:
            array = np.asarray(rows, dtype)
        if dtype.kind == "O":
            texts = ["nan" if v != v else v for v in array.reshape(-1)]
            array = np.array(texts, object).reshape(array.shape)
        result[one.name] = array
    return result


# -- table -----------------------------------------------------------------------------------------


def row_of(name: str, one: Case, seconds: float, convert: bool, count: int = 0) -> dict[str, Any]:
    """The row of a case; `count`: the rows that it is asked for, repeated, in place of all."""
    given = one.data()
    model = one.make().fit(given.x, given.y, **one.options)
    held = repeated(given.held, count) if count else given.held
    row = {"pipeline": name, **live(name, model, held, seconds)}
    return row | (through_file(model, held) if convert else {})


def repeated(rows: Any, count: int) -> Any:
    """So many rows: these again and again."""
    places = np.arange(count) % len(rows)
    if hasattr(rows, "iloc"):
        return rows.iloc[places].reset_index(drop=True)
    return [rows[i] for i in places.tolist()] if isinstance(rows, list) else rows[places]


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all")
    parser.add_argument("--seconds", type=float, default=0.1, help="of each turn; 0: no times")
    parser.add_argument("--rows", type=int, default=0, help="ask for so many, repeated")
    parser.add_argument("--live", action="store_true", help="leave skl2onnx out")
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    if unknown := set(options.names) - CASES.keys():
        parser.error(f"no such pipeline: {', '.join(sorted(unknown))}")
    warnings.simplefilter("ignore")
    logging.getLogger("skl2onnx").setLevel(logging.ERROR)
    table = []
    for name in options.names or CASES:
        row = row_of(name, CASES[name], options.seconds, not options.live, options.rows)
        table.append(row)
        speeds = [f"{row[k]:.1f} ×" for k in ("speed_one", "speed_all") if k in row]
        print(f"{name:40} {row['live']:8} {' '.join(speeds):16} {row['note']}", flush=True)
        if "file" in row:
            print(f"{'':12}file: {row['file']} {row['file_note']}", flush=True)
    print("live:", dict(Counter(row["live"] for row in table)))
    print("files:", dict(Counter(row.get("file") for row in table)))
    for key in ("speed_one", "speed_all"):
        if speeds := [row[key] for row in table if key in row]:
            print(f"{key}: geomean {geomean(speeds):.2f}, lowest {min(speeds):.2f}")
    if options.json:
        machine.save(options.json, {"pipelines": table})


if __name__ == "__main__":
    main()
