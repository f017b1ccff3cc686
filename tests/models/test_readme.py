"""What README.md and the page of commands say and name: verbs, measurements, links. That their
snippets run is seen by tests/pages.
"""

import json
import re
import subprocess
import sys

import pytest

from infuse.cli.commands import COMMANDS
from tests.pages.blocks import ROOT, blocks, source

README = source("README.md")
VERBS = re.findall(r"^\| `infuse (\w+)[ `]", source("docs/cli.md"), re.MULTILINE)
SERVER = {"serve", "load", "rollout", "rollback"}


def test_the_command_page_has_an_example_of_every_verb() -> None:
    lines = [command for block in blocks("docs/cli.md", "sh") for command in block.commands]
    examples = [line.split()[1] for line in lines]
    assert set(examples) == set(VERBS) - SERVER
    assert set(VERBS) == set(COMMANDS)


def test_the_measurements_exist() -> None:
    named = set(re.findall(r"python -m (benchmarks\.\w+)", source("docs/figures.md")))
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
