// What the page shows, as trees made of the server's data and of what the reader chose.

import { h } from "./dom.js";
import { bytes, clock, duration, milliseconds, number, percent, plainMilliseconds, plural } from "./format.js";
import { rolloutPanel } from "./rollout.js";
import { chart, versionClass } from "./charts.js";

const ICON = "M12 2c4 5 7 8.4 7 12.4A7 7 0 0 1 5 14.4C5 10.4 8 7 12 2z";
const TONES = { READY: "good", LOADING: "busy", UNLOADING: "busy", UNAVAILABLE: "bad" };
const OPEN_AT_FIRST = 4;

export function head({ data, failure, theme, filter }) {
  const server = data ? data.server : null;
  return [
    h(
      "div",
      { class: "brand" },
      h("svg", { viewBox: "0 0 24 24", width: 24, height: 24, "aria-hidden": "true" },
        h("path", { class: "drop", d: ICON }), h("path", { class: "flow", d: "M9 13.4h6M12 10.4v6" })),
      h("h1", {}, "Infuse ", h("span", { class: "muted" }, "server")),
      status(server, failure),
    ),
    h("div", { class: "facts muted" },
      server && h("span", {}, `version ${server.version}`),
      server && h("span", {}, `up ${duration(server.uptime_seconds)}`),
      server && server.repository && h("span", { class: "path", title: server.repository }, server.repository)),
    h(
      "div",
      { class: "tools" },
      data && data.models.length > 1 && h("input", { type: "search", id: "filter", placeholder: "Filter models", "aria-label": "Filter models", value: filter, autocomplete: "off" }),
      ((server && server.tokens) || (failure && [401, 403].includes(failure.status))) && button("token", "Token", {}, "Enter the token that this page sends"),
      button("theme", theme === "dark" ? "Light" : "Dark", {}, "Change the colors of the page"),
      data && button("load-new", "Load a model", { class: "primary" }),
    ),
  ];
}

function status(server, failure) {
  if (failure) return h("span", { class: "pill bad" }, "not reached");
  if (!server) return h("span", { class: "pill" }, "connecting");
  if (!server.live) return h("span", { class: "pill bad" }, "stopping");
  return h("span", { class: server.ready ? "pill good" : "pill busy" }, server.ready ? "ready" : "not ready");
}

export function button(action, text, attributes = {}, title = null) {
  return h("button", { type: "button", "data-action": action, title, ...attributes }, text);
}

export function totals({ data }) {
  if (!data) return [];
  const versions = data.models.flatMap((model) => model.versions);
  const ready = versions.filter((version) => version.state === "READY");
  const sum = (pick) => versions.reduce((total, version) => total + (pick(version) || 0), 0);
  const rate = sum((version) => version.recent.requests_per_second);
  const worst = Math.max(0, ...ready.map((version) => version.recent.p99_ms));
  const failing = rate || sum((v) => v.recent.failures_per_second)
    ? sum((v) => v.recent.failures_per_second) / (rate + sum((v) => v.recent.failures_per_second)) : 0;
  const { workers, cores, lost } = data.placement;
  return [
    total("Requests", number(rate), "per second"),
    total("Slowest p99", milliseconds(worst), "of the versions"),
    total("Failed", percent(failing), "last 10 s", failing > 0.01 ? "bad" : ""),
    total("Waiting", number(sum((version) => version.waiting)), "rows in queues"),
    total("Versions ready", `${ready.length}`, `of ${versions.length}`, ready.length < versions.length ? "warn" : ""),
    total("Workers", number(workers.length), lost ? `${number(lost)} lost so far` : `on ${plural(cores.length, "core")}`, lost ? "warn" : ""),
  ];
}

function total(name, value, note, tone = "") {
  return h("div", { class: "total", key: name }, h("span", { class: "name" }, name),
    h("span", { class: `now ${tone}` }, value), h("span", { class: "note" }, note));
}

export function models(state) {
  const { data, filter } = state;
  if (!data) return [h("div", { class: "empty" }, h("p", {}, state.failure ? "There is no data to show." : "Asking the server …"))];
  if (!data.models.length) return [emptyRepository(data.server)];
  const wanted = filter.trim().toLowerCase();
  const found = data.models.filter((model) => model.name.toLowerCase().includes(wanted));
  if (!found.length) return [h("div", { class: "empty" }, h("p", {}, `No model has “${filter}” in its name.`))];
  return found.map((model, index) => card(model, state, isOpen(state, model, index)));
}

function isOpen(state, model, index) {
  const chosen = state.open.get(model.name);
  return chosen === undefined ? index < OPEN_AT_FIRST || Boolean(model.rollout && model.rollout.active) : chosen;
}

