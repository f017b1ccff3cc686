// One graph as objects: its nodes, its inputs and outputs, and the edges between them.
"use strict";

const FAMILIES = {
  product: "convolutions and products",
  attention: "attention",
  normalization: "normalization",
  activation: "activation",
  elementwise: "elementwise",
  reduction: "reduction and pooling",
  movement: "movement and shapes",
  control: "control flow",
  other: "other",
  input: "inputs and outputs",
};

/** One graph: its nodes, then its inputs and outputs as nodes of the family "input". */
class Side {
  constructor(name, graph) {
    this.name = name;
    this.totals = graph.totals;
    this.nodes = graph.nodes.map((node, index) => ({ ...node, index }));
    const ends = (list, kind) =>
      list.map((value) => ({
        id: -1, kind, domain: "", name: value.name, family: "input", body: "", attributes: {}, cost: null,
        inputs: kind === "Output" ? [value] : [], outputs: kind === "Input" ? [value] : [],
      }));
    for (const end of [...ends(graph.inputs, "Input"), ...ends(graph.outputs, "Output")]) {
      this.nodes.push({ ...end, index: this.nodes.length });
    }
    this.count = graph.nodes.length;
    this.edges = graph.edges;
    this.byId = new Map();
    for (const node of this.nodes.slice(0, this.count)) {
      if (!this.byId.has(node.id)) this.byId.set(node.id, []);
      this.byId.get(node.id).push(node.index);
    }
    this.into = this.nodes.map(() => []);
    this.outof = this.nodes.map(() => []);
    this.edges.forEach(([from, to], number) => {
      this.outof[from].push(number);
      this.into[to].push(number);
    });
  }

  has(id) {
    return this.byId.has(id);
  }

  /** Positions of the nodes with these ids. */
  indices(ids) {
    return ids.flatMap((id) => this.byId.get(id) ?? []).sort((a, b) => a - b);
  }

  /** Longest way from the beginning to each node. */
  get depths() {
    const depths = new Int32Array(this.nodes.length);
    for (let node = 0; node < this.count; node++) {
      for (const edge of this.into[node]) depths[node] = Math.max(depths[node], depths[this.edges[edge][0]] + 1);
    }
    return depths;
  }

  /** Nodes in the order in which they are drawn: each right before the first that needs it, what is far down first. */
  get order() {
    const order = [];
    const depths = this.depths;
    const deep = (a, b) => depths[this.edges[b][0]] - depths[this.edges[a][0]];
    const needs = this.into.map((edges) => [...edges].sort(deep));
    const seen = new Uint8Array(this.nodes.length);
    for (const sink of this.nodes.keys()) {
      if (this.outof[sink].length || seen[sink]) continue;
      const stack = [[sink, 0]];
      seen[sink] = 1;
      while (stack.length) {
        const top = stack.at(-1);
        const edge = needs[top[0]][top[1]++];
        if (edge === undefined) order.push(stack.pop()[0]);
        else if (!seen[this.edges[edge][0]]) {
          seen[this.edges[edge][0]] = 1;
          stack.push([this.edges[edge][0], 0]);
        }
      }
    }
    return order;
  }
}
