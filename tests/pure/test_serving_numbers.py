"""How many numbers tune the server. A constant that is no limit and no fact of a format is one;
those of `load/` belong to the caller that measures it.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SERVING = Path(__file__).resolve().parents[2] / "src" / "infuse" / "serving"
MOST_TUNED = 68
# Limits protect, whatever their value: their names say that they are the most of something.
LIMIT = re.compile(r"_?MOST(_|$)")
# What a protocol, a file, a machine or arithmetic lays down.
FACTS = {
    "control/repository/repository.py": {"_RACY_SECONDS"},  # coarse stamps of files
    "control/rollout/chance.py": {"_BITS"},
    "control/rollout/evidence.py": {"_PRECISION"},
    "control/rollout/state.py": {"_FORMAT"},
    "control/telemetry/logs.py": {"_GONE"},
    "control/telemetry/metrics.py": {"_MICRO"},
    "control/telemetry/statistics.py": {"_SECOND"},
    "engine/batching/deadlines.py": {"_TRIED"},  # the share of what an estimate may not refuse
    "engine/declared.py": {"_FREE"},
    "engine/pipelines/audio.py": {"_LOWEST", "_HIGHEST"},
    "engine/pipelines/images.py": {"_ORIENTATION"},
    "engine/pipelines/resampling.py": {"_ZEROS", "_BETA"},  # results depend on them
    "engine/pipelines/waves.py": {"_PCM", "_FLOAT", "_EXTENSIBLE", "_UNKNOWN"},
    "engine/tuner.py": {"_TOLERANCE"},  # of rounding
    "transports/coders/memory.py": {"_ALIGNMENT"},
    "transports/coders/pool.py": {"_BYTES_EACH"},  # of Python's objects
    "transports/rest/deadline.py": {"HEAD", "BODY", "ANSWER", "READER", "IDLE", "LINGER"},  # names
    "transports/rest/reading.py": {"BETWEEN", "_ALIGNMENT"},
    "transports/rpc/calls.py": {"_MODEL", "_PARAMETERS"},
    "transports/rpc/codec.py": {"_RAW_INPUTS", "_RAW_OUTPUTS", "_ID", "_INFER_RESPONSE"},
    "transports/rpc/wire.py": {"_BYTES"},
    "transports/security/rates.py": {"_IPV6_PREFIX"},
    "transports/security/tokens.py": {"_RANDOM_BYTES"},
    "workers/memory.py": {"_ALIGNMENT", "_PAGE"},
    "workers/placement.py": {"_TIE"},
}


def number(node: ast.expr | None) -> bool:
    """Whether an expression is a number that is written out, as in `64 << 10` or `-1`."""
    match node:
        case ast.Constant(value=bool()):
            return False
        case ast.Constant(value=int() | float()):
            return True
        case ast.UnaryOp(operand=operand):
            return number(operand)
        case ast.BinOp(left=left, right=right):
            return number(left) and number(right)
    return False


def constants(source: str) -> Iterator[str]:
    """The constants of a module that are numbers, and the defaults of parameters that are (not 0
    and 1, which say that there is none, or one).
    """
    tree = ast.parse(source)
    for statement in tree.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and number(statement.value):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            yield from (ast.unparse(target) for target in targets)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            for default in (*node.args.defaults, *node.args.kw_defaults):
                if number(default) and ast.unparse(default) not in ("0", "0.0", "1", "1.0", "-1"):
                    yield f"{getattr(node, 'name', 'lambda')}({ast.unparse(default)})"
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("sleep"):
            yield from (
                ast.unparse(node) for time in node.args if number(time) and ast.unparse(time) != "0"
            )


def by_file() -> dict[str, list[str]]:
    paths = sorted(path for path in SERVING.rglob("*.py") if path.parent != SERVING / "load")
    return {str(path.relative_to(SERVING)): list(constants(path.read_text())) for path in paths}


def test_few_numbers_tune_the_server() -> None:
    tuned = [
        f"{file}: {name}"
        for file, names in by_file().items()
        for name in names
        if not LIMIT.match(name) and name not in FACTS.get(file, ())
    ]
    assert tuned
    assert len(tuned) <= MOST_TUNED, "\n".join([str(len(tuned)), *tuned])


@pytest.mark.parametrize("file", FACTS)
def test_facts_are_there(file: str) -> None:
    assert FACTS[file] <= set(by_file()[file])


def test_numbers_are_read() -> None:
    source = (
        "A = 1 << 4\nB: Final = -2.5\nC = f(3)\nD = A\nE = True\ndef f(x=3, y=0, *, z=2): sleep(5)"
    )
    assert list(constants(source)) == ["A", "B", "f(3)", "f(2)", "sleep(5)"]
