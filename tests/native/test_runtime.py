from __future__ import annotations

import ctypes
import gc
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import infuse
from infuse.codegen.build import build
from infuse.errors import CompiledModelError, InputError, OptionError, RuntimeFailure
from infuse.runtime import CompiledModel, available_cpus, cpus
from infuse.runtime.shapes import Formula, ShapeBinder, TensorSpec
from tests.native.adder import METADATA, WEIGHTS, build_adder, source

ROOT = Path(__file__).resolve().parents[2]
PYTHONPATH = f"{ROOT / 'src'}{os.pathsep}{ROOT}"
OFFSET = np.array([10, 20, 30], np.float32)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def _environment(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


# ---------------------------------------------------------------- calls


def test_run_by_name_and_by_position(model: CompiledModel) -> None:
    x, y = values(4), values(4, 7)
    outputs = model.run({"y": y, "x": x})
    assert list(outputs) == ["sum"]
    np.testing.assert_array_equal(outputs["sum"], expected(x, y))
    np.testing.assert_array_equal(model(x, y), expected(x, y))
    with model.session() as session:
        np.testing.assert_array_equal(session.run({"x": x, "y": y})["sum"], expected(x, y))
        np.testing.assert_array_equal(session(x, y), expected(x, y))


def test_description(model: CompiledModel) -> None:
    assert [str(spec) for spec in model.inputs] == ["x: float32[batch, 3]", "y: float32[batch, 3]"]
    assert model.outputs == (TensorSpec("sum", np.dtype("float32"), ("batch", 3)),)
    assert model.name == "adder"
    assert model.weights_bytes == 128
    assert model.arena_bytes == 2 * 4096
    assert model.session(threads=3).arena_bytes == 3 * 4096
    assert repr(model) == (
        "<CompiledModel 'adder': (x: float32[batch, 3], y: float32[batch, 3]) → (sum: "
        "float32[batch, 3]), 2 threads>"
    )


def test_several_outputs_are_a_tuple(make: Callable[..., CompiledModel]) -> None:
    model = make(
        body=(
            "for (int i = 0; i < 3; i++) ((int64_t*)outputs[0])[i] = i; *(bool*)outputs[1] = true; "
            "return 0;"
        ),
        shapes="dims[0] = 3; return 0;",
        inputs=[],
        symbols=[],
        outputs=[
            {"name": "row", "dtype": "int64", "shape": [3]},
            {"name": "flag", "dtype": "bool", "shape": []},
        ],
    )
    row, flag = model()
    assert row.tolist() == [0, 1, 2]
    assert flag.shape == ()
    assert flag.dtype == bool
    assert bool(flag)
    assert list(model.run({})) == ["row", "flag"]


@pytest.mark.parametrize("batch", [0, 1, 5, 30_000])
def test_every_batch(model: CompiledModel, batch: int) -> None:
    x = values(batch)
    result = model(x, x)
    assert result.flags.writeable
    np.testing.assert_array_equal(result, expected(x, x))
    if batch == 30_000:
        assert result.ctypes.data % 64 == 0


def test_outputs_are_new_arrays(model: CompiledModel) -> None:
    x = values(2)
    first = model(x, x)
    copy = first.copy()
    model(x + 1, x)
    np.testing.assert_array_equal(first, copy)


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "fortran order": np.asfortranarray,
    "every second row": lambda x: np.repeat(x, 2, axis=0)[::2],
    "backwards": lambda x: x[::-1].copy()[::-1],
    "read-only": lambda x: read_only(x),
    "big-endian": lambda x: x.astype(">f4"),
    "big-endian, strided": lambda x: np.repeat(x.astype(">f4"), 2, axis=1)[:, ::2],
    "unaligned": lambda x: unaligned(x),
    "list": lambda x: x.tolist(),
    "list of whole numbers": lambda x: x.astype(int).tolist(),
    "memory view": memoryview,
    "subclass": lambda x: x.view(np.recarray),
    "broadcast": lambda x: np.broadcast_to(x[:1], x.shape),
}


