"""Graphs to profile, and rows of their profiles."""

import itertools
from typing import Any

from infuse.ir.graph import Graph
from infuse.options import CompileOptions
from infuse.profiling import Profile, Row, profile_graph
from tests.native.builder import Builder


def layers(*widths: int, rows: int | str = "n") -> Graph:
    """Matrix products, each with a bias and Relu."""
    b = Builder("layers")
    x = b.input(rows, widths[0])
    for inner, outer in itertools.pairwise(widths):
        x = b("Relu", b("Add", b("MatMul", x, b.weight(inner, outer)), b.weight(outer)))
    b.output(x)
    return b.graph


def by_label(found: Profile, part: str) -> Row:
    (row,) = (row for row in found.rows if part in row.label)
    return row


def run_for_sure(graph: Graph, feeds: dict[str, Any], **options: Any) -> Profile:
    """The profile of the graph as it is, from few runs."""
    return profile_graph(graph, feeds, CompileOptions(threads=1), **({"runs": 3} | options))


LOOP = """graph "g" (%x: float32[500, 40], %times: int64[]) {
  %y = Loop(%times, _, %x) {
    body = graph "body" (%i: int64[], %on: bool[], %s: float32[500, 40]) {
      %t = Exp(%s)
      %u = ReduceMax(%t, int64[1]{1})
      %v = Div(%t, %u)
      return on = %on, s = %v
    }
  }
  %z = Neg(%y)
  return z = %z
}"""
