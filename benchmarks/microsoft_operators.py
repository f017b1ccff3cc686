"""ONNX Runtime's own operators (com.microsoft) beside ONNX Runtime itself: the samples of the
operator table on special values and sizes, and operators that are read as others, in the
interpreter.

    python -m benchmarks.microsoft_operators [--only Gelu,FusedGemm] [--seeds 2]

Each operator has a process of its own: where ONNX Runtime ends it, or does not come back, that is
printed, and the next one follows. Prints what differs, and ends with 1 where something does that
has no reason in `KNOWN`. Native code beside the interpreter on the same values:
`benchmarks.special_values`.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from infuse.errors import InfuseError
from infuse.exporters.onnx import to_model
from infuse.ir.graph import Graph
from infuse.ops.core.base import REGISTRY, Op
from infuse.ops.domains.microsoft import DOMAIN
from infuse.testing.samples import Row, is_constant, results
from tests.models.onnx_tools import session
from tests.native.op_cases import Case, plain_rows
from tests.native.special_cases import KINDS, SIZES, resized, unlike, valued

KNOWN: Final = {
    "DynamicQuantizeMatMul": "NaN and infinities in a range that is found (docs/operators.md)",
    "GroupQueryAttention": "NaN and infinities among scores (docs/operators.md)",
    "SkipLayerNormalization": "sums and squares that leave float32 (docs/operators.md)",
}
"""Operators that may differ, and why. Of subnormal numbers, only NaN and infinities are compared:
ONNX Runtime keeps the sign of a product that is too small, or not, as its vectors have it.
"""
LIMIT: Final = 300
"""Seconds for one operator: FusedConv of ONNX Runtime 1.31 has no end where channels are none."""
MOST: Final = 20
"""Differences that are printed of an operator."""


def main() -> int:
    """How many operators differ, as 0 or 1."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="operators, with commas")
    parser.add_argument("--seeds", type=int, default=1, help="draws of each kind of values")
    options = parser.parse_args()
    only = set(filter(None, options.only.split(",")))
    chosen = {op.name: op for op in REGISTRY.values() if op.domain == DOMAIN and op.samples}
    if unknown := only - set(chosen):
        parser.error(f"no such operators: {', '.join(sorted(unknown))}")
    names = sorted(only or chosen)
    if len(names) == 1:
        return _compare(chosen[names[0]], options.seeds)
    return int(sum(_differs(name, options.seeds) for name in names) > 0)


def _differs(name: str, seeds: int) -> bool:
    arguments = ("-m", "benchmarks.microsoft_operators", "--only", name, "--seeds", str(seeds))
    try:
        status = subprocess.run([sys.executable, *arguments], check=False, timeout=LIMIT).returncode
    except subprocess.TimeoutExpired:
        print(f"{name}: ONNX Runtime did not come back in {LIMIT} s")
        return False
    if status < 0:
        print(f"{name}: the process was ended by {signal.Signals(-status).name}")
    return status > 0


def _compare(op: type[Op], seeds: int) -> int:
    counts: Counter[str] = Counter()
    found = 0
    for message in compared(op, range(seeds), counts):
        found += 1
        if found <= MOST:
            print(f"  {message}", flush=True)
    print(f"{op.name}: {found} differ, {dict(counts)}")
    return int(found > 0 and op.name not in KNOWN)


def compared(op: type[Op], seeds: Any, counts: Counter[str]) -> Iterator[str]:
    """What of an operator's results is unlike ONNX Runtime's; `counts` says what was compared."""
    for row in plain_rows(op, True):
        yield from _different(row, [("as it is", row), *_valued(row, seeds)], counts)
        for kind, size in SIZES.items():
            for other in resized(row, size):
                yield from _different(other, [(kind, other)], counts)


def _valued(row: Row, seeds: Any) -> Iterator[tuple[str, Row]]:
    if row.has_random_floats:
        for kind in KINDS:
            yield from ((kind, valued(row, kind, seed)) for seed in seeds)


def _different(row: Row, changed: list[tuple[str, Row]], counts: Counter[str]) -> Iterator[str]:
    """The rows have the types and the constants of the first."""
    held = tuple(is_constant(row, i) for i in range(len(row.inputs)))
    try:
        count = len(results(row))
        graph = Graph("one")
        for number, value in enumerate(Case(row, held, count).add_to(graph)):
            graph.add_output(value, f"y{number}")
        names = [v.name for v in graph.inputs]
        model = to_model(graph)
    except (InfuseError, ArithmeticError, LookupError, ValueError) as error:
        counts[f"refused here: {type(error).__name__}"] += 1
        return
    try:
        runtime = session(model)
    except Exception as error:  # ONNX Runtime's errors have no common type
        counts[f"refused there: {str(error)[:60]}"] += 1
        return
    for kind, one in changed:
        feeds = dict(zip(names, Case(one, held, count).fed()))
        try:
            expected = runtime.run(None, feeds)
        except Exception as error:
            counts[f"fails there: {str(error)[-60:]}"] += 1
            continue
        counts["compared"] += 1
        with np.errstate(all="ignore"):
            found = results(one)
        for number, (y, wanted) in enumerate(zip(found, expected)):
            problem = unlike(y, wanted, wanted, row.op.accuracy)
            if problem and not (kind == "subnormal numbers" and problem[0] in ("number", "zero")):
                yield f"{kind}: {row}, output {number}: {', '.join(problem)}"


if __name__ == "__main__":
    sys.exit(main())
