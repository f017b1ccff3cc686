// Plots over the last minutes, as SVG trees.

import { h } from "./dom.js";

export const LONGEST = 300; // seconds that are kept and shown
const SHORTEST = 60;
const GAP = 3.5; // seconds without a sample that break a line
const LEFT = 46;
const RIGHT = 10;
const TOP = 8;
const BOTTOM = 20;
const STEPS = [1, 2, 2.5, 5, 10];

/**
 * A plot of `series` ({ name, className, points: [[time, value or null]], band: [[time, low, high]] }) up to `now`.
 * `span`: how many seconds it goes back; `format` writes values; `hover` is the time that is pointed at, or null.
 */
export function plot({ key, label, width, height, series, now, span, format, hover }) {
  const top = ceiling(Math.max(0, ...series.flatMap(({ points }) => points.map(([, value]) => value || 0))));
  const x = (time) => LEFT + (1 - (now - time) / span) * (width - LEFT - RIGHT);
  const y = (value) => TOP + (1 - value / top.limit) * (height - TOP - BOTTOM);
  return h(
    "svg",
    { key, class: "plot", role: "img", "aria-label": label, width, height, viewBox: `0 0 ${width} ${height}`, "data-plot": key },
    grid(top, x, y, now, span, width, format),
    series.map((one) => one.band && h("path", { key: `b${one.name}`, class: `band ${one.className}`, d: area(one.band, x, y) })),
    series.map((one) => h("path", { key: `l${one.name}`, class: `line ${one.className}`, d: lines(one.points, x, y) })),
    hover !== null && hover >= now - span && h("line", { class: "cursor", x1: x(hover), x2: x(hover), y1: TOP, y2: height - BOTTOM }),
  );
}

/** The time that a place in a plot of `width` stands for. */
export function timeAt(left, width, now, span) {
  const share = (left - LEFT) / (width - LEFT - RIGHT);
  return now - span + Math.min(1, Math.max(0, share)) * span;
}

/** How far plots go back: over all that was seen, and neither less than a minute nor more than is kept. */
export function spanOf(history, now) {
  return history.length ? Math.min(LONGEST, Math.max(SHORTEST, now - history[0].time)) : SHORTEST;
}

function grid(top, x, y, now, span, width, format) {
  const marks = [];
  for (let value = 0; value <= top.limit * 1.001; value += top.step) {
    marks.push(h("line", { class: value ? "grid" : "axis", x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value) }));
    marks.push(h("text", { class: "tick", x: LEFT - 6, y: y(value) + 3.5, "text-anchor": "end" }, format(value)));
  }
  const every = span > 120 ? 60 : 20;
  for (let back = every; back < span * 0.98; back += every) {
    const text = every === 60 ? `−${back / 60} min` : `−${back} s`;
    marks.push(h("text", { class: "tick", x: x(now - back), y: y(0) + 15, "text-anchor": "middle" }, text));
  }
  marks.push(h("text", { class: "tick", x: width - RIGHT, y: y(0) + 15, "text-anchor": "end" }, "now"));
  return marks;
}

/** The end of an axis and the distance of its marks: round numbers, three to five of them. */
export function ceiling(largest) {
  if (!(largest > 0)) return { limit: 1, step: 1 };
  const rough = largest / 3;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = STEPS.find((one) => one * power >= rough) * power;
  return { limit: Math.ceil(largest / step) * step, step };
}

function lines(points, x, y) {
  let path = "";
  let last = null;
  for (const [time, value] of points) {
    if (value === null) {
      last = null;
      continue;
    }
    path += `${last !== null && time - last < GAP ? "L" : "M"}${x(time).toFixed(1)} ${y(value).toFixed(1)}`;
    last = time;
  }
  return path;
}

function area(band, x, y) {
  return pieces(band)
    .map((piece) => {
      const there = piece.map(([time, , high]) => `${x(time).toFixed(1)} ${y(high).toFixed(1)}`);
      const back = [...piece].reverse().map(([time, low]) => `${x(time).toFixed(1)} ${y(low).toFixed(1)}`);
      return `M${[...there, ...back].join("L")}Z`;
    })
    .join("");
}

function pieces(band) {
  const found = [];
  let last = null;
  for (const point of band) {
    if (point[1] === null) {
      last = null;
      continue;
    }
    if (last !== null && point[0] - last < GAP) found[found.length - 1].push(point);
    else found.push([point]);
    last = point[0];
  }
  return found.filter((piece) => piece.length > 1);
}
