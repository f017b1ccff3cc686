"""Packages of other languages: built by their own tools, held against NumPy, and what becomes of
wrong inputs, wrong weights, several threads and runs that are cancelled.
"""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

import infuse
from infuse.errors import OptionError
from infuse.options import PREFIX, BindOptions, CompileOptions
from infuse.runtime.folder import WEIGHTS
from tests.branch_models import RETURNED
from tests.native import binding_models as models
from tests.native.binding_tools import (
    TOOLS,
    Command,
    done,
    driver_of,
    java,
    languages,
    newest_java,
)
from tests.native.builder import Builder

pytestmark = [
    pytest.mark.row("R5"),
    pytest.mark.filterwarnings("ignore:calls may replace the defaults:RuntimeWarning"),
]
NAME = "every"
Make = Callable[..., Path]
EXPECTED = {
    "run": "4.0 6.0 7.0",
    "formula": "-1 the input y has size 3 at axis 0, which is not 2*n with n = 2",
    "size": "-1 the input x has size 2 instead of 4 at axis 1",
    "axes": "-1 the input x has 1 axes instead of 2",
    "elements": "-1 the input x has 7 elements, and its shape [2, 4] has 8",
    "shape": "-1 the shape of the input x is missing",
    "missing": "-1 the input y is missing",
    "huge": "-1 the input x has size 9223372036854775807 at axis 0, which is none",
    "data": "2 Gather 'picked': an index lies outside of the tensor it selects from: "
    "3 of 3 elements",
    "weights": "-1 these are not the weights of this model: their content differs",
    "absent": "-1 the weights cannot be read: /none: No such file or directory",
    "threads": "800.0 800.0",
    "cancelled": "3 Loop z: the run was cancelled",
    "again": "4.0",
    "model closed": "-1 the model is closed",
    "closed": "-1 the session is closed",
}
"""What every driver prints, but for what its language has other words for, or no way to do."""
OTHERWISE = {
    "cpp": {"closed": "", "model closed": ""},
    "go": {"token": "context deadline exceeded"},
    "rust": {"closed": "", "model closed": "", "missing": ""},
    "java": {
        "shape": "",
        "elements": "7 elements do not have the shape [2, 4]",
        "huge": "a tensor cannot have the shape [9223372036854775807, 4]",
    },
    "csharp": {
        "token": "OperationCanceledException",
        "model closed": "ObjectDisposedException Model",
        "closed": "ObjectDisposedException Session",
    },
}


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """Folders of models, each compiled once: by name."""
    root, made = tmp_path_factory.mktemp("models"), {}
    protos = {"every": models.every, "conduct": models.conduct}

    def make(name: str) -> Path:
        if name not in made:
            prefix = "ears" if name == "every" else PREFIX
            graph = infuse.load(protos[name]().SerializeToString())
            options = CompileOptions(threads=1, prefix=prefix)
            infuse.compile(graph, options, output=root / name).close()
            made[name] = root / name
        return made[name]

    return make


def bound(folder: Path, language: str, output: Path, name: str | None = None) -> Path:
    infuse.bind(folder, output, BindOptions(language, name))
    return output


def answers(command: Command, folder: Path, inputs: models.Feeds, sizes: list[int]) -> list[str]:
    """Runs an example on these inputs: the sizes that it prints. Results lie in the folder."""
    for name, array in inputs.items():
        (folder / f"input{models.input_number(name)}.bin").write_bytes(array.tobytes())
    text = done([*command, str(folder), *map(str, sizes)], folder)
    return [line.partition(":")[2] for line in text.splitlines() if line.startswith("output")]


def hold(command: Command, compiled: Path, folder: Path, batch: int, other: int) -> None:
    """The answers of an example beside those of NumPy."""
    symbols = infuse.load_compiled(compiled).metadata["symbols"]
    sizes = [models.symbol_value(symbol, batch, other) for symbol in symbols]
    for optional in (False, True):
        inputs = models.feeds(batch, other, optional=optional)
        shapes = answers(command, folder, inputs, sizes)
        for number, expected in enumerate(models.answers(inputs)):
            shape = tuple(map(int, shapes[number].split()))
            assert shape == expected.shape
            content = (folder / f"output{number}.bin").read_bytes()
            found = np.frombuffer(content, expected.dtype).reshape(shape)
            if expected.dtype == np.float32:
                np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
            else:
                wide = np.float64 if expected.dtype.kind not in "iub" else expected.dtype
                np.testing.assert_array_equal(found.astype(wide), expected.astype(wide))
    (folder / f"input{models.input_number('opt')}.bin").unlink()


