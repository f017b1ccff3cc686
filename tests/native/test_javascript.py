"""Models for WebAssembly as packages of JavaScript: module in Node.js, page in a browser."""

import functools
import http.server
import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import infuse
from infuse import dtypes
from infuse.build.compile import compile_graph
from infuse.build.toolchain import ziglang
from infuse.ir import dims
from infuse.ir.graph import Graph
from infuse.ops.core.evaluate import evaluate
from infuse.options import CompileOptions
from infuse.runtime.folder import WEIGHTS
from tests.browser.chromium import chromium
from tests.native.builder import Builder
from tests.native.platforms import as_array, as_tensor, relaxed_flags
from tests.native.test_foreign import network

RUNNER = Path(__file__).with_name("run_module.mjs")
pytestmark = [
    pytest.mark.row("R5"),
    pytest.mark.skipif(ziglang() is None, reason="not tested on wasm32: pip install ziglang"),
    pytest.mark.skipif(not shutil.which("node"), reason="not tested on wasm32: apt install nodejs"),
]


def packed(graph: Graph, folder: Path, target: str = "wasm32", **options: Any) -> Path:
    compile_graph(graph, CompileOptions(target, **options), output=folder)
    return folder


def answers(folder: Path, *calls: dict[str, Any], stub: str = "", **load: Any) -> dict[str, Any]:
    """What calls of the model give; `stub`: a text of JavaScript that runs before."""
    request = folder.parent / "request.json"
    every = [{"symbols": {}, **call} for call in calls]
    request.write_text(json.dumps({"calls": every, "load": load}))
    command = ["node", *relaxed_flags(), str(RUNNER), str(folder / "model.mjs"), str(request)]
    environment = {**os.environ, "STUB": stub}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=environment, timeout=100
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


@pytest.mark.parametrize(
    ("target", "threads"),
    [("wasm32", 1), ("wasm32+relaxed_simd", 1), ("wasm32-threads", 1), ("wasm32-threads", 3)],
)
def test_a_module_computes_what_the_model_does(target: str, threads: int, tmp_path: Path) -> None:
    """Sizes that only a run finds out among them; the shape of an array follows from its length."""
    graph, rng = network(), np.random.default_rng(0)
    folder = packed(graph, tmp_path / "made", target)
    arrays = [rng.standard_normal((n, 5, 20, 20)).astype(np.float32) for n in (1, 3, 0)]
    calls = [{"inputs": {"x": as_tensor(x, shaped=len(x) != 3)}} for x in arrays]
    made = answers(folder, *calls, threads=threads)
    assert made["threads"] == threads
    assert made["last"] == [(folder / WEIGHTS).stat().st_size] * 2
    for x, results in zip(arrays, made["answers"], strict=True):
        expected = evaluate(graph, {"x": x})["y0"]
        np.testing.assert_allclose(as_array(results["y0"]), expected, rtol=2e-4, atol=1e-6)
        places = np.array(np.nonzero(as_array(results["y0"]) > np.float32(0.04)))
        np.testing.assert_array_equal(as_array(results["y1"]), places)


def test_sizes_by_formulas_types_and_special_numbers(tmp_path: Path) -> None:
    b = Builder("formulas")
    n = dims.symbol("n")
    x = b.input("n", name="x", dtype=dtypes.int64)
    y = b.input(dims.floordiv(n * 2 + 1, 3), name="y", dtype=dtypes.float64)  # type: ignore[arg-type]
    b.output(b("Neg", x), b("Neg", y), b("Greater", x, np.int64(0)))
    folder = packed(b.graph, tmp_path / "made", prefix="ears")
    x_numbers = np.array([2**63 - 1, -(2**63), 0, 2**53 + 1, -1])
    y_numbers = np.array([np.inf, -0.0, np.nan])
    made = answers(
        folder,
        {"inputs": {"x": as_tensor(x_numbers, False), "y": as_tensor(y_numbers, False)}},
        {"inputs": {"x": as_tensor(x_numbers), "y": as_tensor(y_numbers[:2])}},
    )["answers"]
    np.testing.assert_array_equal(as_array(made[0]["y0"]), -x_numbers)
    np.testing.assert_array_equal(as_array(made[0]["y1"]), -y_numbers)
    np.testing.assert_array_equal(np.signbit(as_array(made[0]["y1"])[:2]), [True, False])
    np.testing.assert_array_equal(as_array(made[0]["y2"]).astype(bool), x_numbers > 0)
    assert made[1]["error"] == "RangeError: the input y has the shape [2], not [3]"


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "missing": ({}, "TypeError: the input x is missing"),
    "type": (
        {"x": as_tensor(np.zeros(2000))},
        "TypeError: the input x is float32: give a Float32Array",
    ),
    "length": (
        {"x": as_tensor(np.zeros(2001, np.float32), False)},
        "RangeError: the size n would be 1.0005",
    ),
    "axes": (
        {"x": as_tensor(np.zeros((5, 400), np.float32))},
        "RangeError: the input x has 4 axes, not 2",
    ),
    "name": ({"z": as_tensor(np.zeros(1, np.float32))}, "TypeError: there is no input z"),
    "shape": (
        {"x": as_tensor(np.zeros((1, 5, 20, 10), np.float32))},
        "RangeError: the input x has the shape [1, 5, 20, 10], not [1, 5, 20, 20]",
    ),
    "elements": (
        {"x": {**as_tensor(np.zeros(2000, np.float32)), "shape": [2, 5, 20, 20]}},
        "RangeError: the input x has 2000 elements, and its shape [2, 5, 20, 20] 4000",
    ),
    "huge": (
        {"x": {**as_tensor(np.zeros(1, np.float32)), "shape": [2**40, 5, 20, 20]}},
        "RangeError: the input x has 1 elements",
    ),
}