def read_only(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    x = x.copy()
    x.flags.writeable = False
    return x


def unaligned(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    raw = np.zeros(x.nbytes + 1, np.uint8)
    view = raw[1:].view(np.float32).reshape(x.shape)
    view[...] = x
    return view


@pytest.mark.parametrize("name", LAYOUTS)
def test_arrays_of_any_layout(name: str, model: CompiledModel) -> None:
    x, y = values(4), values(4, 100)
    given = LAYOUTS[name](x)
    before = np.array(given)
    np.testing.assert_array_equal(model.run({"x": given, "y": y})["sum"], expected(given, y))
    np.testing.assert_array_equal(model.run({"x": y, "y": given})["sum"], expected(y, given))
    np.testing.assert_array_equal(np.array(given), before)


def test_unaligned_array_is_not_given_to_the_model(make: Callable[..., CompiledModel]) -> None:
    outputs = [{"name": "address", "dtype": "int64", "shape": []}]
    model = make(body="*(int64_t*)outputs[0] = (int64_t)inputs[1]; return 0;", outputs=outputs)
    assert unaligned(values(2)).ctypes.data % 4
    assert model(values(2), unaligned(values(2))) % 4 == 0


def test_bfloat16(make: Callable[..., CompiledModel]) -> None:
    model = make(
        body="*(uint16_t*)outputs[0] = *(const uint16_t*)inputs[0]; return 0;",
        inputs=[{"name": "x", "dtype": "bfloat16", "shape": []}],
        outputs=[{"name": "y", "dtype": "bfloat16", "shape": []}],
        symbols=[],
    )
    assert model(np.array(1.5, ml_dtypes.bfloat16)) == ml_dtypes.bfloat16(1.5)


# ---------------------------------------------------------------- wrong inputs


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (
            {"x": values(2)},
            "the input 'y' is missing.*the model takes x: float32\\[batch, 3\\], y:",
        ),
        ({"x": values(2), "y": values(2), "z": 1}, "the model has no input 'z'"),
        (
            {"X": values(2), "y": values(2)},
            "the input 'x' is missing and the model has no input 'X'",
        ),
        ({"x": values(2), "yy": values(2)}, "no input 'yy'.*did you mean 'y'\\?"),
        (
            {"x": values(2).astype(float), "y": values(2)},
            "x has the element type float64.*astype\\('float32'\\)",
        ),
        ({"x": values(2), "y": [[1j, 2, 3]] * 2}, "the input y has the element type complex128"),
        ({"x": values(2), "y": [["a", "b", "c"]] * 2}, "the input y has the element type <U1"),
        ({"x": values(2), "y": None}, "the input y has the element type object"),
        ({"x": values(2), "y": [[1, 2, 3], [4]]}, "the input y is no array"),
        (
            {"x": values(2)[0], "y": values(2)},
            "x has 1 axis instead of 2.*takes x: float32\\[batch, 3\\].*is \\[3\\]",
        ),
        ({"x": values(2)[None], "y": values(2)}, "the input x has 3 axes instead of 2"),
        ({"x": values(2)[:, :2], "y": values(2)}, "x has size 2 instead of 3 at axis 1"),
        ({"x": values(2), "y": values(3)}, "batch is 2 in x but 3 in y"),
        (
            {"x": np.zeros((2000000, 3), "f"), "y": np.zeros((2000000, 3), "f")},
            "no valid output shapes for batch = 20",
        ),
    ],
)
def test_wrong_inputs_are_named(inputs: dict[str, Any], message: str, model: CompiledModel) -> None:
    with pytest.raises(InputError, match=message):
        model.run(inputs)
    np.testing.assert_array_equal(model(values(1), values(1)), expected(values(1), values(1)))


def test_wrong_number_of_arrays(model: CompiledModel) -> None:
    with pytest.raises(InputError, match="1 arrays were given to a model with 2 inputs"):
        model(values(1))


def test_integers_are_not_made_of_fractions(make: Callable[..., CompiledModel]) -> None:
    model = make(inputs=[{"name": "ids", "dtype": "int64", "shape": [2]}], outputs=[], symbols=[])
    assert model.run({"ids": [1, 2]}) == {}
    with pytest.raises(InputError, match=r"ids has the element type float64.*ids: int64\[2\]"):
        model.run({"ids": [1.0, 2.0]})
    with pytest.raises(InputError, match="element type int32"):
        model.run({"ids": np.zeros(2, np.int32)})


