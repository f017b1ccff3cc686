// What a pane looks like.
"use strict";

const COLOURINGS = {
  family: "by family",
  ...(Object.keys(model.sides).length > 1 ? { change: "by change" } : {}),
  flops: "by FLOPs",
  memory: "by memory",
};
let colouring = "family";

/** The colour of a node: its family, whether it stands in both graphs, or its share of the cost. */
function fillOf(side, node) {
  const { family, id, cost } = side.nodes[node];
  if (colouring === "family" || family === "input") return palette.families[family];
  if (colouring === "change") {
    const isKept = (side.name === "before" ? model.sides.after : model.sides.before).has(id);
    return isKept ? palette.families.movement : palette[side.name === "before" ? "removed-fill" : "created-fill"];
  }
  const of = colouring === "flops" ? (each) => each?.flops ?? 0 : (each) => (each ? each.read + each.written : 0);
  side.most ??= {};
  side.most[colouring] ??= side.nodes.reduce((most, each) => Math.max(most, of(each.cost)), 1);
  const share = Math.round(100 * Math.sqrt(of(cost) / side.most[colouring]));
  return `color-mix(in srgb, ${palette.hot} ${share}%, ${palette.cold})`;
}

function paint(pane) {
  const { side, view, canvas, ratio } = pane;
  const ctx = canvas.getContext("2d");
  ctx.setTransform(1, 0, 0, 1, 0, 0);
  ctx.fillStyle = palette.canvas;
  ctx.fillRect(0, 0, canvas.width, canvas.height);
  if (!side.boxes) return;
  const scale = view.zoom * ratio;
  ctx.setTransform(scale, 0, 0, scale, -view.x * scale, -view.y * scale);
  const window_ = {
    left: view.x, right: view.x + pane.width / view.zoom, top: view.y, bottom: view.y + pane.height / view.zoom,
  };
  const near = nearEdges(pane);
  paintEdges(ctx, pane, window_, near);
  paintNodes(ctx, pane, window_);
  paintOverview(ctx, pane);
}

/** Edges of the node under the pointer or selected, which are drawn strongly. */
function nearEdges({ side, hovered, selected }) {
  return new Set([hovered, selected].filter((n) => n >= 0).flatMap((n) => [...side.into[n], ...side.outof[n]]));
}

function trace(ctx, points, isSmooth) {
  ctx.moveTo(...points[0]);
  if (!isSmooth || points.length < 3) {
    for (let i = 1; i < points.length; i++) ctx.lineTo(...points[i]);
    return;
  }
  for (let i = 1; i < points.length - 2; i++) {
    const [x, y] = points[i];
    const [nx, ny] = points[i + 1];
    ctx.quadraticCurveTo(x, y, (x + nx) / 2, (y + ny) / 2);
  }
  const [[x, y], [ex, ey]] = points.slice(-2);
  ctx.quadraticCurveTo(x, y, ex, ey);
}

function arrow(ctx, points) {
  const [[ax, ay], [bx, by]] = points.slice(-2);
  const angle = Math.atan2(by - ay, bx - ax);
  const [length, spread] = [7, 0.42];
  ctx.moveTo(bx, by);
  ctx.lineTo(bx - length * Math.cos(angle - spread), by - length * Math.sin(angle - spread));
  ctx.lineTo(bx - length * Math.cos(angle + spread), by - length * Math.sin(angle + spread));
  ctx.closePath();
}

