// The drawing of a map: cells, the edges of tiles, what begins where, the keys that are seen, and the worst element.
const LEFT = 46;
const TOP = 20;
const WIDE = 460;
const TALL = 420;
const TILED = new Set(["query", "key", "slot", "row", "dim", "key dim"]);
let tile = 16;

// Where things lie, in pixels: a cell is `across` x `down`, and x and y say where an index begins.
function layout(map) {
  const across = pitch(map.columns, WIDE);
  const down = pitch(map.rows, TALL);
  const x = (index) => LEFT + (index / map.columns.step) * across;
  const y = (index) => TOP + (index / map.rows.step) * down;
  return { across, down, x, y, right: x(map.columns.size), bottom: y(map.rows.size) };
}

function drawing(map, picture, wrongRows, words) {
  const at = layout(map);
  const width = Math.max(LEFT + cellsOf(map.columns) * at.across, 230) + 14;
  const height = TOP + cellsOf(map.rows) * at.down + 4;
  return svg(
    "svg",
    { role: "img", "aria-label": words, viewBox: `0 0 ${width} ${height}`, width, height },
    ...map.cells.flatMap((row, i) => cellRow(map, at, row, i)),
    ...(wrongRows || []).flatMap((wrong, i) =>
      wrong
        ? [svg("rect", { class: "wrong-row", x: LEFT - 6, y: TOP + i * at.down + 1, width: 4, height: at.down - 2 })]
        : [],
    ),
    ...columnLines("tile-line", tiles(map.columns, at.right - LEFT), at),
    ...rowLines("tile-line", tiles(map.rows, at.bottom - TOP), at),
    ...columnLines("mark-line", marks(map.columns), at),
    ...rowLines("mark-line", marks(map.rows), at),
    svg("rect", { class: "frame", x: LEFT, y: TOP, width: at.right - LEFT, height: at.bottom - TOP }),
    ...(map.sees ? [windowLine(map, at, 0), windowLine(map, at, 1)] : []),
    ...worstBox(map, picture, at),
    ...labels(map, at),
  );
}

// Equal neighbours are one rectangle: a drawing of thousands of cells stays light.
function cellRow(map, at, row, i) {
  const paint = map.of === "weight" ? shade : level;
  const found = [];
  for (let j = 0; j < row.length;) {
    const kind = paint(row[j]);
    let stop = j + 1;
    while (stop < row.length && paint(row[stop]) === kind) stop += 1;
    const left = LEFT + j * at.across;
    const top = TOP + i * at.down;
    const size = {
      width: Math.min((stop - j) * at.across, at.right - left),
      height: Math.min(at.down, at.bottom - top),
    };
    found.push(svg("rect", { class: kind ? `level ${kind}` : "nothing", x: left, y: top, ...size }));
    j = stop;
  }
  return found;
}

const tiles = (axis, length) => (TILED.has(axis.name) ? edges(axis, tile, length) : []);
const marks = (axis) => (axis.marks || []).map((it) => it.at);
const columnLines = (kind, indices, at) =>
  indices.map((it) => svg("line", { class: kind, x1: at.x(it), x2: at.x(it), y1: TOP - 3, y2: at.bottom }));
const rowLines = (kind, indices, at) =>
  indices.map((it) => svg("line", { class: kind, x1: LEFT - 3, x2: at.right, y1: at.y(it), y2: at.y(it) }));

// Where the keys that a query sees begin (side 0) or end (side 1), as one stair down the rows.
function windowLine(map, at, side) {
  const path = [];
  map.sees.forEach((seen, i) => {
    if (seen[0] === seen[1]) return;
    const x = at.x(seen[side]);
    path.push(
      `${path.length ? "L" : "M"}${x} ${TOP + i * at.down}L${x} ${Math.min(TOP + (i + 1) * at.down, at.bottom)}`,
    );
  });
  return svg("path", { class: "window-line", d: path.join("") });
}

function worstBox(map, picture, at) {
  if (map.of === "weight") return [];
  const last = { head: picture.head, dim: picture.dim, key: picture.dim };
  const row = ["batch", "page"].includes(map.rows.name) ? picture.batch : picture.row;
  const cell = (axis, index) => Math.floor(index / axis.step);
  const box = {
    x: LEFT + cell(map.columns, last[map.columns.name]) * at.across,
    y: TOP + cell(map.rows, row) * at.down,
    width: at.across,
    height: at.down,
  };
  return [svg("rect", { class: "here-halo", ...box }), svg("rect", { class: "here", ...box })];
}

function labels(map, at) {
  const single = map.columns.step === 1;
  return [
    ...ticks(map.columns, at.right - LEFT).map((it) =>
      svg(
        "text",
        { x: at.x(it) + (single ? at.across / 2 : 0), y: TOP - 6, "text-anchor": single ? "middle" : "start" },
        String(it),
      ),
    ),
    ...ticks(map.rows, at.bottom - TOP).map((it) =>
      svg("text", { x: LEFT - 9, y: at.y(it) + Math.min(at.down, 12), "text-anchor": "end" }, String(it)),
    ),
  ];
}

// The row and column of the cell under the mouse; null where there is none.
function under(event, drawn, map) {
  const box = drawn.getBoundingClientRect();
  const scale = drawn.viewBox.baseVal.width / box.width;
  const at = layout(map);
  const j = Math.floor(((event.clientX - box.left) * scale - LEFT) / at.across);
  const i = Math.floor(((event.clientY - box.top) * scale - TOP) / at.down);
  return i >= 0 && j >= 0 && i < cellsOf(map.rows) && j < cellsOf(map.columns) ? [i, j] : null;
}
