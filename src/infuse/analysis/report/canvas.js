// One graph on a canvas: only what is visible is drawn, and only as fine as it can be seen.
"use strict";

const ZOOM = { least: 0.004, most: 4 };
const STRIP = 14; // width of the overview at the right edge

let palette = {};

/** Reads the colours of the current theme from the style sheet. */
function readPalette() {
  const style = getComputedStyle(document.documentElement);
  const get = (name) => style.getPropertyValue(`--${name}`).trim();
  palette = { families: {} };
  const names = `canvas card line edge text muted ink removed created heir accent faint removed-fill created-fill hot
    cold`;
  for (const name of names.split(/\s+/)) {
    palette[name] = get(name);
  }
  for (const family of Object.keys(FAMILIES)) palette.families[family] = get(`family-${family}`);
}

class Pane {
  constructor(side, canvas, events) {
    this.side = side;
    this.canvas = canvas;
    this.events = events;
    this.view = { x: 0, y: 0, zoom: 1 };
    this.marks = new Map(); // node → "removed" | "created" | "heir"
    this.echo = new Set(); // nodes that the selected one of the other side is, became, or came from
    this.hovered = -1;
    this.selected = -1;
    this.isTouched = false;
    this.frame = 0;
    this.listen();
    new ResizeObserver(() => this.resize()).observe(canvas);
    this.resize();
  }

  resize() {
    const { clientWidth, clientHeight } = this.canvas;
    this.ratio = window.devicePixelRatio || 1;
    this.canvas.width = Math.max(1, Math.round(clientWidth * this.ratio));
    this.canvas.height = Math.max(1, Math.round(clientHeight * this.ratio));
    this.width = clientWidth;
    this.height = clientHeight;
    if (!this.isTouched) this.start();
    this.draw();
  }

  // -- view ------------------------------------------------------------------------------------------------------

  /** The first view: the whole graph where it can be read so, else its beginning. */
  start() {
    const { bounds, boxes, x, y, first } = this.side;
    if (!boxes || first === undefined) return;
    const { left, right, top, bottom } = bounds;
    const whole = this.zoomFor(right - left, bottom - top);
    if (whole > 0.5) {
      const zoom = Math.min(whole, 1.1);
      this.view = { zoom, x: (left + right) / 2 - this.width / 2 / zoom, y: (top + bottom) / 2 - this.height / 2 / zoom };
      return;
    }
    const zoom = 0.8;
    const middle = x[first] + boxes[first].width / 2;
    this.view = { zoom, x: middle - this.width / 2 / zoom, y: y[first] - 56 / zoom };
  }

  zoomFor(width, height) {
    return Math.min((this.width - 56) / Math.max(width, 1), (this.height - 56) / Math.max(height, 1));
  }

  /** Brings these nodes (all where none are given) into view. */
  fit(nodes = null, animate = true) {
    const { side } = this;
    let box = side.bounds;
    const placed = nodes?.filter((node) => side.isPlaced[node]);
    if (placed && !placed.length) return;
    if (placed) {
      box = { left: Infinity, right: -Infinity, top: Infinity, bottom: -Infinity };
      for (const node of placed) {
        box.left = Math.min(box.left, side.x[node]);
        box.right = Math.max(box.right, side.x[node] + side.boxes[node].width);
        box.top = Math.min(box.top, side.y[node]);
        box.bottom = Math.max(box.bottom, side.y[node] + side.boxes[node].height);
      }
    }
    const most = placed ? 1.25 : 4;
    const zoom = Math.max(ZOOM.least, Math.min(most, this.zoomFor(box.right - box.left + 120, box.bottom - box.top + 120)));
    const target = {
      zoom,
      x: (box.left + box.right) / 2 - this.width / 2 / zoom,
      y: (box.top + box.bottom) / 2 - this.height / 2 / zoom,
    };
    this.isTouched = true;
    this.moveTo(target, animate);
  }

  moveTo(target, animate) {
    cancelAnimationFrame(this.flight);
    if (!animate || matchMedia("(prefers-reduced-motion: reduce)").matches) {
      this.view = target;
      this.draw();
      return;
    }
    const from = { ...this.view };
    const middle = (view) => [view.x + this.width / 2 / view.zoom, view.y + this.height / 2 / view.zoom];
    const [a, b] = [middle(from), middle(target)];
    const began = performance.now();
    const step = (now) => {
      const part = Math.min(1, (now - began) / 320);
      const ease = 1 - (1 - part) ** 3;
      const zoom = from.zoom * (target.zoom / from.zoom) ** ease;
      const centre = [a[0] + (b[0] - a[0]) * ease, a[1] + (b[1] - a[1]) * ease];
      this.view = { zoom, x: centre[0] - this.width / 2 / zoom, y: centre[1] - this.height / 2 / zoom };
      this.draw();
      if (part < 1) this.flight = requestAnimationFrame(step);
    };
    this.flight = requestAnimationFrame(step);
  }

