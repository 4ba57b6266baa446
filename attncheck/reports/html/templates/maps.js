// A map with its words: a title, a sentence for who cannot see the drawing, and the table of its numbers on demand.
const paged = (picture) =>
  picture.maps.some((it) => it.rows.name === "page" || (it.rows.name === "row" && picture.role.startsWith("present")));
const entryOf = (picture) => `${paged(picture) ? "page" : "batch entry"} ${picture.batch}`;
const ofAllHeads = (map) => map.head === undefined || map.head === null;

function titleOf(map) {
  const what = map.of === "weight" ? "Where the queries look" : "Margin";
  return `${what}: ${map.rows.name} \u00d7 ${map.columns.name}`;
}

function scopeOf(map, picture) {
  if (map.of === "weight") {
    return `the largest share of its weight that a query gives to these keys, by the oracle; head ${map.head}`;
  }
  if (["batch", "page"].includes(map.rows.name)) return "the largest of everything in it";
  const of = ofAllHeads(map) ? `all ${picture.role === "scores" ? "keys" : "dims"}` : `head ${map.head}`;
  return `${entryOf(picture)}, ${of}: the largest error / tolerance of a cell`;
}

function sentence(map) {
  if (map.of === "weight") return "Shares of weight by the oracle; the table below holds the numbers.";
  const wrong = map.cells.flatMap((row, i) => row.flatMap((cell, j) => (order(cell) > 1 ? [[i, j]] : [])));
  if (!wrong.length) return "Nothing is out of tolerance.";
  const compared = map.cells.flat().filter((it) => it !== null).length;
  const where = [map.rows, map.columns].map((axis, side) =>
    rangeOf(
      axis,
      wrong.map((it) => it[side]),
    ),
  );
  return `${plural(wrong.length, "cell")} of ${compared} out of tolerance, within ${where.join(", ")}.`;
}

function rangeOf(axis, cells) {
  const low = span(axis, Math.min(...cells))[0];
  const high = span(axis, Math.max(...cells))[1];
  return low === high ? `${axis.name} ${low}` : `${many(axis)} ${low} to ${high}`;
}

const cellText = (value) => (value === null ? "not compared" : short(value));

function tableOf(map) {
  const heads = map.cells[0].map((_, j) => [...new Set(span(map.columns, j))].join("\u2013"));
  const kind = (cell) => (map.of === "weight" ? "" : level(cell) || "");
  const rows = map.cells.map((row, i) => [
    spoken(map.rows, i),
    ...row.map((cell) => h("td", { class: `num ${kind(cell)}` }, cellText(cell))),
  ]);
  return table("The numbers of the map", [`${map.rows.name} \\ ${map.columns.name}`, ...heads], rows);
}

// A table that is made when it is asked for.
function inNumbers(label, make) {
  const details = h("details", { ontoggle: () => details.open && fillOnce() }, h("summary", null, "In numbers"));
  const fillOnce = () => {
    if (details.children.length === 1) {
      details.append(h("div", { tabindex: "0", role: "region", "aria-label": `${label}, in numbers` }, make()));
    }
  };
  return details;
}

function figure(map, picture, wrongRows) {
  const title = titleOf(map);
  const scope = scopeOf(map, picture);
  const draw = () => drawing(map, picture, wrongRows, `${title}, ${scope}. ${sentence(map)}`);
  const readout = h("p", { class: "readout", "aria-hidden": "true" }, "\u00a0");
  const said = ([i, j]) =>
    `${spoken(map.rows, i)}, ${spoken(map.columns, j)}: ${map.of === "weight" ? "" : "margin "}${cellText(map.cells[i][j])}`;
  const moved = (event) => {
    const cell = under(event, holder.firstChild, map);
    readout.textContent = cell ? said(cell) : "\u00a0";
  };
  const left = () => {
    readout.textContent = "\u00a0";
  };
  const holder = h("div", { class: "drawn", onmousemove: moved, onmouseleave: left }, draw());
  holder.redraw = () => holder.replaceChildren(draw());
  return h(
    "figure",
    { class: "map" },
    h("figcaption", null, title, h("span", null, scope)),
    holder,
    readout,
    keyLines(map, wrongRows),
    map.of === "weight" ? shares() : null,
    inNumbers(title, () => tableOf(map)),
  );
}

const MARKED = 4;

function keyLines(map, wrongRows) {
  const all = [map.rows, map.columns].flatMap((axis) => (axis.marks || []).map((it) => [axis, it]));
  const lines = all
    .slice(0, MARKED)
    .map(([axis, it]) => h("li", { class: "key-line mark" }, `${axis.name} ${it.at}: ${it.words}`));
  if (all.length > MARKED) lines.push(h("li", null, `and ${all.length - MARKED} more lines alike`));
  if (map.sees) lines.push(h("li", { class: "key-line window" }, "the keys that a query sees"));
  if (wrongRows && wrongRows.some(Boolean)) lines.push(h("li", null, "a bar at the left: a query that is wrong"));
  if (map.cells.some((row) => row.includes(null))) lines.push(h("li", null, "grey: nothing is compared"));
  return lines.length ? h("ul", null, ...lines) : null;
}

function shares() {
  const steps = [...SHARES.map(([bound, kind]) => [`${bound * 100}\u202f%`, kind]), ["more", "w5"]];
  const items = steps.map(([text, kind]) => h("li", { class: kind }, text));
  return h("ul", { class: "legend", "aria-label": "Colours: the share of weight" }, ...items);
}

function maps(picture) {
  // Which queries of the worst head are wrong, to be told beside what they look at.
  const own = picture.maps.find((it) => it.of === "margin" && it.head === picture.head);
  const wrong = own ? own.cells.map((row) => row.some((it) => order(it) > 1)) : null;
  const figures = picture.maps.map((it) => figure(it, picture, it.of === "weight" ? wrong : null));
  return h("div", { class: "maps" }, ...figures);
}
