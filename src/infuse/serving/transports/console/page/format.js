// Numbers as people read them.

const UNITS = ["B", "KB", "MB", "GB", "TB"];

/** Three digits at most, without an exponent. */
export function number(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size >= 10000) return Math.round(value).toLocaleString("en");
  if (size >= 100 || value === 0) return String(Math.round(value));
  return String(Number(value.toPrecision(3)));
}

/** A duration where the unit stands elsewhere. */
export function plainMilliseconds(value) {
  return value ? number(value) : "–";
}

export function milliseconds(value) {
  if (!value) return "–";
  return value >= 1000 ? `${number(value / 1000)} s` : `${number(value)} ms`;
}

export function percent(share) {
  if (share === null || share === undefined || !Number.isFinite(share)) return "–";
  const value = share * 100;
  if (value > 99 && value < 100) return `${Math.floor(value * 100) / 100} %`;
  return `${value < 10 ? Math.round(value * 100) / 100 : Math.round(value)} %`;
}

export function bytes(count) {
  if (!count) return "–";
  let unit = 0;
  while (count >= 1000 && unit < UNITS.length - 1) {
    count /= 1000;
    unit += 1;
  }
  return `${number(count)} ${UNITS[unit]}`;
}

/** A length of time in its two largest units. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  const s = Math.max(0, Math.floor(seconds));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

export function clock(epoch) {
  return new Date(epoch * 1000).toLocaleTimeString("en-GB");
}

export function plural(count, word) {
  return `${number(count)} ${word}${count === 1 ? "" : "s"}`;
}