  /** Brings these nodes into view unless one of them is. */
  reveal(nodes) {
    const { side, view } = this;
    const isSeen = (node) => {
      const [x, y] = [(side.x[node] - view.x) * view.zoom, (side.y[node] - view.y) * view.zoom];
      return x >= 0 && y >= 0 && x < this.width - 60 && y < this.height - 30;
    };
    if (nodes.length && (view.zoom < 0.25 || !nodes.some(isSeen))) this.fit(nodes);
  }

  zoomBy(factor, x = this.width / 2, y = this.height / 2) {
    const { view } = this;
    const zoom = Math.min(ZOOM.most, Math.max(ZOOM.least, view.zoom * factor));
    cancelAnimationFrame(this.flight);
    this.isTouched = true;
    this.view = { zoom, x: view.x + x / view.zoom - x / zoom, y: view.y + y / view.zoom - y / zoom };
    this.draw();
  }

  panBy(x, y) {
    cancelAnimationFrame(this.flight);
    this.isTouched = true;
    this.view = { ...this.view, x: this.view.x - x / this.view.zoom, y: this.view.y - y / this.view.zoom };
    this.draw();
  }

  nodeAt(x, y) {
    const { side, view } = this;
    const [gx, gy] = [view.x + x / view.zoom, view.y + y / view.zoom];
    for (let node = 0; node < side.nodes.length; node++) {
      if (!side.isPlaced[node]) continue;
      const [left, top] = [side.x[node], side.y[node]];
      if (gx >= left && gy >= top && gx <= left + side.boxes[node].width && gy <= top + side.boxes[node].height) return node;
    }
    return -1;
  }

  // -- events ----------------------------------------------------------------------------------------------------

  listen() {
    const { canvas } = this;
    const at = (event) => {
      const box = canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    const touches = new Map();
    let moved = 0;
    let isOnStrip = false;
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      const [x, y] = at(event);
      const unit = event.deltaMode === 1 ? 16 : 1;
      if (event.shiftKey) this.panBy(-(event.deltaX + event.deltaY) * unit, 0);
      else this.zoomBy(Math.exp(-event.deltaY * unit * (event.ctrlKey ? 0.01 : 0.0016)), x, y);
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      touches.set(event.pointerId, at(event));
      moved = 0;
      isOnStrip = at(event)[0] > this.width - STRIP && touches.size === 1;
      if (isOnStrip) this.jump(at(event)[1]);
    });
    canvas.addEventListener("pointermove", (event) => {
      const now = at(event);
      const before = touches.get(event.pointerId);
      if (!before) {
        this.hover(this.nodeAt(...now), event);
        return;
      }
      touches.set(event.pointerId, now);
      moved += Math.abs(now[0] - before[0]) + Math.abs(now[1] - before[1]);
      if (isOnStrip) this.jump(now[1]);
      else if (touches.size === 1) this.panBy(now[0] - before[0], now[1] - before[1]);
      else this.pinch(touches, event.pointerId, before);
      if (moved > 3) this.hover(-1, event);
    });
    const end = (event) => {
      touches.delete(event.pointerId);
      if (event.type === "pointerup" && moved < 4 && !isOnStrip) this.events.select(this, this.nodeAt(...at(event)));
    };
    canvas.addEventListener("pointerup", end);
    canvas.addEventListener("pointercancel", end);
    canvas.addEventListener("pointerleave", (event) => this.hover(-1, event));
    canvas.addEventListener("dblclick", (event) => this.zoomBy(event.shiftKey ? 0.5 : 2, ...at(event)));
    canvas.addEventListener("focus", () => this.events.focus(this));
  }

  pinch(touches, id, before) {
    const [other] = [...touches].filter(([key]) => key !== id).map(([, point]) => point);
    const now = touches.get(id);
    const span = (a, b) => Math.hypot(a[0] - b[0], a[1] - b[1]) || 1;
    this.zoomBy(span(now, other) / span(before, other), (now[0] + other[0]) / 2, (now[1] + other[1]) / 2);
  }

  /** Goes to a place of the overview at the right edge. */
  jump(y) {
    const { top, bottom } = this.side.bounds;
    const centre = top + (y / this.height) * (bottom - top);
    this.isTouched = true;
    this.view = { ...this.view, y: centre - this.height / 2 / this.view.zoom };
    this.draw();
  }

  hover(node, event) {
    if (node !== this.hovered) {
      this.hovered = node;
      this.draw();
    }
    this.canvas.style.cursor = node >= 0 ? "pointer" : "grab";
    this.events.hover(this, node, event);
  }

  // -- drawing ---------------------------------------------------------------------------------------------------

  draw() {
    if (!this.frame) {
      this.frame = requestAnimationFrame(() => {
        this.frame = 0;
        paint(this);
      });
    }
  }
}
