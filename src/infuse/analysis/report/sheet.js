// Parts of pages that are read like a sheet of paper: cards, tables that are sorted by a click, and plots.
"use strict";

const MOST_ROWS = 2000;
const SVG = "http://www.w3.org/2000/svg";

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
}

setTheme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
const toggleTheme = () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
find("theme").addEventListener("click", toggleTheme);
document.addEventListener("keydown", (event) => {
  if (event.key === "t" && !event.ctrlKey && !event.metaKey && !event.altKey && !event.target.matches("input, select")) toggleTheme();
});

const write = {
  number: (value) => (value === null ? "–" : format.quantity(value)),
  bytes: (value) => (value === null ? "–" : format.bytes(value)),
  digits: (value, digits = 3) => (value === null ? "–" : Math.abs(value) >= 1000 ? format.quantity(Math.round(value)) : String(Number(value.toPrecision(digits)))),
  /** Milliseconds as people say them. */
  time: (ms) => (ms === null ? "–" : ms >= 1000 ? `${write.digits(ms / 1000)} s` : ms >= 1 || ms === 0 ? `${write.digits(ms)} ms` : `${write.digits(ms * 1000)} µs`),
  percent: (part) => (part === null ? "–" : `${(100 * part).toFixed(1)} %`),
};

/** A figure with its name, above the cards. */
function total(name, now, more = "") {
  find("totals").append(element("div", { class: "total" }, element("div", { class: "name" }, name), element("div", { class: "now" }, now), element("div", { class: "was" }, more)));
}

function card(title, remark, ...content) {
  const choices = element("span", { class: "choices" });
  const made = element("section", { class: "card", "aria-label": title }, element("h2", {}, title, element("span", { class: "muted" }, remark), choices), ...content);
  find("cards").append(made);
  return { box: made, choices };
}

function showTip(event, title, pairs) {
  const tip = find("tip");
  tip.hidden = !pairs;
  if (!pairs) return;
  tip.replaceChildren(element("b", {}, title), element("dl", {}, ...pairs.flatMap(([name, text]) => [element("dt", {}, name), element("dd", { class: "mono" }, text)])));
  placeTip(event);
}

/**
 * A table that is sorted by a click on a column, and filtered by words.
 *
 * A column: name, `of(row)` what it is sorted by, `text(row)` what is shown (a text or an element), `isText`.
 */
class SortedTable {
  constructor(columns, { hover = () => {}, words = () => "" } = {}) {
    this.columns = columns;
    this.hover = hover;
    this.words = words;
    this.rows = [];
    this.filter = [];
    this.sorted = { column: 0, down: false };
    this.lines = new Map();
    this.head = columns.map((column, number) => element("th", { class: column.isText ? "text" : "", title: column.about }, element("button", { onclick: () => this.sortBy(number) }, column.name)));
    this.body = element("tbody");
    this.rest = element("p", { class: "muted" });
    this.box = element("div", { class: "scroll" }, element("table", {}, element("thead", {}, element("tr", {}, ...this.head)), this.body), this.rest);
  }

  show(rows) {
    this.rows = rows;
    this.draw();
  }

  search(text) {
    this.filter = text.toLowerCase().split(/\s+/).filter(Boolean);
    this.draw();
  }

  sortBy(number) {
    const down = this.sorted.column === number ? !this.sorted.down : !this.columns[number].isText && number > 0;
    this.sorted = { column: number, down };
    this.draw();
  }

  draw() {
    const { column, down } = this.sorted;
    this.head.forEach((cell, number) => (number === column ? cell.setAttribute("aria-sort", down ? "descending" : "ascending") : cell.removeAttribute("aria-sort")));
    const key = this.columns[column].of;
    const rank = (value) => (value === null || value === undefined ? -Infinity : value);
    const order = (a, b) => (typeof a === "string" ? a.localeCompare(b) : rank(a) < rank(b) ? -1 : rank(a) > rank(b) ? 1 : 0);
    const chosen = this.rows.filter((row) => this.filter.every((word) => this.words(row).toLowerCase().includes(word)));
    chosen.sort((a, b) => (down ? -1 : 1) * order(key(a), key(b)));
    this.lines.clear();
    this.body.replaceChildren(...chosen.slice(0, MOST_ROWS).map((row) => this.line(row)));
    this.rest.textContent = chosen.length > MOST_ROWS ? `${(chosen.length - MOST_ROWS).toLocaleString("en")} more rows are not shown` : chosen.length ? "" : "no row has these words";
  }

