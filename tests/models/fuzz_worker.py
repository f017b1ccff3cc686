"""`python -m tests.models.fuzz_worker KIND FIRST COUNT`: reads damaged models; a line for each that
does harm.

What may happen is an answer or an InfuseError, within seconds and in little memory.
"""

import faulthandler
import random
import resource
import shutil
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import numpy as np
from onnx import ModelProto

import infuse
from infuse.errors import InfuseError
from infuse.ir import Graph, constant
from infuse.ir.coding.clusters import clustered
from tests.models.fuzz_foreign import FORMATS, damaged, written
from tests.models.fuzz_models import models
from tests.support.mutation import mutate_message, mutated_bytes, with_checksum

SECONDS = 10
BYTES = 1 << 30
NAMES = (
    "x",
    "y",
    "",
    "Add",
    "Loop",
    "If",
    "Reshape",
    "Constant",
    "Conv",
    "SequenceEmpty",
    "ai.onnx.ml",
    "body",
    "axis",
)


class TooSlow(BaseException):
    """A model took longer than it may."""


def late(_: int, __: FrameType | None) -> None:
    raise TooSlow


def onnx_bytes(corpus: list[ModelProto], rng: random.Random) -> bytes:
    data = [model.SerializeToString() for model in corpus]
    return mutated_bytes(rng.choice(data), data, rng)


def onnx_fields(corpus: list[ModelProto], rng: random.Random) -> bytes:
    model = ModelProto()
    model.CopyFrom(rng.choice(corpus))
    mutate_message(model, rng, NAMES)
    return model.SerializeToString()


def infuse_bytes(corpus: list[ModelProto], rng: random.Random) -> bytes:
    data = mutated_bytes(rng.choice(STORED), STORED, rng)
    return with_checksum(data) if rng.random() < 0.9 else data


STORED: list[bytes] = []
KINDS: dict[str, Callable[[list[ModelProto], random.Random], bytes]] = {
    "onnx-bytes": onnx_bytes,
    "onnx-fields": onnx_fields,
    "infuse-bytes": infuse_bytes,
    "infuse-coded": infuse_bytes,
}


def main(kind: str, first: int, count: int) -> int:
    faulthandler.enable()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as name:
        make = foreign(kind, Path(name)) if kind in FORMATS else own(kind, Path(name))
        signal.signal(signal.SIGALRM, late)
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + BYTES, used + BYTES))
        return int(sum(harms(kind, seed, make) for seed in range(first, first + count)) > 0)


def own(kind: str, folder: Path) -> Callable[[random.Random], Path | bytes]:
    """What makes damaged models of ONNX, and files of Infuse."""
    corpus = models()
    graphs = [infuse.load(model) for model in corpus] if kind == "infuse-bytes" else []
    if kind == "infuse-coded":
        graphs = [weighty(seed) for seed in range(4)]
    for number, graph in enumerate(graphs):
        infuse.save(graph, folder / f"{number}.infuse", coded=kind == "infuse-coded")
        STORED.append((folder / f"{number}.infuse").read_bytes())

    def make(rng: random.Random) -> Path | bytes:
        data = KINDS[kind](corpus, rng)
        if not STORED:
            return data
        path = folder / "damaged.infuse"
        path.write_bytes(data)
        return path

    return make


def weighty(seed: int) -> Graph:
    """A graph whose weights have every coded form: clusters, planes, and blocks of zeros."""
    rng = np.random.default_rng(seed)
    graph = Graph("weights")
    floats = rng.normal(0, 0.05, (30, 40)).astype(np.float32)
    sparse = rng.integers(0, 9, (90, 64)).astype(np.int8)
    sparse[9:] = 0
    for array in (floats, clustered(floats, 2 + seed), sparse, np.rint(floats * 200)):
        graph.add_output(constant(array), f"w{len(graph.outputs)}")
    return graph


def foreign(kind: str, folder: Path) -> Callable[[random.Random], Path | bytes]:
    """What makes damaged models of another format."""
    seeds = FORMATS[kind]()
    infuse.load(written(seeds[0], folder))  # what it imports counts as memory in use
    return lambda rng: written(damaged(seeds, rng), folder)


def harms(kind: str, seed: int, make: Callable[[random.Random], Path | bytes]) -> bool:
    """Whether a damaged model did harm; a line says what."""
    source = make(random.Random(f"{kind} {seed}"))
    signal.alarm(SECONDS)
    try:
        infuse.load(source)
    except InfuseError:
        return False
    except BaseException as error:  # what must not happen, whatever it is
        if isinstance(error, KeyboardInterrupt):
            raise
        print(f"{kind} {seed}: {type(error).__name__}: {str(error)[:200]}", flush=True)
        return True
    finally:
        signal.alarm(0)
        if kind in FORMATS and isinstance(source, Path):
            shutil.rmtree(source if source.is_dir() else source.parent)
    return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
