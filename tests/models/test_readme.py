"""What README.md and the guides promise: their Python and their commands run as they stand, in the
order of the page, and what they name exists.
"""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from examples.networks import mobilenet_v2
from infuse.cli.commands import COMMANDS
from tests.cli_tools import Cli, small_network

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PYTHON = "\n".join(re.findall(r"```python\n(.*?)```", README, re.DOTALL))
CLI_PAGE = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
VERBS = re.findall(r"^\| `infuse (\w+) ", CLI_PAGE, re.MULTILINE)
SERVER = {"serve", "load", "rollout", "rollback"}
GUIDES = [
    *("cli", "install", "first_steps", "optimize", "compile", "python", "view", "doctor"),
    *("migration/onnxruntime", "migration/onnxsim", "migration/openvino", "migration/triton"),
    *("zh/first_steps", "zh/optimize", "zh/compile", "zh/python", "zh/view"),
    *("zh/install", "zh/doctor", "zh/migration/onnxruntime", "zh/migration/onnxsim"),
    *("zh/migration/openvino", "zh/migration/triton"),
]
BLOCK = re.compile(r"```(sh|python)\n(.*?)```", re.DOTALL)


def commands(text: str) -> list[list[str]]:
    """The calls of infuse in a block of a shell, without the program's name."""
    return [
        shlex.split(line, comments=True)[1:]
        for line in text.splitlines()
        if line.startswith("infuse ")
    ]


def test_the_examples_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    onnx.save(mobilenet_v2(), tmp_path / "model.onnx")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(PYTHON, names)
    (logits,) = names["outputs"].values()
    assert logits.shape == (1, 1000)
    assert re.search(r"\d+ → \d+ nodes", capsys.readouterr().out)


FRONTENDS = [
    (ROOT / "docs" / page).read_text(encoding="utf-8")
    for page in ("frontends.md", "zh/frontends.md")
]
EXAMPLES = [
    code for page in FRONTENDS for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL)
]


@pytest.mark.filterwarnings("ignore:.*treespec:FutureWarning")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's older exporters, of themselves
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("code", dict.fromkeys(EXAMPLES))  # what both pages have runs once
def test_the_examples_of_frontends_run(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if "import jax\n" in code:
        pytest.importorskip("jax")
    names: dict[str, object] = {}
    page = tmp_path / "page.py"  # torch.jit.script reads the source of a class
    page.write_text(code, encoding="utf-8")
    exec(compile(code, page, "exec"), names)
    assert {"graph", "model", "fast"} & names.keys()


@pytest.mark.filterwarnings("ignore:.*treespec:FutureWarning")
@pytest.mark.parametrize("guide", GUIDES)
def test_guides_run(
    guide: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small_network(tmp_path / "model.onnx", size=224)
    np.savez(tmp_path / "real.npz", image=np.ones((2, 3, 224, 224), np.float32))
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / f"{guide}.md").read_text(encoding="utf-8")
    cli, names = Cli(capsys), dict[str, object]()
    blocks = BLOCK.findall(page)
    assert blocks or guide.endswith("migration/triton")
    for language, text in blocks:
        if language == "python":
            exec(text, names)
            continue
        for command in commands(text):
            if command[0] in SERVER:  # tests/serving runs it
                continue
            answer = cli(*command)
            assert answer.status == 0, (command, answer.err)
            assert answer.out


@pytest.mark.parametrize("page", ["extending.md", "zh/extending.md"])
def test_the_examples_of_extending_run(page: str) -> None:
    """In a process of their own, as they register an operator."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    blocks = [code for language, code in BLOCK.findall(text) if language == "python"]
    package = ROOT / "tests" / "packages" / "infuse-pairs" / "src"
    assert any("def test_sinh" in code for code in blocks)
    program = "\n".join(
        [f"import sys; sys.path.insert(0, {str(package)!r})", *blocks, "test_sinh()"]
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_command_page_has_an_example_of_every_verb() -> None:
    examples = [
        command[0]
        for language, text in BLOCK.findall(CLI_PAGE)
        if language == "sh"
        for command in commands(text)
    ]
    assert set(examples) == set(VERBS) - SERVER
    assert set(VERBS) == set(COMMANDS)


def test_the_measurements_exist() -> None:
    figures = (ROOT / "docs" / "figures.md").read_text(encoding="utf-8")
    named = set(re.findall(r"python -m (benchmarks\.\w+)", figures))
    assert "benchmarks.zoo" in named
    for module in named:
        assert (ROOT / module.replace(".", "/")).with_suffix(".py").exists(), module


def test_the_memory_of_the_readme_is_measured_with_the_threads_that_it_names() -> None:
    (row,) = (line for line in README.splitlines() if "of its memory" in line)
    least, most = re.findall(r"(\d\.\d+)–(\d\.\d+) of its memory", row)[0]
    assert "one thread" in row
    results = ROOT / "benchmarks" / "results" / "memory-1-thread-amd-epyc-zen-4-2-cores.json"
    measured = json.loads(results.read_text(encoding="utf-8"))
    ratios = [each["ratio"] for each in measured["rows"]]
    assert (measured["threads"], len(ratios)) == (1, 18)
    assert (f"{min(ratios):.2f}", f"{max(ratios):.2f}") == (least, most)


def test_links_lead_somewhere() -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", README)
    assert links
    for link in links:
        assert (ROOT / link).exists(), link


@pytest.mark.parametrize("verb", VERBS)
def test_every_command_has_help(verb: str) -> None:
    program = "from infuse.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, verb, "--help"], capture_output=True, text=True, check=True
    )
    assert "--help" in done.stdout
