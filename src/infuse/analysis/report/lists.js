// Lists, tables and tabs beside the graphs.
"use strict";

const ROW_HEIGHT = 46;

/** How costs are counted, for those who read the totals. */
const COST_NOTE = "A FLOP is one operation on one element; a multiplication that is added up (MAC) counts two. Memory access is what goes to and from memory when every node reads its operands and writes its results; views cost nothing, selections read what they take.";

/** A list of which only the visible rows exist; a row that stays visible stays the same element. */
class LongList {
  constructor(box, shown, row, choose, empty) {
    this.box = box;
    this.shown = shown;
    this.row = row;
    this.choose = choose;
    this.empty = empty;
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
    this.draw();
  }

  /** Shows these numbers from the top. */
  show(numbers) {
    this.shown = numbers;
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
    this.rows = new Map(visible.map((number, i) => [number, this.rows.get(number) ?? this.place(number, first + i)]));
    this.rows.forEach((row, number) => row.setAttribute("aria-selected", String(number === this.chosen)));
    inner.replaceChildren(...this.rows.values());
    this.box.setAttribute("aria-activedescendant", this.chosen >= 0 ? this.nameOf(this.chosen) : "");
    if (!this.shown.length) inner.append(element("p", { class: "muted", style: "padding:0 12px" }, this.empty));
  }

  nameOf(number) {
    return `${this.box.id}-${number}`;
  }

  place(number, place) {
    const [top, low] = this.row(number);
    return element("div", { class: "entry", role: "option", id: this.nameOf(number), style: `top:${place * ROW_HEIGHT}px`, onclick: () => this.choose(number) },
      element("div", { class: "top" }, ...top), element("div", { class: "low" }, ...low));
  }
}

function table(heads, rows) {
  return element("table", {},
    element("thead", {}, element("tr", {}, ...heads.map((head) => element("th", {}, head)))),
    element("tbody", {}, ...rows),
  );
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
