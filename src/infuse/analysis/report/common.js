// What all pages share: their data, how numbers are written, elements, and the place of a tooltip.
"use strict";

const source = JSON.parse(document.getElementById("data").textContent);

const format = {
  quantity(number) {
    const size = Math.abs(number);
    for (const [factor, unit] of [[1e12, " T"], [1e9, " G"], [1e6, " M"], [1e3, " k"]]) {
      if (size >= factor && (factor > 1e3 || size >= 1e4)) return `${Number((number / factor).toPrecision(3))}${unit}`;
    }
    return number.toLocaleString("en");
  },
  bytes(number) {
    const size = Math.abs(number);
    for (const [factor, unit] of [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"]]) {
      if (size >= factor) return `${Number((number / factor).toPrecision(3))} ${unit}`;
    }
    return `${number} B`;
  },
  change(before, after) {
    if (before === after) return "±0 %";
    if (!before) return "";
    const percent = (100 * (after - before)) / before;
    if (Math.abs(percent) < 0.05) return "≈";
    const digits = Math.abs(percent) < 10 ? 1 : 0;
    return `${percent > 0 ? "+" : "−"}${Math.abs(percent).toFixed(digits)} %`;
  },
  /** What became less, with a minus sign, as people write changes. */
  saved(number, write = format.quantity) {
    return number === 0 ? "±0" : `${number > 0 ? "−" : "+"}${write(Math.abs(number))}`;
  },
  /** A name that may break between its words. */
  breakable: (name) => name.replace(/([a-z0-9])([A-Z])/g, "$1\u200b$2"),
  /** `float32[1, 64, min(56, n)]` → `1×64×min(56, n)`. */
  shape(type) {
    const inside = /\[(.*)\]/.exec(type);
    if (!inside) return type;
    if (inside[1] === "") return "scalar";
    let depth = 0;
    const signs = [...inside[1]].map((sign) => {
      if (sign === "(") depth += 1;
      if (sign === ")") depth -= 1;
      return sign === "," && depth === 0 ? "×" : sign;
    });
    return signs.join("").replaceAll("× ", "×");
  },
};

/** An element with attributes and children; `on…` attributes are listeners. */
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return made;
}

const several = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;

const find = (id) => document.getElementById(id);

/** Puts the tooltip beside the pointer, inside of the window. */
function placeTip(event) {
  const tip = find("tip");
  const { width, height } = tip.getBoundingClientRect();
  const x = event.clientX + 16 + width > innerWidth ? event.clientX - width - 12 : event.clientX + 16;
  tip.style.left = `${Math.max(4, x)}px`;
  tip.style.top = `${Math.max(4, Math.min(event.clientY + 14, innerHeight - height - 6))}px`;
}
