// The report of an optimization: choosing rewrites and nodes, and the panels beside both graphs.
"use strict";

state.rewrite = -1;

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

openPanes({
  before: { heading: "Before", label: "The original graph" },
  after: { heading: "After", label: "The optimized graph" },
}, events);
showVerdict();
showTotals();
const openTab = showTabs();
const { rewrites: list, filter } = listRewrites(act.choose);
const searchFor = listenToSearch(act);
showRules((rule) => {
  filter(rule);
  openTab("rewrites");
});
showOperators(searchFor);
showNotes();
const ready = placeNodes(() => {
  if (state.rewrite >= 0) act.choose(state.rewrite);
});
listenToKeys({ j: () => list.step(1), k: () => list.step(-1), Escape: () => act.choose(-1) });

/** For scripts: what is shown, and a promise that resolves when all nodes have their places. */
window.infuseReport = {
  ...scripted,
  ready,
  choose: act.choose,
  state: () => ({ rewrite: state.rewrite, firstPaintMs: state.firstPaintMs, sides: sidesShown() }),
};