def test_wrong_inputs_and_weights_are_told(tmp_path: Path) -> None:
    folder = packed(network(), tmp_path / "made")
    fine = {"inputs": {"x": as_tensor(np.ones((1, 5, 20, 20), np.float32))}}
    made = answers(folder, *({"inputs": inputs} for inputs, _ in WRONG.values()), fine)["answers"]
    for (_, expected), answer in zip(WRONG.values(), made[:-1], strict=True):
        assert answer["error"].startswith(expected)
    assert made[-1]["y0"]["shape"] == [1, 33]
    content = (folder / WEIGHTS).read_bytes()
    for wrong, text in ((content[:-64], "of"), (content + bytes(64), "more than")):
        (folder / WEIGHTS).write_bytes(wrong)
        assert "not the weights of this model" in answers(folder)["error"]
        assert text in answers(folder)["error"]
    (folder / "model.wasm").write_bytes((folder / "model.wasm").read_bytes()[:100])
    (folder / WEIGHTS).write_bytes(content)
    assert "cannot be compiled here" in answers(folder)["error"]


NONE = "{ const real = WebAssembly.validate; WebAssembly.validate = (b) => %s && real(b); }"
MISSING = {
    "SIMD": ("wasm32", NONE % "false", "there is no SIMD of WebAssembly here"),
    "relaxed": ("wasm32+relaxed_simd", NONE % "b.length < 32", "there is no relaxed SIMD"),
    "memory": ("wasm32-threads", "delete globalThis.SharedArrayBuffer", "Cross-Origin-Opener"),
    "isolation": ("wasm32-threads", "globalThis.crossOriginIsolated = false", "--target wasm32,"),
}


@pytest.mark.parametrize("what", MISSING)
def test_what_a_browser_lacks_is_told(what: str, tmp_path: Path) -> None:
    target, stub, text = MISSING[what]
    folder = packed(network(), tmp_path / "made", target)
    assert text in answers(folder, stub=stub)["error"]


def test_numbers_of_threads_are_checked(tmp_path: Path) -> None:
    single = packed(network(), tmp_path / "single")
    error = answers(single, threads=2)["error"]
    assert error.startswith("RangeError: threads is 2, and a number from 1 to 1; --target wasm32-t")
    several = packed(network(), tmp_path / "several", "wasm32-threads")
    assert 1 <= answers(several)["threads"] <= 4
    for wrong in (0, 257, 1.5, "2"):
        error = answers(several, threads=wrong)["error"]
        assert error == f"RangeError: threads is {wrong}, and a number from 1 to 256"
    (several / "worker.mjs").write_text("throw new Error('no worker')")
    assert answers(several, threads=2)["error"] == "Error: no worker"
    (several / "model.wasm").write_bytes((single / "model.wasm").read_bytes())
    assert "imports no memory" in answers(several, threads=1)["error"]