@languages()
def test_a_package_computes_what_the_model_does(
    language: str, compiled: Make, tmp_path: Path
) -> None:
    """Nine types, names that are words of the language or would end texts and comments, a late
    output, an optional input, empty arrays, a prefix.
    """
    package = bound(compiled("every"), language, tmp_path / "package", NAME)
    command = TOOLS[language].build(package, NAME, None)
    data = tmp_path / "data"
    data.mkdir()
    shutil.copy(compiled("every") / WEIGHTS, data)
    for batch, other in models.SIZES:
        hold(command, compiled("every"), data, batch, other)


@languages()
def test_a_session_conducts_itself(language: str, compiled: Make, tmp_path: Path) -> None:
    package = bound(compiled("conduct"), language, tmp_path / "package")
    command = TOOLS[language].build(package, "conduct", driver_of(language))
    weights = compiled("conduct") / WEIGHTS
    (tmp_path / "wrong").write_bytes(weights.read_bytes()[:-1] + b"\1")
    text = done([*command, str(weights), str(tmp_path / "wrong")], tmp_path)
    lines = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    expected = {**EXPECTED, **OTHERWISE[language]}
    assert {name: lines.get(name, "") for name in expected} == expected
    numbers = lines["halves"].split()
    assert [float(n) for n in numbers[:2]] == [pytest.approx(2**-23), 3.140625]
    assert numbers[2:] == ["7c00", "8000"]
    if content := lines.get("content"):
        assert content == "-1 these are not the weights of this model: 5 bytes instead of 128"


@pytest.mark.full
@pytest.mark.skipif(not newest_java(), reason="not tested: Java's foreign functions, JDK 22")
def test_new_java_calls_without_jni(compiled: Make, tmp_path: Path) -> None:
    package = bound(compiled("conduct"), "java", tmp_path / "package")
    command = java(package, "conduct", driver_of("java"), newest_java())
    weights = str(compiled("conduct") / WEIGHTS)
    text = done([*command, weights, "/none"], tmp_path)
    assert f"cancelled: {EXPECTED['cancelled']}\nagain: 4.0" in text
    with_classes = [command[0], "-verbose:class", *command[1:], weights, "/none"]
    assert "java.lang.foreign.Linker " in done(with_classes, tmp_path)


@pytest.mark.skipif(shutil.which("c++") is None, reason="needs a C++ compiler")
def test_weights_inside_and_ranks_of_runs(tmp_path: Path) -> None:
    graph = infuse.optimize(infuse.load(RETURNED["a result of any rank"].proto))
    options = CompileOptions(threads=1, embed=True)
    infuse.compile(graph, options, output=tmp_path / "model").close()
    package = bound(tmp_path / "model", "cpp", tmp_path / "package", "ranks")
    assert not (package / WEIGHTS).exists()
    command = TOOLS["cpp"].build(package, "ranks", None)
    for chosen, expected in ((b"\1", [" 1 2 2", " 2 2"]), (b"\0", ["", " 2 2"])):
        (tmp_path / "input0.bin").write_bytes(chosen)
        text = done([*command, str(tmp_path), "2", "2"], tmp_path)
        assert [line.partition(":")[2] for line in text.splitlines()] == expected


