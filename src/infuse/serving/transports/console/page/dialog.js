// One dialog that asks before anything is done, and shows what went wrong.

import { h, render } from "./dom.js";

const dialog = () => document.getElementById("dialog");

/**
 * Ask a question: { title, text, fields, verb, danger }. `answer(values)` does what was asked; the error that it throws
 * is shown, and the question stays.
 */
export function ask(question, answer) {
  const box = dialog();
  const fields = question.fields || [];
  render(box); // a new question starts with new fields
  render(box, form(question, fields));
  const shown = box.querySelector("form");
  const error = box.querySelector(".error");
  shown.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (event.submitter && event.submitter.dataset.close !== undefined) return box.close();
    const send = box.querySelector("[data-send]");
    send.disabled = true;
    error.hidden = true;
    try {
      await answer(Object.fromEntries(fields.map(({ name }) => [name, shown.elements[`field-${name}`].value])));
      box.close();
    } catch (failure) {
      error.textContent = failure.message;
      error.hidden = false;
    } finally {
      send.disabled = false;
    }
  });
  box.showModal();
}

function form(question, fields) {
  return h(
    "form",
    { key: question.title, autocomplete: "off" },
    h("h2", { id: "dialog-title" }, question.title),
    question.text && h("p", {}, question.text),
    fields.map(field),
    h("p", { class: "error", role: "alert", hidden: true }),
    h("div", { class: "dialog-buttons" },
      h("button", { type: "submit", "data-close": "", formnovalidate: true }, "Cancel"),
      h("button", { type: "submit", class: question.danger ? "danger" : "primary", "data-send": "", autofocus: fields.length === 0 && !question.danger }, question.verb)),
  );
}

function field({ name, label, choices, suggestions, ...rest }) {
  const id = `field-${name}`;
  const list = suggestions && suggestions.length ? `${id}-known` : null;
  return h("div", { class: "field" },
    h("label", { for: id }, label),
    choices ? h("select", { id, name: id }, choices.map((choice) => h("option", { value: choice }, choice)))
      : h("input", { id, name: id, list, type: "text", autocomplete: "off", spellcheck: "false", ...rest }),
    list && h("datalist", { id: list }, suggestions.map((text) => h("option", { value: text }))));
}

/** A message that goes away by itself. */
export function toast(text) {
  const element = document.createElement("div");
  element.className = "toast";
  element.textContent = text;
  document.getElementById("toasts").append(element);
  setTimeout(() => element.remove(), 5000);
}
