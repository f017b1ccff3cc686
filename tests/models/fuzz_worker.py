"""`python -m tests.models.fuzz_worker KIND FIRST COUNT`: reads damaged models; a line for each that
does harm.

What may happen is an answer or an InfuseError, within seconds and in little memory.
"""

import faulthandler
import random
import resource
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from onnx import ModelProto

import infuse
from infuse.errors import InfuseError
from infuse.testing.mutation import mutate_message, mutated_bytes, with_checksum
from tests.models.fuzz_models import models

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
}


def read(kind: str, data: bytes, folder: Path) -> None:
    """Load a model as a user would."""
    if kind == "infuse-bytes":
        path = folder / "damaged.infuse"
        path.write_bytes(data)
        infuse.load(path)
    else:
        infuse.load(data)


def main(kind: str, first: int, count: int) -> int:
    faulthandler.enable()
    warnings.simplefilter("ignore")
    corpus = models()
    harm = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if kind == "infuse-bytes":
            for number, model in enumerate(corpus):
                infuse.save(infuse.load(model), folder / f"{number}.infuse")
                STORED.append((folder / f"{number}.infuse").read_bytes())
        signal.signal(signal.SIGALRM, late)
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + BYTES, used + BYTES))
        for seed in range(first, first + count):
            data = KINDS[kind](corpus, random.Random(f"{kind} {seed}"))
            signal.alarm(SECONDS)
            try:
                read(kind, data, folder)
            except InfuseError:
                pass
            except BaseException as error:  # what must not happen, whatever it is
                if isinstance(error, KeyboardInterrupt):
                    raise
                harm += 1
                print(f"{kind} {seed}: {type(error).__name__}: {str(error)[:200]}", flush=True)
            finally:
                signal.alarm(0)
    return int(harm > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
