// A map as a drawing, with its words: a sentence for who cannot see it, and the table of its numbers on demand.
const LEFT = 46, TOP = 20, ROOM = 460;
let tile = 16;

const TILED = new Set(["query", "key", "slot", "row", "dim", "key dim"]);
const drawnTile = (axis) => (TILED.has(axis.name) ? tile : 0);

function titleOf(map, picture) {
  const what = map.of === "weight" ? "Where the queries look" : "Margin";
  return [`${what}: ${map.rows.name} \u00d7 ${map.columns.name}`, map.of === "weight"
    ? `the largest share of its weight that a query gives to these keys, by the oracle; head ${map.head}`
    : map.rows.name === "batch" || map.rows.name === "page" ? "largest of everything in it"
      : `${scopeOf(map, picture)}, largest error / tolerance of a cell`];
}

function scopeOf(map, picture) {
  const entry = paged(picture) ? `page ${picture.batch}` : `batch entry ${picture.batch}`;
  return map.head === undefined || map.head === null ? `${entry}, all ${picture.role === "scores" ? "keys" : "dims"}` : `${entry}, head ${map.head}`;
}

const paged = (picture) => picture.maps.some((it) => it.rows.name === "page" || (it.rows.name === "row" && picture.role.startsWith("present")));

function worstCell(map, picture) {
  const at = { batch: picture.batch, page: picture.batch, head: picture.head, dim: picture.dim, key: picture.dim };
  const row = map.rows.name in at && ["batch", "page"].includes(map.rows.name) ? picture.batch : picture.row;
  const column = at[map.columns.name];
  return map.of === "weight" ? null : [Math.floor(row / map.rows.step), Math.floor(column / map.columns.step)];
}

function sentence(map) {
  if (map.of === "weight") return "Shares of weight by the oracle; the table below holds the numbers.";
  const wrong = [];
  map.cells.forEach((row, i) => row.forEach((cell, j) => { if (order(cell) > 1) wrong.push([i, j, cell]); }));
  if (!wrong.length) return "Nothing is out of tolerance.";
  const range = (axis, picked) => {
    const low = span(axis, Math.min(...picked))[0], high = span(axis, Math.max(...picked))[1];
    return low === high ? `${axis.name} ${low}` : `${many(axis)} ${low} to ${high}`;
  };
  const compared = map.cells.flat().filter((it) => it !== null).length;
  return `${plural(wrong.length, "cell")} of ${compared} out of tolerance, within ${range(map.rows, wrong.map((it) => it[0]))}, ${range(map.columns, wrong.map((it) => it[1]))}.`;
}

function drawing(map, picture, wrongRows) {
  const across = cellsOf(map.columns), down = cellsOf(map.rows);
  const w = pitch(map.columns, ROOM), hgt = pitch(map.rows, 420);
  const width = across * w, height = down * hgt;
  const x = (index) => LEFT + (index / map.columns.step) * w, y = (index) => TOP + (index / map.rows.step) * hgt;
  const right = LEFT + (map.columns.size / map.columns.step) * w, bottom = TOP + (map.rows.size / map.rows.step) * hgt;
  const end = Math.max(LEFT + width, 230) + 14;
  const paint = map.of === "weight" ? shade : level;
  const parts = [];
  map.cells.forEach((row, i) => {
    // Equal neighbours are one rectangle: a drawing of thousands of cells stays light.
    for (let j = 0; j < row.length;) {
      const kind = paint(row[j]);
      let stop = j + 1;
      while (stop < row.length && paint(row[stop]) === kind) stop += 1;
      parts.push(svg("rect", { class: kind ? `level ${kind}` : "nothing", x: LEFT + j * w, y: TOP + i * hgt, width: Math.min((stop - j) * w, right - LEFT - j * w), height: Math.min(hgt, bottom - TOP - i * hgt) }));
      j = stop;
    }
    if (wrongRows && wrongRows[i]) parts.push(svg("rect", { class: "wrong-row", x: LEFT - 6, y: TOP + i * hgt + 1, width: 4, height: hgt - 2 }));
  });
  for (const at of edges(map.columns, drawnTile(map.columns), width)) parts.push(svg("line", { class: "tile-line", x1: x(at), x2: x(at), y1: TOP, y2: bottom }));
  for (const at of edges(map.rows, drawnTile(map.rows), height)) parts.push(svg("line", { class: "tile-line", x1: LEFT, x2: right, y1: y(at), y2: y(at) }));
  for (const it of map.columns.marks || []) parts.push(svg("line", { class: "mark-line", x1: x(it.at), x2: x(it.at), y1: TOP - 4, y2: bottom }));
  for (const it of map.rows.marks || []) parts.push(svg("line", { class: "mark-line", x1: LEFT - 4, x2: right, y1: y(it.at), y2: y(it.at) }));
  parts.push(svg("rect", { class: "frame", x: LEFT, y: TOP, width: right - LEFT, height: bottom - TOP }));
  if (map.sees && map.sees.length) parts.push(...windowLines(map, x, hgt, bottom));
  const here = worstCell(map, picture);
  if (here) {
    const box = { x: LEFT + here[1] * w, y: TOP + here[0] * hgt, width: w, height: hgt };
    parts.push(svg("rect", { class: "here-halo", ...box }), svg("rect", { class: "here", ...box }));
  }
  for (const at of ticks(map.columns, right - LEFT)) parts.push(svg("text", { x: x(at) + (map.columns.step === 1 ? w / 2 : 0), y: TOP - 6, "text-anchor": map.columns.step === 1 ? "middle" : "start" }, String(at)));
  for (const at of ticks(map.rows, bottom - TOP)) parts.push(svg("text", { x: LEFT - 9, y: y(at) + Math.min(hgt, 12), "text-anchor": "end" }, String(at)));
  return svg("svg", { role: "img", "aria-label": `${titleOf(map, picture).join(", ")}. ${sentence(map)}`, viewBox: `0 0 ${end} ${TOP + height + 4}`, width: end, height: TOP + height + 4 }, ...parts);
}

