// What is told of one node: the detail panel, the tooltip, and the search.
"use strict";

const MOST_CHIPS = 60;

const dot = (family, ring = "") => element("i", { class: `dot ${ring}`, style: ring ? "background:none" : `background:var(--family-${family})` });

/** Names and texts in two columns. */
const pairs = (entries) => element("dl", {}, ...entries.flatMap(([name, text]) => [element("dt", {}, name), element("dd", { class: "mono" }, text)]));

/** A part of the detail panel with its title; nothing where it has no content. */
const part = (title, ...content) => (content.length ? [element("h4", {}, title), ...content] : []);

const textOf = ({ name, type, constant }) => [name, type, constant && constant !== "…" ? `= ${constant}` : ""].filter(Boolean).join("  ");

/** Shows a node in the detail panel; `value` writes an operand, `notes` stand below its name, `more` at the end. */
function showNode(node, { value = textOf, notes = [], more = [] } = {}) {
  find("detail").replaceChildren(
    element("h3", {}, dot(node.family), node.kind, node.domain ? element("span", { class: "level" }, node.domain) : ""),
    element("div", { class: "muted mono" }, node.name || "(no name)"),
    node.body ? element("div", { class: "muted" }, `in ${node.body}`) : "",
    ...notes,
    ...part("attributes", ...(Object.keys(node.attributes).length ? [pairs(Object.entries(node.attributes))] : [])),
    ...part("inputs", ...(node.inputs.length ? [pairs(node.inputs.map((input) => [input.role, value(input)]))] : [])),
    ...part("outputs", ...(node.outputs.length ? [pairs(node.outputs.map((output, i) => [String(i), value(output)]))] : [])),
    ...part("cost", ...(node.cost ? [pairs(costRows(node))] : [])),
    ...more,
  );
  find("detail").scrollTop = 0;
}

function costRows({ cost, is_counted: isCounted }) {
  const work = (count) => (isCounted ? format.quantity(count) : "not known");
  return [
    ["FLOPs", work(cost.flops)],
    ["MACs", work(cost.macs)],
    ["reads", format.bytes(cost.read)],
    ["writes", format.bytes(cost.written)],
  ];
}

function showTip(pane, index, event) {
  const tip = find("tip");
  tip.hidden = index < 0;
  if (index < 0) return;
  const node = pane.side.nodes[index];
  const entries = [
    ...(node.body ? [["in", node.body]] : []),
    ...Object.entries(node.attributes).slice(0, 8),
    ...node.inputs.map((input) => [input.role || "input", input.constant && input.constant !== "…" ? `${input.type} = ${input.constant}` : input.type]),
    ...node.outputs.map((output) => ["→", output.type]),
    ...(node.cost && node.cost.flops ? [["FLOPs", format.quantity(node.cost.flops)]] : []),
  ];
  tip.replaceChildren(
    element("b", {}, `${node.kind}`, " ", element("span", { class: "muted" }, clip(node.name, 60))),
    element("dl", {}, ...entries.slice(0, 18).flatMap(([name, text]) => [element("dt", {}, name), element("dd", { class: "mono" }, clip(String(text), 80))])),
  );
  placeTip(event);
}

/** What the search looks through: where it is, what it is called, its family, and all its words. */
const searched = Object.values(model.sides).flatMap((side) => side.nodes.map((node) => ({
  at: [side.name, node.index],
  kind: node.kind,
  name: node.name,
  family: node.family,
  words: [node.kind, node.name, node.body, ...[...node.inputs, ...node.outputs].map((value) => value.name)].join(" ").toLowerCase(),
})));

/** Places of what holds all the words, operators and names that are the first word before the others. */
function search(text, most = 100) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const hits = [[], [], [], []];
  for (const each of words.length ? searched : []) {
    if (!words.every((word) => each.words.includes(word))) continue;
    const [kind, name] = [each.kind.toLowerCase(), each.name.toLowerCase()];
    const isExact = kind === words[0] || name === words[0];
    hits[isExact ? 0 : kind.includes(words[0]) ? 1 : words.every((word) => `${kind} ${name}`.includes(word)) ? 2 : 3].push(each);
  }
  return hits.flat().slice(0, most);
}

function listenToSearch(act) {
  const [input, box] = [find("search"), find("found")];
  let found = [];
  let at = 0;
  const draw = () => {
    box.hidden = !input.value.trim();
    input.setAttribute("aria-expanded", String(!box.hidden));
    const rows = found.map((hit, number) =>
      element("div", { role: "option", "aria-selected": String(number === at), onpointerdown: (event) => { event.preventDefault(); go(number); } },
        dot(hit.family), element("b", {}, hit.kind), element("span", { class: "name muted" }, hit.name), element("span", { class: "level" }, hit.at[0])));
    box.replaceChildren(...(rows.length ? rows : [element("div", { class: "muted" }, "nothing of that name")]));
    box.children[at]?.scrollIntoView({ block: "nearest" });
  };
  const go = (number) => {
    at = number;
    if (!found[at]) return;
    act.show(...found[at].at);
    box.hidden = true;
    input.setAttribute("aria-expanded", "false");
  };
  input.addEventListener("input", () => { found = search(input.value); at = 0; draw(); });
  input.addEventListener("focus", () => { input.select(); draw(); });
  input.addEventListener("blur", () => { box.hidden = true; });
  input.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && found.length) { event.preventDefault(); at = (at + step + found.length) % found.length; draw(); }
    if (event.key === "Enter") go(at);
    if (event.key === "Escape") { input.value = ""; found = []; input.blur(); }
  });
  return (text) => { input.value = text; found = search(text); at = 0; input.focus(); draw(); };
}