@pytest.mark.skipif(shutil.which("c++") is None, reason="needs a C++ compiler")
def test_two_models_need_two_prefixes(compiled: Make, tmp_path: Path) -> None:
    b = Builder("other")
    b.output(b("MatMul", b.input("n", 4, name="x"), b.weight(4, 4)))
    for prefix in ("infuse", "ears"):
        options = CompileOptions(threads=1, prefix=prefix)
        infuse.compile(b.graph, options, output=tmp_path / prefix).close()
    folders = [bound(compiled("conduct"), "cpp", tmp_path / "first", "first")]
    folders += [
        bound(tmp_path / p, "cpp", tmp_path / f"{p}_two", "second") for p in ("infuse", "ears")
    ]
    for second, works in ((folders[1], False), (folders[2], True)):
        text = (
            f'#include "{folders[0]}/first.hpp"\n#include "{second}/second.hpp"\nint main() {{}}\n'
        )
        (tmp_path / "two.cpp").write_text(text)
        command = ["c++", "-std=c++17", "-fsyntax-only", str(tmp_path / "two.cpp")]
        made = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (made.returncode == 0) == works
        assert works or "two models have one prefix" in made.stderr
    main = f"""#include "{folders[1]}/second.hpp"
int main() {{
  try {{ second::Model("{tmp_path}/infuse/weights.bin").session(1); }}
  catch (const second::Error& error) {{ std::puts(error.what()); }}
}}
"""
    (tmp_path / "main.cpp").write_text(main)
    library = str(folders[0] / "libmodel.a")
    command = ["c++", "-std=c++17", "main.cpp", library, "-pthread", "-lm", "-o", "main"]
    done(command, tmp_path)
    assert done(["./main"], tmp_path).startswith("another model is linked: give each a prefix")


@pytest.mark.skipif(shutil.which("clang-14") is None, reason="no clang-14: the module map")
def test_clang_takes_the_module_of_swift(compiled: Make, tmp_path: Path) -> None:
    package = bound(compiled("every"), "swift", tmp_path / "package", "last_hidden")
    (tmp_path / "use.m").write_text(
        "@import CLastHidden;\nint main(void) { int64_t frame[ears_BINDING_WORDS]; char text[512];"
        "\n  return ears_binding_sizes(frame, text); }\n"
    )
    include = str(package / "Sources" / "CModel" / "include")
    flags = ("-fmodules", f"-fmodules-cache-path={tmp_path}", "-Wall", "-Werror", "-fsyntax-only")
    done(["clang-14", *flags, "-I", include, "use.m"], tmp_path)
    swift = (package / "Sources" / "LastHidden" / "Model.swift").read_text()
    assert "public var class_: Tensor<Float>\n" in swift


KOTLIN = next(Path("/usr/share/kotlin").rglob("kotlin-stdlib-jdk7.jar"), None)


def test_apps_of_ios_get_a_package_of_swift(compiled: Make, tmp_path: Path) -> None:
    pytest.importorskip("ziglang", reason="not tested on iOS: pip install ziglang")
    graph = infuse.load(models.conduct().SerializeToString())
    infuse.compile(graph, CompileOptions("ios-arm64"), output=tmp_path / "model").close()
    package = bound(tmp_path / "model", "swift", tmp_path / "package")
    library = package / "Sources" / "CModel" / "libmodel.a"
    assert library.read_bytes() == (tmp_path / "model" / "libmodel.a").read_bytes()
    with pytest.raises(OptionError, match="needs a shared library, which ios-arm64 does not take"):
        bound(tmp_path / "model", "java", tmp_path / "jar")


@pytest.mark.full  # its compiler takes ten seconds
@pytest.mark.skipif(
    shutil.which("kotlinc") is None or KOTLIN is None, reason="not tested: Kotlin (kotlin)"
)
def test_kotlin_takes_the_classes_of_java(compiled: Make, tmp_path: Path) -> None:
    package = bound(compiled("every"), "kotlin", tmp_path / "package", NAME)
    done(["./build.sh"], package)
    path = f"every.jar:{KOTLIN}:{str(KOTLIN).replace('-jdk7', '')}"
    done(["kotlinc", "example/Example.kt", "-cp", path, "-d", "program"], package)
    text = done(["java", "-cp", f"{path}:program", "ExampleKt"], package)
    assert text.splitlines()[0] == "output 0: 2 2"


def test_android_gets_a_module_of_gradle(tmp_path: Path) -> None:
    onnx.save(models.every(), tmp_path / "every.onnx")
    pytest.importorskip("ziglang", reason="not tested on Android: pip install ziglang")
    graph = infuse.load(tmp_path / "every.onnx")
    infuse.compile(graph, CompileOptions("android-arm64"), output=tmp_path / "model").close()
    package = bound(tmp_path / "model", "kotlin", tmp_path / "package", NAME)
    library = package / "src/main/jniLibs/arm64-v8a/libevery.so"
    assert library.read_bytes()[:4] == b"\x7fELF"
    assert b"Java_every_Native_run" in library.read_bytes()
    assert (package / "src/main/assets/every.bin").is_file()
