"""Warm-up inputs of a .npz file: read as NumPy reads them, in a process whose memory is bounded."""

from __future__ import annotations

import asyncio
import io
import resource
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from infuse import dtypes
from infuse.errors import ConfigurationError, UnavailableError
from infuse.serving.config import Limits
from infuse.serving.engine.engine import Engine
from infuse.serving.workers.stored_inputs import stored
from tests.serving import models
from tests.serving.batching_tools import spec
from tests.serving.engine_stage import served
from tests.serving.models import ask, write

pytestmark = pytest.mark.row("S7")
MOST = 1 << 20


def test_arrays_are_those_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    bfloat16 = dtypes.by_name("bfloat16").numpy
    arrays: dict[str, Any] = {
        "x": np.arange(6, dtype=np.float64).reshape(2, 3),
        "f": np.asfortranarray(np.arange(6, dtype=np.int64).reshape(2, 3)),
        "b": np.array([1.5, -2], bfloat16),
        "t": np.array([["a", "bc"]]),
        "s": np.array([b"a", b"xyz"]),
        "e": np.zeros((0, 3), np.float32),
        "n": np.array(7, np.int8),
    }
    np.savez_compressed(path, **arrays)
    specs = [
        spec("x", "n", 3),
        spec("f", 2, "m", dtype=np.int64),
        spec("b", "k", dtype=bfloat16),
        spec("t", 1, 2, dtype=object),
        spec("s", "k", dtype=object),
        spec("e", "z", 3),
        spec("n", dtype=np.int64),
    ]
    found = dict(zip(arrays, asyncio.run(stored(path, specs, MOST)), strict=True))
    assert [array.dtype for array in found.values()] == [each.dtype for each in specs]
    for name in ("x", "f", "b", "e", "n"):
        np.testing.assert_array_equal(found[name], arrays[name])
    assert found["t"].tolist() == [[b"a", b"bc"]]
    assert found["s"].tolist() == [b"a", b"xyz"]


def header(shape: Any, descr: str = "<f4") -> bytes:
    """The head of an array in a .npy file."""
    stream = io.BytesIO()
    content = {"descr": descr, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, content)
    return stream.getvalue()


def packed(*members: tuple[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as content:
        for name, data in members:
            content.writestr(name, data)
    return stream.getvalue()


def damaged(content: bytes) -> bytes:
    at = content.index(b"x.npy") + 8
    return content[:at] + bytes(255 - byte for byte in content[at : at + 12]) + content[at + 12 :]


GOOD = header((2, 3)) + bytes(24)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "BadZipFile"),
        (b"PK\x03\x04 is no archive", "BadZipFile"),
        (packed(("x.npy", GOOD))[:-30], "BadZipFile"),
        (damaged(packed(("x.npy", GOOD))), "cannot be read"),
        (packed(("y.npy", GOOD)), "no array 'x'"),
        (packed(("x.npy", b"")), "cannot be read"),
        (packed(("x.npy", b"\x93NUMPY\x09\x00")), "cannot be read"),
        (packed(("x.npy", GOOD[:-1])), "is cut off"),
        (packed(("x.npy", header((1 << 40, 3)))), "more than 1048576 bytes"),
        (packed(("x.npy", header((-2, 3)))), "has shape"),
        (packed(("x.npy", header((2, 4)))), "has shape"),
        (packed(("x.npy", header((6,)))), "has shape"),
        (packed(("x.npy", header((2, 3), "|O"))), "elements of the type object"),
        (packed(("x.npy", header((2, 3), "<M8[s]"))), "elements of the type datetime64"),
        (packed(("x.npy", header((1 << 18, 3)) + bytes(3 << 20))), "more than 1048576 bytes"),
    ],
)
def test_bad_files_are_told_of(content: bytes, words: str, tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=words) as caught:
        asyncio.run(stored(path, [spec("x", "n", 3)], MOST))
    assert caught.value.code == "INF-701"


def test_no_memory_of_the_server_is_taken(tmp_path: Path) -> None:
    """What an array says of its size decides, and not what it would unpack to."""
    path = tmp_path / "x.npz"
    path.write_bytes(packed(("x.npy", header((1 << 22, 3)) + bytes(48 << 20))))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ConfigurationError, match="more than"):
        asyncio.run(stored(path, [spec("x", "n", 3)], MOST))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 24 << 10  # KiB


def test_a_model_with_bad_inputs_fails_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    repository = tmp_path / "models"
    write(repository, "good", models.adder(1))
    write(repository, "bad", models.adder(2), config="warmup: {inputs: x.npz}\n")
    np.savez_compressed(repository / "bad" / "x.npz", x=np.zeros((400, 4), np.float32))

    async def work(engine: Engine) -> None:
        assert await ask(engine, "good", 1) == 2
        reason = engine.models["bad"].failures[1].reason
        assert "INF-701" in reason
        assert "limits.request_bytes" in reason

    served(
        tmp_path,
        work,
        limits=Limits(request_bytes=4096),
        model_defaults={"warmup": {"enabled": True}, "threads": 1},
    )
    assert "Traceback" not in caplog.text


def test_loaded_models_answer_while_others_are_loaded_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = tmp_path / "models"
    write(repository, "good", models.adder(1))
    write(repository, "slow", models.adder(2))

    async def check() -> None:
        engine = Engine(models.config(tmp_path))
        go_on = asyncio.Event()
        load: Callable[..., Any] = engine.catalog._load

        async def held(model: Any, *rest: Any) -> Any:
            if model.name == "slow":
                await go_on.wait()
            return await load(model, *rest)

        monkeypatch.setattr(engine.catalog, "_load", held)
        starting = asyncio.create_task(engine.start())
        await models.until(lambda: engine.model_ready("good") if engine.models else False, "good")
        assert await ask(engine, "good", 1) == 2
        assert not engine.ready()
        for name in ("slow", "nobody"):
            with pytest.raises(UnavailableError, match="the server is starting"):
                await ask(engine, name, 1)
        go_on.set()
        await starting
        assert await ask(engine, "slow", 1) == 3
        await engine.stop()

    asyncio.run(check())
