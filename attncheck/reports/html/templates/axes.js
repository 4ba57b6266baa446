// The axes of a map: which indices a cell holds, in numbers and in words.
const cellsOf = (axis) => Math.ceil(axis.size / (axis.step || 1));

function span(axis, cell) {
  const first = cell * axis.step;
  return [first, Math.min(first + axis.step, axis.size) - 1];
}

const PLURALS = { query: "queries", batch: "batch entries" };
const SINGULARS = { batch: "batch entry" };
const many = (axis) => PLURALS[axis.name] || `${axis.name}s`;

function spoken(axis, cell) {
  const [first, last] = span(axis, cell);
  return first === last ? `${SINGULARS[axis.name] || axis.name} ${first}` : `${many(axis)} ${first} to ${last}`;
}

// Indices that stand at an axis: round steps, so that at most a dozen fit.
function ticks(axis, room) {
  const steps = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192];
  const label = 14 + 6 * String(axis.size).length;
  const step = steps.find((it) => (it / axis.size) * room >= label) || 16384;
  return Array.from({ length: Math.ceil(axis.size / step) }, (_, i) => i * step);
}

// Whole pixels a cell, so that the drawing of few cells is not a speck and that of many fits a page.
function pitch(axis, room) {
  return Math.max(8, Math.min(26, Math.floor(room / cellsOf(axis))));
}

// The lines between tiles of `tile` indices that lie within an axis; none where they would lie closer than 6 pixels.
function edges(axis, tile, length) {
  const found = [];
  if ((tile / axis.size) * length < 6) return found;
  for (let at = tile; tile && at < axis.size; at += tile) found.push(at);
  return found;
}
