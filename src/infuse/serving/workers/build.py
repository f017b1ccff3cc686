"""From a model file to a compiled folder, in a process of its own: parsers and compilers see what
strangers wrote.

`python -m infuse.serving.workers.build` reads one request as JSON from standard input and writes
one answer.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import re
import resource
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypedDict, final

import numpy as np

from infuse import dtypes
from infuse.errors import CompileError, InfuseError, ModelFailureError, ModelFileError
from infuse.runtime.interface import Model
from infuse.runtime.shapes import TensorSpec
from infuse.runtime.swapping import NICENESS, SwappingModel
from infuse.serving.messages import JsonObject
from infuse.serving.workers.budget import mib
from infuse.serving.workers.environment import child_environment
from infuse.serving.workers.failures import Described, restored
from infuse.serving.workers.process import ending

_MODULE: Final = "infuse.serving.workers.build"
_MOST_TEXT: Final = 1 << 24
_OUT: Final = re.compile(
    r"out of memory|memory exhausted|Cannot allocate memory|bad_alloc"
)  # a C++ compiler's words
_FIRST_TO_GO: Final = "900"  # of 1000; workers have 500


@dataclass(frozen=True)
class Signature:
    """A compiled model on disk, and what it takes and gives. `host_steps`: what the interpreter
    runs of it; `mixes`: why it is not proven that the rows of a batch are independent, "" where it
    is; `tier`: what runs it (`Model.tier`); `is_random`: it draws random numbers.
    """

    folder: Path
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    symbols: tuple[str, ...]
    weights_bytes: int
    host_steps: tuple[str, ...]
    mixes: str
    tier: str
    is_random: bool
    seconds: float


class Order(TypedDict):
    """What the compiling process is to do, as JSON: compile the file `source`, or (`compiled`) open
    the folder. `memory` in bytes, None: no limit; `niceness` as for `os.nice`.
    """

    source: str
    output: str
    options: dict[str, Any]
    compiled: bool
    memory: int | None
    niceness: int


class _TensorRow(TypedDict):
    name: str
    dtype: str
    shape: list[int | str]
    late: bool


@final
class Answer(TypedDict):
    """What came of it, as JSON: the fields of a Signature."""

    folder: str
    inputs: list[_TensorRow]
    outputs: list[_TensorRow]
    symbols: list[str]
    weights_bytes: int
    host_steps: list[str]
    mixes: str
    tier: str
    is_random: bool


@final
class Failure(TypedDict):
    """What came of it where it failed."""

    error: Described


class _Rows(TypedDict):
    independent: bool
    reason: str


async def build(
    source: Path,
    output: Path,
    *,
    options: JsonObject,
    compiled: bool,
    seconds: float,
    memory: int | None = None,
    behind: bool = False,
) -> Signature:
    """Compile a model file (or open a compiled folder), and describe it. `options` are those of
    `infuse.compile`, by name (`CompileOptions.flat`); compile="background" makes the form that is
    there first. `behind`: a version answers already, and goes first.

    What the compiler cannot keep in its own cache is written to `output`. `memory`: bytes that the
    process, and each that it starts, may have of its own (None: no limit); files that are only
    mapped are not in it. Raises what `infuse.compile` raises, and ModelFailureError when it
    crashes, takes longer than `seconds` or needs more memory.
    """
    order: Order = {
        "source": str(source),
        "output": str(output),
        "options": dict(options),
        "compiled": compiled,
        "memory": memory,
        "niceness": NICENESS if behind else 5,
    }
    began = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        _MODULE,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=child_environment(),
        start_new_session=True,
    )
    try:
        text, trouble = await asyncio.wait_for(
            process.communicate(json.dumps(order).encode()), seconds
        )
    except asyncio.TimeoutError:
        raise ModelFailureError(
            f"compiling it took longer than {seconds:g} s", where=str(source)
        ) from None
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    try:
        answer: Answer | Failure = json.loads(text[:_MOST_TEXT])
    except ValueError:
        raise _crash(process.returncode or 0, trouble, source, memory) from None
    if "error" in answer:
        raise restored(answer["error"])
    return signature_of(answer, time.perf_counter() - began)


def _crash(status: int, trouble: bytes, source: Path, memory: int | None) -> ModelFailureError:
    """The process ended without an answer. Native code that gets no memory ends like that, too."""
    last = trouble.decode("utf-8", "replace").strip().splitlines()[-1:]
    what = f"the compiling process {ending(status)}{': ' + last[0] if last else ''}"
    hint = (
        None if memory is None else f"it may take {mib(memory)} of memory (workers.build_memory_mb)"
    )
    return ModelFailureError(what, where=str(source), hint=hint)


def signature_of(answer: Answer, seconds: float) -> Signature:
    """The model that an answer describes, which took so long to compile."""
    return Signature(
        Path(answer["folder"]),
        tuple(_spec(entry) for entry in answer["inputs"]),
        tuple(_spec(entry) for entry in answer["outputs"]),
        tuple(answer["symbols"]),
        int(answer["weights_bytes"]),
        tuple(answer["host_steps"]),
        str(answer["mixes"]),
        str(answer["tier"]),
        bool(answer["is_random"]),
        seconds,
    )


def _spec(entry: _TensorRow) -> TensorSpec:
    return TensorSpec(
        entry["name"], dtypes.by_name(entry["dtype"]).numpy, tuple(entry["shape"]), entry["late"]
    )


def described(model: Model | Signature) -> Answer:
    """A compiled model, or its signature, as the answer of the compiling process; requests do not
    override defaults.
    """
    metadata = {} if isinstance(model, Signature) else model.metadata
    inputs = [spec for spec in model.inputs if not spec.optional]
    inputs, outputs = joined(inputs, model.outputs, metadata.get("names", {}))
    return {
        "folder": _folder(model),
        "inputs": [_row(spec) for spec in inputs],
        "outputs": [_row(spec) for spec in outputs],
        "symbols": _symbols(inputs),
        "weights_bytes": model.weights_bytes,
        "host_steps": list(model.host_steps),
        "mixes": model.mixes if isinstance(model, Signature) else _mixes(metadata.get("rows")),
        "tier": model.tier,
        "is_random": model.is_random,
    }


def _folder(model: Model | Signature) -> str:
    """The folder of a compiled model; "" for one of which the interpreter runs a part, until it is
    saved.
    """
    from infuse.runtime.model import CompiledModel

    return str(model.folder) if isinstance(model, CompiledModel | Signature) else ""


def _mixes(rows: _Rows | None) -> str:
    if not rows:
        return "the folder was compiled by a release that does not tell"
    return "" if rows["independent"] else str(rows["reason"])


def joined(
    inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], names: Mapping[str, str]
) -> tuple[list[TensorSpec], list[TensorSpec]]:
    """The same with one symbol for those to which the model gives one of `names`: a request counts
    its rows once.
    """
    first: dict[str, str] = {}
    twins = {
        symbol: first.setdefault(names[symbol], symbol)
        for symbol in _symbols(inputs)
        if symbol in names
    }

    def told(size: int | str) -> int | str:
        return (
            re.sub(r"\b\w+\b", lambda m: twins.get(m[0], m[0]), size)
            if isinstance(size, str)
            else size
        )

    specs = [
        [replace(s, shape=tuple(map(told, s.shape))) for s in side] for side in (inputs, outputs)
    ]
    return specs[0], specs[1]


def _row(spec: TensorSpec) -> _TensorRow:
    if spec.other_type:
        raise ModelFileError(f"{spec.name} is a {spec.other_type}, which the protocol cannot carry")
    name = (
        dtypes.by_numpy(spec.dtype).name if spec.dtype != np.dtype(object) else dtypes.string.name
    )
    return {"name": spec.name, "dtype": name, "shape": list(spec.shape), "late": spec.late}


def _symbols(specs: Sequence[TensorSpec]) -> list[str]:
    """The symbols that stand alone somewhere, and those inside of expressions, in order of
    appearance.
    """
    from infuse.runtime.shapes import Formula

    names: dict[str, None] = {}
    for spec in specs:
        for size in spec.shape:
            if isinstance(size, str):
                names |= dict.fromkeys(sorted(Formula(size).symbols))
    return list(names)


def made(order: Order) -> Answer:
    """Do what a request says: the answer as plain data."""
    import infuse
    from infuse.options import CompileOptions
    from infuse.runtime.hosted import HostedModel

    model: Model
    if order["compiled"]:
        model = infuse.load_compiled(order["source"], 1)
        return {**described(model), "folder": order["source"]}
    graph = infuse.optimize(order["source"], fix_defaults=True)
    model = infuse.compile(graph, CompileOptions.flat(**order["options"]))
    if isinstance(model, SwappingModel):
        model.close()
        model = model.current
    answer = described(model)
    if isinstance(model, HostedModel):
        model.save(order["output"])
        answer["folder"] = order["output"]
    return answer


def _restrict(memory: int | None, niceness: int) -> None:
    """Limit this process and each that it starts, and let them be what the kernel ends first when
    memory runs out. Models that serve go first.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if memory is not None:
        most = resource.getrlimit(resource.RLIMIT_DATA)[1]
        memory = memory if most == resource.RLIM_INFINITY else min(memory, most)
        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    with suppress(OSError):  # only a hint to the kernel
        Path("/proc/self/oom_score_adj").write_text(_FIRST_TO_GO, "ascii")
    os.nice(niceness)


