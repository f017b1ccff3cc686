// The page of an inspection: totals, the roofline with a dot for every layer, and the table of layers.
"use strict";

const sums = source.total;
const dots = new Map();

const isBound = { arithmetic: "by arithmetic", memory: "by memory", nothing: "–" };
const peak = (number) => source.peak_flops[number] ?? source.peak_flops.fp32;
const rate = (flops) => `${write.digits(flops / 1e9)} GFLOP/s`;
const share = (row) => (sums.bound_ms ? row.bound_ms / sums.bound_ms : 0);
const largestOf = new Map([source.layers, source.kinds].flatMap((rows) => {
  const largest = rows.reduce((most, row) => Math.max(most, share(row)), 0);
  return rows.map((row) => [row, largest]);
}));
const memory = (row) => row.read + row.written;

function factsOf(row) {
  return [
    ["operator", row.kind],
    ...(row.output ? [["output", row.output]] : []),
    ...(row.runs !== 1 ? [["runs", write.number(row.runs)]] : []),
    ["FLOPs", write.number(row.flops)],
    ["MACs", write.number(row.macs)],
    ["memory", `${write.bytes(row.read)} read, ${write.bytes(row.written)} written`],
    ["intensity", `${write.digits(row.intensity)} FLOP/byte`],
    ["least time", `${write.time(row.bound_ms)} (${write.percent(share(row))})`],
    ["bound", isBound[row.bound_by]],
    ...(row.macs ? [["products of", row.number]] : []),
  ];
}

function showTotals() {
  total("Parameters", write.number(sums.parameters), `${write.bytes(sums.weight_bytes)} of weights`);
  total("FLOPs", write.number(sums.flops));
  total("MACs", write.number(sums.macs));
  total("Memory access", write.bytes(memory(sums)), `${write.bytes(sums.read)} read, ${write.bytes(sums.written)} written`);
  total("Intensity", write.digits(sums.intensity), "FLOP/byte");
  const parts = source.layers.reduce((sum, row) => sum + (row.bound_by === "memory" ? row.bound_ms : 0), 0);
  total("Least time", write.time(sums.bound_ms), sums.bound_ms ? `${write.percent(parts / sums.bound_ms)} bound by memory` : "");
  const sizes = Object.entries(source.sizes).map(([name, size]) => `${name} = ${size}`).join(", ");
  find("about").textContent = [several(source.layers.length, "layer"), `level ${source.level}`, sizes, `${several(source.threads, "thread")}, target ${source.target}`].filter(Boolean).join(" · ");
}

function hover(row, event) {
  for (const [each, dot] of dots) {
    const isHot = each === row;
    dot.classList.toggle("hot", isHot);
    table.mark(each, isHot);
  }
  if (event) showTip(event, row.label || row.kind, factsOf(row));
  else showTip(null, "", null);
}

/** Roofs over intensity, both axes logarithmic; the area of a dot is the layer's share of the least time. */
function roofline() {
  const shown = source.layers.filter((row) => row.intensity > 0);
  const peaks = Object.entries(source.peak_flops).sort((a, b) => a[1] - b[1]);
  const ridges = peaks.map(([, flops]) => flops / source.peak_bytes);
  const xs = [...shown.map((row) => row.intensity), ...ridges];
  const low = Math.min(...xs) / 2;
  const high = Math.max(...xs) * 3;
  const top = Math.max(...peaks.map(([, flops]) => flops)) * 1.8;
  const bottom = low * source.peak_bytes;
  const plot = new Plot({
    x: { low, high, isLog: true, ticks: logTicks(low, high), write: String, name: "arithmetic intensity, FLOP/byte" },
    y: { low: bottom, high: top, isLog: true, ticks: logTicks(bottom, top), write: (flops) => write.digits(flops / 1e9), name: "GFLOP/s" },
    label: "Roofline of the machine with the layers of the model",
  });
  const ridge = source.peak_flops.fp32 / source.peak_bytes;
  plot.path([[ridge, bottom], [ridge, source.peak_flops.fp32]], "ridge");
  for (const [kind, flops] of peaks) {
    plot.path([[flops / source.peak_bytes, flops], [high, flops]], kind === "fp32" ? "roof" : "roof other");
    plot.text(plot.x(high) - 4, plot.y(flops) - 6, `${kind}: ${rate(flops)}`, "end", "strong");
  }
  plot.path([[low, bottom], [ridges.at(-1), peaks.at(-1)[1]]], "roof");
  const middle = Math.sqrt(low * ridge);
  const label = plot.text(0, 0, `memory: ${write.digits(source.peak_bytes / 1e9)} GB/s`, "middle", "strong");
  const slope = (Math.atan2(plot.y(ridge * source.peak_bytes) - plot.y(middle * source.peak_bytes), plot.x(ridge) - plot.x(middle)) * 180) / Math.PI;
  label.setAttribute("transform", `translate(${plot.x(middle)} ${plot.y(middle * source.peak_bytes) - 9}) rotate(${slope})`);
  for (const row of [...shown].sort((a, b) => b.bound_ms - a.bound_ms)) {
    const reached = Math.min(peak(row.number), row.intensity * source.peak_bytes);
    const radius = 3 + 24 * Math.sqrt(share(row));
    dots.set(row, plot.dot(row.intensity, reached, radius, row.bound_by, {
      enter: (event) => hover(row, event),
      leave: () => hover(null),
      click: () => { choose(true); table.reveal(row); },
    }));
  }
  const without = source.layers.length - shown.length;
  const key = (name, text) => element("span", {}, element("i", { style: `background:var(--${name})` }), text);
  card("Roofline", "what this machine can do at best with each layer; the area of a dot is its share of the least time", plot.svg,
    element("div", { class: "key" }, key("arithmetic", "bound by arithmetic"), key("memory", "bound by memory"),
      without ? `${several(without, "layer")} without counted arithmetic: no dot` : ""));
}

