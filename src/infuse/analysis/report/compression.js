// The page of a compression: scores of all candidates over time or bytes, layers, and groups of channels.
"use strict";

const dots = new Map();
const milliseconds = (seconds) => (seconds === null ? null : seconds * 1000);
const AXES = {
  time: { of: (row) => milliseconds(row.seconds), front: source.fronts.seconds, write: write.time, name: "time of a run", unit: () => 1 },
  size: { of: (row) => row.weight_bytes, front: source.fronts.weight_bytes, write: write.bytes, name: "bytes of weights", unit: (most) => [2 ** 30, 2 ** 20, 2 ** 10].find((unit) => most >= unit) ?? 1 },
};
source.tried.forEach((row, number) => { row.number = number; });

const score = (value) => (value === null ? "–" : String(Number(value.toPrecision(6))));
const shareOf = (x, y) => (x && y ? `${(x / y).toFixed(2)} ×` : "–");
const formsOf = (row) => Object.entries(row.forms).map(([form, count]) => `${count} ${form}`).join(", ") || "float32";
const titleOf = (row) => [row.name, row.is_result ? "result" : ""].filter(Boolean).join(", ") || several(row.layers, "layer");
const isOn = (axis, row) => AXES[axis].front.includes(row.number);

function factsOf(row) {
  return [
    [source.metric, score(row.score)],
    ...(source.max_drop ? [["bound", row.is_met ? "met" : "not met"]] : []),
    ["time of a run", row.seconds === null ? "not measured" : write.time(milliseconds(row.seconds))],
    ["weights", write.bytes(row.weight_bytes)],
    ["layers", formsOf(row)],
  ];
}

function showTotals() {
  const lost = source.relative_drop;
  const change = lost === null ? "" : lost === 0 ? ", nothing lost" : `, ${write.digits(100 * Math.abs(lost))} % ${lost > 0 ? "lost" : "gained"}`;
  total(`Score: ${source.metric}`, score(source.score), `was ${score(source.reference)}${change}`);
  if (source.max_drop) total("Bound", source.is_met ? "met" : "not met", `${source.max_drop} may be lost: ${score(source.worst_score)}`);
  if (source.seconds) total("Speed", `${source.speed.toFixed(2)} ×`, `${write.time(milliseconds(source.float_seconds))} → ${write.time(milliseconds(source.seconds))}`);
  total("Weights", `${shareOf(source.weight_bytes_before, source.weight_bytes)} smaller`, `${write.bytes(source.weight_bytes_before)} → ${write.bytes(source.weight_bytes)}`);
  if (source.pruning) total("MACs", `${shareOf(source.pruning.macs_before, source.pruning.macs)} fewer`, `${write.number(source.pruning.macs_before)} → ${write.number(source.pruning.macs)}`);
  find("about").textContent = [several(source.layers.length, "layer"), several(source.examples, "run"), several(source.validations, "validation")].join(" · ");
}

function hover(row, event) {
  for (const [each, dot] of dots) {
    const isHot = each === row;
    dot.classList.toggle("hot", isHot);
    candidates.mark(each, isHot);
  }
  if (event) showTip(event, titleOf(row), factsOf(row));
  else showTip(null, "", null);
}

/** A range that holds these numbers, with a margin. */
function rangeOf(numbers) {
  const [least, most] = [Math.min(...numbers), Math.max(...numbers)];
  const margin = 0.08 * (most - least) || 0.05 * Math.abs(most) || 1;
  return { low: least - margin, high: most + margin };
}