def is_out_of_memory(error: BaseException | None) -> bool:
    """Whether an error is, or comes from, memory that was not given to this process or to a C++
    compiler.
    """
    while error is not None:
        if isinstance(error, MemoryError) or (
            isinstance(error, OSError) and error.errno == errno.ENOMEM
        ):
            return True
        if isinstance(error, CompileError) and _OUT.search(error.what):
            return True
        error = error.__cause__ or error.__context__
    return False


def _told(error: Exception, order: Order) -> Described:
    """An error as `failures.restored` reads it; raises it again where it is none that a model may
    cause.
    """
    what = (
        error.what
        if isinstance(error, InfuseError)
        else f"{type(error).__name__}: {error}".removesuffix(": ")
    )
    if order["memory"] is not None and is_out_of_memory(error):
        what = f"compiling it needed more than {mib(order['memory'])} of memory: {what}"
        return ("ModelFailureError", what, order["source"], "raise workers.build_memory_mb")
    if isinstance(error, InfuseError):
        return (type(error).__name__, what, error.where or "", error.hint or "")
    if isinstance(error, MemoryError | RecursionError):
        return ("ModelFileError", f"{type(error).__name__} while it was read", "", "")
    raise error


def main() -> int:
    """Answer the request on standard input."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print must not mix with the answer
    order: Order = json.load(sys.stdin)
    _restrict(order["memory"], order["niceness"])
    answer: Answer | Failure
    try:
        answer = made(order)
    except Exception as error:
        answer = {"error": _told(error, order)}
    json.dump(answer, answers)
    answers.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