function emptyRepository(server) {
  return h("div", { class: "empty" }, h("h2", {}, "No models yet"),
    h("p", {}, "A model is a folder in the repository, with a folder for each version:"),
    h("pre", {}, `${server.repository || "repository"}/\n  resnet50/\n    1/\n      model.onnx`),
    h("p", {}, server.control === "poll" ? "It is found within seconds once it is there." : "Then load it here by its name."));
}

function card(model, state, open) {
  const states = new Set(model.versions.map((version) => version.state));
  const rate = model.versions.reduce((sum, version) => sum + version.recent.requests_per_second, 0);
  const body = `body-${model.name}`;
  return h(
    "article",
    { key: model.name, class: "card", "aria-label": `Model ${model.name}` },
    h(
      "div",
      { class: "card-head" },
      h("button", { type: "button", class: "fold", "data-action": "fold", "data-model": model.name, "aria-expanded": String(open), "aria-controls": body },
        h("span", { class: "arrow", "aria-hidden": "true" }, open ? "▾" : "▸"), h("h2", {}, model.name)),
      [...states].map((each) => h("span", { class: `pill ${TONES[each] || ""}`, key: each }, each.toLowerCase())),
      h("span", { class: "muted platform" }, model.kind),
      h("span", { class: "rate muted" }, `${number(rate)}/s`),
      h("span", { class: "buttons" },
        button("split", "Split", { "data-model": model.name, disabled: !states.has("READY") }, "Share the traffic between versions"),
        button("rollout", "Roll out", { "data-model": model.name, disabled: !states.has("READY") }, "Give a version its traffic step by step"),
        button("load", states.has("READY") ? "Reload" : "Load", { "data-model": model.name }),
        !(model.rollout && model.rollout.active) && model.previous.length > 0 && button("rollback", "Roll back", { "data-model": model.name }, `Back to version ${model.previous.join(", ")}`),
        button("unload", "Unload", { "data-model": model.name, disabled: !states.has("READY") })),
    ),
    open && h("div", { class: "card-body", id: body },
      model.problem && h("p", { class: "error" }, model.problem),
      trafficBar(model), rolloutPanel(model, state.data), table(model), objectives(model),
      h("div", { class: "charts" }, chart(model, state, "throughput"), chart(model, state, "latency"))),
  );
}

function trafficBar(model) {
  const parts = model.versions.filter((version) => version.share > 0);
  const shadows = model.versions.filter((version) => version.shadow > 0);
  if (!parts.length) return h("p", { class: "muted quiet" }, "No version takes traffic.");
  return h("div", { class: "traffic" },
    h("span", { class: "muted", id: `traffic-${model.name}` }, "Traffic"),
    h("div", { class: "bar", role: "img", "aria-label": parts.map((v) => `version ${v.version} ${percent(v.share)}`).join(", ") },
      parts.map((version) => h("span", { key: version.version, class: `part ${versionClass(model, version.version)}`, style: { "flex-grow": String(version.share) } },
        h("b", {}, version.version), ` ${percent(version.share)}`))),
    shadows.map((version) => h("span", { key: version.version, class: "chip shadow", title: "Its answers are compared and thrown away" }, `shadow ${version.version}: ${percent(version.shadow)}`)));
}

const COLUMNS = ["Version", "State", "Labels", "Traffic", "Requests/s", "p50 ms", "p95 ms", "p99 ms", "Batch", "Failed", "Waiting", "Replicas", "Weights", ""];

function table(model) {
  if (!model.versions.length) return h("p", { class: "muted quiet" }, "No version of it is there.");
  return h("div", { class: "scroll" }, h("table", { class: "versions" },
    h("thead", {}, h("tr", {}, COLUMNS.map((name) => h("th", { scope: "col", class: /^(Version|State|Labels|)$/.test(name) ? "" : "figure" }, name || h("span", { class: "unseen" }, "Change"))))),
    h("tbody", {}, model.versions.map((version) => row(model, version)))));
}

