// Everything brought together: choosing, keys, theme, and the two panes.
"use strict";

const started = performance.now();
const state = { rewrite: -1, active: null, firstPaintMs: null };
const panes = {};

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  readPalette();
  Object.values(panes).forEach((pane) => pane.draw());
}

const act = {
  /** Chooses a rewrite: both sides show what it concerns; -1 for none. */
  choose(number) {
    state.rewrite = number;
    const { before, after } = panes;
    for (const pane of [before, after]) {
      pane.marks.clear();
      pane.echo.clear();
      pane.selected = -1;
    }
    if (number < 0) find("detail").replaceChildren();
    else {
      const marked = { removed: before.side.indices(consumed(number)), created: after.side.indices(produced(number)), heir: after.side.indices(heirs(number)) };
      marked.removed.forEach((node) => before.marks.set(node, "removed"));
      marked.heir.forEach((node) => after.marks.set(node, "heir"));
      marked.created.forEach((node) => after.marks.set(node, "created"));
      openTab("rewrites");
      detailOfRewrite(number, act);
      before.fit(marked.removed);
      after.fit(marked.created.length ? marked.created : marked.heir);
    }
    list.mark(number);
    before.draw();
    after.draw();
  },

  /** Selects a node, -1 for none; the other side shows what it is there, became, or came from. */
  select(pane, index) {
    for (const each of Object.values(panes)) {
      each.selected = -1;
      each.echo.clear();
    }
    pane.selected = index;
    if (index < 0) {
      act.choose(-1);
      return;
    }
    detailOfNode(pane, index, act);
    const other = pane === panes.before ? panes.after : panes.before;
    counterparts(pane.side.name, index).forEach((node) => other.echo.add(node));
    other.reveal([...other.echo]);
    Object.values(panes).forEach((each) => each.draw());
  },

  /** Selects a node and brings it into view. */
  show(side, index) {
    act.select(panes[side], index);
    panes[side].fit([index]);
  },
};

const events = {
  select: act.select,
  hover: showTip,
  focus(pane) {
    state.active = pane;
  },
};

for (const [name, side] of Object.entries(model.sides)) {
  const box = find(`pane-${name}`);
  box.querySelector("h2 span").textContent = `${side.count.toLocaleString("en")} nodes`;
  panes[name] = new Pane(side, box.querySelector("canvas"), events);
}
setTheme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
showVerdict();
showTotals();
const openTab = showTabs();
const list = new RewriteList(act.choose);
const searchFor = listenToSearch(act);
showRules((rule) => {
  list.filter(rule);
  openTab("rewrites");
});
showOperators(searchFor);
showNotes();
find("legend").append(...Object.entries(FAMILIES).map(([family, name]) => element("span", {}, dot(family), name)));

/** Draws the first pieces at once and the others as they come; a graph that nobody touched keeps its first view. */
function progress(side) {
  const pane = panes[side.name];
  if (!pane.isTouched) pane.start();
  pane.draw();
  state.firstPaintMs ??= performance.now() - started;
}

const layouts = Object.values(model.sides).map(async (side) => {
  const box = find(`pane-${side.name}`);
  try {
    await layOut(side, progress);
  } catch (error) {
    box.querySelector(".busy").textContent = `The nodes cannot be placed: ${error.message}`;
    throw error;
  }
  box.classList.add("is-ready");
  progress(side);
  if (state.rewrite >= 0) act.choose(state.rewrite);
});

const chooser = find("colouring");
chooser.append(...Object.entries(COLOURINGS).map(([value, text]) => element("option", { value }, `colours ${text}`)));

function setColouring(value) {
  colouring = chooser.value = value;
  Object.values(panes).forEach((pane) => pane.draw());
}

// -- keys and buttons ----------------------------------------------------------------------------------------------

const fitBoth = () => Object.values(panes).forEach((pane) => pane.fit());
const toggleTheme = () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
const inUse = (change) => change(state.active ?? panes.before);
const KEYS = {
  j: () => list.step(1),
  k: () => list.step(-1),
  f: fitBoth,
  t: toggleTheme,
  c: () => setColouring(chooser.options[(chooser.selectedIndex + 1) % chooser.length].value),
  "/": () => find("search").focus(),
  "?": () => find("keys").showModal(),
  "+": () => inUse((pane) => pane.zoomBy(1.3)),
  "=": () => inUse((pane) => pane.zoomBy(1.3)),
  "-": () => inUse((pane) => pane.zoomBy(1 / 1.3)),
  0: () => inUse((pane) => { pane.start(); pane.draw(); }),
  ArrowLeft: () => inUse((pane) => pane.panBy(80, 0)),
  ArrowRight: () => inUse((pane) => pane.panBy(-80, 0)),
  ArrowUp: () => inUse((pane) => pane.panBy(0, 80)),
  ArrowDown: () => inUse((pane) => pane.panBy(0, -80)),
  Escape: () => act.choose(-1),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select, dialog, dialog *")) return;
  if (event.target.id === "divider" && event.key.startsWith("Arrow")) return;
  if (KEYS[event.key]) {
    event.preventDefault();
    KEYS[event.key]();
  }
});
chooser.addEventListener("change", () => setColouring(chooser.value));
find("fit").addEventListener("click", fitBoth);
find("theme").addEventListener("click", toggleTheme);
find("help").addEventListener("click", () => find("keys").showModal());

const divider = find("divider");
const setSplit = (part) => {
  const limited = Math.min(0.9, Math.max(0.1, part));
  find("pane-before").style.flexGrow = limited;
  find("pane-after").style.flexGrow = 1 - limited;
  divider.setAttribute("aria-valuenow", String(Math.round(100 * limited)));
};
setSplit(0.5);
divider.addEventListener("pointerdown", (event) => {
  divider.setPointerCapture(event.pointerId);
  divider.onpointermove = (move) => {
    const box = find("panes").getBoundingClientRect();
    setSplit((move.clientX - box.left) / box.width);
  };
});
divider.addEventListener("pointerup", () => { divider.onpointermove = null; });
divider.addEventListener("keydown", (event) => {
  const step = { ArrowLeft: -0.05, ArrowRight: 0.05 }[event.key];
  if (step) setSplit(Number(divider.getAttribute("aria-valuenow")) / 100 + step);
});

/** For scripts: what is shown, and a promise that resolves when all nodes have their places. */
window.infuseReport = {
  ready: Promise.all(layouts).then(() => performance.now() - started),
  choose: act.choose,
  search,
  shape: format.shape,
  boxes: (name) => model.sides[name].boxes.map(({ width, height }, node) => [model.sides[name].x[node], model.sides[name].y[node], width, height]),
  state: () => ({
    rewrite: state.rewrite,
    firstPaintMs: state.firstPaintMs,
    sides: Object.fromEntries(Object.entries(panes).map(([name, pane]) => [name, {
      marks: Object.fromEntries([...pane.marks].map(([node, mark]) => [node, mark])),
      ids: [...pane.marks].map(([node, mark]) => [pane.side.nodes[node].id, mark]),
      selected: pane.selected,
      echo: [...pane.echo].map((node) => pane.side.nodes[node].id),
      view: { ...pane.view },
      placed: pane.side.isPlaced.reduce((sum, each) => sum + each, 0),
      routed: pane.side.routes.filter(Boolean).length + pane.side.long.length,
      layoutMs: pane.side.layoutMs,
    }])),
  }),
};
