// The numbers of a result: reference, oracle and candidate side by side; the scores of the worst row; every output.
function sideBySide(result) {
  const picture = result.picture, it = picture.numbers, given = it.reference || [];
  const dim = { scores: "key" }[picture.role] || "dim";
  const rows = it.oracle.map((oracle, i) => {
    const candidate = it.candidate[i], tolerance = it.tolerance[i];
    const finite = typeof oracle === "number" && typeof candidate === "number";
    const error = finite ? Math.abs(candidate - oracle) : oracle === candidate ? 0 : "Infinity";
    const margin = error === 0 ? 0 : finite && tolerance > 0 ? error / tolerance : "Infinity";
    const cells = [given.length ? exact(given[i]) : "\u2013", exact(oracle), exact(candidate), short(error), short(tolerance)].map((text) => h("td", { class: "num mono" }, text));
    const at = it.first + i, worst = at === picture.dim;
    return { class: worst ? "worst" : null, cells: [`${dim} ${at}${worst ? ", the worst" : ""}`, ...cells, h("td", { class: `num ${level(margin)}` }, short(margin))] };
  });
  return scrolled("Numbers around the worst element", table("Numbers around the worst element", [placeOf(picture), "reference", "oracle", "candidate", "error", "tolerance", "margin"], rows));
}

function placeOf(picture) {
  const row = (picture.maps[0] || { rows: { name: "row" } }).rows.name;
  return `${picture.role}, ${paged(picture) ? "page" : "batch entry"} ${picture.batch}, head ${picture.head}, ${row} ${picture.row}`;
}

function scoreRow(picture) {
  const it = picture.scores, axis = it.keys, cells = cellsOf(axis);
  const w = Math.max(5, Math.min(26, Math.floor(760 / cells))), width = cells * w, tall = 84, left = 46;
  const x = (index) => left + (index / axis.step) * w;
  const [low, high] = it.sees;
  const parts = [svg("rect", { class: "nothing", x: left, y: 16, width: x(axis.size) - left, height: tall })];
  if (high > low) parts.push(svg("rect", { class: "seen", x: x(low), y: 16, width: x(high) - x(low), height: tall }));
  it.weights.forEach((weight, i) => {
    const bar = Math.max(weight > 0 ? 1 : 0, order(weight) * tall);
    parts.push(svg("rect", { class: "bar", x: left + i * w + 1, y: 16 + tall - bar, width: Math.max(1, w - 2), height: bar }));
  });
  for (const at of edges(axis, tile, width)) parts.push(svg("line", { class: "tile-line", x1: x(at), x2: x(at), y1: 16, y2: 16 + tall }));
  for (const mark of axis.marks || []) parts.push(svg("line", { class: "mark-line", x1: x(mark.at), x2: x(mark.at), y1: 10, y2: 16 + tall }));
  if (high > low) for (const at of [low, high]) parts.push(svg("line", { class: "window-line", x1: x(at), x2: x(at), y1: 10, y2: 16 + tall }));
  parts.push(svg("text", { x: left - 8, y: 26, "text-anchor": "end" }, "1"), svg("text", { x: left - 8, y: 16 + tall, "text-anchor": "end" }, "0"));
  for (const at of ticks(axis, width)) parts.push(svg("text", { x: x(at), y: 16 + tall + 14 }, String(at)));
  const end = Math.max(left + width, 230) + 20;
  const words = heaviest(it);
  const drawn = svg("svg", { role: "img", "aria-label": words, viewBox: `0 0 ${end} ${tall + 34}`, width: end, height: tall + 34 }, ...parts);
  const rows = it.weights.map((weight, i) => [spoken(axis, i), it.scores[i] === null ? "not seen" : h("td", { class: "num" }, exact(it.scores[i])), h("td", { class: "num" }, short(weight))]);
  const numbers = h("details", { ontoggle: () => { if (numbers.open && numbers.children.length === 1) numbers.append(h("div", { tabindex: "0", role: "region", "aria-label": "Scores and weights, in numbers" }, table("Scores and weights", ["keys", "largest score", "weight"], rows))); } }, h("summary", null, "In numbers"));
  return h("figure", { class: "map" },
    h("figcaption", null, `Scores of the worst row: ${(picture.maps[0].rows || {}).name} ${picture.row}, head ${picture.head}`, h("span", null, "the weight of each key after softmax, by the oracle")),
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "The weights as bars" }, drawn), h("p", { class: "readout" }, words),
    h("ul", null, h("li", { class: "key-line window" }, "the keys that it sees"), h("li", null, "grey: keys that it does not see"), ...(axis.marks || []).map((mark) => h("li", { class: "key-line mark" }, `key ${mark.at}: ${mark.words}`))), numbers);
}

function heaviest(it) {
  const [low, high] = it.sees;
  const seen = high > low ? `It sees ${high - low === 1 ? `key ${low}` : `keys ${low} to ${high - 1}`} of ${it.keys.size}` : "It sees no key";
  const top = it.weights.map((weight, i) => [order(weight), i]).filter(([weight]) => weight > 0).sort((a, b) => b[0] - a[0]).slice(0, 3);
  return top.length ? `${seen}; most weight: ${top.map(([weight, i]) => `${spoken(it.keys, i)} with ${short(weight)}`).join(", ")}.` : `${seen}.`;
}

function outputs(result) {
  const rows = result.differences.map((it) => ({ cells: [
    `${it.role}${it.subject ? `, ${it.subject}` : ""} against ${it.against}`, h("td", { class: "mono" }, it.where), h("td", { class: "num mono" }, exact(it.got)), h("td", { class: "num mono" }, exact(it.expected)),
    h("td", { class: "num" }, short(it.error)), h("td", { class: "num" }, short(it.tolerance)), h("td", { class: `num ${level(it.margin)}` }, short(it.margin)),
    h("td", { class: "num" }, `${count(it.failing)} of ${count(it.compared)}`)] }));
  return scrolled("Every output", table("Every output at its worst element", ["output", "worst element", "got", "expected", "error", "tolerance", "margin", "failing"], rows));
}
