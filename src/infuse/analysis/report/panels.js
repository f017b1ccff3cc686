// The panels beside the graphs: totals, rewrites, rules, operators, notes.
"use strict";

const ROW_HEIGHT = 46;

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
}

/** The list of rewrites; only the visible rows exist, and one that stays visible stays the same element. */
class RewriteList {
  constructor(choose) {
    this.choose = choose;
    this.box = find("list");
    this.rule = null;
    this.shown = model.rewrites.map((_, number) => number);
    this.chosen = -1;
    this.rows = new Map();
    this.box.addEventListener("scroll", () => this.draw());
    this.box.addEventListener("keydown", (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 }[event.key];
      if (step) {
        event.preventDefault();
        event.stopPropagation();
        this.step(step);
      }
    });
    new ResizeObserver(() => this.draw()).observe(this.box);
    find("filter").querySelector("button").addEventListener("click", () => this.filter(null));
    this.draw();
  }

  filter(rule) {
    this.rule = rule;
    this.shown = [...model.rewrites.keys()].filter((number) => !rule || model.rewrites[number].rule === rule);
    find("filter").hidden = !rule;
    find("filter").querySelector("span").textContent = rule ? `${rule} × ${this.shown.length}` : "";
    this.box.scrollTop = 0;
    this.rows.clear();
    this.draw();
  }

  step(by) {
    if (!this.shown.length) return;
    const at = this.shown.indexOf(this.chosen);
    const next = at < 0 ? (by > 0 ? 0 : this.shown.length - 1) : Math.min(this.shown.length - 1, Math.max(0, at + by));
    this.choose(this.shown[next]);
  }

  mark(number) {
    this.chosen = number;
    const at = this.shown.indexOf(number);
    if (at >= 0) {
      const top = at * ROW_HEIGHT;
      if (top < this.box.scrollTop) this.box.scrollTop = top;
      if (top + ROW_HEIGHT > this.box.scrollTop + this.box.clientHeight) this.box.scrollTop = top + ROW_HEIGHT - this.box.clientHeight;
    }
    this.draw();
  }

  draw() {
    const inner = this.box.firstElementChild;
    inner.style.height = `${this.shown.length * ROW_HEIGHT}px`;
    const first = Math.max(0, Math.floor(this.box.scrollTop / ROW_HEIGHT) - 4);
    const last = Math.min(this.shown.length, first + Math.ceil(this.box.clientHeight / ROW_HEIGHT) + 9);
    const visible = this.shown.slice(first, last);
    this.rows = new Map(visible.map((number, i) => [number, this.rows.get(number) ?? this.row(number, first + i)]));
    this.rows.forEach((row, number) => row.setAttribute("aria-selected", String(number === this.chosen)));
    inner.replaceChildren(...this.rows.values());
    this.box.setAttribute("aria-activedescendant", this.chosen >= 0 ? `rewrite-${this.chosen}` : "");
    if (!this.shown.length) inner.append(element("p", { class: "muted", style: "padding:0 12px" }, "No rewrite fired."));
  }

  row(number, place) {
    const rewrite = model.rewrites[number];
    const { nodes, flops } = rewrite.saved;
    const bytes = rewrite.saved.read + rewrite.saved.written;
    const first = rewrite.removed.length ? labelOf(rewrite.removed[0]).text : "";
    const more = [flops ? `${format.saved(flops)} FLOPs` : "", bytes ? format.saved(bytes, format.bytes) : ""].filter(Boolean);
    return element("div", {
      class: "rewrite", role: "option", id: `rewrite-${number}`,
      style: `top:${place * ROW_HEIGHT}px`, onclick: () => this.choose(number),
    },
      element("div", { class: "top" },
        element("span", { class: "number" }, String(number + 1)),
        element("span", { class: "rule" }, rewrite.rule),
        element("span", { class: `nodes ${tone(nodes)}` }, nodes === 0 ? "±0" : `${format.saved(nodes)} node${Math.abs(nodes) === 1 ? "" : "s"}`),
      ),
      element("div", { class: "low" }, element("span", { class: "what" }, first), element("span", {}, more.join(" · "))),
    );
  }
}

function table(heads, rows) {
  return element("table", {},
    element("thead", {}, element("tr", {}, ...heads.map((head) => element("th", {}, head)))),
    element("tbody", {}, ...rows),
  );
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
    model.verification,
    seconds.length ? `Optimized in: ${seconds.join(", ")}.` : "",
    assumed.length ? `Costs are counted with ${assumed.join(", ")}, sizes that the model leaves open.` : "",
    "A FLOP is one operation on one element; a multiplication that is added up (MAC) counts two. Memory access is what goes to and from memory when every node reads its operands and writes its results; views cost nothing, selections read what they take.",
    ...model.notes,
    ...a.notes.map((note) => `Before: ${note}`),
    ...b.notes.map((note) => `After: ${note}`),
  ];
  find("notes").append(...texts.filter(Boolean).map((text) => element("p", {}, text)));
}

function showTabs() {
  const tabs = [...document.querySelectorAll('[role="tab"]')];
  const open = (tab) => {
    for (const each of tabs) {
      each.setAttribute("aria-selected", String(each === tab));
      each.tabIndex = each === tab ? 0 : -1;
      find(each.getAttribute("aria-controls")).hidden = each !== tab;
    }
  };
  tabs.forEach((tab, at) => {
    tab.addEventListener("click", () => open(tab));
    tab.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      event.stopPropagation();
      const next = tabs[(at + step + tabs.length) % tabs.length];
      open(next);
      next.focus();
    });
  });
  return (name) => open(find(`tab-${name}`));
}
