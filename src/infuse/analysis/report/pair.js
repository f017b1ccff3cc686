// The page of two models side by side: bars of both, outputs, and the agreement of inner values by layer.
"use strict";

const { a, b } = source;
const dots = new Map();

/** Decibels of an agreement: infinite where nothing differs, or where there is only noise. */
const decibels = (row) => row.sqnr_db ?? (row.largest_difference === 0 ? Infinity : -Infinity);
const sqnr = (row) => (row.sqnr_db === null ? (decibels(row) > 0 ? "equal" : "−∞") : `${row.sqnr_db.toFixed(1)} dB`);
const exact = (number) => (number === null ? "∞" : number === 0 ? "0" : number.toExponential(1));
const ratio = (x, y) => (x && y !== null ? `${(y / x).toFixed(2)} ×` : "");

function factsOf(row) {
  return [
    ["operator", row.kind],
    ["value", row.value],
    ...(row.other === row.value ? [] : [["in B", row.other]]),
    ["SQNR", sqnr(row)],
    ["cosine", row.cosine === null ? "–" : row.cosine.toFixed(6)],
    ["relative error", exact(row.relative_error)],
    ["elements", write.number(row.elements)],
    ...(row.not_finite ? [["not finite", write.number(row.not_finite)]] : []),
  ];
}

function showTotals() {
  const faster = source.speedup >= 1;
  total("Speed of B", `${source.speedup.toFixed(2)} ×`, `${source.median_speedup.toFixed(2)} × by the medians; ${faster ? "B is faster" : "A is faster"}`);
  if (b.score !== null) total(`Score of B: ${source.metric}`, write.digits(b.score, 4), a.score === null ? "beside A" : `A: ${write.digits(a.score, 4)}`);
  const worst = source.outputs.reduce((least, row) => (decibels(row) < decibels(least) ? row : least));
  total("Outputs", sqnr(worst), `SQNR of ${source.outputs.length > 1 ? `the worst, ${worst.name}` : worst.name}`);
  if (worst.top1_agreement !== null) total("Same top 1", write.percent(worst.top1_agreement), "rows whose highest score is the same");
  if (a.disk_bytes !== null && b.disk_bytes !== null) total("Size of B on disk", ratio(a.disk_bytes, b.disk_bytes), `${write.bytes(b.disk_bytes)}, A: ${write.bytes(a.disk_bytes)}`);
  total("Loaded by B", ratio(a.loaded_bytes, b.loaded_bytes), `${write.bytes(b.loaded_bytes)}, A: ${write.bytes(a.loaded_bytes)}`);
  const inputs = Object.entries(source.inputs).map(([name, type]) => `${name}: ${type}`).join(", ");
  find("about").textContent = [inputs, `${source.is_random ? "random inputs, " : ""}${several(source.runs, "run")}`, several(source.threads, "thread")].join(" · ");
}

/** For each figure, a bar for either model, as long as the line for the larger one. */
function bars() {
  const rows = [
    [`score: ${source.metric}`, a.score, b.score, (score) => write.digits(score, 4)],
    ["least time", a.min_ms, b.min_ms, write.time],
    ["median time", a.median_ms, b.median_ms, write.time],
    ["size on disk", a.disk_bytes, b.disk_bytes, write.bytes],
    ["library and weights", a.loaded_bytes, b.loaded_bytes, write.bytes],
    ["weights in memory", a.weights_bytes, b.weights_bytes, write.bytes],
    ["working memory", a.arena_bytes, b.arena_bytes, write.bytes],
    ["parameters", a.parameters, b.parameters, write.number],
    ["FLOPs", a.flops, b.flops, write.number],
    ["nodes", a.nodes, b.nodes, write.number],
  ].filter(([, x, y]) => x !== null || y !== null);
  const bar = (kind, value, most, text) => element("div", { class: `bar ${kind}` }, element("i", { style: `width:${((100 * Math.abs(value ?? 0)) / most).toFixed(1)}%` }), element("span", {}, value === null ? "–" : text(value)));
  const groups = rows.map(([name, x, y, text]) => {
    const most = Math.max(Math.abs(x ?? 0), Math.abs(y ?? 0)) || 1;
    return element("div", { class: "figure" }, element("div", { class: "name" }, name), element("div", {}, bar("first", x, most, text), bar("second", y, most, text)), element("div", { class: "ratio" }, ratio(x, y)));
  });
  const key = (kind, text) => element("span", {}, element("i", { style: `background:var(--${kind})` }), text);
  card("Both models", "B over A at the right", element("div", { class: "key" }, key("first", `A: ${a.name}`), key("second", `B: ${b.name}`)), element("div", { class: "figures" }, ...groups));
}

