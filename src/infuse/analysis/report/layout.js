// The worker: places the nodes of one graph from top to bottom and routes its edges.
//
// A network is long and narrow, so it is cut where few values are alive, each piece is laid out by dagre, and the pieces
// are stacked: time grows with the number of pieces. What stays alive over many pieces gets no room of its own.
"use strict";

const PIECE = { least: 40, most: 140, whole: 160 };
const SMALL = 80; // graphs up to this size show all edges in full
const FAR = { nodes: 300, nodesOfMany: 60, many: 4 }; // how far an edge may reach before it is drawn as two ends only
const GAP = { rank: 34, node: 22 };

onmessage = (event) => {
  const { sizes, edges } = event.data;
  const placed = stack(sizes, edges, ({ nodes, routes }) => postMessage({ nodes, routes }));
  postMessage({ done: true, ...placed });
};

/** Lays out nodes (in execution order) piece by piece; `emit` gets positions and routes as they come. */
function stack(sizes, edges, emit) {
  const count = sizes.length;
  const readers = Array.from({ length: count }, () => []);
  const long = [];
  const degree = new Int32Array(count);
  edges.forEach(([from]) => degree[from]++);
  edges.forEach(([from, to], number) => {
    const limit = degree[from] >= FAR.many ? FAR.nodesOfMany : FAR.nodes;
    if (to - from > limit && count > SMALL) long.push(number);
    else readers[from].push({ to, number });
  });
  const last = readers.map((found, node) => found.reduce((most, reader) => Math.max(most, reader.to), node));
  const trails = new Map(); // value → points from its node to the end of the last piece
  let top = 0;
  for (let start = 0; start < count; ) {
    const end = pieceEnd(start, count, last);
    const piece = place(start, end, sizes, readers, last, trails);
    const shift = alignment(piece, trails);
    settle(piece, shift, top, trails);
    top = piece.bottom;
    emit(piece);
    start = end;
  }
  return { long };
}

/** Where the piece that begins at `start` ends: where the fewest values are alive. */
function pieceEnd(start, count, last) {
  if (count - start <= PIECE.whole) return count;
  const alive = [];
  const stop = Math.min(count, start + PIECE.most);
  for (let node = 0; node < stop; node++) {
    const from = Math.max(node + 1, start + PIECE.least);
    for (let cut = from; cut <= Math.min(last[node], stop); cut++) alive[cut] = (alive[cut] ?? 0) + 1;
  }
  let best = stop;
  for (let cut = start + PIECE.least; cut <= stop; cut++) if ((alive[cut] ?? 0) < (alive[best] ?? 0)) best = cut;
  return best;
}

/** One piece by dagre. Values that come from above enter at a node on top, those that go on leave at one below. */
function place(start, end, sizes, readers, last, trails) {
  const entering = [...trails.keys()].filter((value) => last[value] >= start);
  const passing = entering.filter((value) => last[value] >= end);
  const leaving = [];
  const inside = [];
  const enter = (value, from) => {
    for (const { to, number } of readers[value]) {
      if (to >= start && to < end) inside.push({ value, from, to, name: `e${number}`, number });
    }
  };
  entering.forEach((value) => enter(value, "top"));
  for (let node = start; node < end; node++) {
    enter(node, node);
    if (last[node] >= end) leaving.push(node);
  }
  const piece = { start, end, sizes, inside, leaving, passing, entering };
  piece.chains = chainsOf(piece);
  piece.graph = graphOf(piece);
  dagre.layout(piece.graph);
  return piece;
}

/** Node → its chain: nodes that only hand on to each other are laid out as one. */
function chainsOf({ start, end, inside, leaving }) {
  const [ins, outs, next] = [new Map(), new Map(), new Map()];
  const count = (where, key) => where.set(key, (where.get(key) ?? 0) + 1);
  for (const { from, to } of inside) {
    count(outs, from);
    count(ins, to);
    next.set(from, to);
  }
  leaving.forEach((node) => count(outs, node));
  const chains = new Map();
  for (let node = start; node < end; node++) {
    const chain = chains.get(node) ?? { id: node, nodes: [node] };
    chains.set(node, chain);
    const to = next.get(node);
    if (outs.get(node) === 1 && to !== undefined && ins.get(to) === 1) {
      chain.nodes.push(to);
      chains.set(to, chain);
    }
  }
  return chains;
}

