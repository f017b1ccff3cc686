// The constants of a graph: their list, and the statistics of one.
"use strict";

const SVG = "http://www.w3.org/2000/svg";

const figure = (number) => (number === null ? "–" : Number.isInteger(number) ? String(number) : String(Number(number.toPrecision(6))));
const nameOf = (constant) => constant.name || "(no name)";

/** The list of all constants, the largest first. */
function listConstants(choose) {
  const row = (number) => {
    const constant = model.constants[number];
    return [
      [
        element("span", { class: "number" }, String(number + 1)),
        element("span", { class: "rule" }, nameOf(constant)),
        element("span", { class: "nodes" }, format.bytes(constant.bytes)),
      ],
      [element("span", { class: "what" }, constant.type)],
    ];
  };
  find("tab-constants").append(element("span", { class: "muted" }, ` ${model.constants.length.toLocaleString("en")}`));
  return new LongList(find("list"), [...model.constants.keys()], row, choose, "The graph has no constant.");
}

/** Bars of the elements in intervals of one width, as high as they are many. */
function bars({ histogram, minimum, maximum }) {
  const svg = document.createElementNS(SVG, "svg");
  const most = Math.max(...histogram);
  svg.setAttribute("class", "bars");
  svg.setAttribute("viewBox", `0 0 ${histogram.length} 32`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `Histogram from ${figure(minimum)} to ${figure(maximum)}`);
  histogram.forEach((count, place) => {
    const bar = document.createElementNS(SVG, "rect");
    const height = count ? Math.max(0.6, (32 * count) / most) : 0;
    for (const [name, value] of Object.entries({ x: place + 0.06, y: 32 - height, width: 0.88, height })) bar.setAttribute(name, value);
    const title = document.createElementNS(SVG, "title");
    const edge = (at) => figure(minimum + (at * (maximum - minimum)) / histogram.length);
    title.textContent = `${count.toLocaleString("en")} elements from ${edge(place)} to ${edge(place + 1)}`;
    bar.append(title);
    svg.append(bar);
  });
  return [svg, element("div", { class: "ends mono muted" }, element("span", {}, figure(minimum)), element("span", {}, figure(maximum)))];
}

function statisticsRows({ elements, zeros, nan, infinite, minimum, maximum, mean, deviation }) {
  const share = (count) => `${count.toLocaleString("en")} (${elements ? figure((100 * count) / elements) : 0} %)`;
  return [
    ["elements", elements.toLocaleString("en")],
    ["zeros", share(zeros)],
    ["NaN", nan.toLocaleString("en")],
    ["infinite", infinite.toLocaleString("en")],
    ...(minimum === null ? [] : [["min", figure(minimum)], ["max", figure(maximum)], ["mean", figure(mean)], ["std", figure(deviation)]]),
  ];
}

function detailOfConstant(number, act) {
  const constant = model.constants[number];
  const { statistics } = constant;
  find("detail").replaceChildren(
    element("h3", {}, "Constant", element("span", { class: "level" }, format.bytes(constant.bytes))),
    element("div", { class: "muted mono" }, nameOf(constant)),
    element("div", { class: "mono" }, constant.type),
    ...part("elements", ...(constant.elements === "…" ? [] : [element("div", { class: "mono" }, constant.elements)])),
    ...part("histogram", ...(statistics.histogram.length ? bars(statistics) : [])),
    ...part("statistics", pairs(statisticsRows(statistics))),
    ...nodeChips("read by", constant.readers, act),
  );
  find("detail").scrollTop = 0;
}