def test_failure_of_the_model_is_told_and_does_not_last(model: CompiledModel) -> None:
    bad = values(2)
    bad[0, 0] = np.nan
    with pytest.raises(RuntimeFailure, match="the model failed: y starts with NaN"):
        model(values(2), bad)
    np.testing.assert_array_equal(model(bad, values(2))[1], expected(bad, values(2))[1])


@pytest.mark.parametrize(
    ("status", "message"), [(1, "out of memory"), (77, "it ended with status 77")]
)
def test_other_failures(status: int, message: str, make: Callable[..., CompiledModel]) -> None:
    model = make(body=f"context->error[0] = 0; return {status};", inputs=[], outputs=[], symbols=[])
    with pytest.raises(RuntimeFailure, match=rf"the model failed: {message}\.$"):
        model()


def test_no_memory_for_a_context(folder: Path) -> None:
    with pytest.raises(
        RuntimeFailure, match="not enough memory to open the model with 250 threads"
    ):
        CompiledModel.load(folder, threads=250)


# ---------------------------------------------------------------- sizes


def binder(symbols: str, *shapes: str) -> ShapeBinder:
    """A binder for inputs a, b, …, each given as "batch, seq + 1"."""
    sizes = [
        tuple(int(s) if s.strip().isdigit() else s.strip() for s in text.split(";"))
        for text in shapes
    ]
    specs = [TensorSpec(name, np.dtype("int64"), size) for name, size in zip("abcd", sizes)]
    return ShapeBinder(specs, symbols.split())


@pytest.mark.parametrize(
    ("symbols", "shapes", "given", "bound"),
    [
        ("batch seq", ["batch; seq", "batch; seq + 1"], [(2, 5), (2, 6)], [2, 5]),
        ("seq batch", ["batch; seq + 1", "batch; seq"], [(2, 6), (2, 5)], [5, 2]),
        ("n", ["2*n + 3"], [(11,)], [4]),
        ("n m", ["2*n*m", "n"], [(24,), (3,)], [3, 4]),
        ("h", ["h; (h - 1)//2 + 1"], [(7, 4)], [7]),
        ("h", ["h; max(h, 4); min(h, 4); h % 4; -(-h // 4)"], [(7, 7, 4, 3, 2)], [7]),
        ("batch-size a/b", ["batch-size; a/b"], [(3, 9)], [3, 9]),
        ("n", ["n"], [(0,)], [0]),
    ],
)
def test_symbols_are_found(
    symbols: str, shapes: list[str], given: list[tuple[int, ...]], bound: list[int]
) -> None:
    assert binder(symbols, *shapes).bind(given) == bound


