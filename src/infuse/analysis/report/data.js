// The comparison as objects: two graphs, the rewrites between them, and how both hang together.
"use strict";

const model = {
  title: source.title,
  sides: { before: new Side("before", source.before), after: new Side("after", source.after) },
  rewrites: source.rewrites,
  rules: source.rules,
  labels: source.labels,
  seconds: source.seconds,
  notes: source.notes,
  verified: source.verified,
  verification: source.verification,
  faults: source.faults,
  made: new Map(), // id → the rewrites that created it, in order
  gone: new Map(), // id → the rewrites that removed it, in order
};

model.rewrites.forEach((rewrite, number) => {
  const note = (where, id) => where.set(id, [...(where.get(id) ?? []), number]);
  rewrite.created.forEach((id) => note(model.made, id));
  rewrite.removed.forEach((id) => note(model.gone, id));
});

/** Ids among those of `side` that are reached from `start`; the way goes on only from others. */
function closure(start, side, onward) {
  const found = new Set();
  const seen = new Set();
  const pending = [...start];
  while (pending.length) {
    const id = pending.pop();
    if (side.has(id)) found.add(id);
    else if (!seen.has(id)) {
      seen.add(id);
      pending.push(...onward(id));
    }
  }
  return [...found];
}

/** Ids of original nodes that a rewrite replaced, itself or through the rewrites before it. */
function consumed(number) {
  const earlier = (id) => (model.made.get(id) ?? []).filter((n) => n < number).at(-1);
  return closure(model.rewrites[number].removed, model.sides.before, (id) => model.rewrites[earlier(id)]?.removed ?? []);
}

/** Ids of final nodes that stem from what a rewrite created. */
function produced(number) {
  const later = (id) => (model.gone.get(id) ?? []).filter((n) => n > number).at(-1);
  return closure(model.rewrites[number].created, model.sides.after, (id) => model.rewrites[later(id)]?.created ?? []);
}

/** Ids of final nodes that serve the readers of what a rewrite removed without making anything new. */
function heirs(number) {
  const strong = new Set(produced(number));
  const later = (id) => (model.gone.get(id) ?? []).at(-1);
  const onward = (id) => {
    const next = model.rewrites[later(id)];
    return next ? [...next.created, ...next.heirs] : [];
  };
  const start = [...model.rewrites[number].heirs, ...model.rewrites[number].created];
  return closure(start, model.sides.after, onward).filter((id) => !strong.has(id));
}

/** The rewrites that led to a node of the optimized graph, the last one first. */
function ancestry(id) {
  const found = new Set();
  const pending = [...(model.made.get(id) ?? []).slice(-1)];
  while (pending.length) {
    const number = pending.pop();
    if (found.has(number)) continue;
    found.add(number);
    for (const each of model.rewrites[number].removed) pending.push(...(model.made.get(each) ?? []).filter((n) => n < number).slice(-1));
  }
  return [...found].sort((a, b) => b - a);
}

/** Positions on the other side that a node is, became, or came from. */
function counterparts(side, index) {
  const { id } = model.sides[side].nodes[index];
  const other = model.sides[side === "before" ? "after" : "before"];
  if (other.has(id)) return other.byId.get(id);
  if (side === "before") {
    const number = (model.gone.get(id) ?? []).at(-1);
    const made = number === undefined ? [] : produced(number);
    return other.indices(made.length || number === undefined ? made : heirs(number));
  }
  const number = (model.made.get(id) ?? []).at(-1);
  return number === undefined ? [] : other.indices(consumed(number));
}

/** The text of a node wherever it stood: in a graph, or only between two rewrites. */
function labelOf(id) {
  for (const side of Object.values(model.sides)) {
    const [index] = side.byId.get(id) ?? [];
    if (index !== undefined) return { text: side.nodes[index].name || side.nodes[index].kind, kind: side.nodes[index].kind, side: side.name, index };
  }
  const [, kind, name] = /^(\w+)\((.*)\)$/s.exec(model.labels[id] ?? "") ?? [null, "?", ""];
  return { text: name || kind, kind, side: null, index: -1 };
}
