// Formatting of numbers, and creation of elements with text. Text from the trace only becomes text nodes; no script
// ever assigns HTML.

const TIME_UNITS = [
  [1e9, 's'],
  [1e6, 'ms'],
  [1e3, 'µs'],
  [1, 'ns'],
];

/** A number with three significant digits, without an exponent. */
function significant(value) {
  const size = Math.abs(value);
  if (size === 0) return '0';
  return value.toFixed(size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
}

/** Formats a duration given in nanoseconds for display. */
function formatTime(ns) {
  if (!Number.isFinite(ns)) return '–';
  const [size, unit] = TIME_UNITS.find(([size]) => Math.abs(ns) >= size) ?? TIME_UNITS[3];
  return `${unit === 'ns' ? String(Math.round(ns)) : significant(ns / size)} ${unit}`;
}

/** Formats a point in time with enough digits to distinguish times that are `step` apart. */
function formatMoment(ns, step, range = ns) {
  if (!Number.isFinite(ns)) return '–';
  const [size, unit] = TIME_UNITS.find(([size]) => Math.abs(range) >= size) ?? TIME_UNITS[3];
  const digits = Math.max(0, Math.min(9, Math.ceil(-Math.log10(step / size) - 1e-9)));
  return `${(ns / size).toFixed(digits)} ${unit}`;
}

function formatBytes(bytes) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let at = 0;
  while (bytes >= 1024 && at < units.length - 1) {
    bytes /= 1024;
    at += 1;
  }
  return `${at === 0 ? bytes : significant(bytes)} ${units[at]}`;
}

/** A whole number with thin spaces between groups of three digits. */
function formatCount(count) {
  return String(Math.round(count)).replace(/\B(?=(\d{3})+$)/g, '\u202f');
}

/** A ratio with three significant digits. */
const formatRatio = (ratio) => `${significant(ratio)}×`;

function formatPercent(part, whole) {
  if (!(whole > 0)) return '0 %';
  const percent = (100 * part) / whole;
  if (percent > 0 && percent < 0.1) return '< 0.1 %';
  return `${percent.toFixed(percent >= 99.95 || percent === 0 ? 0 : 1)} %`;
}

const SVG = new Set(['svg', 'g', 'rect', 'path', 'text', 'line', 'title']);

/** An element with attributes, listeners (`onclick`, …), style properties and children, which are text or elements. */
function element(tag, attributes = {}, ...children) {
  const node = SVG.has(tag)
    ? document.createElementNS('http://www.w3.org/2000/svg', tag)
    : document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith('on')) node.addEventListener(key.slice(2), value);
    else if (key === 'style') Object.entries(value).forEach(([name, entry]) => node.style.setProperty(name, entry));
    else node.setAttribute(key, value === true ? '' : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

const find = (id) => document.getElementById(id);
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

/** The first position in a sorted array whose value exceeds `value`. */
function upperBound(sorted, value) {
  let low = 0,
    high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] > value) high = middle;
    else low = middle + 1;
  }
  return low;
}
