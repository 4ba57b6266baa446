// What the row of the worst element looks at: the weight of each block of keys as a bar, and the keys that it sees.
const BARS = { left: LEFT, top: 16, tall: 84, wide: 760 };

function bars(scores, words) {
  const axis = scores.keys;
  const { left, top, tall, wide } = BARS;
  const w = Math.max(5, Math.min(26, Math.floor(wide / cellsOf(axis))));
  const x = (index) => left + (index / axis.step) * w;
  const bottom = top + tall;
  const [low, high] = scores.sees;
  const upright = (kind, index, from) => svg("line", { class: kind, x1: x(index), x2: x(index), y1: from, y2: bottom });
  const bar = (weight, i) => {
    const height = Math.max(weight > 0 ? 1 : 0, order(weight) * tall);
    return svg("rect", { class: "bar", x: left + i * w + 1, y: bottom - height, width: w - 2, height });
  };
  const width = Math.max(left + cellsOf(axis) * w, 230) + 20;
  const height = bottom + 18;
  return svg(
    "svg",
    { role: "img", "aria-label": words, viewBox: `0 0 ${width} ${height}`, width, height },
    svg("rect", { class: "nothing", x: left, y: top, width: x(axis.size) - left, height: tall }),
    svg("rect", { class: "seen", x: x(low), y: top, width: x(high) - x(low), height: tall }),
    ...scores.weights.map(bar),
    ...edges(axis, tile, cellsOf(axis) * w).map((it) => upright("tile-line", it, top)),
    ...(axis.marks || []).map((it) => upright("mark-line", it.at, top - 6)),
    ...(high > low ? [low, high] : []).map((it) => upright("window-line", it, top - 6)),
    svg("text", { x: left - 8, y: top + 10, "text-anchor": "end" }, "1"),
    svg("text", { x: left - 8, y: bottom, "text-anchor": "end" }, "0"),
    ...ticks(axis, cellsOf(axis) * w).map((it) =>
      svg("text", { x: x(it) + (axis.step === 1 ? w / 2 : 0), y: bottom + 14, "text-anchor": "middle" }, String(it)),
    ),
  );
}

function scoreRow(picture) {
  const scores = picture.scores;
  const words = heaviest(scores);
  const rows = () =>
    scores.weights.map((weight, i) => [
      spoken(scores.keys, i),
      right(scores.scores[i] === null ? "not seen" : exact(scores.scores[i])),
      right(short(weight)),
    ]);
  const holder = h("div", { class: "scroll drawn", tabindex: "0", role: "region", "aria-label": "Weights as bars" });
  holder.redraw = () => holder.replaceChildren(bars(scores, words));
  holder.redraw();
  return h(
    "figure",
    { class: "map" },
    h(
      "figcaption",
      null,
      `Scores of the worst row: ${rowName(picture)} ${picture.row}, head ${picture.head}`,
      h("span", null, "the weight of each key after softmax, by the oracle"),
    ),
    holder,
    h("p", { class: "readout" }, words),
    h(
      "ul",
      null,
      h("li", { class: "key-line window" }, "the keys that it sees"),
      h("li", null, "grey: keys that it does not see"),
      ...(scores.keys.marks || []).map((it) => h("li", { class: "key-line mark" }, `key ${it.at}: ${it.words}`)),
    ),
    inNumbers("Scores and weights", () => table("Scores and weights", ["keys", "largest score", "weight"], rows())),
  );
}

function heaviest(scores) {
  const [low, high] = scores.sees;
  if (low === high) return "It sees no key.";
  const seen = `It sees ${high - low === 1 ? `key ${low}` : `keys ${low} to ${high - 1}`} of ${scores.keys.size}`;
  const top = scores.weights
    .map((weight, i) => [order(weight), i])
    .filter(([weight]) => weight > 0)
    .sort((a, b) => b[0] - a[0])
    .slice(0, 3)
    .map(([weight, i]) => `${spoken(scores.keys, i)} with ${short(weight)}`);
  return top.length ? `${seen}; most weight: ${top.join(", ")}.` : `${seen}.`;
}
