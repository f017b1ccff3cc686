// What an operator may do: a question, its fields, and the call that does it.

const FRACTIONS = /^\s*\d+(\.\d+)?\s?%?([\s,;]+\d+(\.\d+)?\s?%?)*\s*$/;

const model = (name) => `v2/models/${encodeURIComponent(name)}`;
const repository = (name, verb) => `v2/repository/models/${encodeURIComponent(name)}/${verb}`;
const change = (name, verb, body = {}) => ({ path: `${model(name)}/${verb}`, body });
const ready = (found) => found.versions.filter((version) => version.state === "READY").map((version) => String(version.version));

/**
 * Actions by name. Each makes, of the model (as the server described it) and the button's data, a question:
 * title, text, fields, the word on its button, whether it is dangerous, and `call` of the fields' values.
 */
export const ACTIONS = {
  "load-new": (_, __, data) => ({
    title: "Load a model",
    text: "Its folder must be in the repository. Versions are chosen by its version policy.",
    fields: [{ name: "model", label: "Name", required: true, suggestions: data.models.map(({ name }) => name) }],
    verb: "Load",
    call: (values) => ({ path: repository(values.model.trim(), "load"), body: {} }),
  }),
  load: (found) => ({
    title: `Load ${found.name}`,
    text: "Its folder is read again: changed and new versions are loaded, and take over once they are ready. If that fails, what serves now goes on serving.",
    verb: "Load",
    call: () => ({ path: repository(found.name, "load"), body: {} }),
  }),
  unload: (found) => ({
    title: `Unload ${found.name}`,
    text: "All of its versions stop serving once the requests that they have accepted are answered. New requests are refused.",
    verb: "Unload",
    danger: true,
    call: () => ({ path: repository(found.name, "unload"), body: {} }),
  }),
  label: (found, { version }) => ({
    title: `Label version ${version} of ${found.name}`,
    text: "Requests that name the label go to this version from now on. A label that another version has moves here.",
    fields: [{ name: "label", label: "Label", required: true, suggestions: [...new Set([...Object.keys(found.labels), "stable", "canary"])] }],
    verb: "Set the label",
    call: (values) => change(found.name, "labels", { label: values.label.trim(), version: Number(version) }),
  }),
  unlabel: (found, { label }) => ({
    title: `Remove the label ${label}`,
    text: `Requests to ${found.name} that name it will be refused.`,
    verb: "Remove",
    danger: true,
    call: () => change(found.name, "labels", { label }),
  }),
  split: (found) => ({
    title: `Split the traffic of ${found.name}`,
    text: "Weights of the versions; only their proportions count. With all fields empty there is no split, and one version takes all.",
    fields: ready(found).map((version) => ({
      name: version, label: `Version ${version}`, type: "number", min: "0", step: "any", value: found.split[version] ?? "",
    })),
    verb: "Split",
    call: (values) => {
      const filled = Object.entries(values).filter(([, text]) => text.trim() !== "");
      return change(found.name, "split", { weights: Object.fromEntries(filled.map(([key, text]) => [key, Number(text)])) });
    },
  }),
  rollout: (found) => ({
    title: `Roll out a version of ${found.name}`,
    text: "It gets its traffic step by step, and is rolled back by itself when it fails more often, is slower, or answers differently.",
    fields: [
      { name: "version", label: "Version", choices: ready(found).reverse() },
      { name: "steps", label: "Steps in percent (empty: as configured)", pattern: FRACTIONS.source, placeholder: "5, 25, 50, 100" },
      { name: "seconds", label: "Seconds of a step (empty: as configured)", type: "number", min: "0", step: "any" },
    ],
    verb: "Start",
    call: (values) => change(found.name, "rollout", { version: Number(values.version), ...canary(values) }),
  }),
  promote: (found, { version }) => ({
    title: `Promote version ${version} of ${found.name}`,
    text: "It gets all traffic now, whatever steps are left.",
    verb: "Promote",
    call: () => change(found.name, "promote"),
  }),
  rollback: (found) => ({
    title: `Roll back ${found.name}`,
    text: `All traffic goes back to version ${found.previous.join(", ")}, at once. The version that it is taken from is not chosen again by itself.`,
    fields: [{ name: "reason", label: "Reason, for the records", value: "asked for in the console" }],
    verb: "Roll back",
    danger: true,
    call: (values) => change(found.name, "rollback", { reason: values.reason.trim() || "asked for" }),
  }),
  pause: (found, { version }) => ({
    title: `Pause the rollout of ${found.name}`,
    text: `Version ${version} keeps its share. It is still rolled back when it does worse.`,
    verb: "Pause",
    call: () => change(found.name, "pause"),
  }),
  resume: (found) => ({
    title: `Resume the rollout of ${found.name}`,
    text: "It goes on with the step that it was paused in.",
    verb: "Resume",
    call: () => change(found.name, "resume"),
  }),
};

function canary(values) {
  const steps = values.steps.split(/[,;\s%]+/).filter(Boolean).map((text) => Number(text) / 100);
  const settings = {
    ...(steps.length ? { steps } : {}),
    ...(values.seconds.trim() ? { step_seconds: Number(values.seconds) } : {}),
  };
  return Object.keys(settings).length ? { canary: settings } : {};
}
