"""Bindings without any compiler: names and texts of strangers' files in the languages, how symbols
are solved, and what is refused.
"""

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest

import infuse
from infuse.bindings import names
from infuse.bindings.interface import read_interface
from infuse.bindings.package import table
from infuse.cli.main import main
from infuse.errors import CompiledModelError, OptionError
from infuse.options import BindOptions
from infuse.runtime.folder import ABI, METADATA, PROGRAM, STAGES, digest

pytestmark = pytest.mark.row("R5")
TEXTS = [
    "plain",
    "*/ x",
    '"; system("x"); "',
    "a\\u0022",
    "line\nend\r\0",
    "输入",
    "𝒳",
    "$x #{y} %d",
    "'",
]
X = {"name": "x", "dtype": "float32", "shape": ["n", 4]}


@pytest.mark.parametrize("text", TEXTS)
def test_texts_stay_texts(text: str) -> None:
    """Python reads the escapes of C and UTF-16 as those languages do."""
    c = ast.literal_eval(f"b{names.c_literal(text)}")
    assert c.decode() == text
    utf16 = ast.literal_eval(names.utf16_literal(text))
    assert utf16.encode("utf-16", "surrogatepass").decode("utf-16") == text
    java = names.java_literal(text)
    assert not re.search(r"\\u00[0-7]", java)  # Java reads these before it looks for literals
    assert ast.literal_eval(java).encode("utf-16", "surrogatepass").decode("utf-16") == text
    braced = names.unicode_literal(text)
    for literal in (names.c_literal(text), java, braced, names.utf16_literal(text)):
        assert literal.isascii()
        assert literal.isprintable()
        assert not re.search(r"[\"'$#%{?](?!$)", literal[1:-1].replace("\\u{", ""))
    assert re.sub(r"\\u\{(\w+)\}", lambda m: chr(int(m[1], 16)), braced) == f'"{text}"'
    assert "*/" not in names.shown(text)
    assert names.shown(text).isascii()
    assert names.shown(text).isprintable()