def test_weights_inside_and_what_the_package_says(tmp_path: Path) -> None:
    folder = packed(network(), tmp_path / "made", embed=True)
    (folder / WEIGHTS).unlink()
    done = subprocess.run(
        ["node", "example.mjs", "2"], cwd=folder, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("y0: [2,33]\n")
    package = json.loads((folder / "package.json").read_text())
    assert package["files"] == ["model.mjs", "model.d.mts", "model.wasm"]
    assert '"x": Float32Array | Input<Float32Array>;' in (folder / "model.d.mts").read_text()


class Silent(http.server.SimpleHTTPRequestHandler):
    """A server of files that counts what it sends, and sends weights slowly where `slow` is set."""

    sent: ClassVar[list[str]] = []
    slow: ClassVar[float] = 0

    def log_message(self, *_: object) -> None:
        pass

    def copyfile(self, source: Any, outputfile: Any) -> None:
        name = self.path.rpartition("/")[2].partition("?")[0]
        Silent.sent.append(name)
        if name != WEIGHTS or not Silent.slow:
            return super().copyfile(source, outputfile)
        with suppress(OSError):  # the page is gone
            while part := source.read(1 << 14):
                outputfile.write(part)
                time.sleep(Silent.slow)
        return None


@pytest.fixture
def browser() -> Iterator[Any]:
    Silent.sent, Silent.slow = [], 0
    with chromium() as driver:
        yield driver


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a server of these files that does not isolate pages."""
    handler = functools.partial(Silent, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def isolated(folder: Path) -> Iterator[str]:
    """The address of the server that comes with a model with threads."""
    command = ["node", str(folder / "serve.mjs"), "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.kill()


RUN = """const done = arguments[0], place = (id) => document.getElementById(id);
const poll = () => {
  const text = place("answer").textContent;
  if (place("run").disabled && text.startsWith("loading")) return setTimeout(poll, 20);
  place("size").value = 4;
  place("run").click();
  done(place("answer").textContent);
};
poll();"""
CACHED = """const done = arguments[0];
caches.open("infuse").then((c) => c.keys()).then((keys) => done(keys.map((k) => k.url)));"""
DAMAGED = """const done = arguments[0];
caches.open("infuse").then(async (c) => {
  for (const key of await c.keys()) await c.put(key, new Response(new Uint8Array(64)));
  done();
});"""


def severe(browser: Any) -> list[str]:
    lines = (line for line in browser.get_log("browser") if line["level"] == "SEVERE")
    return [line["message"] for line in lines if "favicon" not in line["message"]]


@pytest.mark.full
def test_the_page_runs_in_a_browser(tmp_path: Path, browser: Any) -> None:
    """Weights are fetched once, by their content; a page that is loaded anew while they come, or a
    cache that is damaged, does no harm.
    """
    folder = packed(infuse.optimize(network()), tmp_path / "made")
    with served(folder) as address:
        Silent.slow = 0.05
        browser.get(address)
        assert browser.execute_async_script(CACHED) == []
        browser.get(address)
        assert browser.execute_async_script(CACHED) == []
        Silent.slow = 0
        browser.get(address)
        assert "y0: float32[4,33]" in browser.execute_async_script(RUN)
        assert severe(browser) == []
        (url,) = browser.execute_async_script(CACHED)
        assert json.loads((folder / "metadata.json").read_text())["weights_hash"] in url
        Silent.sent.clear()
        browser.get(address)
        assert "y0: float32[4,33]" in browser.execute_async_script(RUN)
        assert WEIGHTS not in Silent.sent
        browser.execute_async_script(DAMAGED)
        browser.get(address)
        assert "y0: float32[4,33]" in browser.execute_async_script(RUN)
        assert any("were damaged" in line["message"] for line in browser.get_log("browser"))


@pytest.mark.full
def test_threads_run_in_a_browser_where_pages_are_isolated(tmp_path: Path, browser: Any) -> None:
    folder = packed(infuse.optimize(network()), tmp_path / "made", "wasm32-threads")
    with isolated(folder) as address:
        browser.get(address)
        assert "y0: float32[4,33]" in browser.execute_async_script(RUN)
        assert severe(browser) == []
    with served(folder) as address:
        browser.get(address)
        assert "Cross-Origin-Opener-Policy: same-origin" in browser.execute_async_script(RUN)


def test_a_thread_that_traps_is_told(tmp_path: Path) -> None:
    """It has no stack: the first use of one is outside of the memory."""
    b = Builder("layer")
    x = b.input(1, 8, 64, 64, name="x")
    b.output(b("Conv", x, b.weight(16, 8, 3, 3), pads=(1, 1, 1, 1)))
    folder = packed(b.graph, tmp_path / "made", "wasm32-threads")
    worker = folder / "worker.mjs"
    text = worker.read_text()
    worker.write_text(
        text.replace("__stack_pointer.value = stack;", "__stack_pointer.value = 0;", 1)
    )
    image = np.random.default_rng(0).standard_normal((1, 8, 64, 64)).astype(np.float32)
    made = answers(folder, *[{"inputs": {"x": as_tensor(image)}}] * 3, threads=2)
    lost = {"error": "Error: a thread of the model ended with an error: open it anew"}
    assert made["answers"][1:] == [lost] * 2