function graphOf({ sizes, inside, leaving, passing, entering, chains }) {
  const graph = new dagre.graphlib.Graph({ multigraph: true });
  graph.setGraph({ ranksep: GAP.rank, nodesep: GAP.node, edgesep: 14, ranker: "network-simplex" });
  graph.setDefaultEdgeLabel(() => ({}));
  const all = new Set(chains.values());
  for (const { id, nodes } of all) {
    const width = Math.max(...nodes.map((node) => sizes[node][0]));
    const height = nodes.reduce((sum, node) => sum + sizes[node][1] + GAP.rank, -GAP.rank);
    graph.setNode(id, { width, height });
  }
  if (entering.length) graph.setNode("top", { width: 1, height: 1 });
  if (leaving.length || passing.length) graph.setNode("bottom", { width: 1, height: 1 });
  for (const { from, to, name } of inside) {
    if (from === "top") graph.setEdge("top", chains.get(to).id, { weight: 1 }, name);
    else if (chains.get(from) !== chains.get(to)) graph.setEdge(chains.get(from).id, chains.get(to).id, { weight: 2 }, name);
  }
  leaving.forEach((value) => graph.setEdge(chains.get(value).id, "bottom", { weight: 2 }, `v${value}`));
  passing.forEach((value) => graph.setEdge("top", "bottom", { weight: 1 }, `v${value}`));
  if (graph.hasNode("bottom")) {
    for (const { id } of all) if (!graph.outEdges(id).length) graph.setEdge(id, "bottom", { weight: 0 }, `s${id}`);
  }
  return graph;
}

/** How far to move a piece to the right so that what enters continues straight. */
function alignment(piece, trails) {
  const { graph } = piece;
  const shifts = [];
  for (const edge of piece.inside) {
    if (edge.from !== "top") continue;
    const { points } = graph.edge("top", piece.chains.get(edge.to).id, edge.name);
    shifts.push(trails.get(edge.value).at(-1)[0] - points[1].x);
  }
  for (const value of piece.passing) {
    shifts.push(trails.get(value).at(-1)[0] - graph.edge("top", "bottom", `v${value}`).points[1].x);
  }
  if (!shifts.length) return -graph.graph().width / 2;
  return shifts.sort((a, b) => a - b)[shifts.length >> 1];
}

/** Turns a piece into absolute positions and routes, and brings the trails to its end. */
function settle(piece, shift, top, trails) {
  const { graph, chains, sizes } = piece;
  const rise = piece.entering.length ? top - GAP.rank * 0.75 : top;
  const at = (points) => points.map(({ x, y }) => [x + shift, y + rise]);
  const places = new Map();
  for (const { id, nodes } of new Set(chains.values())) {
    const { x, y, height } = graph.node(id);
    let above = y + rise - height / 2;
    for (const node of nodes) {
      places.set(node, { x: x + shift, top: above, bottom: above + sizes[node][1] });
      above += sizes[node][1] + GAP.rank;
    }
  }
  piece.nodes = [...places].map(([node, place]) => [node, place.x, (place.top + place.bottom) / 2]);
  piece.bottom = rise + graph.graph().height - (graph.hasNode("bottom") ? GAP.rank * 0.5 : -GAP.rank);
  const route = ({ value, from, to, name }) => {
    const end = [places.get(to).x, places.get(to).top];
    if (from === "top") {
      return [...trails.get(value), ...at(graph.edge("top", chains.get(to).id, name).points).slice(1, -1), end];
    }
    const begin = [places.get(from).x, places.get(from).bottom];
    if (chains.get(from) === chains.get(to)) return [begin, end];
    const points = at(graph.edge(chains.get(from).id, chains.get(to).id, name).points);
    return [begin, ...points.slice(1, -1), end];
  };
  piece.routes = piece.inside.map((edge) => [edge.number, route(edge)]);
  const onward = new Map();
  const extend = (value, before, inner) => onward.set(value, [...before, ...inner, [inner.at(-1)[0], piece.bottom]]);
  for (const value of piece.leaving) {
    const begin = [places.get(value).x, places.get(value).bottom];
    extend(value, [begin], at(graph.edge(chains.get(value).id, "bottom", `v${value}`).points).slice(1, -1));
  }
  for (const value of piece.passing) {
    extend(value, trails.get(value), at(graph.edge("top", "bottom", `v${value}`).points).slice(1, -1));
  }
  trails.clear();
  onward.forEach((points, value) => trails.set(value, points));
}
