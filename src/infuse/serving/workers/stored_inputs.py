"""The inputs of a .npz file, read in a process of its own: it is a stranger's, and may unpack to
more than any memory has.

`python -m infuse.serving.workers.stored_inputs` reads one order from standard input and writes one
answer.
"""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import sys
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from math import prod
from pathlib import Path
from typing import IO, Final

import msgspec
import numpy as np

from infuse import dtypes
from infuse.errors import ConfigurationError
from infuse.runtime.session import Array
from infuse.runtime.shapes import TensorSpec
from infuse.serving.datatypes import ElementType
from infuse.serving.tuning import PIECE_BYTES
from infuse.serving.workers.environment import child_environment

_MODULE: Final = "infuse.serving.workers.stored_inputs"
_MOST_BASE_BYTES: Final = 1 << 29  # of a process with NumPy that has read nothing yet
_MOST_SECONDS: Final = 60.0


class _Input(msgspec.Struct):
    """An input of the model: `sizes` as it declares them, -1 for what is free; `text`: BYTES."""

    name: str
    dtype: str
    sizes: list[int]
    text: bool


class _Order(msgspec.Struct):
    path: str
    inputs: list[_Input]
    most: int


class _Read(msgspec.Struct):
    shape: list[int]
    data: bytes
    texts: list[bytes] = []


class _Answer(msgspec.Struct):
    arrays: list[_Read] = []
    error: str = ""


async def stored(path: Path, specs: Sequence[TensorSpec], most: int) -> list[Array]:
    """The arrays of these inputs, of at most so many bytes in all. ConfigurationError where they
    cannot be had.
    """
    order = _Order(str(path), [_input(spec) for spec in specs], most)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        _MODULE,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=child_environment(),
        start_new_session=True,
    )
    text = b""
    try:
        text, _ = await asyncio.wait_for(
            process.communicate(msgspec.msgpack.encode(order)), _MOST_SECONDS
        )
        answer = msgspec.msgpack.decode(text, type=_Answer)
    except asyncio.TimeoutError:
        answer = _Answer(error=f"reading them took longer than {_MOST_SECONDS:g} s")
    except msgspec.MsgspecError:
        answer = _Answer(error="the process that read them ended without an answer")
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    if answer.error:
        raise ConfigurationError(
            f"the warm-up inputs cannot be read: {answer.error}", where=str(path)
        )
    return [_array(spec, read) for spec, read in zip(specs, answer.arrays, strict=True)]


def _input(spec: TensorSpec) -> _Input:
    text = spec.dtype == object
    name = "" if text else dtypes.by_numpy(spec.dtype).name
    return _Input(spec.name, name, [n if isinstance(n, int) else -1 for n in spec.shape], text)


def _array(spec: TensorSpec, read: _Read) -> Array:
    if spec.dtype != object:
        return np.frombuffer(read.data, spec.dtype).reshape(read.shape)
    array = np.empty(len(read.texts), object)
    array[:] = read.texts
    return array.reshape(read.shape)


# -- in the process --------------------------------------------------------------------------------


def read(order: _Order) -> list[_Read]:
    """What an order asks for; ConfigurationError says why not. Nothing is unpacked before all that
    is said of its size is within the limit.
    """
    with zipfile.ZipFile(order.path) as content:
        opened = []
        total = 0
        for wanted in order.inputs:
            try:
                member = content.getinfo(f"{wanted.name}.npy")
            except KeyError:
                raise ConfigurationError(f"there is no array {wanted.name!r} in it") from None
            with content.open(member) as stream:
                shape, dtype, order_f = _header(stream)
                opened.append((wanted, member, stream.tell(), shape, dtype, order_f))
            _check(wanted, shape, dtype)
            into = dtype if wanted.text else dtypes.by_name(wanted.dtype).numpy
            total += prod(shape) * max(dtype.itemsize, into.itemsize)
            if total > order.most:
                raise ConfigurationError(
                    f"its arrays have more than {order.most} bytes "
                    "(limits.request_bytes of the server's configuration)"
                )
        return [_unpacked(content, *entry) for entry in opened]


def _header(stream: IO[bytes]) -> tuple[tuple[int, ...], ElementType, bool]:
    """Shape, element type, and whether columns lie together."""
    version = np.lib.format.read_magic(stream)
    if version == (1, 0):
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
    elif version == (2, 0):
        shape, fortran, dtype = np.lib.format.read_array_header_2_0(stream)
    else:
        raise ConfigurationError(f"arrays of version {version} are not read")
    return shape, dtype, fortran


def _check(wanted: _Input, shape: Sequence[int], dtype: ElementType) -> None:
    fits = len(shape) == len(wanted.sizes) and all(
        size in (-1, found) for size, found in zip(wanted.sizes, shape)
    )
    if not fits or min(shape, default=0) < 0:
        raise ConfigurationError(
            f"the array {wanted.name!r} has shape {list(shape)}, and the input {wanted.sizes}"
        )
    kinds = "SU" if wanted.text else "biufcV"
    if dtype.hasobject or dtype.kind not in kinds or dtype.names:
        raise ConfigurationError(f"the array {wanted.name!r} has elements of the type {dtype}")


def _unpacked(
    content: zipfile.ZipFile,
    wanted: _Input,
    member: zipfile.ZipInfo,
    begin: int,
    shape: tuple[int, ...],
    dtype: ElementType,
    fortran: bool,
) -> _Read:
    size = prod(shape) * dtype.itemsize
    data = bytearray()
    with content.open(member) as stream:
        stream.read(begin)
        while len(data) < size:
            piece = stream.read(min(PIECE_BYTES, size - len(data)))
            if not piece:
                raise ConfigurationError(f"the array {wanted.name!r} is cut off")
            data += piece
    flat = np.frombuffer(data, dtype) if size else np.empty(shape, dtype).reshape(-1)
    array = flat.reshape(shape, order="F" if fortran else "C")
    if wanted.text:
        texts = [t if isinstance(t, bytes) else str(t).encode() for t in array.reshape(-1).tolist()]
        return _Read(list(shape), b"", texts)
    into = dtypes.by_name(wanted.dtype).numpy
    if dtype.kind == "V" and dtype.itemsize == into.itemsize:  # how NumPy writes bfloat16
        array = array.view(into)
    return _Read(list(shape), np.ascontiguousarray(array, into).tobytes())


def main() -> int:
    """Answer the order on standard input."""
    order = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=_Order)
    limit = _MOST_BASE_BYTES + 6 * order.most  # packed, unpacked, converted, and as the answer
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    try:
        answer = _Answer(read(order))
    except ConfigurationError as error:
        answer = _Answer(error=error.what)
    except MemoryError:
        answer = _Answer(error="they need more memory than inputs of their size may")
    except (
        Exception
    ) as error:  # whatever a broken file makes the libraries say is told to the server
        answer = _Answer(error=f"{type(error).__name__}: {error}"[:1000])
    sys.stdout.buffer.write(msgspec.msgpack.encode(answer))
    return 0


if __name__ == "__main__":
    sys.exit(main())
