// The matrix of cases by backends. Rows are made when they are to be seen: folded files have none, long lists grow.
const CHUNK = 250;
const opened = new Map();
let shownOrder = CASES;

function row(one, whole) {
  const by = new Map((one.results || []).map((it) => [it.backend, it]));
  return h(
    "tr",
    null,
    h("th", { scope: "row" }, h("a", { href: caseLink(one) }, name(whole ? one.id : inFile(one)))),
    ...BACKENDS.map((backend) => {
      const it = by.get(backend);
      return it
        ? h(
            "td",
            { class: levelOf(it), title: REPORT.words[it.verdict] },
            told(it),
            it.kernel ? h("small", null, ` ${it.kernel}`) : "",
            it.flags ? h("small", { class: "flag" }, it.flags.join(", ")) : "",
          )
        : h("td", { class: "empty" }, h("span", { class: "quiet" }, "\u2013"));
    }),
  );
}

function fill(body, cases, whole, from = 0) {
  body.append(...cases.slice(from, from + CHUNK).map((one) => row(one, whole)));
  const left = cases.length - from - CHUNK;
  if (left <= 0) return;
  const more = h(
    "button",
    { type: "button", onclick: () => grow(true) },
    `Show ${count(Math.min(left, CHUNK))} of ${plural(left, "further case")}`,
  );
  const line = h("tr", null, h("td", { colspan: BACKENDS.length + 1, class: "empty" }, more));
  const grow = (focus) => {
    const last = line.previousSibling;
    watch.disconnect();
    line.remove();
    fill(body, cases, whole, from + CHUNK);
    if (focus) last.nextSibling.querySelector("a").focus();
  };
  const watch = new IntersectionObserver((seen) => {
    if (seen.some((it) => it.isIntersecting)) grow(false);
  });
  body.append(line);
  watch.observe(line);
}

function tally(cases) {
  const counts = {};
  for (const one of cases) counts[one.status] = (counts[one.status] || 0) + 1;
  return Object.entries(counts)
    .map(([status, number]) => `${count(number)} ${status}`)
    .join(", ");
}

// A file is unfolded where something in it failed, where little is shown, or where someone said so.
function unfolded(group, few) {
  if (opened.has(group.title)) return opened.get(group.title);
  return few || group.cases.some((one) => WRONG.has(one.status));
}

function groupBody(group, few) {
  const body = h("tbody");
  if (group.title === null) {
    fill(body, group.cases, true);
    return body;
  }
  const toggle = h(
    "button",
    {
      type: "button",
      "aria-expanded": "false",
      onclick: () => {
        opened.set(group.title, toggle.getAttribute("aria-expanded") !== "true");
        open(opened.get(group.title));
        tellFolding();
      },
    },
    name(group.title),
  );
  const head = h(
    "tr",
    { class: "group" },
    h(
      "th",
      { scope: "rowgroup", colspan: BACKENDS.length + 1 },
      h("span", { class: "pinned" }, toggle, h("span", { class: "quiet" }, ` ${tally(group.cases)}`)),
    ),
  );
  const open = (yes) => {
    toggle.setAttribute("aria-expanded", String(yes));
    body.replaceChildren(head);
    if (yes) fill(body, group.cases, false);
  };
  open(unfolded(group, few));
  return body;
}

function drawMatrix() {
  const found = groups();
  shownOrder = found.flatMap((it) => it.cases);
  const shown = shownOrder.length;
  for (const old of byId("matrix").querySelectorAll("tbody")) old.remove();
  const few = shown <= 60 || Boolean(filtered() && shown <= 400);
  byId("matrix").append(...found.map((it) => groupBody(it, few)));
  const all = CASES.length;
  byId("count").textContent =
    (shown === all ? plural(all, "case") : `${count(shown)} of ${plural(all, "case")}`) +
    (state.cluster ? `, those with: ${JSON.parse(state.cluster).join(", ")}` : "");
  tellFolding();
  for (const head of byId("matrix").querySelectorAll("thead th[data-backend]")) {
    const sorted = state.sort === `backend\n${head.dataset.backend}`;
    if (sorted) head.setAttribute("aria-sort", "descending");
    else head.removeAttribute("aria-sort");
  }
  for (const it of document.querySelectorAll("button.tile"))
    it.setAttribute("aria-pressed", String(it.dataset.status === state.status));
}

const folded = () => byId("matrix").querySelector("button[aria-expanded='false']") !== null;

function tellFolding() {
  byId("unfold").hidden = state.sort !== "file";
  byId("unfold").textContent = folded() ? "Unfold all" : "Fold all";
}

function drawHead() {
  const orders = BACKENDS.map((backend) =>
    h("option", { value: `backend\n${backend}` }, `largest margin on ${backend}`),
  );
  byId("f-sort").append(...orders);
  byId("matrix").tHead.replaceChildren(
    h(
      "tr",
      null,
      h("th", { scope: "col" }, "Case"),
      ...BACKENDS.map((backend) =>
        h(
          "th",
          { scope: "col", "data-backend": backend },
          h(
            "button",
            {
              type: "button",
              title: "Largest margin first",
              onclick: () => {
                state.sort = state.sort === `backend\n${backend}` ? "file" : `backend\n${backend}`;
                byId("f-sort").value = state.sort;
                drawMatrix();
              },
            },
            name(backend),
          ),
          ABSENT.has(backend) ? h("small", { class: "warn" }, "could not start") : "",
        ),
      ),
    ),
  );
}

const KINDS = 10;

function drawClusters() {
  const found = clusters();
  byId("clusters").hidden = !found.length;
  byId("clusters")
    .querySelector("ul")
    .replaceChildren(
      ...found.slice(0, KINDS).map(([key, cases]) => {
        const [backend, verdict, said] = JSON.parse(key);
        return h(
          "li",
          null,
          h("b", null, count(cases.length)),
          h("span", null, name(backend), ` ${verdict}: `, name(said)),
          h(
            "button",
            {
              type: "button",
              "aria-label": `Show ${plural(cases.length, "case")}: ${backend} ${verdict}, ${said}`,
              onclick: () => {
                state.cluster = key;
                drawMatrix();
                byId("cases-title").scrollIntoView();
              },
            },
            "Show",
          ),
        );
      }),
      ...(found.length > KINDS
        ? [h("li", null, h("b"), `and ${plural(found.length - KINDS, "further kind")}; the table below has them all`)]
        : []),
    );
}
