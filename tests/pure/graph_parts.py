"""A graph with bodies, and its parts by name."""

from infuse.ir.parser import parse

TEXT = """
graph "outer" (%x: float32[batch, 4], %flag: bool[]) {
  $w: float32[4]{1.0, 2.0, 3.0, 4.0}
  %a: float32[batch, 4] = test.toys::Toy(%x, $w)
  %b: float32[batch, 4] = test.toys::Toy(%a, $w)
  %c: bool[] = Branch(%flag) {
    then = graph "body" (%i: float32[batch, 4]) {
      %inner: float32[batch, 4] = test.toys::Toy(%a, $w, %i)
      return r = %inner
    }
    else = graph "sibling" () {
      %other: float32[batch, 4] = test.toys::Toy(%x)
      return r = %other
    }
  }
  return y = %b, z = %c
}
"""


class Parts:
    """The sample graph and its pieces by name."""

    def __init__(self) -> None:
        self.graph = parse(TEXT)
        self.node_a, self.node_b, self.branch = self.graph.nodes
        self.body, self.sibling = self.branch.subgraphs.values()
        self.x, self.a, self.b = self.graph.inputs[0], self.node_a.output, self.node_b.output
        self.w = self.node_a.inputs[1]
        (self.inner,) = self.body.nodes
        assert self.w is not None
