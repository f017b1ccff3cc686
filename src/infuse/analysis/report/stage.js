// One graph or two beside each other on the page: their panes, keys, theme, and where nodes are placed.
"use strict";

const started = performance.now();
const state = { active: null, firstPaintMs: null };
const panes = {};

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  readPalette();
  Object.values(panes).forEach((pane) => pane.draw());
}

/** Makes a pane for each side, with these headings and what the canvas is called for those who do not see it. */
function openPanes(texts, events) {
  const sections = Object.values(model.sides).map(({ name, count }) =>
    element("section", { class: "pane", id: `pane-${name}`, "aria-label": texts[name].label },
      element("h2", {}, `${texts[name].heading} `, element("span", {}, several(count, "node"))),
      element("canvas", { tabindex: "0", "aria-label": `${texts[name].label}; arrow keys move it, + and − zoom` }),
      element("div", { class: "busy" }, "placing nodes…"),
    ));
  find("panes").append(...sections.flatMap((section, at) => (at ? [divider(sections), section] : [section])));
  for (const [name, side] of Object.entries(model.sides)) panes[name] = new Pane(side, find(`pane-${name}`).querySelector("canvas"), events);
  setTheme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  find("legend").append(...Object.entries(FAMILIES).map(([family, name]) => element("span", {}, dot(family), name)));
}

/** What stands between two panes, and shares the width between them. */
function divider([first, second]) {
  const bar = element("div", { id: "divider", role: "separator", "aria-orientation": "vertical", "aria-label": "Width of the two graphs", tabindex: "0" });
  const setSplit = (part) => {
    const limited = Math.min(0.9, Math.max(0.1, part));
    first.style.flexGrow = limited;
    second.style.flexGrow = 1 - limited;
    bar.setAttribute("aria-valuenow", String(Math.round(100 * limited)));
  };
  setSplit(0.5);
  bar.addEventListener("pointerdown", (event) => {
    bar.setPointerCapture(event.pointerId);
    bar.onpointermove = (move) => {
      const box = find("panes").getBoundingClientRect();
      setSplit((move.clientX - box.left) / box.width);
    };
  });
  bar.addEventListener("pointerup", () => { bar.onpointermove = null; });
  bar.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -0.05, ArrowRight: 0.05 }[event.key];
    if (step) setSplit(Number(bar.getAttribute("aria-valuenow")) / 100 + step);
  });
  return bar;
}

/** Draws the first pieces at once and the others as they come; a graph that nobody touched keeps its first view. */
function progress(side) {
  const pane = panes[side.name];
  if (!pane.isTouched) pane.start();
  pane.draw();
  state.firstPaintMs ??= performance.now() - started;
}

/** Places the nodes of all sides; `placed` is called when those of one have their places. */
async function placeNodes(placed) {
  await Promise.all(Object.values(model.sides).map(async (side) => {
    const box = find(`pane-${side.name}`);
    try {
      await layOut(side, progress);
    } catch (error) {
      box.querySelector(".busy").textContent = `The nodes cannot be placed: ${error.message}`;
      throw error;
    }
    box.classList.add("is-ready");
    progress(side);
    placed();
  }));
  return performance.now() - started;
}

function setColouring(value) {
  colouring = find("colouring").value = value;
  Object.values(panes).forEach((pane) => pane.draw());
}

/** Listens to the keys and buttons that every page has, and to `more` keys. */
function listenToKeys(more) {
  const chooser = find("colouring");
  chooser.append(...Object.entries(COLOURINGS).map(([value, text]) => element("option", { value }, `colours ${text}`)));
  const fitAll = () => Object.values(panes).forEach((pane) => pane.fit());
  const toggleTheme = () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
  const inUse = (change) => change(state.active ?? Object.values(panes)[0]);
  const keys = {
    f: fitAll,
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
    ...more,
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select, dialog, dialog *")) return;
    if (event.target.id === "divider" && event.key.startsWith("Arrow")) return;
    if (keys[event.key]) {
      event.preventDefault();
      keys[event.key]();
    }
  });
  chooser.addEventListener("change", () => setColouring(chooser.value));
  find("fit").addEventListener("click", fitAll);
  find("theme").addEventListener("click", toggleTheme);
  find("help").addEventListener("click", () => find("keys").showModal());
}

/** For scripts: what every side shows. */
const sidesShown = () => Object.fromEntries(Object.entries(panes).map(([name, pane]) => [name, {
  marks: Object.fromEntries([...pane.marks].map(([node, mark]) => [node, mark])),
  ids: [...pane.marks].map(([node, mark]) => [pane.side.nodes[node].id, mark]),
  selected: pane.selected,
  echo: [...pane.echo].map((node) => pane.side.nodes[node].id),
  view: { ...pane.view },
  placed: pane.side.isPlaced.reduce((sum, each) => sum + each, 0),
  routed: pane.side.routes.filter(Boolean).length + pane.side.long.length,
  layoutMs: pane.side.layoutMs,
}]));

/** For scripts: what pages of graphs have in common. */
const scripted = {
  search: (text, most) => search(text, most).map(({ at }) => at),
  shape: format.shape,
  boxes: (name) => model.sides[name].boxes.map(({ width, height }, node) => [model.sides[name].x[node], model.sides[name].y[node], width, height]),
};
