"""Program files that are broken, or that no library here runs, are refused with a reason."""

import ctypes
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import infuse
from infuse.build.collecting import collected
from infuse.build.prebuilt import make_prebuilt
from infuse.errors import CompiledModelError, InputError, OptionError, UnsupportedOperatorError
from infuse.ir.graph import Graph
from infuse.ir.parser import parse
from infuse.ops.core.evaluate import evaluate
from infuse.options import CompileOptions
from infuse.runtime.folder import METADATA, PROGRAM, digest
from infuse.runtime.program import FOLDER_VARIABLE, prebuilt_libraries
from infuse.targets import Target
from tests.support.hostile_programs import mutated

NEVER = CompileOptions(compile="never", threads=1)
pytestmark = pytest.mark.row("X1")


def network() -> Graph:
    weights = ", ".join(f"{number / 8}" for number in range(-24, 24))
    return parse(f"""graph "net" (%x: float32[n, 4, 8]) {{
      %a = MatMul(%x, float32[8, 6]{{{weights}}})
      %b = Relu(%a)
      %c = Transpose(%b, perm=(0, 2, 1))
      %d = Softmax(%c, axis=-1)
      return d = %d
    }}""")


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prebuilt")
    target = Target.resolve()
    make_prebuilt(collected(target, [network()]), target, folder / "net.so")
    return folder


@pytest.fixture
def folder(libraries: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A compiled folder with a program."""
    monkeypatch.setenv(FOLDER_VARIABLE, str(libraries))
    infuse.compile(network(), NEVER, output=tmp_path / "model").close()
    return tmp_path / "model"


def rewrite(folder: Path, content: bytes) -> None:
    """Another program in a folder, which its description agrees with."""
    path = folder / PROGRAM
    path.write_bytes(content)
    metadata = json.loads((folder / METADATA).read_text())
    metadata["files"][PROGRAM] = {"bytes": len(content), "sha256": digest(path)}
    (folder / METADATA).write_text(json.dumps(metadata))


def test_a_program_runs_at_sizes_of_its_own(folder: Path) -> None:
    x = np.linspace(-1, 1, 96, dtype=np.float32).reshape(3, 4, 8)
    with infuse.load_compiled(folder) as model:
        for n in (3, 1, 2, 0):
            expected = evaluate(network(), {"x": x[:n]})["d"]
            np.testing.assert_allclose(model.run({"x": x[:n]})["d"], expected, rtol=2e-6)
        with pytest.raises(InputError):
            model.run({"x": x[:, :3]})
    assert model.host_steps == []


def test_a_broken_program_is_refused_with_a_reason(folder: Path) -> None:
    content = (folder / PROGRAM).read_bytes()
    for broken in (b"", content[:8], content[:-9], content + b"\0" * 8, b"\1" * len(content)):
        rewrite(folder, broken)
        with pytest.raises(CompiledModelError, match="the program cannot be run"):
            infuse.load_compiled(folder)


def test_every_word_of_a_program_is_within_its_limits(folder: Path) -> None:
    """Other words in place of one are refused, or make another program; nothing else happens."""
    content = (folder / PROGRAM).read_bytes()
    words = np.frombuffer(content, np.int64, len(content) // 8).copy()
    chance = random.Random(5)
    reasons: list[str] = []
    for _ in range(400):
        changed = bytearray(content)
        at = chance.randrange(len(words))
        value = chance.choice((-1, 0, 1, 7, 1 << 20, -(1 << 40), 1 << 62, chance.randrange(64)))
        changed[8 * at : 8 * at + 8] = value.to_bytes(8, "little", signed=True)
        rewrite(folder, bytes(changed))
        try:
            infuse.load_compiled(folder, threads=1).close()
        except CompiledModelError as error:
            reasons.append(error.what)
    assert len(reasons) > 100
    assert all(reason.startswith("the program cannot be run: ") for reason in reasons)


def test_mutated_programs_are_refused_or_load(folder: Path) -> None:
    content, chance = (folder / PROGRAM).read_bytes(), random.Random(2)
    library = prebuilt_libraries()[0].functions
    weights, why = np.zeros(1 << 16, np.uint8), ctypes.create_string_buffer(512)
    loaded, reasons = 0, set[bytes]()
    for _ in range(20_000):
        changed = mutated(content, chance)
        place = weights.ctypes.data, weights.nbytes
        program = library.infuse_program_load(changed, len(changed), *place, None, why, len(why))
        assert bool(program) != bool(why.value)
        loaded += bool(program)
        reasons.add(why.value)
        library.infuse_program_close(program)
    assert 0 < loaded < 10_000
    assert reasons >= {
        b"a call has other arguments than its function",
        b"a call has too few slots",
        b"a tensor lies nowhere",
        b"an order of buffers is broken",
        b"an output lies elsewhere",
    }, reasons


@pytest.mark.parametrize(
    ("side", "entry"),
    [("symbols", "m"), ("inputs", None), ("outputs", None)],
)
def test_a_program_has_the_interface_of_its_description(
    folder: Path, side: str, entry: str | None
) -> None:
    metadata = json.loads((folder / METADATA).read_text())
    metadata[side].append(entry or {**metadata[side][0], "name": "another"})
    (folder / METADATA).write_text(json.dumps(metadata))
    with pytest.raises(CompiledModelError, match="other inputs and outputs than its description"):
        infuse.load_compiled(folder)


def test_a_program_of_other_kernels_is_refused(folder: Path) -> None:
    metadata = json.loads((folder / METADATA).read_text())
    metadata["program"]["stamp"] = "another"
    (folder / METADATA).write_text(json.dumps(metadata))
    with pytest.raises(CompiledModelError, match="written for other kernels"):
        infuse.load_compiled(folder)


def test_without_a_library_the_reason_says_where_it_would_be(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "none"))
    with pytest.raises(CompiledModelError, match="there is no library of prebuilt kernels"):
        infuse.load_compiled(folder)
    with pytest.raises(OptionError, match="there is no library of prebuilt kernels"):
        infuse.compile(network(), NEVER)


def test_a_library_that_is_none_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "text.so").write_text("no library")
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    with pytest.raises(CompiledModelError, match="cannot be loaded"):
        infuse.compile(network(), NEVER)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    "other", [{"tune": True}, {"prefix": "net"}, {"debug": True}, {"precision": "fp16"}]
)
def test_what_only_compiled_code_has_is_refused(other: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=f"{next(iter(other))} is "):
        CompileOptions(compile="never", **other)


@pytest.mark.usefixtures("folder")
def test_steps_of_prebuilt_kernels_are_not_profiled() -> None:
    x = np.zeros((1, 4, 8), np.float32)
    with pytest.raises(OptionError, match="leave no records"):
        infuse.profile(network(), {"x": x}, NEVER)


def test_a_model_runs_without_a_compiler(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CXX", "")
    x = np.ones((2, 4, 8), np.float32)
    with infuse.compile(network(), NEVER) as model:
        expected = evaluate(network(), {"x": x})["d"]
        np.testing.assert_allclose(model.run({"x": x})["d"], expected, rtol=2e-6)
    with infuse.load_compiled(folder) as model:
        np.testing.assert_allclose(model.run({"x": x})["d"], expected, rtol=2e-6)


@pytest.mark.usefixtures("folder")
def test_what_the_library_lacks_is_named() -> None:
    graph = parse("""graph "net" (%x: float32[2, 3]) {
      %y = CumSum(%x, int64[]{1})
      return y = %y
    }""")
    with pytest.raises(UnsupportedOperatorError, match=r"lacks 1 of the functions .*: running_"):
        infuse.compile(graph, NEVER)
