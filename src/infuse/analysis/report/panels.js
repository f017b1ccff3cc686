// The panels beside the graphs: totals, rewrites, rules, operators, notes.
"use strict";

const tone = (saved) => (saved > 0 ? "good" : saved < 0 ? "bad" : "muted");

/** Whether the optimized graph was compared with the original, as a badge beside the title. */
function showVerdict() {
  const badge = find("verdict");
  badge.hidden = model.verified === null;
  badge.textContent = model.verified ? "✓ verified" : "not verified";
  badge.className = model.verified ? "good" : "muted";
  badge.title = model.verification;
}

function showTotals() {
  const [a, b] = [model.sides.before.totals, model.sides.after.totals];
  const rows = [
    ["Nodes", a.nodes, b.nodes, format.quantity],
    ["FLOPs", a.flops, b.flops, format.quantity],
    ["MACs", a.macs, b.macs, format.quantity],
    ["Memory access", a.read + a.written, b.read + b.written, format.bytes],
    ["Weights", a.weight_bytes, b.weight_bytes, format.bytes],
    ["Parameters", a.parameters, b.parameters, format.quantity],
  ];
  const most = (x, y) => Math.max(x, y, 1);
  find("tab-rewrites").append(element("span", { class: "muted" }, ` ${model.rewrites.length.toLocaleString("en")}`));
  find("totals").append(
    ...rows.map(([name, was, now, write]) =>
      element("div", { class: "total" },
        element("div", { class: "name" }, name, element("span", { class: tone(Math.abs(was - now) < 0.0005 * was ? 0 : was - now) }, format.change(was, now))),
        element("div", { class: "now" }, write(now), element("span", { class: "was" }, write(was) === write(now) ? "" : ` from ${write(was)}`)),
        element("div", { class: "bar" }, element("i", { style: `width:${(100 * now) / most(was, now)}%` })),
      ),
    ),
  );
  if (model.faults.length) find("totals").append(faultCard(model.faults));
}

/** What the exporter did not write as the framework computes it, as a card that opens the notes. */
function faultCard(faults) {
  const text = `${faults.length} fault${faults.length === 1 ? "" : "s"}`;
  const open = () => find("tab-notes").click();
  return element("div", { class: "total link", id: "faults", title: faults.join("\n"), tabindex: "0", onclick: open, onkeydown: (e) => e.key === "Enter" && open() },
    element("div", { class: "name" }, "Exporter"),
    element("div", { class: "now bad" }, text),
  );
}

/** The list of rewrites, of all rules or of one. */
function listRewrites(choose) {
  const row = (number) => {
    const rewrite = model.rewrites[number];
    const { nodes, flops } = rewrite.saved;
    const bytes = rewrite.saved.read + rewrite.saved.written;
    const first = rewrite.removed.length ? labelOf(rewrite.removed[0]).text : "";
    const more = [flops ? `${format.saved(flops)} FLOPs` : "", bytes ? format.saved(bytes, format.bytes) : ""].filter(Boolean);
    return [
      [
        element("span", { class: "number" }, String(number + 1)),
        element("span", { class: "rule" }, rewrite.rule),
        element("span", { class: `nodes ${tone(nodes)}` }, nodes === 0 ? "±0" : `${format.saved(nodes)} node${Math.abs(nodes) === 1 ? "" : "s"}`),
      ],
      [element("span", { class: "what" }, first), element("span", {}, more.join(" · "))],
    ];
  };
  const all = [...model.rewrites.keys()];
  const rewrites = new LongList(find("list"), all, row, choose, "No rewrite fired.");
  const filter = (rule) => {
    const numbers = all.filter((number) => !rule || model.rewrites[number].rule === rule);
    find("filter").hidden = !rule;
    find("filter").querySelector("span").textContent = rule ? `${rule} × ${numbers.length}` : "";
    rewrites.show(numbers);
  };
  find("filter").querySelector("button").addEventListener("click", () => filter(null));
  return { rewrites, filter };
}

function showRules(choose) {
  const rows = Object.entries(model.rules).map(([rule, { fired, saved, about }]) =>
    element("tr", { class: "link", title: about, tabindex: "0", onclick: () => choose(rule), onkeydown: (e) => e.key === "Enter" && choose(rule) },
      element("td", {}, format.breakable(rule)),
      element("td", {}, String(fired)),
      element("td", { class: tone(saved.nodes) }, format.saved(saved.nodes)),
      element("td", { class: tone(saved.flops) }, format.saved(saved.flops)),
      element("td", { class: tone(saved.read + saved.written) }, format.saved(saved.read + saved.written, format.bytes)),
    ),
  );
  find("rules").append(table(["rule", "fired", "nodes", "FLOPs", "memory"], rows));
}

function showOperators(search) {
  const [a, b] = [model.sides.before.totals.operators, model.sides.after.totals.operators];
  const kinds = [...new Set([...Object.keys(a), ...Object.keys(b)])];
  const count = (where, kind) => where[kind]?.nodes ?? 0;
  kinds.sort((x, y) => count(a, y) + count(b, y) - count(a, x) - count(b, x) || (x < y ? -1 : 1));
  const access = (where, kind) => (where[kind] ? where[kind].read + where[kind].written : 0);
  const pair = (was, now, write) =>
    element("td", { class: tone(was - now) }, write(now), write(was) === write(now) ? "" : element("small", {}, `from ${write(was)}`));
  const rows = kinds.map((kind) =>
    element("tr", { class: "link", onclick: () => search(kind) },
      element("td", {}, format.breakable(kind)),
      pair(count(a, kind), count(b, kind), String),
      pair(a[kind]?.flops ?? 0, b[kind]?.flops ?? 0, format.quantity),
      pair(access(a, kind), access(b, kind), format.bytes),
    ),
  );
  find("operators").append(table(["operator", "nodes", "FLOPs", "memory"], rows));
}

function showNotes() {
  const [a, b] = [model.sides.before.totals, model.sides.after.totals];
  const assumed = Object.entries({ ...a.assumed, ...b.assumed }).map(([name, size]) => `${name} = ${size}`);
  const seconds = Object.entries(model.seconds).map(([level, s]) => `${level} ${s.toFixed(2)} s`);
  const texts = [
    ...model.faults.map((fault) => `Exporter: ${fault}`),
    model.verification,
    seconds.length ? `Optimized in: ${seconds.join(", ")}.` : "",
    assumed.length ? `Costs are counted with ${assumed.join(", ")}, sizes that the model leaves open.` : "",
    COST_NOTE,
    ...model.notes,
    ...a.notes.map((note) => `Before: ${note}`),
    ...b.notes.map((note) => `After: ${note}`),
  ];
  find("notes").append(...texts.filter(Boolean).map((text) => element("p", {}, text)));
}
