// Which cases are shown, and in which order.
const UNFILTERED = {
  text: "",
  verdict: "",
  backend: "",
  flag: "",
  tag: "",
  status: "",
  sort: "file",
  cluster: null,
};
const state = { ...UNFILTERED };
const haystacks = new Map();

function haystack(one) {
  if (!haystacks.has(one)) {
    haystacks.set(
      one,
      [
        one.id,
        one.about,
        one.axes,
        one.described,
        ...(one.tags || []),
        ...(one.results || []).flatMap((it) => [it.message, it.diagnosis, ...(it.wrong || [])]),
      ]
        .join("\n")
        .toLowerCase(),
    );
  }
  return haystacks.get(one);
}

function fits(one) {
  const results = (one.results || []).filter((it) => !state.backend || it.backend === state.backend);
  return (
    (!state.status || one.status === state.status) &&
    (!state.tag || (one.tags || []).includes(state.tag)) &&
    (!state.backend || results.length > 0) &&
    (!state.verdict || results.some((it) => it.verdict === state.verdict)) &&
    (!state.flag || results.some((it) => (it.flags || []).includes(state.flag))) &&
    (!state.cluster || results.some((it) => clusterOf(it) === state.cluster)) &&
    state.text
      .toLowerCase()
      .split(/\s+/)
      .every((word) => haystack(one).includes(word))
  );
}

const SORTS = {
  margin: (a, b) => compare(worstMargin(b), worstMargin(a)),
  time: (a, b) => compare(slowest(b), slowest(a)),
  name: (a, b) => (a.id < b.id ? -1 : a.id > b.id ? 1 : 0),
};
const compare = (a, b) => (a === b ? 0 : a < b ? -1 : 1);
const slowest = (one) => Math.max(0, ...(one.results || []).map((it) => it.seconds || 0));

function sorter() {
  const [kind, backend] = state.sort.split("\n");
  if (kind !== "backend") return SORTS[kind];
  const on = (one) => order(marginOf((one.results || []).find((it) => it.backend === backend) || {}));
  return (a, b) => compare(on(b), on(a));
}

// The cases that are shown, as groups with a title each: a file, or all in one order.
function groups() {
  const fitting = CASES.filter(fits);
  const sort = sorter();
  if (sort) return [{ title: null, cases: fitting.sort(sort) }];
  const found = new Map();
  for (const one of fitting) {
    const file = fileOf(one);
    if (!found.has(file)) found.set(file, []);
    found.get(file).push(one);
  }
  return [...found].map(([title, cases]) => ({ title, cases }));
}

const filtered = () => state.text || state.verdict || state.backend || state.flag || state.tag || state.status || state.cluster;

// Results that went wrong in the same way: backend, verdict, and what is said of it first.
function clusterOf(result) {
  if (!WRONG.has(result.status)) return null;
  const said = result.diagnosis || result.message || (result.attribution || {}).said || REPORT.words[result.verdict];
  // "within 2.4e-7" differs from case to case; the fault does not.
  return JSON.stringify([result.backend, result.verdict, said.replace(/, (within [-+.\de]+|exactly)$/, "")]);
}

function clusters() {
  const found = new Map();
  for (const one of CASES) {
    for (const key of new Set((one.results || []).map(clusterOf).filter(Boolean)))
      found.set(key, [...(found.get(key) || []), one]);
  }
  return [...found].sort((a, b) => b[1].length - a[1].length);
}
