// One case: what it is, and each of its results with whatever explains it.
const fact = (term, value, whole) => (value === undefined || value === "" ? null : h("div", { class: whole ? "whole" : null }, h("dt", null, term), h("dd", null, value instanceof Node ? value : name(value))));

function caseBody(one, heading) {
  const below = Number(heading.nodeName[1]) + 1;
  const results = [...(one.results || [])].sort((a, b) => rank(b) - rank(a));
  return [
    heading,
    one.about ? h("p", null, name(one.about)) : null,
    h("p", null, ...(one.tags || []).map((it) => h("span", { class: "tag" }, name(it)))),
    h("section", { class: "panel", "aria-label": "What it is" },
      h("dl", { class: "facts" },
        fact("Case", one.described, true),
        fact("Axes", one.axes ? h("code", null, one.axes) : "", true),
        fact("Written in", one.line ? `${one.file}:${one.line}` : one.file),
        fact("Status", one.status), fact("Content", one.digest ? h("code", null, one.digest.slice(0, 12)) : "")),
      one.reproduce ? command("Run this case alone", one.reproduce) : null),
    ...results.map((it) => resultSection(it, below)),
  ];
}

const rank = (it) => (WRONG.has(it.status) ? 4 : it.status === "xfailed" ? 3 : it.status === "skipped" ? 1 : 2) + (it.reference ? -0.5 : 0);

function resultSection(result, level) {
  const picture = result.picture, said = result.explanation || [];
  const step = result.step ? `step ${result.step.number} of ${result.step.of}${result.step.label ? ` (${result.step.label})` : ""}` : "";
  return h("section", { class: "panel result", "aria-label": `${label(result)}: ${told(result)}` },
    h("header", null, h(`h${level}`, null, name(label(result)), result.reference ? h("span", { class: "quiet" }, " the reference") : ""), badge(result), ...(result.flags || []).map((it) => h("span", { class: "tag", title: REPORT.words[it] }, it))),
    h("p", { class: "quiet" }, REPORT.words[result.verdict], FOLLOWS[result.status] ? "" : `; ${result.status}: ${REPORT.words[result.status]}`),
    said.length ? h("ul", { class: "said" }, ...said.map((it) => h("li", { class: it === result.diagnosis || it === (result.attribution || {}).said ? "key" : null }, name(it)))) : null,
    result.wrong ? h("p", null, "Equals the known wrong kernel ", ...result.wrong.flatMap((it, i) => [i ? ", " : "", h("code", null, it)])) : null,
    picture ? h(`h${level + 1}`, null, "Numbers side by side") : null, picture ? sideBySide(result) : null,
    picture ? h(`h${level + 1}`, null, "Where it is wrong") : null, picture ? h("div", { class: "map-tools" }, tileChoice(), document.querySelector(".legend").cloneNode(true)) : null, picture ? maps(picture) : null,
    picture && picture.scores ? h(`h${level + 1}`, null, "What the worst row looks at") : null, picture && picture.scores ? scoreRow(picture) : null,
    result.differences ? h(`h${level + 1}`, null, "Every output") : null, result.differences ? outputs(result) : null,
    h("dl", { class: "facts" },
      fact("Step", step), fact("Kernel", result.kernel ? `${result.kernel}${result.auto ? ", chosen by the policy" : ""}` : ""), fact("Instead", result.instead, true),
      fact("Provider", (result.evidence || {}).provider), fact("Evidence: kernels that ran", ((result.evidence || {}).kernels || []).join(", "), true),
      fact("Expected", result.expected ? `${result.expected.said}: ${result.expected.reason} (${result.expected.place})` : "", true),
      fact("Expectation's link", result.expected ? result.expected.link : "", true),
      fact("Repeat", result.repeat ? String(result.repeat) : ""), fact("Time", result.seconds === undefined ? "" : `${short(result.seconds)} s`)),
    result.stderr ? h(`h${level + 1}`, null, "What its process wrote") : null,
    result.stderr ? h("pre", { tabindex: "0", role: "region", "aria-label": "stderr" }, name(result.stderr.join("\n"))) : null,
    result.minimize ? command("Shrink it to the smallest case that still fails", result.minimize) : null);
}

// Tiles of a size at a time: whichever the kernel at hand works in.
function tileChoice() {
  const select = h("select", { onchange: () => {
    tile = Number(select.value);
    for (const it of document.querySelectorAll(".tile-size")) it.value = select.value;
    for (const it of document.querySelectorAll(".drawn")) it.redraw();
  }, class: "tile-size" }, ...[0, ...TILES].map((it) => h("option", { value: it, selected: it === tile }, it ? String(it) : "none")));
  return h("label", { class: "quiet" }, "Lines between tiles of ", select);
}

function showCase(one) {
  const at = shownOrder.indexOf(one), failing = shownOrder.filter((it) => WRONG.has(it.status));
  const next = failing[(failing.indexOf(one) + 1) % failing.length];
  byId("case").replaceChildren(
    h("nav", { class: "crumbs", "aria-label": "Cases" }, h("a", { href: "#" }, "\u2190 All cases"),
      at > 0 ? h("a", { href: caseLink(shownOrder[at - 1]) }, "Previous") : null,
      at >= 0 && at + 1 < shownOrder.length ? h("a", { href: caseLink(shownOrder[at + 1]) }, "Next") : null,
      next && next !== one ? h("a", { href: caseLink(next) }, "Next failure") : null),
    ...caseBody(one, h("h1", { tabindex: "-1" }, name(one.id))).filter(Boolean));
}