function paintEdges(ctx, pane, win, near) {
  const { side, view, marks } = pane;
  const isSmooth = view.zoom > 0.2;
  const line = Math.max(1.1, 0.7 / view.zoom);
  const hot = [];
  const shown = [];
  side.routes.forEach((route, number) => {
    if (!route || route.right < win.left || route.left > win.right || route.bottom < win.top || route.top > win.bottom) return;
    const [from, to] = side.edges[number];
    if (near.has(number) || (marks.has(from) && marks.has(to))) hot.push(number);
    else shown.push(route.points);
  });
  ctx.globalAlpha = marks.size ? 0.35 : 1;
  ctx.lineWidth = line;
  ctx.strokeStyle = ctx.fillStyle = palette.edge;
  ctx.lineJoin = "round";
  ctx.beginPath();
  shown.forEach((points) => trace(ctx, points, isSmooth));
  ctx.stroke();
  if (view.zoom > 0.35) {
    ctx.beginPath();
    shown.forEach((points) => arrow(ctx, points));
    ctx.fill();
  }
  ctx.globalAlpha = 1;
  paintStubs(ctx, pane, near, line);
  for (const number of hot) {
    const [from] = side.edges[number];
    const color = near.has(number) ? palette.accent : palette[marks.get(from)] ?? palette.accent;
    ctx.strokeStyle = ctx.fillStyle = color;
    ctx.lineWidth = line * 1.8;
    ctx.beginPath();
    trace(ctx, side.routes[number].points, isSmooth);
    ctx.stroke();
    ctx.beginPath();
    arrow(ctx, side.routes[number].points);
    ctx.fill();
  }
}

/** Edges over a long way: a short dashed end at both nodes, the whole way only for the node under the pointer. */
function paintStubs(ctx, { side, view }, near, line) {
  if (!side.long.length) return;
  ctx.lineWidth = line;
  for (const number of side.long) {
    const [from, to] = side.edges[number];
    if (!side.isPlaced[from] || !side.isPlaced[to]) continue;
    const [a, b] = [side.boxes[from], side.boxes[to]];
    const start = [side.x[from] + a.width / 2, side.y[from] + a.height];
    const end = [side.x[to] + b.width / 2, side.y[to]];
    ctx.strokeStyle = near.has(number) ? palette.accent : palette.edge;
    ctx.setLineDash(near.has(number) ? [] : [3, 3]);
    ctx.beginPath();
    if (near.has(number)) {
      ctx.lineWidth = line * 1.8;
      ctx.moveTo(...start);
      ctx.bezierCurveTo(start[0], start[1] + 120, end[0], end[1] - 120, ...end);
    } else if (view.zoom > 0.2) {
      ctx.moveTo(...start);
      ctx.lineTo(start[0] + 10, start[1] + 16);
      ctx.moveTo(end[0] - 10, end[1] - 16);
      ctx.lineTo(...end);
    }
    ctx.stroke();
    ctx.lineWidth = line;
  }
  ctx.setLineDash([]);
}

function paintNodes(ctx, pane, win) {
  const { side, view, marks } = pane;
  const isFine = view.zoom > 0.28;
  for (let node = 0; node < side.nodes.length; node++) {
    if (!side.isPlaced[node]) continue;
    const [x, y] = [side.x[node], side.y[node]];
    const box = side.boxes[node];
    if (x > win.right || x + box.width < win.left || y > win.bottom + 20 || y + box.height < win.top - 20) continue;
    ctx.globalAlpha = marks.size && !marks.has(node) ? 0.32 : 1;
    if (isFine) paintNode(ctx, pane, node, x, y, box);
    else {
      ctx.fillStyle = fillOf(side, node);
      ctx.fillRect(x, y, box.width, box.height);
    }
    ctx.globalAlpha = 1;
    paintMark(ctx, pane, node, x, y, box);
  }
}

