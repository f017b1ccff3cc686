// A rollout: its steps, how the two sides do, and what an operator may do about it.

import { h } from "./dom.js";
import { duration, milliseconds, number, percent } from "./format.js";
import { versionClass } from "./charts.js";

const WORDS = { running: "running", paused: "paused", promoted: "promoted", rolled_back: "rolled back" };
const TONES = { running: "busy", paused: "warn", promoted: "good", rolled_back: "bad" };
const FIGURES = [
  ["Requests", (side) => number(side.requests)],
  ["Errors", (side) => percent(side.error_rate)],
  ["Rejected", (side) => number(side.rejected)],
  ["p50", (side) => milliseconds(side.p50_ms)],
  ["p95", (side) => milliseconds(side.p95_ms)],
  ["p99", (side) => milliseconds(side.p99_ms)],
  ["In flight", (side) => (side.in_flight ? `${number(side.in_flight)}, oldest ${milliseconds(side.oldest_ms)}` : "0")],
  ["Drift", (side) => (side.compared ? `${percent(side.drift_rate)} of ${number(side.compared)}` : "–")],
];

export function rolloutPanel(model, data) {
  const { rollout } = model;
  if (!rollout) return null;
  const since = data.server.time - rollout.since;
  return h("section", { class: `rollout ${rollout.active ? "active" : ""}`, "aria-label": `Rollout of ${model.name}` },
    h("div", { class: "rollout-head" },
      h("b", {}, "Rollout"), h("span", {}, from(model, rollout), " → ", mark(model, rollout.to)),
      h("span", { class: `pill ${TONES[rollout.state]}` }, WORDS[rollout.state] || rollout.state),
      h("span", { class: "muted" }, rollout.active ? rollout.windows.waits_for : `${duration(since)} ago`),
      rollout.active && buttons(model, rollout)),
    rollout.reason && h("p", { class: "reason" }, rollout.reason),
    rollout.active && steps(rollout),
    rollout.active && sides(model, rollout));
}

const from = (model, rollout) => rollout.from.map((version, index) => [index ? ", " : "", mark(model, version)]);

function mark(model, version) {
  return h("span", { class: "mark" }, h("i", { class: `swatch ${versionClass(model, version)}` }), version);
}

function buttons(model, rollout) {
  const target = { type: "button", "data-model": model.name, "data-version": rollout.to };
  const paused = rollout.state === "paused";
  return h("span", { class: "buttons" },
    h("button", { ...target, "data-action": paused ? "resume" : "pause" }, paused ? "Resume" : "Pause"),
    h("button", { ...target, "data-action": "promote" }, "Promote"),
    h("button", { ...target, "data-action": "rollback", class: "danger" }, "Roll back"));
}

function steps(rollout) {
  return h("ol", { class: "steps" }, rollout.steps.map((share, index) => {
    const place = index < rollout.step ? "done" : index === rollout.step ? "now" : "";
    return h("li", { key: index, class: place, "aria-current": index === rollout.step ? "step" : null }, percent(share));
  }));
}

function sides(model, rollout) {
  const rows = [[`New: ${rollout.to}`, rollout.windows.new], [`Old: ${rollout.from.join(", ")}`, rollout.windows.old]];
  return h("div", { class: "scroll" }, h("table", { class: "sides" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "In this step"), FIGURES.map(([name]) => h("th", { scope: "col", class: "figure" }, name)))),
    h("tbody", {}, rows.map(([name, side]) => h("tr", { key: name }, h("th", { scope: "row" }, name), FIGURES.map(([label, read]) => h("td", { class: "figure", "data-name": label }, read(side))))))));
}
