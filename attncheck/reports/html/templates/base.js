"use strict";
// The run, and how elements are made. Whatever comes from the run is set as text or as an attribute, never as markup.
const REPORT = JSON.parse(document.getElementById("data").textContent);
const CASES = REPORT.cases || [];
const BACKENDS = (REPORT.backends || []).map((it) => it.name);
// A journal that is gone on from has results of backends that this run had no need to start.
const RAN = new Set(CASES.flatMap((one) => (one.results || []).map((it) => it.backend)));
const ABSENT = new Set((REPORT.backends || []).filter((it) => !it.started && !RAN.has(it.name)).map((it) => it.name));
const byId = (id) => document.getElementById(id);

function make(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== null && value !== false)
      element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children) {
    if (child !== undefined && child !== null && child !== "" && child !== false) element.append(child);
  }
  return element;
}
const h = (tag, attributes, ...children) => make(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) =>
  make(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

// A name from the run keeps its direction to itself.
const name = (text) => h("bdi", null, text);

const isNumber = (row, i) =>
  row !== undefined && ((row.cells || row)[i].classList || { contains: () => false }).contains("num");

function table(caption, heads, rows) {
  const cell = (it, tag, scope) =>
    it instanceof Node && /^T[HD]$/.test(it.nodeName)
      ? it
      : h(tag, { scope, class: typeof it === "number" ? "num" : null }, it instanceof Node ? it : String(it));
  return h(
    "table",
    { class: "data" },
    h("caption", { class: "visually-hidden" }, caption),
    h(
      "thead",
      null,
      h("tr", null, ...heads.map((it, i) => h("th", { scope: "col", class: isNumber(rows[0], i) ? "num" : null }, it))),
    ),
    h(
      "tbody",
      null,
      ...rows.map((row) => {
        const [first, ...rest] = row.cells || row;
        return h("tr", { class: row.class }, cell(first, "th", "row"), ...rest.map((it) => cell(it, "td")));
      }),
    ),
  );
}

const scrolled = (label, inside) =>
  h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, inside);

// A command that can be copied, also where the clipboard is closed to pages from disk.
function command(label, text) {
  const code = h("code", null, text);
  const button = h(
    "button",
    { type: "button", "aria-label": `Copy the command: ${label}`, onclick: () => copy(code, button) },
    "Copy",
  );
  return h("div", null, h("div", { class: "quiet" }, label), h("div", { class: "command" }, code, button));
}

async function copy(code, button) {
  let done = false;
  try {
    await navigator.clipboard.writeText(code.textContent);
    done = true;
  } catch {
    const range = document.createRange();
    range.selectNodeContents(code);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    done = document.execCommand("copy");
  }
  button.textContent = done ? "Copied" : "Selected";
  announce(done ? "Copied" : "The command is selected: copy it by hand");
  setTimeout(() => {
    button.textContent = "Copy";
  }, 2000);
}

const announce = (text) => {
  byId("said").textContent = text;
};