@pytest.mark.parametrize(
    ("symbols", "shapes", "given", "message"),
    [
        (
            "seq",
            ["seq; seq + 1"],
            [(5, 5)],
            r"a has size 5 at axis 1, which is not seq \+ 1 with seq = 5",
        ),
        ("n", ["2*n"], [(5,)], r"a has size 5 at axis 0, which is not 2\*n for any n"),
        ("n", ["n + 3"], [(2,)], r"which is not n \+ 3 for any n"),
        ("n m", ["n + m"], [(5,)], "do not tell the values of m, n"),
        ("n", ["n; 12 // n"], [(0, 1)], "size 1 at axis 1, which is not 12 // n"),
    ],
)
def test_sizes_that_do_not_fit(
    symbols: str, shapes: list[str], given: list[tuple[int, ...]], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        binder(symbols, *shapes).bind(given)


@pytest.mark.parametrize(
    "text", ["n.real", "f(n)", "__import__('os')", "n if n else 1", "1.5", "n n", "(", "[n]", "'a'"]
)
def test_formulas_are_only_arithmetic(text: str) -> None:
    with pytest.raises(CompiledModelError, match="is no expression"):
        Formula(text)


@pytest.mark.parametrize(("symbols", "shape"), [("n m", "n"), ("n", "n; m + 1")])
def test_symbols_and_shapes_must_agree(symbols: str, shape: str) -> None:
    with pytest.raises(CompiledModelError, match="agree on m"):
        binder(symbols, shape)


def test_many_shapes_do_not_fill_the_memory(model: CompiledModel) -> None:
    for batch in range(1500):
        x = values(batch)
        assert model(x, x).shape == (batch, 3)
    assert len(model._signature.plans) <= 1024


# ---------------------------------------------------------------- broken folders


def change(path: Path, edit: Callable[[dict[str, Any]], Any]) -> None:
    content = json.loads(path.read_text())
    edit(content)
    path.write_text(json.dumps(content))


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


BREAKS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "no folder": (lambda f: f.rename(f.parent / "elsewhere"), "the folder does not exist"),
    "no metadata": (lambda f: (f / "metadata.json").unlink(), "the folder is not a compiled model"),
    "no library": (lambda f: (f / "model.so").unlink(), r"model\.so: the file is missing"),
    "no weights": (lambda f: (f / "weights.bin").unlink(), r"weights\.bin: the file is missing"),
    "cut metadata": (lambda f: (f / "metadata.json").write_text('{"abi": 2,'), "cannot be read"),
    "binary metadata": (
        lambda f: (f / "metadata.json").write_bytes(b"\xff\xfe\0"),
        "cannot be read",
    ),
    "list as metadata": (lambda f: (f / "metadata.json").write_text("[]"), "no JSON object"),
    "foreign interface": (
        lambda f: change(f / "metadata.json", lambda m: m.update(abi=99)),
        (
            "binary interface has number 99, and this release of Infuse speaks 2.*"
            "compile the model "
            "again"
        ),
    ),
    "no table of files": (
        lambda f: change(f / "metadata.json", lambda m: m.pop("files")),
        "table of files is missing",
    ),
    "a file less": (
        lambda f: change(f / "metadata.json", lambda m: m["files"].pop("weights.bin")),
        r"weights\.bin is not described",
    ),
    "cut library": (lambda f: os.truncate(f / "model.so", 5000), "has 5000 bytes instead of"),
    "cut weights": (lambda f: os.truncate(f / "weights.bin", 100), "has 100 bytes instead of 128"),
    "changed library": (
        lambda f: flip(f / "model.so", 3000),
        r"model\.so: the content is not what was compiled",
    ),
    "changed weights": (
        lambda f: flip(f / "weights.bin", 70),
        r"weights\.bin: the content is not what was compiled",
    ),
    "foreign processor": (
        lambda f: change(f / "metadata.json", lambda m: m["cpu_features"].append("avx9000")),
        "built for the target 'native', and this processor has no avx9000",
    ),
    "library of another model": (
        lambda f: change(f / "metadata.json", lambda m: m.update(weights_bytes=64)),
        "do not belong together: they differ in weights_bytes",
    ),
}


@pytest.mark.parametrize("name", BREAKS)
def test_broken_folder_is_refused(name: str, folder: Path) -> None:
    breaks, message = BREAKS[name]
    breaks(folder)
    with pytest.raises(CompiledModelError, match=message) as caught:
        CompiledModel.load(folder)
    assert str(folder) in str(caught.value)


def replace_library(folder: Path, content: bytes) -> None:
    """Put another library into the folder, and describe it as the right one."""
    from infuse.runtime.folder import describe_files, digest

    (folder / "model.so").unlink()
    (folder / "model.so").write_bytes(content)
    change(
        folder / "metadata.json",
        lambda m: m.update(files=describe_files(folder, digest(folder / "weights.bin"))),
    )


def test_library_that_is_none(folder: Path) -> None:
    replace_library(folder, b"\x7fELF is how it starts")
    with pytest.raises(CompiledModelError, match="the library cannot be loaded"):
        CompiledModel.load(folder)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("infuse_shapes", "other_shapes", "has no function infuse_shapes"),
        ('{\\"abi\\": 2', '{\\"abi\\": 1', "binary interface has number 1"),
        ('{\\"abi\\": 2', "nothing", "metadata cannot be read"),
        ("float32", "float33", "tensor that cannot be read"),
        ('\\"shape\\": [\\"batch\\"', '\\"shape\\": [1.5', "tensor that cannot be read"),
        ('\\"shape\\": [\\"batch\\"', '\\"shape\\": [\\"os.exit()\\"', "is no expression"),
    ],
)
def test_library_with_another_interface(
    old: str, new: str, message: str, folder: Path, tmp_path: Path
) -> None:
    text = source().replace(old, new)
    assert text != source()
    made = build({"model.cpp": text}, WEIGHTS, 128, METADATA, key="other")
    replace_library(folder, (made / "model.so").read_bytes())
    with pytest.raises(CompiledModelError, match=message):
        CompiledModel.load(folder)


