// The numbers of a result: reference, oracle and candidate side by side around the worst element; and every output.
const right = (text, kind) => h("td", { class: `num ${kind || ""}` }, text);

function sideBySide(picture) {
  const heads = [placeOf(picture), "reference", "oracle", "candidate", "error", "tolerance", "margin"];
  const rows = picture.numbers.oracle.map((_, i) => element(picture, i));
  return scrolled("Numbers around the worst element", table("Numbers around the worst element", heads, rows));
}

function element(picture, i) {
  const { first, oracle, candidate, tolerance, reference = [] } = picture.numbers;
  const finite = typeof oracle[i] === "number" && typeof candidate[i] === "number";
  const apart = finite ? Math.abs(candidate[i] - oracle[i]) : Infinity;
  const error = oracle[i] === candidate[i] ? 0 : finite ? apart : "Infinity";
  const margin = error === 0 ? 0 : finite && tolerance[i] > 0 ? error / tolerance[i] : "Infinity";
  const index = `${picture.role === "scores" ? "key" : "dim"} ${first + i}`;
  const worst = first + i === picture.dim;
  return {
    class: worst ? "worst" : null,
    cells: [
      worst ? `${index}, the worst` : index,
      ...[exact(reference[i]), exact(oracle[i]), exact(candidate[i])].map((it) => right(it, "mono")),
      right(inDigits(error), "mono"),
      right(inDigits(tolerance[i]), "mono"),
      right(asMargin(margin), level(margin)),
    ],
  };
}

const rowName = (picture) => picture.maps[0].rows.name;
const placeOf = (picture) =>
  `${picture.role}, ${entryOf(picture)}, head ${picture.head}, ${rowName(picture)} ${picture.row}`;

function outputs(differences) {
  const heads = ["output", "worst element", "got", "expected", "error", "tolerance", "margin", "failing"];
  const rows = differences.map((it) => [
    `${it.role}${it.subject ? `, ${it.subject}` : ""} against ${it.against}`,
    h("td", { class: "mono" }, it.where),
    right(exact(it.got), "mono"),
    right(exact(it.expected), "mono"),
    right(inDigits(it.error)),
    right(inDigits(it.tolerance)),
    right(asMargin(it.margin), level(it.margin)),
    right(`${count(it.failing)} of ${count(it.compared)}`),
  ]);
  return scrolled("Every output", table("Every output at its worst element", heads, rows));
}