const agreement = [
  { name: "SQNR", of: decibels, text: sqnr },
  { name: "cosine", of: (row) => row.cosine, text: (row) => (row.cosine === null ? "–" : row.cosine.toFixed(6)) },
  { name: "relative error", of: (row) => row.relative_error ?? Infinity, text: (row) => exact(row.relative_error) },
  { name: "largest difference", of: (row) => row.largest_difference, text: (row) => exact(row.largest_difference) },
  { name: "equal", of: (row) => row.equal, text: (row) => write.percent(row.equal) },
];
const place = { name: "#", of: (row) => row.place, text: (row) => String(row.place + 1) };
[source.outputs, source.layers].forEach((rows) => rows.forEach((row, number) => { row.place = number; }));

function outputs() {
  const columns = [
    place,
    { name: "output", isText: true, of: (row) => row.name, text: (row) => (row.other === row.name ? row.name : `${row.name} (${row.other} in B)`) },
    { name: "type", isText: true, of: (row) => row.type, text: (row) => element("span", { class: "mono" }, row.type) },
    ...agreement,
    { name: "same top 1", of: (row) => row.top1_agreement, text: (row) => write.percent(row.top1_agreement) },
    { name: "not finite", of: (row) => row.not_finite, text: (row) => write.number(row.not_finite) },
  ];
  const shown = new SortedTable(columns);
  card("Outputs", "of B beside those of A", shown.box);
  shown.show(source.outputs);
}

function hover(row, event) {
  for (const [each, dot] of dots) {
    const isHot = each === row;
    dot.classList.toggle("hot", isHot);
    table.mark(each, isHot);
  }
  if (event) showTip(event, row.name, factsOf(row));
  else showTip(null, "", null);
}

/** SQNR over the layers in execution order; equal values at the top, noise alone at the bottom. */
function plotLayers() {
  const numbers = source.layers.map(decibels).filter(Number.isFinite);
  const [least, most] = [Math.min(...numbers, 0), Math.max(...numbers, 20)];
  const [low, high] = [least - 0.05 * (most - least) - (least < 0 ? 3 : 0), most + 0.12 * (most - least)];
  const count = source.layers.length;
  const last = Math.max(count, 2) + 0.5;
  const steps = evenTicks(1, count, 12).filter(Number.isInteger);
  const plot = new Plot({
    height: 340,
    x: { low: 0.5, high: last, ticks: steps, write: String, name: "layer, in execution order" },
    y: { low, high, ticks: evenTicks(low, most), write: String, name: "SQNR, dB" },
    label: "Signal to noise ratio by layer",
  });
  const height = (row) => Math.min(Math.max(decibels(row), low), high);
  plot.path(source.layers.map((row) => [row.place + 1, height(row)]), "line");
  for (const row of source.layers) {
    dots.set(row, plot.dot(row.place + 1, height(row), count > 150 ? 3 : 5, Number.isFinite(decibels(row)) ? "first" : "", {
      enter: (event) => hover(row, event),
      leave: () => hover(null),
      click: () => table.reveal(row),
    }));
  }
  return plot.svg;
}

const table = new SortedTable([
  place,
  { name: "layer", isText: true, of: (row) => row.name, text: (row) => format.breakable(row.name) },
  { name: "operator", isText: true, of: (row) => row.kind, text: (row) => format.breakable(row.kind) },
  { name: "value", isText: true, of: (row) => row.value, text: (row) => (row.other === row.value ? row.value : `${row.value} (${row.other} in B)`) },
  ...agreement,
], { hover: (row) => hover(row), words: (row) => `${row.name} ${row.kind} ${row.value} ${row.other}` });

function layers() {
  if (!source.layers.length) return;
  card("Where B departs from A", `signal to quantization noise of inner values that both have, on ${several(source.layer_runs, "run")}; the higher the nearer`, plotLayers());
  const filter = element("input", { id: "filter", type: "search", placeholder: "Filter rows", "aria-label": "Filter rows", oninput: () => table.search(filter.value) });
  card("Layers", "a click on a column sorts", table.box).choices.append(filter);
  table.show(source.layers);
}

function operators() {
  const kinds = [...new Set([...Object.keys(a.operators), ...Object.keys(b.operators)])].sort();
  const rows = kinds.map((kind, number) => ({ kind, place: number, a: a.operators[kind] ?? 0, b: b.operators[kind] ?? 0 }));
  if (!rows.length) return;
  const shown = new SortedTable([
    place,
    { name: "operator", isText: true, of: (row) => row.kind, text: (row) => row.kind },
    { name: "A", of: (row) => row.a, text: (row) => write.number(row.a) },
    { name: "B", of: (row) => row.b, text: (row) => write.number(row.b) },
    { name: "difference", of: (row) => row.b - row.a, text: (row) => (row.b === row.a ? "" : `${row.b > row.a ? "+" : "−"}${Math.abs(row.b - row.a)}`) },
  ]);
  card("Nodes by kind", "", shown.box);
  shown.show(rows);
}

showTotals();
bars();
outputs();
layers();
operators();
if (source.notes.length) showNotes(source.notes);

/** For scripts: ready at once, and what is shown. */
window.infuseReport = { ready: Promise.resolve(performance.now()), state: () => ({ dots: dots.size, rows: table.lines.size }) };