def test_model_without_weights(tmp_path: Path) -> None:
    text = replace_body(source(), "infuse_run", "return 0;").replace("weights + 64", "weights")
    metadata = {**METADATA, "weights_bytes": 0}
    text = text.replace('\\"weights_bytes\\": 128', '\\"weights_bytes\\": 0')
    model = CompiledModel.load(build({"model.cpp": text}, [], 0, metadata, key="none"))
    assert model.weights_bytes == 0
    assert model(values(1), values(1)).shape == (1, 3)


# ---------------------------------------------------------------- life time


def mappings(folder: Path) -> list[str]:
    return [
        line for line in Path("/proc/self/maps").read_text().splitlines() if str(folder) in line
    ]


def test_weights_are_mapped_shared_and_read_only(tmp_path: Path) -> None:
    size = 1 << 21
    folder = build_adder(output=tmp_path / "large", weights_bytes=size, key="large")
    model = CompiledModel.load(folder, threads=1)
    assert model.weights_bytes == size
    (line,) = [line for line in mappings(folder) if "weights.bin" in line]
    assert line.split()[1] == "r--s"


def test_library_and_weights_are_unloaded_with_the_last_reference(folder: Path) -> None:
    model = CompiledModel.load(folder)
    session = model.session()
    del model
    gc.collect()
    assert session(values(1), values(1)).shape == (1, 3)
    assert mappings(folder)
    del session
    gc.collect()
    assert mappings(folder) == []


def test_closed_model_cannot_be_run(folder: Path) -> None:
    with CompiledModel.load(folder) as model:
        session = model.session()
        model(values(1), values(1))
    model.close()
    with pytest.raises(RuntimeFailure, match=r"adder: the model is closed.*load it again"):
        model(values(1), values(1))
    with pytest.raises(RuntimeFailure, match="the model is closed"):
        model.session()
    assert session(values(1), values(1)).shape == (1, 3), "a session of its own lives on"
    session.close()
    session.close()
    with pytest.raises(RuntimeFailure, match="the session is closed"):
        session(values(1), values(1))


