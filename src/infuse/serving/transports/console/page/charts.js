// The two plots of a model: how many requests its versions answer, and how long they take.

import { h } from "./dom.js";
import { milliseconds, number, plainMilliseconds } from "./format.js";
import { plot, spanOf } from "./plots.js";

const COLORS = 8;
const HEIGHT = 150;
const QUANTILES = [["p50_ms", "p50"], ["p95_ms", "p95"], ["p99_ms", "p99"]];

/** The class that colors a version: the same wherever it is shown. */
export function versionClass(model, version) {
  const index = model.versions.findIndex((each) => each.version === version);
  return `v${Math.max(0, index) % COLORS}`;
}

export function chart(model, state, kind) {
  const key = `${kind}/${model.name}`;
  const now = state.now;
  const hover = state.hover && state.hover.plot === key ? state.hover.time : null;
  const shown = model.versions.filter((version) => state.history.some((sample) => sample.versions.has(id(model, version))));
  const series = shown.flatMap((version) => (kind === "latency" ? latencies : rates)(model, version, state.history));
  const latest = shown.length && state.history.length ? state.history[state.history.length - 1] : null;
  const picked = hover === null ? latest : nearest(state.history, hover);
  const title = kind === "latency" ? "Latency" : "Throughput";
  return h(
    "figure",
    { key, class: "chart", style: { width: `${state.width}px` } },
    h("figcaption", {},
      h("b", {}, title),
      h("span", { class: "muted" }, kind === "latency" ? "p50 line, p95 dashed, p99 dotted; logarithmic" : "requests per second"),
      picked && hover !== null && h("span", { class: "when" }, `${Math.round(now - picked.time)} s ago`)),
    plot({
      key, label: describe(model, shown, latest, kind), width: state.width, height: HEIGHT, series, now, span: spanOf(state.history, now), hover,
      logarithmic: kind === "latency",
      format: kind === "latency" ? (value) => (value ? milliseconds(value) : "0") : number,
    }),
    h("div", { class: "legend" }, shown.map((version) => h("span", { key: version.version },
      h("i", { class: `swatch ${versionClass(model, version.version)}` }), h("b", {}, version.version), " ",
      reading(picked, model, version, kind)))),
  );
}

const id = (model, version) => `${version.version}/${model.name}`;

function rates(model, version, history) {
  const points = history.map(({ time, versions }) => [time, valueOf(versions.get(id(model, version)), "requests_per_second")]);
  return [{ name: version.version, className: versionClass(model, version.version), points }];
}

function latencies(model, version, history) {
  const color = versionClass(model, version.version);
  const found = history.map(({ time, versions }) => [time, versions.get(id(model, version))]);
  const lines = QUANTILES.map(([field, name]) => ({
    name: `${version.version}${name}`, className: `${color} ${name}`,
    points: found.map(([time, recent]) => [time, valueOf(recent, field) || null]),
  }));
  lines[0].band = found.map(([time, recent]) => [time, valueOf(recent, "p50_ms") || null, valueOf(recent, "p99_ms") || null]);
  return lines;
}

const valueOf = (recent, field) => (recent ? recent[field] : null);

function nearest(history, time) {
  return history.reduce((best, sample) => (best && Math.abs(best.time - time) <= Math.abs(sample.time - time) ? best : sample), null);
}

function reading(sample, model, version, kind) {
  const recent = sample && sample.versions.get(id(model, version));
  if (!recent) return "–";
  if (kind !== "latency") return `${number(recent.requests_per_second)}/s`;
  if (!recent.p50_ms) return "–";
  return `${QUANTILES.map(([field]) => plainMilliseconds(recent[field])).join(" · ")} ms`;
}

function describe(model, shown, latest, kind) {
  const parts = shown.map((version) => `version ${version.version} ${reading(latest, model, version, kind)}`);
  return `${kind} of ${model.name} over the last minutes; now ${parts.join(", ") || "nothing"}`;
}
