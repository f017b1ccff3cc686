"""Two trees that print the same have the same lines; else the first difference is shown."""

from pathlib import Path

from benchmarks import digest
from benchmarks.digest import Selection, difference, differing, lines, printed
from tests.support.generators.networks import random_network

SMALL = Selection(("random",), ("x86-64", "x86-64-v4"), ("fp32", "bf16"), networks=2)


def test_every_model_has_a_line_on_each_target_in_each_precision() -> None:
    found = list(lines(SMALL))
    assert found == list(lines(SMALL))
    hashes, names = zip(*(line.split(" ", 1) for line in found))
    models = ("random/0", "random/1")
    wanted = [f"{m} {t} {p}" for m in models for t in SMALL.targets for p in SMALL.precisions]
    assert list(names) == wanted
    assert len(set(hashes[:4])) > 1


def test_a_text_has_sources_and_metadata_or_why_it_is_refused() -> None:
    graph = random_network(0).graph
    text = printed(graph, "x86-64", "fp32")
    assert "== model.cpp" in text
    assert '"weights_hash"' in text
    assert printed(graph, "x86-64", "bf16").startswith("refused: ")


def test_differences_are_named_and_the_first_is_shown() -> None:
    old = ["1 a x fp32", "2 b x fp32", "3 c x fp32"]
    assert differing(old, old) == []
    assert differing(old, ["1 a x fp32", "4 b x fp32", "5 d x fp32"]) == [
        "b x fp32",
        "d x fp32",
        "c x fp32",
    ]
    shown = difference("a\nb\nc\n", "a\nB\nc\n")
    assert [line for line in shown if line[:1] in "+-"][2:] == ["-b", "+B"]


def test_the_operators_are_read_from_the_table() -> None:
    models = Selection(("operators",)).models()
    graph = models["operators/Add#0"]()
    assert [node.kind for node in graph.nodes] == ["Add"]
    assert "== model.cpp" in printed(graph, "aarch64", "fp32")


def test_a_selection_is_handed_on(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    assert digest.main(["write", str(file), *SMALL.arguments()]) == 0
    assert file.read_text("utf-8").splitlines() == list(lines(SMALL))