/** Scores over an axis: a dot for every candidate, steps along the Pareto front, and the bound as a line. */
function plotOf(axis) {
  const { of, front, unit, name } = AXES[axis];
  const shown = source.tried.filter((row) => of(row) !== null && row.score !== null);
  dots.clear();
  if (!shown.length) return element("p", { class: "muted" }, "nothing was measured along this axis");
  const worst = source.worst_score;
  const [x, y] = [rangeOf(shown.map(of)), rangeOf([...shown.map((row) => row.score), ...(worst === null ? [] : [worst])])];
  const step = unit(x.high);
  const plot = new Plot({
    x: { ...x, ticks: evenTicks(x.low / step, x.high / step).map((tick) => tick * step), write: AXES[axis].write, name },
    y: { ...y, ticks: evenTicks(y.low, y.high), write: score, name: source.metric },
    label: `Score over ${name} of all candidates`,
  });
  if (worst !== null) {
    plot.path([[x.low, worst], [x.high, worst]], "bound");
    plot.text(plot.x(x.high) - 4, plot.y(worst) + 15, `bound: ${score(worst)}`, "end", "strong");
  }
  const steps = front.map((number) => source.tried[number]).filter((row) => row.score !== null)
    .flatMap((row, place, all) => (place ? [[of(row), all[place - 1].score], [of(row), row.score]] : [[of(row), row.score]]));
  if (steps.length) plot.path(steps, "front");
  for (const row of shown) {
    const kind = [isOn(axis, row) ? "first" : "", row.is_met ? "" : "beyond", row.name, row.is_result ? "result" : ""].filter(Boolean).join(" ");
    const radius = row.name || row.is_result ? 8 : 5;
    dots.set(row, plot.dot(of(row), row.score, radius, kind, {
      enter: (event) => hover(row, event),
      leave: () => hover(null),
      click: () => candidates.reveal(row),
    }));
    if (!row.name && !row.is_result) continue;
    plot.text(plot.x(of(row)), plot.y(row.score) - 13, titleOf(row), "middle", "strong");
  }
  return plot.svg;
}

const candidates = new SortedTable([
  { name: "#", of: (row) => row.number, text: (row) => String(row.number + 1) },
  { name: "candidate", isText: true, class: "whole", of: (row) => `${row.name} ${row.is_result}`, text: (row) => [row.name, row.is_result ? "result" : ""].filter(Boolean).join(", ") },
  { name: "score", of: (row) => row.score, text: (row) => element("span", { class: row.is_met ? "" : "bad" }, score(row.score)) },
  { name: "time", of: (row) => row.seconds, text: (row) => write.time(milliseconds(row.seconds)) },
  { name: "weights", of: (row) => row.weight_bytes, text: (row) => write.bytes(row.weight_bytes) },
  { name: "compressed", of: (row) => row.layers, text: (row) => String(row.layers) },
  { name: "layers", isText: true, of: formsOf, text: formsOf },
  { name: "on the front of", isText: true, class: "whole", of: (row) => frontsOf(row), text: (row) => frontsOf(row) },
], { hover: (row) => hover(row) });

function frontsOf(row) {
  return Object.keys(AXES).filter((axis) => isOn(axis, row)).join(", ");
}

function front() {
  if (!source.tried.length) return;
  const place = element("div", { id: "front" });
  const unmeasured = element("span", { id: "unmeasured" });
  const key = (kind, text) => element("span", {}, element("i", { class: kind }), text);
  const { choices } = card("Score against cost", "of all models that were tried; on the Pareto front is what no other one beats in both", place,
    element("div", { class: "key" }, key("on", "on the front"), key("off", "not on it"), source.max_drop ? key("over", "beyond the bound") : "", unmeasured));
  const buttons = Object.entries(AXES).map(([axis, { name }]) => element("button", { id: `by-${axis}`, onclick: () => choose(axis) }, name));
  choices.append(...buttons);
  function choose(axis) {
    place.replaceChildren(plotOf(axis));
    const missing = source.tried.length - dots.size;
    unmeasured.textContent = missing ? `${several(missing, "candidate")} without ${axis === "time" ? "a time or " : ""}a finite score: no dot` : "";
    buttons.forEach((button) => button.setAttribute("aria-pressed", String(button.id === `by-${axis}`)));
  }
  choose(source.tried.some((row) => row.seconds !== null) ? "time" : "size");
  card("Candidates", "in the order in which they were scored; times are the least of a run, measured in turns", candidates.box);
  candidates.show(source.tried);
}

