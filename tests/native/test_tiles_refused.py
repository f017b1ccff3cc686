"""A library whose products run on tile registers, where the system grants them and where not."""

import ctypes
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import infuse
from infuse.errors import RuntimeFailure
from infuse.runtime.folder import LIBRARY
from infuse.runtime.model import CompiledModel
from tests.native.builder import Builder
from tests.native.kernel_tools import ended_by, has_target, is_emulated
from tests.support.emulation import NEWEST, emulated

pytestmark = pytest.mark.row("R1", "R3")
Arrays = dict[str, np.ndarray]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not has_target(NEWEST):
        pytest.skip("this machine neither has nor emulates tile registers")
    make = Builder()
    make.output(make("MatMul", make.input(40, 70), make.weight(70, 50)))
    where = tmp_path_factory.mktemp("tiles") / "model"
    with emulated():
        infuse.compile(
            make.graph,
            infuse.CompileOptions(target=NEWEST, precision="bf16", threads=2),
            output=where,
        )
    return where


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with a small alternate stack for signals, or in a virtual machine without them."""
    if not is_emulated(NEWEST):
        pytest.skip("this machine has tile registers itself")
    monkeypatch.setenv("INFUSE_EMULATED_TILES_REFUSED", "1")


@pytest.fixture
def model(folder: Path) -> Iterator[CompiledModel]:
    with infuse.load_compiled(folder) as loaded:
        assert isinstance(loaded, CompiledModel)
        yield loaded


def feeds() -> Arrays:
    return {"x0": np.random.default_rng(3).standard_normal((40, 70), np.float32)}


@pytest.mark.usefixtures("refused")
def test_a_model_that_is_refused_is_not_opened(folder: Path) -> None:
    with pytest.raises(RuntimeFailure, match="does not let this process use the tile registers"):
        infuse.load_compiled(folder).run(feeds())


@pytest.mark.usefixtures("refused")
def test_programs_in_c_are_told(folder: Path) -> None:
    library = ctypes.CDLL(str(folder / LIBRARY))
    library.infuse_open.restype, library.infuse_error.restype = ctypes.c_void_p, ctypes.c_char_p
    assert library.infuse_open(None, 1) is None
    assert b"alternate stack" in library.infuse_error(None)
    header = (folder / "model.h").read_text()
    assert "infuse_error(NULL) tells" in header


def test_a_header_without_tiles_says_nothing_of_them(tmp_path: Path) -> None:
    make = Builder()
    make.output(make("Relu", make.input(3)))
    infuse.compile(make.graph, infuse.CompileOptions(target="x86-64-v3"), output=tmp_path / "model")
    header = (tmp_path / "model" / "model.h").read_text()
    assert "AMX" not in header
    assert "@" not in header


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_goes_on_with_them(model: CompiledModel) -> None:
    expected = model.run(feeds())["y0"]

    def again() -> None:
        same = np.array_equal(model.run(feeds())["y0"], expected)
        os._exit(0 if same else os.abort())

    assert ended_by(again) == 0


def test_a_model_tells_that_it_needs_them(folder: Path, model: CompiledModel) -> None:
    assert model.metadata["tiles"]
    assert "gemm_bf16(" in "".join(path.read_text() for path in folder.glob("*.cpp"))
    needed = {"amx_tile", "amx_bf16"} <= set(model.metadata["cpu_features"])
    assert needed != is_emulated(NEWEST)
