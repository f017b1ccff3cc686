"""Rules and passes of other packages take part: registered by a call, or announced by an installed
package.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

import infuse
from infuse import ops
from infuse.errors import OptionError, RuleError
from infuse.ir.expression import Variable
from infuse.ir.graph import Graph
from infuse.passes import registry
from infuse.rewrite import Pass, Rule
from infuse.sources import EXTENSIONS
from infuse.testing.patterns import graph_of
from infuse.testing.rules import check_rule

PACKAGE = Path(__file__).parents[1] / "packages" / "infuse-pairs"
X = Variable("X")
INFUSE = (sys.executable, "-m", "infuse")


class CoshFromExp(Rule):
    """cosh(x) → ½·(eˣ + e⁻ˣ)"""

    def match(self, x):
        return ops.cosh(x)

    def build(self, x):
        return 0.5 * (ops.exp(x) + ops.exp(-x))


class Noted(Pass):
    """Says that it ran."""

    level = "extended"

    def run(self, graph, report):
        report.notes.append("the pass ran")


class RemoveIdentity(CoshFromExp):
    """A name that is taken."""


@pytest.fixture(autouse=True)
def unchanged() -> Iterator[None]:
    before = dict(registry._registered)
    yield
    registry._registered.clear()
    registry._registered.update(before)


def small() -> Graph:
    return graph_of(ops.cosh(X), X=(2, 2))


def kinds(graph: Graph) -> list[str]:
    return [node.kind for node in graph.nodes]


@pytest.mark.row("C8")
def test_registered_rules_and_passes_take_part_until_they_are_taken_back() -> None:
    infuse.register(CoshFromExp, [Noted()])
    better = infuse.optimize(small(), "extended")
    assert sorted(kinds(better)) == ["Add", "Exp", "Exp", "Mul", "Neg"]
    assert "the pass ran" in better.report.notes
    assert "the pass ran" not in infuse.optimize(small(), "basic").report.notes
    assert kinds(infuse.optimize(small(), infuse.Rules(disable=["CoshFromExp"]))) == ["Cosh"]
    infuse.unregister("CoshFromExp", "Noted")
    assert kinds(infuse.optimize(small())) == ["Cosh"]
    with pytest.raises(OptionError, match="CoshFromExp"):
        infuse.optimize(small(), infuse.Rules(disable=["CoshFromExp"]))


@pytest.mark.parametrize(
    ("thing", "complaint"),
    [
        (3, "3 is neither a Rule nor a Pass"),
        (Graph, "neither a Rule nor a Pass"),
        (type("Lost", (Rule,), {"level": "most"}), "Lost has the level 'most'"),
        (
            type("Needy", (Rule,), {"__init__": lambda self, x: None}),
            "Needy cannot be made without arguments",
        ),
    ],
)
def test_other_things_are_refused(thing: object, complaint: str) -> None:
    with pytest.raises(RuleError, match=complaint):
        infuse.register(thing)


def test_names_of_infuse_are_taken() -> None:
    infuse.register(RemoveIdentity)
    with pytest.raises(RuleError, match="RemoveIdentity is the name of a rule of Infuse"):
        infuse.optimize(small())


def test_what_is_not_registered_cannot_be_taken_back() -> None:
    with pytest.raises(RuleError, match="nothing is registered by the name 'Nothing'"):
        infuse.unregister("Nothing")


def test_a_package_that_cannot_be_loaded_is_named_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken = EntryPoint("mine", "no_such_module:RULES", EXTENSIONS)
    monkeypatch.setattr(registry, "announced", lambda: (broken,))
    registry._announced.cache_clear()
    try:
        with pytest.raises(
            RuleError, match=r"entry point mine of an installed package.*INFUSE_PLUGINS=0"
        ):
            infuse.optimize(small())
        monkeypatch.setenv("INFUSE_PLUGINS", "0")
        assert kinds(infuse.optimize(small())) == ["Cosh"]
    finally:
        registry._announced.cache_clear()


@pytest.mark.row("C8")
def test_an_installed_package_adds_its_rules(tmp_path: Path) -> None:
    site = tmp_path / "site"
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-index",
        "--no-deps",
        "--no-build-isolation",
    ]
    subprocess.run([*pip, "--target", str(site), str(PACKAGE)], check=True, timeout=120)
    infuse.save(graph_of(ops.sinh(X), X=(2, 2)), tmp_path / "m.onnx")

    def optimized(*options: str, **more: str) -> dict[str, object]:
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "infuse",
                "optimize",
                "m.onnx",
                "-o",
                "o.onnx",
                "--level",
                "extended",
                "--json",
                *options,
            ],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(site), **more},
            stdout=subprocess.PIPE,
            check=True,
        )
        return json.loads(done.stdout)

    facts = optimized()
    assert facts["fired"] == {"SinhFromExp": 1}
    assert "5 nodes were counted" in facts["notes"]
    assert facts["verification"]["checked"]
    assert not optimized("--disable", "SinhFromExp")["fired"]
    assert not optimized(INFUSE_PLUGINS="0")["fired"]
    listed = subprocess.run(
        [*INFUSE, "why", "--list", "--json"],
        env={**os.environ, "PYTHONPATH": str(site)},
        stdout=subprocess.PIPE,
        check=True,
    )
    found = json.loads(listed.stdout)
    assert any(rule["rule"] == "SinhFromExp" for rule in found["rules"])
    assert any(each["pass"] == "CountNodes" for each in found["passes"])


@pytest.mark.parametrize("page", ["extending.md", "zh/extending.md"])
def test_the_guide_shows_the_package_as_it_is(page: str) -> None:
    guide = (PACKAGE.parents[2] / "docs" / page).read_text("utf-8")
    shown = dict(re.findall(r"^```\w+\n# (tests/\S+)\n(.*?)^```$", guide, re.DOTALL | re.MULTILINE))
    files = [PACKAGE / "pyproject.toml", PACKAGE / "src" / "infuse_pairs" / "__init__.py"]
    assert shown == {
        str(path.relative_to(PACKAGE.parents[2])): path.read_text("utf-8") for path in files
    }


def test_the_rule_of_the_package_passes_the_generated_tests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(PACKAGE / "src"))
    from infuse_pairs import SinhFromExp

    assert check_rule(SinhFromExp())