def test_model_outlives_its_folder(model: CompiledModel, folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()
    np.testing.assert_array_equal(model(values(3), values(3)), expected(values(3), values(3)))


def test_calls_from_many_threads(model: CompiledModel) -> None:
    gate = threading.Barrier(8)

    def work(number: int) -> None:
        gate.wait()
        for i in range(200):
            x, y = values(1 + i % 5, number), values(1 + i % 5, i)
            np.testing.assert_array_equal(model.run({"x": x, "y": y})["sum"], expected(x, y))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert 1 <= len(model._idle) <= 8


def test_concurrent_calls_have_contexts_of_their_own(make: Callable[..., CompiledModel]) -> None:
    """Two calls meet inside the model: each waits until the other is there."""
    body = (
        "static int inside; __atomic_add_fetch(&inside, 1, __ATOMIC_SEQ_CST);"
        "for (long i = 0; i < 20000000000; i++) if (__atomic_load_n(&inside, __ATOMIC_SEQ_CST) >= "
        "2) {"
        "  *(int64_t*)outputs[0] = (int64_t)opened; return 0; } return 1;"
    )
    model = make(
        body=body,
        inputs=[],
        symbols=[],
        outputs=[{"name": "context", "dtype": "int64", "shape": []}],
    )
    with ThreadPoolExecutor(2) as pool:
        contexts = {int(future.result()) for future in [pool.submit(model), pool.submit(model)]}
    assert len(contexts) == 2
    assert len(model._idle) == 2


def test_child_after_fork_opens_its_own_context(folder: Path) -> None:
    program = f"""
import os, sys
import numpy as np
from infuse.runtime import CompiledModel
model = CompiledModel.load({str(folder)!r})
x = np.ones((1, 3), np.float32)
before = model(x, x)
context = model._idle[0]
child = os.fork()
if not child:
    assert model._idle == []
    same = (model(x, x) == before).all() and model._idle[0] is not context
    os._exit(0 if same else 1)
assert model._idle == [context]
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    environment = {**os.environ, "PYTHONPATH": PYTHONPATH}
    assert (
        subprocess.run([sys.executable, "-c", program], env=environment, check=False).returncode
        == 0
    )


# ---------------------------------------------------------------- processors


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({}, None),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n"}, None),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "150000 100000\n"}, 2),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "1000 100000\n"}, 1),
        (
            {
                "proc/self/cgroup": "0::/a/b\n",
                "sys/fs/cgroup/cpu.max": "900000 100000",
                "sys/fs/cgroup/a/cpu.max": "300000 100000",
                "sys/fs/cgroup/a/b/cpu.max": "max 100000",
            },
            3,
        ),
        (
            {
                "proc/self/cgroup": "5:memory:/x\n4:cpu,cpuacct:/docker/x\n",
                "sys/fs/cgroup/cpu,cpuacct/docker/x/cpu.cfs_quota_us": "400000\n",
                "sys/fs/cgroup/cpu,cpuacct/docker/x/cpu.cfs_period_us": "100000\n",
            },
            4,
        ),
        (
            {
                "proc/self/cgroup": "4:cpuacct,cpu:/docker/x\n",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "250000\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            3,
        ),
        (
            {
                "proc/self/cgroup": "4:cpu:/\n",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            None,
        ),
        ({"proc/self/cgroup": "nonsense\n0\n\n", "sys/fs/cgroup/cpu.max": "1 0\n"}, None),
    ],
)
def test_quota_of_control_groups(files: dict[str, str], quota: int | None, tmp_path: Path) -> None:
    assert cpus.cgroup_quota(write(tmp_path, files)) == quota


def test_affinity_and_quota_both_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = write(
        tmp_path, {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "300000 100000\n"}
    )
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))
    assert cpus.cpu_limit(root) == 3
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {5})
    assert cpus.cpu_limit(root) == 1


def test_more_threads_than_a_context_has_are_told(folder: Path) -> None:
    limit = cpus.MOST_THREADS
    header = (Path(infuse.__file__).parent / "kernels" / "threads.hpp").read_text("utf-8")
    assert f"MOST_THREADS = {limit};" in header
    with pytest.warns(RuntimeWarning, match=f"at most {limit} threads, not {limit + 1}"):
        model = CompiledModel.load(folder, threads=limit + 1)
    with model:
        assert model.threads == limit


def test_number_of_threads(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert available_cpus() == cpus.cpu_limit()
    monkeypatch.setenv("INFUSE_NUM_THREADS", "5")
    assert CompiledModel.load(folder).threads == 5
    assert CompiledModel.load(folder, threads=3).threads == 3
    for text in ("0", "-1", "two", "1.5"):
        monkeypatch.setenv("INFUSE_NUM_THREADS", text)
        with pytest.raises(OptionError, match=f"INFUSE_NUM_THREADS is '{text}'"):
            CompiledModel.load(folder)
    for number in (0, -2):
        with pytest.raises(OptionError, match=f"{number} is no number of threads"):
            CompiledModel.load(folder, threads=number)
        with pytest.raises(OptionError, match=f"{number} is no number of threads"):
            CompiledModel.load(folder, threads=1).session(threads=number)


def test_the_interface_is_plain_c(folder: Path) -> None:
    """The library is usable without our runtime, as model.h says."""
    library = ctypes.CDLL(str(folder / "model.so"))
    library.infuse_open.restype = ctypes.c_void_p
    weights = np.fromfile(folder / "weights.bin", np.uint8)
    context = ctypes.c_void_p(library.infuse_open(ctypes.c_void_p(weights.ctypes.data), 1))
    x, result = values(2), np.zeros((2, 3), np.float32)
    table = (ctypes.c_void_p * 2)(x.ctypes.data, x.ctypes.data)
    outputs = (ctypes.c_void_p * 1)(result.ctypes.data)
    assert library.infuse_run(context, (ctypes.c_int64 * 1)(2), table, outputs) == 0
    np.testing.assert_array_equal(result, expected(x, x))
    library.infuse_close(context)
