"""Graphs that mean the same have the same canonical text; others have not, and are shown."""

import json
from pathlib import Path

import numpy as np
import pytest

from infuse import dtypes
from infuse.ir.graph import Graph
from infuse.tracing.importer import Importer
from tests.graphs import canonical, compare


def difference_of_squares(factor: float, names: tuple[str, str], swapped: bool = False) -> Graph:
    g = Importer("graph")
    a, b = (g.input(name, dtypes.float32, [2]) for name in "ab")
    with g.scope(names[0]):
        pair = [g("Mul", value, value) for value in ((b, a) if swapped else (a, b))]
    first, second = reversed(pair) if swapped else pair
    g("Exp", a)
    with g.scope(names[1]):
        scaled = g("Mul", second, g.constant(np.full(3, factor, np.float32)[:1]))
    g.output("y", g("Sub", first, scaled))
    return g.graph


def test_names_and_order_make_no_difference() -> None:
    text = canonical(difference_of_squares(2.0, ("x", "y")))
    assert text == canonical(difference_of_squares(2.0, ("p", "q"), swapped=True))
    assert "Exp" not in text
    assert text != canonical(difference_of_squares(3.0, ("x", "y")))


def test_bodies_are_written() -> None:
    texts = []
    for kind in ("Exp", "Log"):
        g = Importer("graph")
        x, flag = g.input("x", dtypes.float32, [2]), g.input("flag", dtypes.bool_, [])
        sides = {"then_branch": g.body("then"), "else_branch": g.body("else")}
        for name, body in sides.items():
            body.output("y", body(kind if name == "then_branch" else "Neg", x))
        g.output("y", g.control(1, "If", flag, bodies=sides)[0])
        texts.append(canonical(g.graph))
    assert "then_branch" in texts[0]
    assert texts[0].replace("Exp", "Log") == texts[1] != texts[0]


def test_records_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [["t#0", "1", "same"], ["t#1", "2", "Exp(x)"], ["t#2", "3", "gone"]]
    for folder, lines in (("old", rows), ("new", [rows[0], ["t#1", "4", "Log(x)"]])):
        (tmp_path / folder).mkdir()
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (tmp_path / folder / "test.jsonl").write_text(text)
    assert compare(tmp_path / "old", tmp_path / "new") == 1
    shown = capsys.readouterr().out
    assert "1 of 2 are equal; 1 only before, 0 only after" in shown
    assert "-Exp(x)\n+Log(x)" in shown
    assert compare(tmp_path / "old", tmp_path / "old") == 0