  line(row) {
    const made = element("tr", { onmouseenter: () => this.hover(row), onmouseleave: () => this.hover(null) }, ...this.columns.map((column) => element("td", { class: `${column.isText ? "text" : ""} ${column.class ?? ""}` }, column.text(row))));
    this.lines.set(row, made);
    return made;
  }

  mark(row, isHot) {
    this.lines.get(row)?.classList.toggle("hot", isHot);
  }

  reveal(row) {
    this.lines.get(row)?.scrollIntoView({ block: "center", behavior: "smooth" });
  }
}

/** A cell with a bar behind its percentage, as long as the cell for the largest one. */
const shareCell = (part, largest) => element("div", { class: "share" }, element("i", { style: `width:${(100 * part / (largest || 1)).toFixed(1)}%` }), element("span", {}, write.percent(part)));

// -- plots ---------------------------------------------------------------------------------------------------------

function shape(tag, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

/** Powers of ten, and of few ones twice and five times them, between two numbers. */
function logTicks(low, high) {
  const decades = Math.log10(high / low);
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += decades > 9 ? 2 : 1) {
    for (const factor of decades < 2.5 ? [1, 2, 5] : [1]) {
      const tick = Number((factor * 10 ** power).toPrecision(2));
      if (tick >= low * 0.999 && tick <= high * 1.001) ticks.push(tick);
    }
  }
  return ticks;
}

/** Round steps between two numbers. */
function evenTicks(low, high, count = 6) {
  const rough = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((each) => each >= rough);
  const ticks = [];
  for (let tick = Math.ceil(low / step) * step; tick <= high + step * 1e-9; tick += step) ticks.push(Number(tick.toPrecision(12)));
  return ticks;
}

/** The frame of a plot: axes with ticks and names, and functions from numbers to places. */
class Plot {
  constructor({ width = 1180, height = 420, x, y, label }) {
    this.area = { left: 74, right: width - 18, top: 14, bottom: height - 46 };
    this.svg = shape("svg", { class: "plot", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
    this.x = this.scale(x, this.area.left, this.area.right);
    this.y = this.scale(y, this.area.bottom, this.area.top);
    const { left, right, top, bottom } = this.area;
    for (const tick of x.ticks) {
      this.svg.append(shape("line", { class: "grid", x1: this.x(tick), x2: this.x(tick), y1: top, y2: bottom }));
      this.text(this.x(tick), bottom + 16, x.write(tick), "middle");
    }
    for (const tick of y.ticks) {
      this.svg.append(shape("line", { class: "grid", x1: left, x2: right, y1: this.y(tick), y2: this.y(tick) }));
      this.text(left - 8, this.y(tick) + 4, y.write(tick), "end");
    }
    this.svg.append(shape("path", { class: "axis", fill: "none", d: `M${left} ${top}V${bottom}H${right}` }));
    this.text((left + right) / 2, height - 8, x.name, "middle");
    const turned = this.text(16, (top + bottom) / 2, y.name, "middle");
    turned.setAttribute("transform", `rotate(-90 16 ${(top + bottom) / 2})`);
  }

  scale({ low, high, isLog }, from, to) {
    const at = isLog ? Math.log10 : (value) => value;
    return (value) => from + ((at(value) - at(low)) / (at(high) - at(low) || 1)) * (to - from);
  }

  text(x, y, content, anchor = "start", kind = "") {
    const made = shape("text", { x, y, "text-anchor": anchor, class: kind }, content);
    this.svg.append(made);
    return made;
  }

  path(points, kind) {
    this.svg.append(shape("path", { class: kind, d: points.map(([x, y], i) => `${i ? "L" : "M"}${this.x(x).toFixed(2)} ${this.y(y).toFixed(2)}`).join("") }));
  }

  dot(x, y, radius, kind, { enter, leave, click }) {
    const made = shape("circle", { class: `dot ${kind}`, cx: this.x(x).toFixed(2), cy: this.y(y).toFixed(2), r: radius.toFixed(2), onmousemove: enter, onmouseleave: leave, onclick: click });
    this.svg.append(made);
    return made;
  }
}

/** What one must know to read the figures. */
function showNotes(lines) {
  card("Notes", "", ...lines.map((line) => element("p", {}, line)));
}
