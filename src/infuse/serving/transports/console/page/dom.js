// Trees of elements as plain data, and a document that is made equal to one, so that focus and open parts survive.
// Text only ever becomes text nodes and attribute values: nothing here reads markup.

const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = new Set(["svg", "path", "line", "circle", "text", "g"]);
// Attributes that could run or load something are not ours to set from data.
const ATTRIBUTES = /^(?!on|href$|src|style$|action$|formaction$)[a-z][a-zA-Z0-9-]*$/;

/** An element as data. `key` tells siblings apart; `style` holds CSS properties; false and null leave things out. */
export function h(tag, attributes, ...children) {
  const { key, style, ...rest } = attributes || {};
  for (const name of Object.keys(rest)) {
    if (!ATTRIBUTES.test(name)) throw new Error(`${name} is no attribute of data`);
  }
  const kept = children.flat(9).filter((child) => child !== null && child !== undefined && child !== false && child !== "");
  return { tag, key: key === undefined ? null : String(key), style: style || {}, attributes: rest, children: kept };
}

/** Make the children of `parent` equal to `nodes`. */
export function render(parent, ...nodes) {
  const wanted = nodes.flat(9).filter((node) => node !== null && node !== undefined && node !== false);
  const keyed = new Map();
  for (const child of parent.childNodes) if (child.infuseKey) keyed.set(child.infuseKey, child);
  let place = parent.firstChild;
  for (const node of wanted) {
    const found = fitting(node, node.key ? keyed.get(node.tag + node.key) : place);
    const element = found || create(node);
    if (element === place) place = place.nextSibling;
    else parent.insertBefore(element, place);
    update(element, node);
  }
  while (place) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
}

function fitting(node, candidate) {
  if (!candidate) return null;
  if (typeof node !== "object") return candidate.nodeType === Node.TEXT_NODE ? candidate : null;
  if (candidate.nodeType !== Node.ELEMENT_NODE || candidate.localName !== node.tag) return null;
  return (candidate.infuseKey || null) === (node.key && node.tag + node.key) ? candidate : null;
}

function create(node) {
  if (typeof node !== "object") return document.createTextNode(String(node));
  const element = SVG_TAGS.has(node.tag) ? document.createElementNS(SVG, node.tag) : document.createElement(node.tag);
  if (node.key) element.infuseKey = node.tag + node.key;
  return element;
}

function update(element, node) {
  if (typeof node !== "object") {
    if (element.data !== String(node)) element.data = String(node);
    return;
  }
  const before = element.infuseNames || [];
  const names = [];
  for (const [name, value] of Object.entries(node.attributes)) {
    if (value === false || value === null || value === undefined) continue;
    names.push(name);
    const text = value === true ? "" : String(value);
    if (element.getAttribute(name) !== text) element.setAttribute(name, text);
  }
  for (const name of before) if (!names.includes(name)) element.removeAttribute(name);
  element.infuseNames = names;
  for (const [name, value] of Object.entries(node.style)) {
    if (element.style.getPropertyValue(name) !== value) element.style.setProperty(name, value);
  }
  render(element, node.children);
}