const columns = [
  { name: "#", of: (row) => row.place, text: (row) => String(row.place + 1) },
  { name: "layer", isText: true, of: (row) => row.label, text: (row) => format.breakable(row.label) },
  { name: "operator", isText: true, of: (row) => row.kind, text: (row) => format.breakable(row.kind) },
  { name: "output", isText: true, class: "whole", of: (row) => row.output, text: (row) => element("span", { class: "mono" }, format.shape(row.output)) },
  { name: "layers", of: (row) => row.layers, text: (row) => write.number(row.layers), isSum: true },
  { name: "runs", of: (row) => row.runs, text: (row) => write.number(row.runs), isRare: true },
  { name: "parameters", of: (row) => row.parameters, text: (row) => write.number(row.parameters) },
  { name: "weights", of: (row) => row.weight_bytes, text: (row) => write.bytes(row.weight_bytes) },
  { name: "FLOPs", of: (row) => row.flops, text: (row) => write.number(row.flops) },
  { name: "MACs", of: (row) => row.macs, text: (row) => write.number(row.macs) },
  { name: "read", of: (row) => row.read, text: (row) => write.bytes(row.read) },
  { name: "written", of: (row) => row.written, text: (row) => write.bytes(row.written) },
  { name: "FLOP/byte", of: (row) => row.intensity, text: (row) => write.digits(row.intensity) },
  { name: "least time", of: (row) => row.bound_ms, text: (row) => write.time(row.bound_ms) },
  { name: "share", of: share, text: (row) => shareCell(share(row), largestOf.get(row)) },
  { name: "bound", isText: true, class: "whole", of: (row) => row.bound_by, text: (row) => element("span", { class: `is-${row.bound_by}` }, isBound[row.bound_by]) },
];
const loops = source.layers.some((row) => row.runs !== 1);
const layerColumns = columns.filter((column) => !column.isSum && (loops || !column.isRare));
const kindColumns = columns.filter((column) => column.name !== "layer" && column.name !== "output" && !column.isRare);
[source.layers, source.kinds].forEach((rows) => rows.forEach((row, place) => { row.place = place; }));

showTotals();
const words = (row) => `${row.label} ${row.kind} ${row.output}`;
const table = new SortedTable(layerColumns, { hover: (row) => hover(row), words });
const kinds = new SortedTable(kindColumns, { words });
roofline();
const { choices } = card("Costs", "every layer reads its operands and writes its results, nothing fused", table.box, kinds.box);
const buttons = ["layers", "operators"].map((name, i) => element("button", { id: `by-${name}`, onclick: () => choose(i === 0) }, `by ${name.slice(0, -1)}`));
const filter = element("input", { id: "filter", type: "search", placeholder: "Filter rows", "aria-label": "Filter rows", oninput: () => [table, kinds].forEach((each) => each.search(filter.value)) });
choices.append(filter, ...buttons);

/** Shows the rows of layers, or those of kinds of operators. */
function choose(layers) {
  table.box.hidden = !layers;
  kinds.box.hidden = layers;
  buttons.forEach((button, i) => button.setAttribute("aria-pressed", String((i === 0) === layers)));
}

table.show(source.layers);
kinds.show(source.kinds);
choose(true);
if (source.notes.length) showNotes(source.notes);

/** For scripts: ready at once, and what is shown. */
window.infuseReport = { ready: Promise.resolve(performance.now()), state: () => ({ dots: dots.size, rows: table.lines.size }) };
