"""Models that answer from prebuilt kernels until another process has compiled them."""

import gc
import os
import stat
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pytest

import infuse
from infuse.build import background, toolchain
from infuse.build.compile import compile_graph
from infuse.build.prebuilt import make_prebuilt
from infuse.errors import OptionError, ToolchainError, UnsupportedOperatorError
from infuse.ir.parser import parse
from infuse.onnxruntime import InferenceSession, SessionOptions, reuse
from infuse.ops.core.evaluate import evaluate
from infuse.options import CompileOptions
from infuse.runtime.interface import COMPILED, PREBUILT
from infuse.runtime.program import FOLDER_VARIABLE
from infuse.runtime.swapping import SwappingModel
from infuse.targets import Target
from tests.caches import new_cache
from tests.native.session_models import ADDER, FEED, X, Y, adder
from tests.native.test_prebuilt import functions_of

OPTIONS = CompileOptions(compile="background", threads=2)
SECONDS = 120.0
NET = """graph "net" (%x: float32[n, 16], %w: float32[16, 16]) {
  %a = MatMul(%x, %w)
  %b = Softmax(%a, axis=-1)
  %c = Add(%b, %x)
  return y = %c, m = %a
}"""
DRAWING = """graph "drawing" (%x: float32[n]) {
  %r = RandomNormalLike(%x)
  %y = Add(%x, %r)
  return y = %y
}"""
pytestmark = pytest.mark.row("X1")