function paintNode(ctx, { side, view }, node, x, y, { title, rows, width, height }) {
  const { family, outputs, kind, body } = side.nodes[node];
  const radius = family === "input" ? HEAD / 2 : 6;
  ctx.fillStyle = palette.card;
  ctx.beginPath();
  ctx.roundRect(x, y, width, height, radius);
  ctx.fill();
  ctx.fillStyle = fillOf(side, node);
  ctx.beginPath();
  ctx.roundRect(x, y, width, HEAD, rows.length ? [radius, radius, 0, 0] : radius);
  ctx.fill();
  ctx.strokeStyle = palette.line;
  ctx.lineWidth = 1;
  ctx.beginPath();
  ctx.roundRect(x, y, width, height, radius);
  ctx.stroke();
  if (body) {
    ctx.fillStyle = palette.families.control;
    ctx.fillRect(x - 6, y, 3, height);
  }
  ctx.textBaseline = "middle";
  ctx.textAlign = "center";
  ctx.fillStyle = palette.ink;
  ctx.font = `600 ${FONT}`;
  ctx.fillText(title, x + width / 2, y + HEAD / 2 + 0.5);
  if (view.zoom < 0.5) return;
  ctx.font = SMALL;
  rows.forEach(([role, text], row) => {
    const middle = y + HEAD + 4 + ROW * (row + 0.5);
    ctx.textAlign = "left";
    ctx.fillStyle = palette.muted;
    ctx.fillText(role, x + 12, middle);
    ctx.textAlign = "right";
    ctx.fillStyle = palette.text;
    ctx.fillText(text, x + width - 12, middle);
  });
  if (outputs.length && kind !== "Output" && side.outof[node].length) {
    ctx.textAlign = "left";
    ctx.fillStyle = palette.muted;
    ctx.fillText(clip(format.shape(outputs[0].type), 28), x + width / 2 + 7, y + height + 10);
  }
}

/** The ring around a node of the chosen rewrite, the selected node, and the one under the pointer. */
function paintMark(ctx, { view, marks, echo, hovered, selected }, node, x, y, { width, height }) {
  const mark = marks.get(node);
  if (!mark && node !== hovered && node !== selected && !echo.has(node)) return;
  const room = Math.max(4, 2.5 / view.zoom);
  ctx.lineWidth = Math.max(mark ? 3 : 2, (mark ? 2.4 : 1.6) / view.zoom);
  ctx.strokeStyle = mark ? palette[mark] : palette.accent;
  if (mark === "heir" || (!mark && echo.has(node))) ctx.setLineDash([6, 4]);
  ctx.beginPath();
  ctx.roundRect(x - room, y - room, width + 2 * room, height + 2 * room, 9);
  ctx.stroke();
  ctx.setLineDash([]);
  if (mark && (node === selected || node === hovered)) {
    ctx.strokeStyle = palette.accent;
    ctx.lineWidth = Math.max(1.5, 1.2 / view.zoom);
    ctx.beginPath();
    ctx.roundRect(x - 2 * room, y - 2 * room, width + 4 * room, height + 4 * room, 11);
    ctx.stroke();
  }
}

/** The strip at the right edge: the whole graph from top to bottom, marked nodes, and the part in view. */
function paintOverview(ctx, pane) {
  const { side, view, ratio, width, height, marks } = pane;
  const { top, bottom } = side.bounds;
  if (bottom - top < (height / view.zoom) * 1.2) return;
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  ctx.fillStyle = palette.faint;
  ctx.fillRect(width - STRIP, 0, STRIP, height);
  const place = (y) => ((y - top) / (bottom - top)) * height;
  ctx.globalAlpha = 0.55;
  for (let node = 0; node < side.nodes.length; node++) {
    if (!side.isPlaced[node]) continue;
    ctx.fillStyle = fillOf(side, node);
    ctx.fillRect(width - STRIP + 4, place(side.y[node]), STRIP - 8, Math.max(1, place(side.y[node] + 24) - place(side.y[node]) - 0.5));
  }
  ctx.globalAlpha = 1;
  for (const [node, mark] of marks) {
    ctx.fillStyle = palette[mark];
    ctx.fillRect(width - STRIP, place(side.y[node]) - 1, STRIP, 3);
  }
  for (const node of pane.echo) {
    ctx.fillStyle = palette.accent;
    ctx.fillRect(width - STRIP, place(side.y[node]) - 1, STRIP, 3);
  }
  ctx.strokeStyle = palette.accent;
  ctx.lineWidth = 1.5;
  const from = Math.max(0, place(view.y));
  const to = Math.min(height, place(view.y + height / view.zoom));
  ctx.strokeRect(width - STRIP + 0.75, from, STRIP - 1.5, Math.max(3, to - from));
}
