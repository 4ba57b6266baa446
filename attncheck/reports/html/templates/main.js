// What happens: filters change the matrix, the address says which case is shown, printing shows every failure.
const title = document.title;
document.body.append(h("p", { id: "said", class: "visually-hidden", role: "status", "aria-live": "polite" }));

for (const key of ["text", "verdict", "backend", "flag", "tag", "sort"]) {
  byId(`f-${key}`).addEventListener("input", (event) => {
    state[key] = event.target.value;
    drawMatrix();
  });
}
const form = document.querySelector(".filters");
form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("reset", () => {
  Object.assign(state, UNFILTERED);
  opened.clear();
  drawMatrix();
});
for (const it of document.querySelectorAll("button.tile")) {
  it.addEventListener("click", () => {
    state.status = state.status === it.dataset.status ? "" : it.dataset.status;
    drawMatrix();
  });
}
for (const it of document.querySelectorAll("button[data-flag]")) {
  it.addEventListener("click", () => {
    state.flag = it.dataset.flag;
    byId("f-flag").value = state.flag;
    drawMatrix();
    byId("cases-title").scrollIntoView();
  });
}
byId("unfold").addEventListener("click", () => {
  const open = folded();
  for (const group of groups()) opened.set(group.title, open);
  drawMatrix();
});

let before = 0;
function route() {
  const wanted = location.hash.startsWith("#case=") ? decoded(location.hash.slice(6)) : null;
  const one = wanted === null ? null : CASES.find((it) => it.id === wanted);
  const was = !byId("case").hidden;
  if (one && !was) before = scrollY;
  byId("overview").hidden = Boolean(one);
  byId("case").hidden = !one;
  byId("missing").hidden = wanted === null || Boolean(one);
  document.title = one ? `${one.id} \u00b7 attncheck` : title;
  if (one) {
    showCase(one);
    scrollTo(0, 0);
    byId("case").querySelector("h1").focus({ preventScroll: true });
  } else {
    byId("case").replaceChildren();
    if (wanted !== null) {
      const said = h("strong", { class: "warn" }, "There is no case ", name(wanted), " in this report");
      byId("missing").replaceChildren(said, "; below are those that there are.");
      announce(said.textContent);
      scrollTo(0, 0);
    } else if (was) scrollTo(0, before);
  }
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

const PRINTED = 200;

function printFailures() {
  const wrong = byId("case").hidden ? CASES.filter((it) => WRONG.has(it.status)) : [];
  const left = wrong.length - PRINTED;
  byId("printed").replaceChildren(
    ...wrong
      .slice(0, PRINTED)
      .map((one) => h("section", { class: "printed" }, ...caseBody(one, h("h2", { class: "id" }, name(one.id))))),
    left > 0
      ? h("p", null, `${plural(left, "further failure")} would make this too long; open the report to see them.`)
      : "",
  );
}

addEventListener("hashchange", route);
addEventListener("beforeprint", printFailures);
addEventListener("afterprint", () => byId("printed").replaceChildren());
matchMedia("print").addEventListener("change", (media) =>
  media.matches ? printFailures() : byId("printed").replaceChildren(),
);
drawHead();
drawClusters();
drawMatrix();
route();
