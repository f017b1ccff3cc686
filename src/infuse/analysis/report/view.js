// A graph to look at: choosing nodes and constants, and the panels beside it.
"use strict";

state.constant = -1;

function nodeChips(title, places, act) {
  const { nodes } = model.sides.graph;
  const chip = (place) => element("button", { class: "chip", title: nodes[place].name, onclick: () => act.show("graph", place) },
    dot(nodes[place].family), `${nodes[place].kind} `, element("span", { class: "muted" }, clip(nodes[place].name, 40)));
  const more = places.length > MOST_CHIPS ? [element("span", { class: "muted" }, `and ${places.length - MOST_CHIPS} more`)] : [];
  return part(title, ...(places.length ? [element("div", { class: "chips" }, ...places.slice(0, MOST_CHIPS).map(chip), ...more)] : []));
}

/** An operand: its name, which leads to its statistics where it is a constant, its type and its few elements. */
function operand(value, act) {
  const text = textOf(value);
  if (value.place === undefined) return text;
  return element("button", { class: "constant mono", title: "Show its statistics", onclick: () => act.show("constant", value.place) }, text);
}

/** What a graph says of a node beside its attributes, operands and cost. */
function detailOfNode(node, act) {
  const paragraph = (text) => (text ? [element("p", { class: "documentation" }, text)] : []);
  const listed = (entries) => (Object.keys(entries ?? {}).length ? [pairs(Object.entries(entries))] : []);
  const bodies = Object.entries(node.bodies ?? {}).flatMap(([name, body]) => [
    ...nodeChips(`body ${name}: ${several(body.nodes.length, "node")}`, body.nodes, act),
    pairs([["inputs", body.inputs.join(", ") || "–"], ["outputs", body.outputs.join(", ") || "–"]]),
  ]);
  const { into, outof, edges } = model.sides.graph;
  const unique = (places) => [...new Set(places)];
  showNode(node, {
    value: (each) => operand(each, act),
    notes: paragraph(node.documentation),
    more: [
      ...part("attributes with their default", ...listed(node.defaults)),
      ...bodies,
      ...part("metadata", ...listed(node.metadata)),
      ...part("stems from", ...(node.origin?.length ? [element("div", { class: "mono" }, node.origin.join(", "))] : [])),
      ...nodeChips("from", unique(into[node.index].map((edge) => edges[edge][0])), act),
      ...nodeChips("to", unique(outof[node.index].map((edge) => edges[edge][1])), act),
    ],
  });
}

const act = {
  /** Chooses nothing. */
  clear() {
    act.mark(-1, -1, []);
    find("detail").replaceChildren();
  },

  mark(node, constant, readers) {
    const { graph } = panes;
    state.constant = constant;
    graph.selected = node;
    graph.echo = new Set(readers);
    constants.mark(constant);
    graph.draw();
  },

  /** Selects a node, -1 for none. */
  select(pane, place) {
    if (place < 0) {
      act.clear();
      return;
    }
    act.mark(place, -1, []);
    detailOfNode(pane.side.nodes[place], act);
  },

  /** Chooses a constant; the nodes that read it have a ring. */
  choose(number) {
    const { readers } = model.constants[number];
    openTab("constants");
    act.mark(-1, number, readers);
    detailOfConstant(number, act);
    panes.graph.reveal(readers);
  },

  /** Chooses a node or a constant and brings it into view. */
  show(where, place) {
    if (where === "constant") {
      act.choose(place);
      return;
    }
    act.select(panes.graph, place);
    panes.graph.fit([place]);
  },
};

function showTotals({ totals }) {
  const rows = [
    ["Nodes", totals.nodes, format.quantity],
    ["FLOPs", totals.flops, format.quantity],
    ["MACs", totals.macs, format.quantity],
    ["Memory access", totals.read + totals.written, format.bytes],
    ["Weights", totals.weight_bytes, format.bytes],
    ["Parameters", totals.parameters, format.quantity],
  ];
  find("totals").append(...rows.map(([name, now, write]) =>
    element("div", { class: "total" }, element("div", { class: "name" }, name), element("div", { class: "now" }, write(now)))));
}

function showModel({ nodes, count }) {
  const { name, documentation, metadata, opsets } = model.about;
  const ends = (kind) => nodes.slice(count).filter((node) => node.kind === kind);
  const row = (node) => {
    const [value] = [...node.inputs, ...node.outputs];
    return element("button", { class: "end", onclick: () => act.show("graph", node.index) },
      element("b", {}, value.name), element("span", { class: "mono muted" }, value.type), value.default ? element("span", { class: "level" }, "has a default") : "");
  };
  find("model").append(
    element("h4", {}, "graph"), element("div", { class: "mono" }, name || "(no name)"),
    documentation ? element("p", { class: "documentation" }, documentation) : "",
    ...part("inputs", ...ends("Input").map(row)),
    ...part("outputs", ...ends("Output").map(row)),
    ...part("opsets", ...(Object.keys(opsets).length ? [pairs(Object.entries(opsets).map(([domain, version]) => [domain, String(version)]))] : [])),
    ...part("metadata", ...(Object.keys(metadata).length ? [pairs(Object.entries(metadata))] : [])),
  );
}

function showOperators({ totals }, look) {
  const rows = Object.entries(totals.operators).map(([kind, { nodes, flops, read, written }]) =>
    element("tr", { class: "link", onclick: () => look(kind) },
      element("td", {}, format.breakable(kind)), element("td", {}, String(nodes)), element("td", {}, format.quantity(flops)), element("td", {}, format.bytes(read + written))));
  find("operators").append(table(["operator", "nodes", "FLOPs", "memory"], rows));
}

function showNotes({ totals }) {
  const assumed = Object.entries(totals.assumed).map(([name, size]) => `${name} = ${size}`);
  const texts = [
    assumed.length ? `Costs are counted with ${assumed.join(", ")}, sizes that the model leaves open.` : "",
    COST_NOTE,
    "Statistics are those of the finite elements; the standard deviation is that of all of them.",
    ...totals.notes,
  ];
  find("notes").append(...texts.filter(Boolean).map((text) => element("p", {}, text)));
}

const events = {
  select: act.select,
  hover: showTip,
  focus(pane) {
    state.active = pane;
  },
};

openPanes({ graph: { heading: "Graph", label: "The graph" } }, events);
model.constants.forEach((constant, number) => searched.push({
  at: ["constant", number], kind: "constant", name: constant.name, family: "other", words: `constant ${constant.name} ${constant.type}`.toLowerCase(),
}));
const openTab = showTabs();
const constants = listConstants(act.choose);
showTotals(source.graph);
showModel(model.sides.graph);
showOperators(source.graph, listenToSearch(act));
showNotes(source.graph);
const ready = placeNodes(() => {});
listenToKeys({ j: () => constants.step(1), k: () => constants.step(-1), Escape: act.clear });

/** For scripts: what is shown, and a promise that resolves when all nodes have their places. */
window.infuseReport = {
  ...scripted,
  ready,
  show: act.show,
  state: () => ({ constant: state.constant, firstPaintMs: state.firstPaintMs, sides: sidesShown() }),
};