// Where the keys that a row sees begin and end, as one stair down the rows for each side.
function windowLines(map, x, hgt, bottom) {
  return [0, 1].map((side) => {
    const path = [];
    map.sees.forEach(([low, high], i) => {
      if (low === high) return;
      const at = x(side ? high : low).toFixed(1);
      path.push(`${path.length ? "L" : "M"}${at} ${TOP + i * hgt}`, `L${at} ${Math.min(TOP + (i + 1) * hgt, bottom)}`);
    });
    return svg("path", { class: "window-line", d: path.join("") });
  });
}

function tableOf(map) {
  const wide = map.cells.map((row, i) => ({ cells: [spoken(map.rows, i), ...row.map((cell) =>
    h("td", { class: `num ${(map.of === "weight" ? null : level(cell)) || ""}` }, cell === null ? "not compared" : short(cell)))] }));
  return table("The numbers of the map", [`${map.rows.name} \\ ${map.columns.name}`, ...map.cells[0].map((_, j) => span(map.columns, j).filter((it, k, all) => !k || it !== all[0]).join("\u2013"))], wide);
}

function figure(map, picture, wrongRows) {
  const [title, scope] = titleOf(map, picture);
  const readout = h("p", { class: "readout", "aria-hidden": "true" }, "\u00a0");
  const holder = h("div", null, drawing(map, picture, wrongRows));
  holder.addEventListener("mousemove", (event) => {
    const cell = under(event, holder.firstChild, map);
    readout.textContent = cell ? `${spoken(map.rows, cell[0])}, ${spoken(map.columns, cell[1])}: ${map.of === "weight" ? "" : "margin "}${cellText(map.cells[cell[0]][cell[1]])}` : "\u00a0";
  });
  holder.addEventListener("mouseleave", () => { readout.textContent = "\u00a0"; });
  holder.redraw = () => holder.replaceChildren(drawing(map, picture, wrongRows));
  holder.className = "drawn";
  const numbers = h("details", { ontoggle: () => { if (numbers.open && numbers.children.length === 1) numbers.append(h("div", { tabindex: "0", role: "region", "aria-label": `${title}, in numbers` }, tableOf(map))); } },
    h("summary", null, "In numbers"));
  return h("figure", { class: "map" }, h("figcaption", null, title, h("span", null, scope)), holder, readout, keyLines(map, wrongRows), numbers);
}

const cellText = (value) => (value === null ? "not compared" : short(value));

function keyLines(map, wrongRows) {
  const marks = [...(map.rows.marks || []).map((it) => [map.rows, it]), ...(map.columns.marks || []).map((it) => [map.columns, it])];
  const lines = marks.slice(0, 4).map(([axis, it]) => h("li", { class: "key-line mark" }, `${axis.name} ${it.at}: ${it.words}`));
  if (marks.length > 4) lines.push(h("li", null, `and ${marks.length - 4} more lines alike`));
  if (map.sees && map.sees.length) lines.push(h("li", { class: "key-line window" }, "the keys that a query sees"));
  if (wrongRows && wrongRows.some(Boolean)) lines.push(h("li", null, "a bar at the left: a query that is wrong"));
  const list = lines.length ? h("ul", null, ...lines) : null;
  if (map.of !== "weight") return list;
  return h("div", null, list, h("ul", { class: "legend", "aria-label": "Colours: the share of weight" }, ...[...SHARES.map(([bound, kind]) => [`${bound * 100}\u202f%`, kind]), ["more", "w5"]].map(([text, kind]) => h("li", { class: kind }, text))));
}

function under(event, drawn, map) {
  const box = drawn.getBoundingClientRect(), scale = drawn.viewBox.baseVal.width / box.width;
  const j = Math.floor(((event.clientX - box.left) * scale - LEFT) / pitch(map.columns, ROOM));
  const i = Math.floor(((event.clientY - box.top) * scale - TOP) / pitch(map.rows, 420));
  return i >= 0 && j >= 0 && i < cellsOf(map.rows) && j < cellsOf(map.columns) ? [i, j] : null;
}

function maps(picture) {
  // Which queries of the worst head are wrong, to be told beside what they look at.
  const own = picture.maps.find((it) => it.of === "margin" && it.head === picture.head);
  const wrong = own ? own.cells.map((row) => row.some((it) => order(it) > 1)) : null;
  return h("div", { class: "maps" }, ...picture.maps.map((it) => figure(it, picture, it.of === "weight" ? wrong : null)));
}