const layers = new SortedTable([
  { name: "#", of: (row) => row.place, text: (row) => String(row.place + 1) },
  { name: "layer", isText: true, of: (row) => row.node, text: (row) => format.breakable(row.node) },
  { name: "operator", isText: true, of: (row) => row.operator, text: (row) => format.breakable(row.operator) },
  { name: "is", isText: true, class: "whole", of: (row) => row.form, text: (row) => row.form },
  { name: "range", isText: true, of: (row) => row.calibrator, text: (row) => row.calibrator },
  { name: "error", about: "of its result, beside the result", of: (row) => row.noise, text: (row) => (row.noise === null ? "–" : `${row.noise.toFixed(1)} dB`) },
  { name: "sensitivity", about: "what it alone changes in the outputs", of: (row) => row.sensitivity, text: (row) => write.digits(row.sensitivity) },
  { name: "float32", about: "time of its region", of: (row) => row.float_seconds, text: (row) => write.time(milliseconds(row.float_seconds)) },
  { name: "now", about: "time of its region", of: (row) => row.seconds, text: (row) => write.time(milliseconds(row.seconds)) },
  { name: "why", isText: true, of: (row) => row.reason, text: (row) => row.reason },
], { words: (row) => `${row.node} ${row.operator} ${row.form} ${row.reason}` });

function showLayers() {
  if (!source.layers.length) return;
  source.layers.forEach((row, place) => { row.place = place; });
  const filter = element("input", { id: "filter", type: "search", placeholder: "Filter rows", "aria-label": "Filter rows", oninput: () => layers.search(filter.value) });
  card("Layers", "a click on a column sorts", layers.box).choices.append(filter);
  layers.show(source.layers);
}

/** Channels that go together before and after, and layers whose channels stay, with the reason. */
function groups() {
  if (!source.pruning) return;
  const rows = [
    ...source.pruning.groups.map((group) => ({ names: group.nodes.join(", "), before: group.before, after: group.after, why: "" })),
    ...source.pruning.closed.map((layer) => ({ names: layer.node, before: null, after: null, why: layer.reason })),
  ].map((row, place) => ({ ...row, place }));
  const shown = new SortedTable([
    { name: "#", of: (row) => row.place, text: (row) => String(row.place + 1) },
    { name: "layers", isText: true, of: (row) => row.names, text: (row) => format.breakable(row.names) },
    { name: "channels", of: (row) => row.before, text: (row) => write.number(row.before) },
    { name: "now", of: (row) => row.after, text: (row) => write.number(row.after) },
    { name: "left", of: (row) => (row.before ? row.after / row.before : null), text: (row) => write.percent(row.before ? row.after / row.before : null) },
    { name: "why they stay", isText: true, of: (row) => row.why, text: (row) => row.why },
  ]);
  card("Groups of channels", "that go together", shown.box);
  shown.show(rows);
}

/** Residual blocks that could be dropped, and whether they were. */
function blocks() {
  if (!source.pruning?.blocks.length) return;
  const shown = new SortedTable([
    { name: "#", of: (row) => row.place, text: (row) => String(row.place + 1) },
    { name: "block", isText: true, of: (row) => row.name, text: (row) => format.breakable(row.name) },
    { name: "MACs", of: (row) => row.macs, text: (row) => write.number(row.macs) },
    { name: "is", isText: true, of: (row) => row.is_removed, text: (row) => (row.is_removed ? "removed" : "there") },
  ]);
  card("Residual blocks", "that could be dropped", shown.box);
  shown.show(source.pruning.blocks.map((row, place) => ({ ...row, place })));
}

showTotals();
front();
showLayers();
groups();
blocks();
showNotes(source.lines);

/** For scripts: ready at once, and what is shown. */
window.infuseReport = { ready: Promise.resolve(performance.now()), state: () => ({ dots: dots.size, rows: layers.lines.size, candidates: candidates.lines.size }) };
