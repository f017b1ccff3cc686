// What is told of one rewrite or one node: the detail panel, the tooltip, and the search.
"use strict";

const MOST_CHIPS = 60;

const dot = (family, ring = "") => element("i", { class: `dot ${ring}`, style: ring ? "background:none" : `background:var(--family-${family})` });

/** A node as a small button; one that stood only in between cannot be shown and says so. */
function chip(id, act, ring) {
  const { text, kind, side, index } = labelOf(id);
  const family = side ? model.sides[side].nodes[index].family : "other";
  return element("button", {
    class: "chip", disabled: !side, title: side ? `${kind} ${text}` : `${kind} ${text}: made and removed on the way`,
    onclick: () => act.show(side, index),
  }, dot(family, ring), `${kind} `, element("span", { class: "muted" }, clip(text, 40)));
}

function chips(title, ids, act, ring) {
  if (!ids.length) return [];
  const more = ids.length > MOST_CHIPS ? element("span", { class: "muted" }, `and ${ids.length - MOST_CHIPS} more`) : null;
  return [element("h4", {}, title), element("div", { class: "chips" }, ...ids.slice(0, MOST_CHIPS).map((id) => chip(id, act, ring)), more)];
}

function detailOfRewrite(number, act) {
  const rewrite = model.rewrites[number];
  const { about } = model.rules[rewrite.rule];
  const { nodes, flops, read, written } = rewrite.saved;
  const stat = (name, saved, write) => element("span", {}, element("b", { class: tone(saved) }, format.saved(saved, write)), ` ${name}`);
  const [from, to, kept] = [consumed(number), produced(number), heirs(number)];
  const through = from.length !== rewrite.removed.length || rewrite.removed.some((id) => !model.sides.before.has(id));
  find("detail").replaceChildren(
    element("h3", {}, `${number + 1} · ${rewrite.rule}`, element("span", { class: "level" }, rewrite.level)),
    element("pre", { class: "equation" }, about || "no description"),
    element("div", { class: "stats" }, stat("nodes", nodes, format.quantity), stat("FLOPs", flops, format.quantity), stat("memory", read + written, format.bytes)),
    rewrite.note ? element("p", { class: "muted" }, rewrite.note) : "",
    ...chips("removed", rewrite.removed, act, "ring-removed"),
    ...(through ? chips("which stem from these nodes of the original", from, act, "ring-removed") : []),
    ...chips("created", rewrite.created, act, "ring-created"),
    ...(to.join() === rewrite.created.join() ? [] : chips("which is now", to, act, "ring-created")),
    ...chips("their results now come from", kept, act, "ring-heir"),
  );
  find("detail").scrollTop = 0;
}

function detailOfNode(pane, index, act) {
  const node = pane.side.nodes[index];
  const pairs = (entries) => element("dl", {}, ...entries.flatMap(([name, text]) => [element("dt", {}, name), element("dd", { class: "mono" }, text)]));
  const value = ({ name, type, constant }) => [name, type, constant && constant !== "…" ? `= ${constant}` : ""].filter(Boolean).join("  ");
  const history = pane.side.name === "before" ? (model.gone.get(node.id) ?? []) : ancestry(node.id);
  const step = (number) => element("button", { class: "chip", onclick: () => act.choose(number) }, `${number + 1} · ${model.rewrites[number].rule}`);
  const part = (title, ...content) => (content.length ? [element("h4", {}, title), ...content] : []);
  find("detail").replaceChildren(
    element("h3", {}, dot(node.family), node.kind, node.domain ? element("span", { class: "level" }, node.domain) : ""),
    element("div", { class: "muted mono" }, node.name || "(no name)"),
    node.body ? element("div", { class: "muted" }, `in ${node.body}`) : "",
    ...part("attributes", ...(Object.keys(node.attributes).length ? [pairs(Object.entries(node.attributes))] : [])),
    ...part("inputs", ...(node.inputs.length ? [pairs(node.inputs.map((input) => [input.role, value(input)]))] : [])),
    ...part("outputs", ...(node.outputs.length ? [pairs(node.outputs.map((output, i) => [String(i), value(output)]))] : [])),
    ...part("cost", ...(node.cost ? [pairs(costRows(node))] : [])),
    ...part(pane.side.name === "before" ? "removed by" : "made by", ...(history.length ? [element("div", { class: "chips" }, ...history.slice(0, MOST_CHIPS).map(step))] : node.cost ? [element("span", { class: "muted" }, "no rewrite: it stands in both graphs")] : [])),
  );
  find("detail").scrollTop = 0;
}

function costRows({ cost }) {
  return [
    ["FLOPs", format.quantity(cost.flops)],
    ["MACs", format.quantity(cost.macs)],
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

/** Nodes of both graphs whose operator, name, body or value names hold all the words, operators of that name first. */
function search(text, most = 100) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const found = [[], [], []];
  for (const side of words.length ? Object.values(model.sides) : []) {
    for (const node of side.nodes) {
      const [kind, name] = [node.kind.toLowerCase(), node.name.toLowerCase()];
      const hay = `${kind} ${name} ${node.body.toLowerCase()} ${node.outputs.map((o) => o.name.toLowerCase()).join(" ")}`;
      if (!words.every((word) => hay.includes(word))) continue;
      found[kind === words[0] || name === words[0] ? 0 : kind.includes(words[0]) ? 1 : 2].push([side.name, node.index]);
    }
  }
  return found.flat().slice(0, most);
}

function listenToSearch(act) {
  const [input, box] = [find("search"), find("found")];
  let found = [];
  let at = 0;
  const draw = () => {
    box.hidden = !input.value.trim();
    input.setAttribute("aria-expanded", String(!box.hidden));
    const rows = found.map(([side, index], number) => {
      const node = model.sides[side].nodes[index];
      return element("div", { role: "option", "aria-selected": String(number === at), onpointerdown: (event) => { event.preventDefault(); go(number); } },
        dot(node.family), element("b", {}, node.kind), element("span", { class: "name muted" }, node.name), element("span", { class: "level" }, side));
    });
    box.replaceChildren(...(rows.length ? rows : [element("div", { class: "muted" }, "nothing of that name")]));
    box.children[at]?.scrollIntoView({ block: "nearest" });
  };
  const go = (number) => {
    at = number;
    if (!found[at]) return;
    act.show(...found[at]);
    box.hidden = true;
    input.setAttribute("aria-expanded", "false");
  };
  input.addEventListener("input", () => { found = search(input.value); at = 0; draw(); });
  input.addEventListener("focus", draw);
  input.addEventListener("blur", () => { box.hidden = true; });
  input.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && found.length) { event.preventDefault(); at = (at + step + found.length) % found.length; draw(); }
    if (event.key === "Enter") go(at);
    if (event.key === "Escape") { input.value = ""; found = []; input.blur(); }
  });
  return (text) => { input.value = text; found = search(text); at = 0; input.focus(); draw(); };
}