def feeds_of(rows: int, seed: int = 0) -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(seed)
    return {
        "x": rng.standard_normal((rows, 16)).astype(np.float32),
        "w": rng.standard_normal((16, 16)).astype(np.float32),
    }


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder of prebuilt kernels for the graphs of this file."""
    graphs = [*map(parse, (NET, DRAWING)), infuse.optimize(infuse.load(ADDER))]
    folder = tmp_path_factory.mktemp("kernels")
    make_prebuilt(functions_of(graphs), Target.resolve(), folder / f"{uuid4().hex}.so")
    return str(folder)


@pytest.fixture
def prebuilt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: str) -> None:
    """These kernels, and a cache that holds no model."""
    monkeypatch.setenv(FOLDER_VARIABLE, library)
    monkeypatch.setenv("INFUSE_CACHE", new_cache(tmp_path / "cache"))
    # Other tests of this process may have left operators and rules of their own.
    monkeypatch.setattr(background, "is_extended", lambda: False)
    monkeypatch.setattr(reuse, "is_extended", lambda: False)


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.02)


def swapping(text: str = NET, options: CompileOptions = OPTIONS) -> SwappingModel:
    model = compile_graph(parse(text), options)
    assert isinstance(model, SwappingModel)
    return model


def require(results: Mapping[str, Any], feeds: Mapping[str, Any]) -> None:
    for name, expected in evaluate(parse(NET), feeds).items():
        np.testing.assert_allclose(results[name], expected, rtol=1e-5, atol=1e-6, strict=True)


@pytest.mark.usefixtures("prebuilt")
def test_it_answers_at_once_and_changes_between_two_calls_of_many_threads() -> None:
    swapped: list[str] = []
    with swapping() as model:
        model.when_swapped(lambda form: swapped.append(form.tier))
        assert model.tier == PREBUILT
        require(model.run(feeds_of(3)), feeds_of(3))
        failures: list[BaseException] = []
        tiers: set[str] = set()

        def work(seed: int) -> None:
            own, feeds = model.session(1), feeds_of(1 + seed, seed)
            try:
                while model.tier == PREBUILT:
                    tiers.add(model.tier)
                    require(model.run(feeds), feeds)
                    require(own.run(feeds), feeds)
                    require(dict(zip("ym", own.execute([*feeds.values()]))), feeds)
                require(own.run(feeds), feeds)
                require(model.run(feeds), feeds)
                require(dict(zip("ym", model(*feeds.values()))), feeds)
                own.close()
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SECONDS)
        assert not failures
        assert tiers == {PREBUILT}
        assert (model.tier, swapped) == (COMPILED, [COMPILED])
        assert not model.trouble


@pytest.mark.usefixtures("prebuilt")
def test_it_changes_only_after_a_call_to_compare_with() -> None:
    with swapping() as model:
        cache = Path(os.environ["INFUSE_CACHE"]) / "compiled"
        until(lambda: len([*cache.glob("*/functions.so")]) == 1)
        time.sleep(2 * background._WAIT_SECONDS)
        assert model.tier == PREBUILT
        model.run(feeds_of(2))
        until(lambda: model.tier == COMPILED)


@pytest.mark.usefixtures("prebuilt")
def test_after_the_change_nothing_holds_the_graph() -> None:
    graph = parse(NET)
    reference = weakref.ref(graph)
    with compile_graph(graph, OPTIONS) as model:
        del graph
        model.run(feeds_of(2))
        until(lambda: model.tier == COMPILED)

        def is_freed() -> bool:
            gc.collect()
            return reference() is None

        until(is_freed)


@pytest.mark.usefixtures("prebuilt")
def test_random_numbers_are_not_compared() -> None:
    with swapping(DRAWING) as model:
        model.run({"x": np.zeros(100, np.float32)})
        until(lambda: model.tier == COMPILED)


@pytest.mark.usefixtures("prebuilt")
def test_another_answer_of_compiled_code_is_told_and_not_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(CompileOptions, "bound", property(lambda options: -1.0))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with swapping() as model:
            model.run(feeds_of(2))
            until(lambda: bool(model.trouble))
            assert model.tier == PREBUILT
            require(model.run(feeds_of(2)), feeds_of(2))
    message = str(caught[-1].message)
    assert message.startswith("net: compiled code gives another answer than prebuilt kernels")
    assert "the output y differs by" in message


def compiler(folder: Path, text: str) -> str:
    """A compiler that answers questions about itself, and does `text` in place of compiling."""
    path = folder / "g++"
    path.write_text(
        '#!/bin/sh\ncase " $* " in\n  *" -c "*|*" -shared "*) '
        f'{text};;\nesac\nexec /usr/bin/env g++ "$@"\n'
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


@pytest.mark.usefixtures("prebuilt")
@pytest.mark.parametrize(
    ("does", "what"),
    [
        ("echo 'no licence' >&2; exit 3", "no licence"),
        ("exit 0", ""),
        ("sleep 600", "crashed, or took"),
    ],
)
def test_a_compiler_that_fails_is_a_warning(
    does: str, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", compiler(tmp_path, does))
    monkeypatch.setenv("INFUSE_CACHE", str(tmp_path / "empty"))
    monkeypatch.setattr(background, "_MOST_SECONDS", 8.0 if "sleep" in does else 600.0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with swapping() as model:
            require(model.run(feeds_of(2)), feeds_of(2))
            until(lambda: bool(model.trouble))
            assert what in model.trouble
            assert model.tier == PREBUILT
            require(model.run(feeds_of(4)), feeds_of(4))
    assert "net: compiling in the background failed: " in str(caught[-1].message)


@pytest.mark.usefixtures("prebuilt")
def test_without_a_compiler_prebuilt_kernels_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "")
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr(toolchain, "ziglang", lambda: None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with swapping() as model:
            until(lambda: bool(model.trouble))
            assert "compiler" in model.trouble
            require(model.run(feeds_of(2)), feeds_of(2))
            lacking = parse('graph "other" (%x: float32[3]) { %y = Erf(%x) return y = %y }')
            with pytest.raises(UnsupportedOperatorError, match="prebuilt kernels lacks"):
                compile_graph(lacking, OPTIONS)
    monkeypatch.setenv(FOLDER_VARIABLE, "/nonexistent")
    with pytest.raises(ToolchainError, match="compiler"):
        compile_graph(parse(NET), OPTIONS)


@pytest.mark.usefixtures("prebuilt")
def test_what_the_kernels_lack_is_compiled_first() -> None:
    graph = parse('graph "other" (%x: float32[3]) { %y = Erf(%x) return y = %y }')
    with compile_graph(graph, OPTIONS) as model:
        assert model.tier == COMPILED


@pytest.mark.usefixtures("prebuilt")
def test_a_folder_is_one_of_both(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="either a program of prebuilt kernels or compiled"):
        compile_graph(parse(NET), OPTIONS, output=tmp_path / "folder")


@pytest.mark.usefixtures("prebuilt")
def test_a_program_that_extends_infuse_compiles_in_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "is_extended", lambda: True)
    monkeypatch.setattr(background, "Background", None)
    with swapping() as model:
        model.run(feeds_of(2))
        until(lambda: model.tier == COMPILED)


@pytest.mark.usefixtures("prebuilt")
def test_options_of_compiled_code_hold_after_the_change() -> None:
    options = CompileOptions(compile="background", precision="fp16", weights="small")
    with swapping(options=options) as model:
        assert model.metadata["precision"] == "fp32"
        model.run(feeds_of(2))
        until(lambda: model.tier == COMPILED)
        assert (model.metadata["precision"], model.metadata["weights"]) == ("fp16", "small")


@pytest.fixture
def children() -> Callable[[], list[str]]:
    """Lists the command lines of the processes that compile in the background."""

    def listed() -> list[str]:
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                found.append(path.read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                continue
        own = str(os.environ["TMPDIR"])
        return [line for line in found if background._MODULE in line and own in line]

    return listed


@pytest.mark.usefixtures("prebuilt")
def test_closing_ends_the_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, children: Callable[[], list[str]]
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(background.tempfile, "tempdir", None)
    monkeypatch.setenv("CXX", compiler(tmp_path, "sleep 600"))
    monkeypatch.setenv("INFUSE_CACHE", str(tmp_path / "empty"))
    model = swapping()
    until(lambda: bool(children()))
    model.close()
    del model
    until(lambda: not children())
    until(lambda: not [*tmp_path.glob("infuse-*")])


@pytest.mark.usefixtures("prebuilt")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:This process")
def test_a_child_after_a_fork_changes_too() -> None:
    with swapping() as model:
        child = os.fork()
        if not child:
            try:
                feeds = feeds_of(2)
                require(model.run(feeds), feeds)
                until(lambda: model.tier == COMPILED)
                require(model.run(feeds), feeds)
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.usefixtures("prebuilt")
def test_a_session_begins_with_what_is_there() -> None:
    def tiers(wait: bool) -> tuple[str, str]:
        session = InferenceSession(ADDER)
        before = session.tier
        total, product = session.run(None, FEED)
        np.testing.assert_array_equal(total, X + Y)
        np.testing.assert_array_equal(product, X * Y)
        if wait:
            until(lambda: session.tier == COMPILED)
        return before, session.tier

    assert tiers(wait=False)[0] == PREBUILT
    pinned = InferenceSession(ADDER, SessionOptions(compile="never"))
    assert pinned.tier == PREBUILT
    assert tiers(wait=True) == (PREBUILT, COMPILED)
    assert tiers(wait=False) == (COMPILED, COMPILED)
    assert InferenceSession(ADDER, SessionOptions(compile="never")).tier == PREBUILT
    assert InferenceSession(ADDER, SessionOptions(compile="wait")).tier == COMPILED


@pytest.mark.usefixtures("prebuilt")
def test_a_file_that_changes_is_not_compiled_for_a_session_of_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(ADDER)
    InferenceSession(str(path))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        session = InferenceSession(str(path))
        path.write_bytes(adder(("batch", 3, 1)).SerializeToString())
        session.run(None, FEED)
        until(lambda: bool(caught))
        assert session.tier == PREBUILT
        np.testing.assert_array_equal(session.run(None, FEED)[0], X + Y)
    assert "the file was changed" in str(caught[-1].message)