function row(model, version) {
  const { recent } = version;
  const cell = (index, content, kind = "figure") => h("td", { class: kind, "data-name": COLUMNS[index] }, content);
  const failed = recent.failure_rate > 0.01 ? "figure bad" : "figure";
  const here = (text) => (version.loaded_at ? text : "–");
  const target = { "data-model": model.name, "data-version": version.version };
  return [
    h("tr", { key: version.version },
      h("th", { scope: "row" }, h("i", { class: `swatch ${versionClass(model, version.version)}` }), version.version),
      cell(1, [h("span", { key: "state", class: `pill ${TONES[version.state] || ""}` }, version.state.toLowerCase()), " ",
        version.tier === "prebuilt" && h("span", { key: "tier", class: "chip", title: "Prebuilt kernels answer: compiled code is being made, or cannot be" }, "prebuilt")], ""),
      cell(2, version.labels.length ? version.labels.map((label) => h("span", { class: "chip", key: label }, label,
        h("button", { type: "button", class: "cross", "data-action": "unlabel", "data-label": label, ...target, "aria-label": `Remove the label ${label}` }, "×"))) : "–", "labels"),
      cell(3, version.share ? percent(version.share) : "–"),
      cell(4, here(number(recent.requests_per_second))),
      cell(5, plainMilliseconds(recent.p50_ms)),
      cell(6, plainMilliseconds(recent.p95_ms)),
      cell(7, plainMilliseconds(recent.p99_ms)),
      cell(8, recent.mean_batch ? number(recent.mean_batch) : "–"),
      cell(9, here(percent(recent.failure_rate)), failed),
      cell(10, here(number(version.waiting))),
      cell(11, replicas(version), version.replica_states.lost ? "figure bad" : "figure"),
      cell(12, bytes(version.weights_bytes)),
      cell(13, button("label", "Label", { class: "small", ...target, disabled: version.state !== "READY" }, `Give version ${version.version} a label`), "act")),
    version.reason && h("tr", { key: `why${version.version}`, class: "why" }, h("td", { colspan: COLUMNS.length }, version.reason)),
  ];
}

/** How many replicas live, of how many; a dash for what needs none. */
function replicas({ replica_states: states }) {
  const all = Object.values(states).reduce((sum, count) => sum + count, 0);
  const living = (states.idle || 0) + (states.busy || 0);
  if (!all) return "–";
  return living === all ? number(all) : `${living} of ${all}`;
}

function objectives(model) {
  if (!model.objectives.length) return null;
  return h("div", { class: "objectives" }, model.objectives.map((one) => {
    const good = one.requests ? percent(1 - one.bad / one.requests) : "–";
    const limit = one.latency_ms === null ? "" : ` within ${milliseconds(one.latency_ms)}`;
    return h("span", { key: one.objective, class: `objective ${one.state === "burning" ? "bad" : ""}` },
      h("b", {}, one.objective), ` ${good} good${limit}, wanted ${percent(one.target)} · `,
      h("span", { class: "muted" }, one.state === "burning" ? "the budget burns, " : "", `${percent(one.budget_left)} of the budget left`));
  }));
}

export function side({ data: shown }) {
  if (!shown) return [];
  return [placement(shown.placement), events(shown.events)];
}

function placement({ mode, cores, workers }) {
  const used = workers.reduce((sum, worker) => sum + worker.memory_bytes, 0);
  return h("section", { class: "panel", key: "placement", "aria-label": "Placement" },
    h("h2", {}, "Placement"),
    h("p", { class: "muted quiet" }, mode === "inprocess" ? `Models run in the server itself, on ${plural(cores.length, "core")}.`
      : `${plural(workers.length, "worker")} on ${plural(cores.length, "core")}${used ? `, ${bytes(used)} of memory` : ""}`),
    h("ul", { class: "workers" }, workers.map((worker) => h("li", { key: worker.name },
      h("div", { class: "worker-head" }, h("b", {}, worker.name), h("span", { class: "muted" }, `process ${worker.pid}`), h("span", { class: "muted" }, bytes(worker.memory_bytes))),
      h("div", { class: "cores", role: "img", "aria-label": `cores ${worker.cores.join(", ")}` },
        cores.map((core) => h("i", { key: core, class: worker.cores.includes(core) ? "core on" : "core" }, core))),
      h("ul", { class: "instances" }, worker.instances.map((one, index) => h("li", { key: index },
        h("span", { title: one.name }, one.name),
        h("span", { class: "meter", title: "Part of the time that it computes" }, h("i", { style: { width: `${Math.min(100, one.load * 100)}%` } })),
        h("span", { class: "muted figure" }, percent(one.load)))))))));
}

function events(list) {
  return h("section", { class: "panel", key: "events", "aria-label": "Events" },
    h("h2", {}, "Events"),
    list.length ? h("ol", { class: "events" }, list.map((event) => h("li", { key: `${event.at} ${event.kind} ${event.model} ${event.version}` },
      h("time", { class: "muted", datetime: new Date(event.at * 1000).toISOString() }, clock(event.at)),
      h("span", { class: event.grave ? "dot grave" : "dot" }),
      h("span", { class: "what" }, happened(event))))) : h("p", { class: "quiet muted" }, "Nothing has happened yet."));
}

function happened({ kind, model, version, share, reason }) {
  const where = [model, version ? ` version ${version}` : ""];
  return [h("b", {}, where), model ? " " : "", kind.replaceAll("_", " "), share ? ` to ${percent(share)}` : "", reason ? h("span", { class: "muted" }, ` · ${reason}`) : ""];
}
