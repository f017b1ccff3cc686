"""`python hostile_programs.py REQUEST ANSWER`: loads and runs mutated program files in a process
under AddressSanitizer. Every case runs in a child of it, which may end, or take too long.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import pickle
import random
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

SECONDS: Final = 3.0
"""Processor time that a case may take, its report included."""
MOST_BYTES: Final = 1 << 24
"""Cases that ask for larger outputs are not run."""
_INTERFACE: Final = {
    "infuse_program_load": ctypes.c_void_p,
    "infuse_program_open": ctypes.c_void_p,
    "infuse_program_counts": ctypes.c_int64,
}


@dataclass(frozen=True)
class Sample:
    """A program with its weights, and a run of it: sizes, inputs, and the bytes of an element and
    the rank of each output.
    """

    content: bytes
    weights: bytes
    symbols: Sequence[int]
    inputs: Sequence[bytes]
    outputs: Sequence[tuple[int, int]]


@dataclass(frozen=True)
class Request:
    """Which cases of which library are run: `count` from the number `first` on."""

    library: str
    samples: Sequence[Sample]
    first: int
    count: int


@dataclass
class Answer:
    """How many cases were loaded and run, and of those that ended their process the number, the
    status (negative: a signal), and the process.
    """

    loaded: int
    ran: int
    ended: list[tuple[int, int, int]]


def mutated(content: bytes, chance: random.Random) -> bytes:
    """Words and bits changed, the end cut off, or words that stand twice."""
    changed = bytearray(content)
    for _ in range(chance.choice((1, 1, 2, 5))):
        at, kind = 8 * chance.randrange(1, len(changed) // 8 + 1) - 8, chance.random()
        if kind < 0.6:
            word = chance.choice((-1, 0, 1, chance.randrange(300), 1 << 31, 1 << 62))
            changed[at : at + 8] = word.to_bytes(8, "little", signed=True)
        elif kind < 0.8:
            changed[at + chance.randrange(8)] ^= 1 << chance.randrange(8)
        elif kind < 0.9 and at >= 16:
            del changed[at:]
        else:
            changed[at:at] = changed[: chance.randrange(64)]
    return bytes(changed)


def case(request: Request, number: int) -> tuple[Sample, bytes]:
    """A sample and what became of its program, by the number of a case."""
    chance = random.Random(number)
    sample = request.samples[number % len(request.samples)]
    return sample, mutated(sample.content, chance)


class Runner:
    """Runs cases of a request in this process. `counts`: of those loaded and run, and the case."""

    def __init__(self, request: Request, counts: memoryview) -> None:
        self._request, self._counts = request, counts
        self._library = ctypes.CDLL(request.library)
        for name, kind in _INTERFACE.items():
            getattr(self._library, name).restype = kind
        self._why = ctypes.create_string_buffer(512)

    def run(self, first: int) -> None:
        """All cases from one on."""
        for number in range(first, self._request.first + self._request.count):
            self._counts[2] = number
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            self._case(*case(self._request, number))
        signal.setitimer(signal.ITIMER_PROF, 0)

    def _case(self, sample: Sample, content: bytes) -> None:
        weights = _aligned(sample.weights)
        size, why = ctypes.c_int64(len(content)), (self._why, ctypes.c_int64(512))
        program = self._library.infuse_program_load(
            content, size, weights, ctypes.c_int64(len(sample.weights)), None, *why
        )
        if program:
            self._counts[0] += 1
            if self._agrees(program, sample):
                self._run(ctypes.c_void_p(program), sample)
        self._library.infuse_program_close(ctypes.c_void_p(program))
        _libc.free(weights)

    def _agrees(self, program: int, sample: Sample) -> bool:
        said = [len(sample.symbols), len(sample.inputs), len(sample.outputs)]
        said += [rank for _, rank in sample.outputs]
        counts = (ctypes.c_int64 * len(said))()
        size = ctypes.c_int64(len(said))
        own = self._library.infuse_program_counts(ctypes.c_void_p(program), counts, size)
        return own == len(said) and list(counts) == said

    def _run(self, program: ctypes.c_void_p, sample: Sample) -> None:
        symbols = (ctypes.c_int64 * max(1, len(sample.symbols)))(*sample.symbols)
        dims = (ctypes.c_int64 * max(1, sum(rank for _, rank in sample.outputs)))()
        if self._library.infuse_program_shapes(program, symbols, dims):
            return
        lengths, at = [], 0
        for size, rank in sample.outputs:
            for extent in dims[at : at + rank]:
                size *= max(0, extent)
            lengths.append(size)
            at += rank
        if sum(lengths) > MOST_BYTES:
            return
        context = ctypes.c_void_p(self._library.infuse_program_open(program, 1))
        inputs = [*map(_copy, sample.inputs)]
        outputs = [ctypes.c_void_p(_libc.malloc(n)) for n in lengths]
        given = (ctypes.c_void_p * (len(inputs) + 1))(*(i.value for i in inputs))
        results = (ctypes.c_void_p * (len(outputs) + 1))(*(o.value for o in outputs))
        if context:
            self._counts[1] += 1
            for _ in range(2):
                self._library.infuse_run(context, symbols, given, results)
        self._library.infuse_close(context)
        for address in (*inputs, *outputs):
            _libc.free(address)


_libc = ctypes.CDLL(None)
_libc.malloc.restype, _libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
_libc.free.argtypes = [ctypes.c_void_p]
_libc.aligned_alloc.restype, _libc.aligned_alloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t] * 2


def _copy(data: bytes) -> ctypes.c_void_p:
    """Memory of exactly these bytes."""
    memory = ctypes.c_void_p(_libc.malloc(len(data)))
    ctypes.memmove(memory, data, len(data))
    return memory


def _aligned(data: bytes) -> ctypes.c_void_p:
    """Memory for weights: whole cache lines."""
    memory = ctypes.c_void_p(_libc.aligned_alloc(64, len(data) // 64 * 64 + 64))
    ctypes.memmove(memory, data, len(data))
    return memory


def main(request_file: Path, answer_file: Path) -> None:
    """Run all cases of a request."""
    request: Request = pickle.loads(request_file.read_bytes())
    shared: Any = memoryview(mmap.mmap(-1, mmap.PAGESIZE)).cast("q")
    runner, at = Runner(request, shared), request.first
    ended: list[tuple[int, int, int]] = []
    while at < request.first + request.count:
        child = os.fork()
        if not child:
            runner.run(at)
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status == 0:
            break
        ended.append((shared[2], status, child))
        at = shared[2] + 1
    answer_file.write_text(json.dumps([shared[0], shared[1], ended]))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
