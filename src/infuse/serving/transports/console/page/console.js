// The console: asks the server once a second, shows the answer, and sends what the operator decides.

import { ACTIONS } from "./actions.js";
import { ask, toast } from "./dialog.js";
import { render } from "./dom.js";
import { LONGEST, spanOf, timeAt } from "./plots.js";
import { head, models, side, totals } from "./view.js";

const PERIOD = 1000; // milliseconds
const TOKEN = "infuse-token";
const THEME = "infuse-theme";
const SIDE_BY_SIDE = 640; // pixels, from which two plots stand beside each other
const BETWEEN = 16;

const state = {
  data: null,
  failure: null,
  history: [], // { time, versions: Map of "version/model" to its last ten seconds }
  now: 0,
  open: new Map(),
  hover: null,
  filter: "",
  theme: "light",
  width: 400,
};
let timer = null;
let asking = false;
let asked = false; // for a token: once by itself, then when the button is pressed
const page = (id) => document.getElementById(id);

// ------------------------------------------------------------------------------------------------ calls

class CallError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** Call the server; its answer as data. CallError carries the server's words. */
async function call(path, { method = "GET", body } = {}) {
  const headers = { "X-Infuse-Request": "console" };
  const token = sessionStorage.getItem(TOKEN);
  if (token) headers.Authorization = `Bearer ${token}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body), cache: "no-store", credentials: "same-origin" });
  } catch (error) {
    throw new CallError(0, "The server does not answer.");
  }
  const text = await response.text();
  if (!response.ok) throw new CallError(response.status, wordsOf(text) || `The server answered ${response.status}.`);
  return text ? JSON.parse(text) : {};
}

function wordsOf(text) {
  try {
    const { error } = JSON.parse(text);
    return typeof error === "string" ? error : "";
  } catch {
    return "";
  }
}

// ------------------------------------------------------------------------------------------------ polling

async function poll() {
  clearTimeout(timer);
  if (asking || document.hidden) return;
  asking = true;
  try {
    take(await call("v2/console/data"));
  } catch (error) {
    state.failure = error;
    if (error.status === 401 && !asked) askToken();
  } finally {
    asking = false;
    show();
    page("models").dataset.updates = String(Number(page("models").dataset.updates || 0) + 1);
    timer = setTimeout(poll, PERIOD);
  }
}

function take(data) {
  state.data = data;
  state.failure = null;
  state.now = data.server.time;
  const versions = new Map();
  for (const model of data.models) {
    for (const version of model.versions) {
      if (version.state === "READY") versions.set(`${version.version}/${model.name}`, version.recent);
    }
  }
  state.history.push({ time: state.now, versions });
  while (state.history.length && state.history[0].time < state.now - LONGEST) state.history.shift();
}

// ------------------------------------------------------------------------------------------------ showing

function show() {
  const space = page("models").clientWidth - 34;
  state.width = Math.max(220, Math.floor(space >= SIDE_BY_SIDE ? (space - BETWEEN) / 2 : space));
  render(page("head"), head(state));
  render(page("totals"), totals(state));
  render(page("models"), models(state));
  render(page("side"), side(state));
  notice();
  document.body.classList.toggle("stale", Boolean(state.failure && state.data));
}

function notice() {
  const { failure } = state;
  const box = page("notice");
  box.hidden = !failure;
  const text = failure ? `${failure.message}${failure.status === 0 ? " Asking again every second." : ""}` : "";
  if (box.textContent !== text) box.textContent = text;
}

function setTheme(theme) {
  state.theme = theme;
  document.documentElement.dataset.theme = theme;
}

// ------------------------------------------------------------------------------------------------ doing

function askToken() {
  if (page("dialog").open) return;
  asked = true;
  ask(
    {
      title: "Token",
      text: "This server asks for a bearer token. It is kept in this tab only, until the tab is closed. Changing anything needs an admin's.",
      fields: [{ name: "token", label: "Token", type: "password", required: true }],
      verb: "Use it",
    },
    async ({ token }) => {
      const before = sessionStorage.getItem(TOKEN);
      sessionStorage.setItem(TOKEN, token.trim());
      try {
        take(await call("v2/console/data"));
      } catch (error) {
        if (before === null) sessionStorage.removeItem(TOKEN);
        else sessionStorage.setItem(TOKEN, before);
        throw error;
      }
      show();
    },
  );
}

function act(name, target) {
  const found = state.data.models.find((model) => model.name === target.model);
  const question = ACTIONS[name](found, target, state.data);
  ask(question, async (values) => {
    const { path, ...options } = question.call(values);
    await call(path, { method: "POST", ...options });
    toast(`Done: ${question.title}`);
    poll();
  });
}

function clicked(event) {
  const button = event.target.closest("[data-action]");
  if (!button) return;
  const { action, ...target } = button.dataset;
  if (action === "theme") {
    setTheme(state.theme === "dark" ? "light" : "dark");
    localStorage.setItem(THEME, state.theme);
  } else if (action === "token") {
    askToken();
  } else if (action === "fold") {
    state.open.set(target.model, button.getAttribute("aria-expanded") !== "true");
  } else {
    act(action, target);
  }
  show();
}

function pointed(event) {
  const plot = event.target.closest("[data-plot]");
  const before = state.hover;
  state.hover = plot ? { plot: plot.dataset.plot, time: timeAt(event.clientX - plot.getBoundingClientRect().left, state.width, state.now, spanOf(state.history, state.now)) } : null;
  if (before || state.hover) requestAnimationFrame(show);
}

function start() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  setTheme(localStorage.getItem(THEME) || (dark.matches ? "dark" : "light"));
  dark.addEventListener("change", () => {
    if (!localStorage.getItem(THEME)) setTheme(dark.matches ? "dark" : "light");
    show();
  });
  document.addEventListener("click", clicked);
  document.addEventListener("input", (event) => {
    if (event.target.id !== "filter") return;
    state.filter = event.target.value;
    show();
  });
  page("models").addEventListener("pointermove", pointed);
  page("models").addEventListener("pointerleave", pointed);
  document.addEventListener("visibilitychange", () => !document.hidden && poll());
  new ResizeObserver(show).observe(page("models"));
  show();
  poll();
}

start();
