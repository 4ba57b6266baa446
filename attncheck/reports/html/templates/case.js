// One case: what it is, how to run it, and each of its results, those that failed first.
function caseBody(one, heading) {
  const below = Number(heading.nodeName[1]) + 1;
  const results = [...(one.results || [])].sort((a, b) => rank(b) - rank(a));
  const parts = [
    heading,
    one.about ? h("p", null, name(one.about)) : null,
    one.tags ? h("p", null, ...one.tags.map((it) => h("span", { class: "tag" }, name(it)))) : null,
    h(
      "section",
      { class: "panel", "aria-label": "What it is" },
      facts(
        fact("Case", one.described, true),
        fact("Axes", one.axes ? h("code", null, one.axes) : "", true),
        fact("Written in", one.line ? `${one.file}:${one.line}` : one.file),
        fact("Status", one.status),
        fact("Content", one.digest ? h("code", null, one.digest.slice(0, 12)) : ""),
      ),
      one.reproduce ? command("Run this case alone", one.reproduce) : null,
    ),
    ...results.map((it) => resultSection(it, below)),
  ];
  return parts.filter(Boolean);
}

const RANKS = { failed: 4, xpassed: 4, xfailed: 3, passed: 2, skipped: 1 };
const rank = (it) => RANKS[it.status] - (it.reference ? 0.5 : 0);

// The sizes of tiles that kernels work in: all drawings follow the choice.
const TILES = [4, 8, 16, 32, 64];

function tileChoice() {
  const options = [0, ...TILES].map((it) =>
    h("option", { value: it, selected: it === tile }, it ? String(it) : "none"),
  );
  const select = h("select", { class: "tile-size", onchange: () => chooseTile(Number(select.value)) }, ...options);
  return h("label", { class: "quiet" }, "Lines between tiles of ", select);
}

function chooseTile(size) {
  tile = size;
  for (const it of document.querySelectorAll(".tile-size")) it.value = String(size);
  for (const it of document.querySelectorAll(".drawn")) it.redraw();
}

function showCase(one) {
  const at = shownOrder.indexOf(one);
  const failing = shownOrder.filter((it) => WRONG.has(it.status));
  const link = (text, to) => (to && to !== one ? h("a", { href: caseLink(to) }, text) : null);
  byId("case").replaceChildren(
    h(
      "nav",
      { class: "crumbs", "aria-label": "Cases" },
      h("a", { href: "#" }, "\u2190 All cases"),
      link("Previous", at >= 0 && shownOrder[at - 1]),
      link("Next", at >= 0 && shownOrder[at + 1]),
      link("Next failure", failing[(failing.indexOf(one) + 1) % failing.length]),
    ),
    ...caseBody(one, h("h1", { tabindex: "-1" }, name(one.id))),
  );
}
