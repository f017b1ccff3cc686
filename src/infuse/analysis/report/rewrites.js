// What is told of one rewrite, and of a node beside the rewrites that made or removed it.
"use strict";

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
  const { id, cost } = pane.side.nodes[index];
  const isBefore = pane.side.name === "before";
  const history = isBefore ? (model.gone.get(id) ?? []) : ancestry(id);
  const step = (number) => element("button", { class: "chip", onclick: () => act.choose(number) }, `${number + 1} · ${model.rewrites[number].rule}`);
  const steps = history.length ? [element("div", { class: "chips" }, ...history.slice(0, MOST_CHIPS).map(step))] : cost ? [element("span", { class: "muted" }, "no rewrite: it stands in both graphs")] : [];
  showNode(pane.side.nodes[index], { more: part(isBefore ? "removed by" : "made by", ...steps) });
}
