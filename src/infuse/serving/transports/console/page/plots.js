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
const MOST_MARKS = 6;

/**
 * A plot of `series` ({ name, className, points: [[time, value or null]], band: [[time, low, high]] }) up to `now`.
 * `span`: how many seconds it goes back; `format` writes values; `hover` is the time that is pointed at, or null.
 * With `logarithmic`, equal distances are equal ratios; values must be above 0.
 */
export function plot({ key, label, width, height, series, now, span, format, hover, logarithmic }) {
  const values = series.flatMap(({ points }) => points.map(([, value]) => value)).filter((value) => value > 0);
  const scale = (logarithmic ? decades : linear)(values);
  const x = (time) => LEFT + (1 - (now - time) / span) * (width - LEFT - RIGHT);
  const y = (value) => TOP + (1 - scale.share(value)) * (height - TOP - BOTTOM);
  return h(
    "svg",
    { key, class: "plot", role: "img", "aria-label": label, width, height, viewBox: `0 0 ${width} ${height}`, "data-plot": key },
    grid(scale, x, y, now, span, width, height, format),
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

function grid(scale, x, y, now, span, width, height, format) {
  const bottom = height - BOTTOM + 15;
  const marks = scale.marks.flatMap((value, index) => [
    h("line", { class: index ? "grid" : "axis", x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value) }),
    h("text", { class: "tick", x: LEFT - 6, y: y(value) + 3.5, "text-anchor": "end" }, format(value)),
  ]);
  const every = span > 120 ? 60 : 20;
  for (let back = every; back < span * 0.98; back += every) {
    const text = every === 60 ? `−${back / 60} min` : `−${back} s`;
    marks.push(h("text", { class: "tick", x: x(now - back), y: bottom, "text-anchor": "middle" }, text));
  }
  marks.push(h("text", { class: "tick", x: width - RIGHT, y: bottom, "text-anchor": "end" }, "now"));
  return marks;
}

/** From 0 to a round number above all values, with three to five marks. */
export function linear(values) {
  const largest = Math.max(0, ...values);
  const rough = (largest || 1) / 3;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = largest ? STEPS.find((one) => one * power >= rough) * power : 1;
  const count = largest ? Math.ceil(largest / step) : 1;
  return { marks: Array.from({ length: count + 1 }, (_, index) => index * step), share: (value) => value / (count * step) };
}

/** From a round number below all values to one above them; marks at 1, 2 and 5, as far as there is room. */
export function decades(values) {
  const smallest = values.length ? Math.min(...values) : 1;
  const largest = values.length ? Math.max(...values) : 10;
  const marks = rounds(smallest, largest, [1, 2, 5]);
  const [low, high] = [Math.log(marks[0]), Math.log(marks[marks.length - 1])];
  const shown = marks.length <= MOST_MARKS ? marks : marks.filter((value, index) => index % Math.ceil(marks.length / MOST_MARKS) === 0);
  return { marks: shown, share: (value) => (Math.log(value) - low) / (high - low) };
}

/** Numbers that begin with one of `digits`, from the last at or below `smallest` to the first above `largest`. */
function rounds(smallest, largest, digits) {
  const first = Math.floor(Math.log10(smallest));
  const found = [];
  for (let power = first; power <= Math.log10(largest) + 1; power += 1) {
    found.push(...digits.map((digit) => Number(`${digit}e${power}`)));
  }
  const begin = found.findLastIndex((value) => value <= smallest);
  return found.slice(Math.max(0, begin), found.findIndex((value) => value > largest) + 1);
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