def test_names_become_identifiers_that_differ() -> None:
    called = ["class", "input.1", "input_1", "输入", "lastHidden", "2d", "Class", "", "u64", "x-y"]
    reserved = frozenset({"class", "input1"})
    snake = names.identifiers(called, "input", names.snake, reserved)
    assert snake[:6] == ["class_", "input_1", "input_1_2", "input_3", "last_hidden", "input_2_d"]
    for style in (names.snake, names.camel, names.pascal):
        made = names.identifiers(called * 3, "input", style, reserved)
        assert len({each.lower() for each in made}) == len(made)
        assert not reserved & {*made}
        assert all(re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", each) for each in made)


def test_every_language_has_its_words_and_its_readme() -> None:
    assert {*table()} == {"cpp", "csharp", "go", "java", "kotlin", "rust", "swift"}
    assert "class" in table()["java"].reserved


def folder(path: Path, **facts: Any) -> Path:
    """A folder of a compiled model whose library is none."""
    path.mkdir()
    for name in ("model.so", "libmodel.a", "weights.bin", "model.h"):
        (path / name).write_bytes(bytes(64))
    files = {n: {"bytes": 64, "sha256": digest(path / n)} for n in ("model.so", "weights.bin")}
    metadata = {"abi": ABI, "name": "m", "inputs": [X], "outputs": [X], "symbols": ["n"]}
    (path / METADATA).write_text(json.dumps({**metadata, "files": files, **facts}))
    return path


STRANGE: dict[str, tuple[dict[str, Any], str]] = {
    "prefix": ({"prefix": "x(); //"}, "is no name of C"),
    "type": ({"inputs": [{**X, "dtype": "int7"}]}, "int7"),
    "size": ({"outputs": [{**X, "shape": [-1]}]}, "negative size"),
    "formula": ({"inputs": [{**X, "shape": ["n", "system(1)"]}]}, "not an expression"),
    "symbols": ({"symbols": ["n", "m"]}, "agree on m"),
    "nothing": ({"inputs": 7}, "cannot be read"),
    "list": ({"outputs": [{**X, "sizes": 4}]}, "a list of sizes is no output"),
}


@pytest.mark.parametrize("case", STRANGE)
def test_strange_metadata_is_refused(case: str, tmp_path: Path) -> None:
    facts, message = STRANGE[case]
    with pytest.raises(CompiledModelError, match=re.escape(message)):
        read_interface(folder(tmp_path / "m", **facts))


def test_a_name_of_a_model_is_no_source(tmp_path: Path) -> None:
    """Its letters stand in comments and texts only, without what ends these."""
    evil = '*/ int main() { system("x"); } /* \\ \n #include "y"'
    named = {"inputs": [{**X, "name": evil}], "outputs": [{**X, "name": evil}], "name": evil}
    made = infuse.bind(folder(tmp_path / "m", **named), tmp_path / "p", BindOptions("cpp"))
    assert re.fullmatch("[a-z][a-z0-9_]*", made.name)
    comments_and_texts = re.compile(r'/\*.*?\*/|//[^\n]*|"(\\.|[^"\\\n])*"', re.DOTALL)
    for path in (tmp_path / "p").rglob("*"):
        if path.suffix in (".hpp", ".cpp") or path.name == "binding.h":
            text = comments_and_texts.sub("", path.read_text("utf-8"))
            assert "system(" not in text
            assert '#include "y' not in text


def test_what_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, out = folder(tmp_path / "m"), tmp_path / "p"
    (tmp_path / "model.onnx").write_bytes(b"x")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("x")
    secret = folder(tmp_path / "secret", encrypted=True)
    single = folder(tmp_path / "single", single=True)
    (tmp_path / "stages").mkdir()
    (tmp_path / "stages" / STAGES).write_text("{}")
    prebuilt = folder(tmp_path / "prebuilt")
    (prebuilt / PROGRAM).write_bytes(b"")
    cases: list[tuple[Path, Path, BindOptions, str]] = [
        (secret, out, BindOptions("go"), "the weights are encrypted"),
        (single, out, BindOptions("go"), "it is one file of C"),
        (tmp_path / "stages", out, BindOptions("go"), "Python runs a part of this model"),
        (prebuilt, out, BindOptions("go"), "prebuilt kernels run this model"),
        (tmp_path / "model.onnx", out, BindOptions("go"), "infuse compile model.onnx -o FOLDER"),
        (model, out, BindOptions(), "no language is named"),
        (model, out, BindOptions("gu"), "no bindings for 'gu'"),
        (model, out, BindOptions("javascript"), "--target wasm32 makes one"),
        (model, out, BindOptions("go", "Big-Name"), "cannot be the name of a package in go"),
        (model, out, BindOptions("go", "func"), "cannot be the name of a package in go"),
        (model, tmp_path / "full", BindOptions("cpp"), "a folder with other things in it"),
        (model, model / "model.h", BindOptions("cpp"), "the output is a file"),
        (tmp_path / "none", out, BindOptions("go"), "the folder does not exist"),
    ]
    for source, output, options, message in cases:
        with pytest.raises((OptionError, CompiledModelError), match=re.escape(message)):
            infuse.bind(source, output, options)
        assert not out.exists()
    assert main(["bind", str(model), "-o", str(out)]) == 1
    assert "no language is named" in capsys.readouterr().err


def test_a_package_replaces_an_older_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, out = folder(tmp_path / "m"), tmp_path / "p"
    for language, present in (("go", "model.go"), ("rust", "Cargo.toml")):
        words = ["bind", str(model), "--language", language, "-o", str(out), "--json"]
        assert main(words) == 0
        facts = json.loads(capsys.readouterr().out)
        assert present in facts["files"]
        assert {file for file in facts["files"] if (out / file).is_file()} == {*facts["files"]}
    assert not (out / "model.go").exists()
