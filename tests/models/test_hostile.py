"""Models that ask for too much end in an error of ours, or are right: no crash, no hang, no raw
exception.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import infuse
from infuse import budgets
from infuse.errors import BudgetError, OptionError
from tests.models.hostile_models import CASES, SHORT, chain, doubling, sized

pytestmark = pytest.mark.row("C1")
ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 600  # seconds, also of a busy machine; the processor's time is limited by the worker


def ends_well(case: str, folder: Path) -> None:
    path = folder / "model.onnx"
    path.write_bytes(CASES[case]().SerializeToString())
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
        "OPENBLAS_NUM_THREADS": "1",
    }
    done = subprocess.run(
        [sys.executable, "-m", "tests.models.hostile_worker", str(path)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env=environment,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode in (0, 1), (case, done.returncode, done.stderr[-2000:])
    assert "Traceback" not in done.stderr, (case, done.stderr[-3000:])
    assert (done.returncode == 0) or done.stderr.startswith("[INF-"), (case, done.stderr[-2000:])


@pytest.mark.parametrize("case", SHORT)
def test_a_model_that_asks_for_too_much_ends_well(case: str, tmp_path: Path) -> None:
    ends_well(case, tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("case", [case for case in CASES if case not in SHORT])
def test_every_model_that_asks_for_too_much_ends_well(case: str, tmp_path: Path) -> None:
    ends_well(case, tmp_path)


def test_the_list_is_long() -> None:
    assert len(CASES) >= 100


def test_functions_are_counted_before_they_are_inlined() -> None:
    with pytest.raises(
        BudgetError, match=r"has 2\.2e\+12 nodes, and 1000000 are allowed.*INFUSE_BUDGET=nodes="
    ):
        infuse.load(doubling(40).SerializeToString())
    assert len(infuse.load(doubling(6).SerializeToString()).nodes) == 64


def test_budgets_can_be_raised_and_lowered(monkeypatch: pytest.MonkeyPatch) -> None:
    content = chain("Sin", 50).SerializeToString()
    monkeypatch.setenv("INFUSE_BUDGET", "nodes=49")
    with pytest.raises(BudgetError, match="has 50 nodes, and 49 are allowed"):
        infuse.load(content)
    monkeypatch.setenv("INFUSE_BUDGET", "nodes=50, seconds=100")
    assert len(infuse.load(content).nodes) == 50
    text = "*".join(["(a+b+c+d)"] * 3)
    monkeypatch.setenv("INFUSE_BUDGET", "terms=10")
    with pytest.raises(
        BudgetError, match=r"a product of symbolic sizes takes .* terms, and 10 are allowed"
    ):
        infuse.load(sized(text.replace("a", "aa")).SerializeToString())


@pytest.mark.parametrize(
    "text", ["nodes", "nodes=", "nodes=-1", "nodes=1e3", "node=3", "nodes=3;terms=4"]
)
def test_what_is_no_budget_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFUSE_BUDGET", text)
    with pytest.raises(OptionError, match="is not a budget"):
        infuse.load(chain("Sin", 2).SerializeToString())


@pytest.mark.parametrize("verb", ["optimize", "compile"])
def test_time_that_is_up_is_an_error(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = infuse.load(chain("Sin", 50).SerializeToString())
    monkeypatch.setenv("INFUSE_BUDGET", "seconds=0")
    with pytest.raises(BudgetError, match=r"did not end within 0 seconds.*INFUSE_BUDGET=seconds="):
        getattr(infuse, verb)(graph)
    assert budgets.seconds_left() is None


@pytest.mark.parametrize("verb", ["load", "optimize", "compile", "save"])
@pytest.mark.parametrize(
    ("raised", "said"),
    [(MemoryError(), "there is not enough memory"), (RecursionError(), "nests more deeply")],
)
def test_no_verb_lets_raw_errors_out(
    verb: str, raised: Exception, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = infuse.load(chain("Sin", 2).SerializeToString())
    place = {
        "load": "infuse.frontends.onnx.load",
        "optimize": "infuse.passes.run.optimize_in_place",
        "compile": "infuse.build.compile.compile_graph",
        "save": "infuse.exporters.onnx.save",
    }[verb]

    def fails(*arguments: object, **named: object) -> None:
        raise raised

    monkeypatch.setattr(place, fails)
    path = tmp_path / "a.onnx"
    arguments = {"load": [path], "save": [graph, path]}.get(verb, [graph])
    with pytest.raises(BudgetError, match=rf"{verb}: .*{said}"):
        getattr(infuse, verb)(*arguments)
