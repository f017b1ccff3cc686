// How large nodes are, what stands in them, and where the worker put them.
"use strict";

const FONT = '12px ui-sans-serif, system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';
const SMALL = '10.5px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace';
const HEAD = 24;
const ROW = 15;
const SHOWN_ROWS = 3;

const pen = document.createElement("canvas").getContext("2d");
const widths = new Map();

function textWidth(text, font) {
  const key = font + text;
  if (!widths.has(key)) {
    pen.font = font;
    widths.set(key, pen.measureText(text).width);
  }
  return widths.get(key);
}

const clip = (text, length) => (text.length > length ? `${text.slice(0, length - 1)}…` : text);

/** Constants of a node as rows: the role, and the shape or the number. */
function rowsOf(node) {
  const constants = node.inputs.filter((value) => value.constant !== undefined);
  const rows = constants.map((value) => {
    const short = value.constant !== "…" && value.constant.length <= 14;
    return [clip(value.role, 12), short ? `= ${value.constant}` : clip(format.shape(value.type), 22)];
  });
  return rows.length > SHOWN_ROWS ? [...rows.slice(0, SHOWN_ROWS - 1), ["", `+ ${rows.length - SHOWN_ROWS + 1} more`]] : rows;
}

/** Title, rows and size of a node. */
function boxOf(node) {
  const isEnd = node.family === "input";
  const title = clip(isEnd ? node.name : node.kind, 34);
  const rows = isEnd ? [] : rowsOf(node);
  const inner = Math.max(
    textWidth(title, `600 ${FONT}`),
    ...rows.map(([role, text]) => textWidth(`${role}  ${text}`, SMALL)),
  );
  return { title, rows, width: Math.ceil(inner) + 26, height: HEAD + (rows.length ? rows.length * ROW + 7 : 0) };
}

/** Lays a side out in a worker; `progress` is called as pieces arrive, the promise resolves when all have. */
function layOut(side, progress) {
  side.boxes = side.nodes.map(boxOf);
  side.x = new Float64Array(side.nodes.length);
  side.y = new Float64Array(side.nodes.length);
  side.isPlaced = new Uint8Array(side.nodes.length);
  side.routes = side.edges.map(() => null);
  side.bounds = { left: 0, right: 1, top: 0, bottom: 1 };
  side.long = [];
  side.started = performance.now();
  const order = side.order;
  const rank = new Int32Array(side.nodes.length);
  order.forEach((node, position) => (rank[node] = position));
  const job = {
    sizes: order.map((node) => [side.boxes[node].width, side.boxes[node].height]),
    edges: side.edges.map(([from, to]) => [rank[from], rank[to]]),
  };
  const code = document.getElementById("worker").textContent;
  const url = URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
  const worker = new Worker(url);
  return new Promise((resolve, reject) => {
    worker.onerror = (event) => reject(new Error(event.message || "the layout worker cannot run"));
    worker.onmessage = ({ data }) => {
      if (data.done) {
        side.long = data.long;
        side.layoutMs = performance.now() - side.started;
        worker.terminate();
        URL.revokeObjectURL(url);
        resolve(side);
        return;
      }
      take(side, data, order);
      progress(side);
    };
    worker.postMessage(job);
  });
}

/** Takes over one piece from the worker. */
function take(side, piece, order) {
  const { bounds } = side;
  for (const [position, x, y] of piece.nodes) {
    const node = order[position];
    const { width, height } = side.boxes[node];
    side.x[node] = x - width / 2;
    side.y[node] = y - height / 2;
    side.isPlaced[node] = 1;
    const isInput = side.nodes[node].kind === "Input" && side.nodes[node].family === "input";
    if (side.first === undefined || (isInput && side.nodes[side.first].family !== "input")) side.first = node;
    bounds.left = Math.min(bounds.left, x - width / 2);
    bounds.right = Math.max(bounds.right, x + width / 2);
    bounds.bottom = Math.max(bounds.bottom, y + height / 2);
  }
  for (const [number, points] of piece.routes) {
    let [left, right, top, bottom] = [Infinity, -Infinity, Infinity, -Infinity];
    for (const [x, y] of points) {
      left = Math.min(left, x);
      right = Math.max(right, x);
      top = Math.min(top, y);
      bottom = Math.max(bottom, y);
    }
    side.routes[number] = { points, left, right, top, bottom };
  }
}
