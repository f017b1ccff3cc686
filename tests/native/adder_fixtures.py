"""The adder compiled, loaded, or with another body, in a cache of the module's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from infuse.build.build import build
from infuse.runtime import CompiledModel
from tests.native.adder import METADATA, WEIGHTS, build_adder, source

OFFSET = np.array([10, 20, 30], np.float32)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def own_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFUSE_CACHE", str(cache))
    monkeypatch.setenv("INFUSE_CHECK", "0")
    monkeypatch.delenv("INFUSE_NUM_THREADS", raising=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return build_adder(output=tmp_path / "adder")


@pytest.fixture
def model(folder: Path) -> CompiledModel:
    return CompiledModel.load(folder, threads=2)


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., CompiledModel]:
    """`make(body=..., inputs=[...], …)`: a model with other metadata and another body of its
    run.
    """

    def load(body: str = "return 0;", shapes: str = "return 0;", **changes: Any) -> CompiledModel:
        metadata = {**METADATA, **changes}
        text = source(metadata)
        text = replace_body(
            text, "infuse_run", f"Context* context = (Context*)opened; (void)context; {body}"
        )
        text = replace_body(text, "infuse_shapes", shapes)
        return CompiledModel.load(
            build({"model.cpp": text}, WEIGHTS, 128, metadata, key="made"), threads=1
        )

    return load


def replace_body(text: str, function: str, body: str) -> str:
    start = text.index("{", text.index(f"int {function}("))
    return f"{text[:start]}{{ {body} }}{text[text.index(chr(10) + '}', start) + 2 :]}"


def values(batch: int, start: float = 0) -> np.ndarray[Any, Any]:
    return (np.arange(batch * 3, dtype=np.float32) + np.float32(start)).reshape(batch, 3)


def expected(x: Any, y: Any) -> np.ndarray[Any, Any]:
    return np.asarray(x, np.float32) + np.asarray(y, np.float32) + OFFSET
