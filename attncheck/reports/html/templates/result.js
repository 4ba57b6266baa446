// One result of a case: what was seen, what explains it, its numbers and maps, and what to run next.
const fact = (term, value, whole) =>
  value === undefined || value === "" || value === null
    ? null
    : h(
        "div",
        { class: whole ? "whole" : null },
        h("dt", null, term),
        h("dd", null, value.nodeType ? value : name(value)),
      );

const facts = (...all) => h("dl", { class: "facts" }, ...all);

function resultSection(result, depth) {
  const heading = (text) => h(`h${depth + 1}`, null, text);
  return h(
    "section",
    { class: "panel result", "aria-label": `${label(result)}: ${told(result)}` },
    resultHead(result, depth),
    ...explained(result),
    ...drawn(result.picture, heading),
    ...(result.differences ? [heading("Every output"), outputs(result.differences)] : []),
    resultFacts(result),
    ...(result.stderr ? [heading("What its process wrote"), written(result.stderr)] : []),
    result.minimize ? command("Shrink it to the smallest case that still fails", result.minimize) : null,
  );
}

function resultHead(result, depth) {
  const reference = result.reference ? h("span", { class: "quiet" }, " the reference") : null;
  const flags = (result.flags || []).map((it) => h("span", { class: "tag", title: REPORT.words[it] }, it));
  return h("header", null, h(`h${depth}`, null, name(label(result)), reference), badge(result), ...flags);
}

function explained(result) {
  const key = new Set([result.diagnosis, (result.attribution || {}).said]);
  const said = (result.explanation || []).map((it) => h("li", { class: key.has(it) ? "key" : null }, name(it)));
  const status = FOLLOWS[result.status] ? "" : `; ${result.status}: ${REPORT.words[result.status]}`;
  const wrong = (result.wrong || []).flatMap((it, i) => [i ? ", " : "", h("code", null, it)]);
  return [
    h("p", { class: "quiet" }, REPORT.words[result.verdict] + status),
    said.length ? h("ul", { class: "said" }, ...said) : null,
    wrong.length ? h("p", null, "Equals the known wrong kernel ", ...wrong) : null,
  ];
}

function drawn(picture, heading) {
  if (!picture) return [];
  const tools = h("div", { class: "map-tools" }, tileChoice(), document.querySelector(".legend").cloneNode(true));
  return [
    heading("Numbers side by side"),
    sideBySide(picture),
    heading("Where it is wrong"),
    tools,
    maps(picture),
    ...(picture.scores ? [heading("What the worst row looks at"), scoreRow(picture)] : []),
  ];
}

function resultFacts(result) {
  const { step, evidence = {}, expected } = result;
  return facts(
    fact("Step", step ? `${step.number} of ${step.of}${step.label ? ` (${step.label})` : ""}` : ""),
    fact("Kernel", result.kernel && `${result.kernel}${result.auto ? ", chosen by the policy" : ""}`),
    fact("Instead", result.instead, true),
    fact("Provider", evidence.provider),
    fact("Evidence: kernels that ran", (evidence.kernels || []).join(", "), true),
    fact("Expected", expected ? `${expected.said}: ${expected.reason} (${expected.place})` : "", true),
    fact("Link of the expectation", expected ? expected.link : "", true),
    fact("Repeat", result.repeat ? String(result.repeat) : ""),
    fact("Time", result.seconds === undefined ? "" : `${short(result.seconds)} s`),
  );
}

const written = (lines) =>
  h("pre", { tabindex: "0", role: "region", "aria-label": "What its process wrote" }, name(lines.join("\n")));
