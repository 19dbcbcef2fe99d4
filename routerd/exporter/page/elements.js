"use strict";
// Everything shown is set as text, and `printable`: names come from clients.

const $ = id => document.getElementById(id);
const SVG = $("picture").namespaceURI;

// ---- How figures are written ----

const scaled = (n, step, units) => {
  let place = 0;
  while (Math.abs(n) >= step * 0.9995 && place < units.length - 1) { n /= step; place++; }
  const digits = place === 0 && Number.isInteger(n) || n >= 100 ? 0 : n >= 10 ? 1 : 2;
  return Number(n.toFixed(digits)) + units[place];
};
const count = n => n == null ? "–" : scaled(n, 1000, ["", " k", " M", " G"]);
const bytes = n => n == null ? "–" : scaled(Math.round(n), 1024, [" B", " KiB", " MiB", " GiB"]);
const part = n => n == null ? "–" : Number((n * 100).toFixed(n < 0.1 ? 1 : 0)) + " %";
const seconds = s => s == null ? "–" : scaled(s * 1e6, 1000, [" µs", " ms", " s"]);
const span = s => s < 120 ? s.toFixed(0) + " s" : s < 7200 ? (s / 60).toFixed(0) + " min" : s < 172800
  ? (s / 3600).toFixed(1) + " h" : (s / 86400).toFixed(1) + " days";
const clock = (s, fine) => new Date(s * 1000).toLocaleTimeString([], {
  hour: "2-digit", minute: "2-digit", second: fine ? "2-digit" : undefined, hourCycle: "h23",
});

// ---- Elements ----

// A text with escapes, as the log has them, for characters without a glyph: they would hide, or turn the words behind them round.
const printable = text => String(text).replace(/[\p{C}\u2028\u2029]/gu, character => {
  const code = character.codePointAt(0).toString(16);
  return code.length < 3 ? `\\x${code.padStart(2, 0)}` : code.length < 5 ? `\\u${code.padStart(4, 0)}` : `\\U${code.padStart(8, 0)}`;
});
function make(kind, content = "", name = "") {
  const made = document.createElement(kind);
  if (typeof content === "string" || typeof content === "number") made.textContent = printable(content);
  else made.append(...content);
  if (name) made.className = name;
  return made;
}
function draw(kind, attributes, text = "") {
  const made = document.createElementNS(SVG, kind);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.textContent = printable(text);
  return made;
}
function set(element, text) {
  const shown = printable(text);
  if (element.textContent !== shown) element.textContent = shown;
}
function badge(id, good, yes, no) {
  set($(id), good ? yes : no);
  $(id).className = "badge " + (good ? "good" : "bad");
}
function pressed(words, press, said = "") {
  const button = make("button", words);
  button.type = "button";
  button.onclick = press;
  if (said) button.setAttribute("aria-label", printable(said));
  return button;
}
const cut = (name, most) => name.length > most ? name.slice(0, most - 1) + "…" : name;
