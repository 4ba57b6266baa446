// What stands in a cell: numbers in words, and the level by which they are coloured. Colour never stands alone.
const WORDS = { NaN: "NaN", Infinity: "\u221e", "-Infinity": "-\u221e" };

function short(value) {
  if (value === undefined || value === null) return "\u2013";
  if (typeof value === "string") return WORDS[value] || value;
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 0.001 && size < 10000) return String(+value.toPrecision(3));
  return value.toExponential(1).replace("e+", "e");
}

// Errors, tolerances and margins as attncheck/compare/digits.py writes them: page and terminal tell one number alike.
function inDigits(value) {
  if (typeof value !== "number" || value === 0) return short(value);
  const magnitude = Math.floor(Math.log10(Math.abs(+value.toExponential(2))));
  if (magnitude >= -2 && magnitude <= 3) return value.toFixed(Math.max(0, 2 - magnitude));
  return value.toExponential(1).replace("e+", "e");
}

function asMargin(value) {
  if (typeof value !== "number" || value <= 0 || value >= 0.9995) return inDigits(value);
  return value < 0.0005 ? "<0.001" : value.toFixed(3);
}

const exact = (value) => (typeof value === "number" ? String(+value.toPrecision(9)) : short(value));
const count = (value) => Number(value || 0).toLocaleString("en-US");
const plural = (number, noun, many) => `${count(number)} ${number === 1 ? noun : many || noun + "s"}`;
const order = (value) =>
  value === "NaN" || value === "Infinity" ? Infinity : value === undefined || value === null ? -1 : value;
const BOUNDS = [
  [0.01, "p0"],
  [0.1, "p1"],
  [0.5, "p2"],
  [1, "p3"],
  [10, "f1"],
  [1e3, "f2"],
  [1e6, "f3"],
];

function level(margin) {
  if (margin === undefined || margin === null) return null;
  if (typeof margin === "string") return "f5";
  for (const [bound, name] of BOUNDS) if (margin <= bound) return name;
  return "f4";
}

const SHARES = [
  [1e-4, "w0"],
  [0.01, "w1"],
  [0.1, "w2"],
  [0.3, "w3"],
  [0.6, "w4"],
];

function shade(share) {
  if (share === undefined || share === null) return null;
  for (const [bound, name] of SHARES) if (share <= bound) return name;
  return "w5";
}

const NUMBERS = new Set(["pass", "mismatch", "nonfinite"]);
const WRONG = new Set(["failed", "xpassed"]);
const FOLLOWS = { passed: true, failed: true, skipped: true };

// The margin that the terminal shows: of what differs from the oracle the largest, else the largest of all.
function marginOf(result) {
  const wrong = (result.differences || []).filter((it) => it.against === "oracle" && !it.passed);
  return wrong.length ? wrong.reduce((a, b) => (order(b.margin) > order(a.margin) ? b : a)).margin : result.margin;
}

function levelOf(result) {
  if (result.status === "skipped") return "skip-cell";
  return NUMBERS.has(result.verdict) ? level(marginOf(result)) || (result.verdict === "pass" ? "p0" : "f5") : "bad";
}

// "mismatch 282", "pass 0.038", "crash", and a status that does not follow from the verdict.
function told(result) {
  const margin = NUMBERS.has(result.verdict) && marginOf(result) !== undefined ? ` ${asMargin(marginOf(result))}` : "";
  return result.verdict + margin + (FOLLOWS[result.status] ? "" : `, ${result.status}`);
}

const badge = (result) =>
  h("span", { class: `badge ${levelOf(result)}`, title: REPORT.words[result.verdict] }, told(result));
const worstMargin = (one) => Math.max(-1, ...(one.results || []).map((it) => order(marginOf(it))));
const label = (result) => result.backend + (result.kernel ? ` ${result.kernel}` : "");
const fileOf = (one) => (one.id.includes("::") ? one.id.split("::")[0] : one.file || one.id);
const inFile = (one) => (one.id.includes("::") ? one.id.slice(one.id.indexOf("::") + 2) : one.id);
const caseLink = (one) => `#case=${encodeURIComponent(one.id)}`;
