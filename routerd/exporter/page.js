"use strict";
// Everything shown is set as text: names come from clients.

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

function make(kind, content = "", name = "") {
  const made = document.createElement(kind);
  if (typeof content === "string" || typeof content === "number") made.textContent = content;
  else made.append(...content);
  if (name) made.className = name;
  return made;
}
function draw(kind, attributes, text = "") {
  const made = document.createElementNS(SVG, kind);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.textContent = text;
  return made;
}
function set(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
function badge(id, good, yes, no) {
  set($(id), good ? yes : no);
  $(id).className = "badge " + (good ? "good" : "bad");
}

// ---- Tables: sorted by a column's button, and searched ----

class Table {
  // A column: [title, value of a row, how the value is shown, its class].
  constructor(id, columns, wanted = () => true) {
    Object.assign(this, { columns, wanted, rows: [], total: 0, sorted: -1, down: false });
    this.search = $(id + "-search");
    this.count = $(id + "-count");
    this.body = make("tbody");
    this.foot = make("tfoot");
    this.heads = columns.map(([title, , , name = ""], place) => {
      const button = make("button", title);
      button.type = "button";
      button.onclick = () => this.sort(place);
      const head = make("th", [button], name && "text");
      head.scope = "col";
      return head;
    });
    const head = make("thead", [make("tr", this.heads)]);
    $(id).setAttribute("aria-labelledby", $(id).closest("section").getAttribute("aria-labelledby"));
    $(id).replaceChildren(head, this.body, this.foot);
    if (this.search) this.search.oninput = () => this.show();
  }
  sort(place) {
    this.down = this.sorted === place ? !this.down : !this.columns[place][3]; // figures: the largest first
    this.sorted = place;
    this.heads.forEach((head, i) => {
      if (i === place) head.setAttribute("aria-sort", this.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    this.show();
  }
  update(rows, total = rows.length) {
    Object.assign(this, { rows, total });
    this.show();
  }
  show() {
    const sought = this.search ? this.search.value.trim().toLowerCase() : "";
    const found = this.rows.filter(row => this.wanted(row) && (!sought
      || this.columns.some(([, value, , name]) => name && String(value(row)).toLowerCase().includes(sought))));
    if (this.sorted >= 0) {
      const value = this.columns[this.sorted][1], sign = this.down ? -1 : 1;
      found.sort((a, b) => sign * compare(value(a), value(b)));
    }
    this.body.replaceChildren(...found.map(row => make("tr", this.columns.map(([, value, shown = String, name]) => {
      const cell = make("td", shown(value(row)), typeof name === "function" ? name(row) : name);
      if (cell.className.includes("text")) cell.title = cell.textContent;
      return cell;
    }))));
    if (this.count) set(this.count, `(${found.length} of ${this.total})`);
  }
}
function compare(a, b) {
  if (a == null || b == null) return (a == null) - (b == null);
  return typeof a === "string" ? a.localeCompare(b, undefined, { numeric: true }) : a - b;
}

const INTERNAL = /^(_|\$|qd\.|temp\.)/;
const internal = address => INTERNAL.test(address) || shown.routers.some(([router]) => address === "R" + router);
const text = value => value || "–";
const tables = {
  processes: new Table("processes", [
    ["process", p => p.name, String, "text"],
    ["state", p => p.up ? "works" : p.stalled >= 5 ? "hangs" : "gone", String, p => p.up ? "text good" : "text bad"],
    ["pid", p => p.pid, p => p || "–"], ["restarts", p => p.restarts], ["CPU", p => p.cpu, part],
    ["memory", p => p.memory - p.sharedMemory, bytes], ["shared", p => p.sharedMemory, bytes],
    ["longest turn", p => p.longestTurn || null, seconds], ["connections", p => p.connections, count],
    ["links", p => p.links, count], ["unsettled", p => p.unsettled, count], ["arena", p => p.arenaFill, part],
    ["ring", p => p.ringFill, part],
  ]),
  addresses: new Table("addresses", [
    ["address", a => a.address, String, "text"], ["distribution", a => a.distribution, String, "text"],
    ["deliveries", a => a.deliveries, count], ["per second", a => a.rate, count],
    ["receivers", a => a.receivers, count], ["senders", a => a.senders, count],
  ], a => $("internal").checked || !internal(a.address)),
  connections: new Table("connections", [
    ["host", c => c[2], String, "text"], ["container", c => c[1], text, "text"], ["user", c => c[4], text, "text"],
    ["role", c => c[3], String, "text"], ["worker", c => c[0]],
  ]),
  connectors: new Table("connectors", [
    ["connector", c => c[0], String, "text"], ["state", c => c[1] ? "up" : "down", String, c => c[1] ? "text good" : "text bad"],
    ["why not", c => c[3], text, () => "whole"], ["failed attempts", c => c[2], count],
  ]),
  routers: new Table("routers", [
    ["router", r => r[0], String, "text"],
    ["state", r => r[2], cost => cost == null ? "unreachable" : "reachable", r => r[2] == null ? "text bad" : "text good"],
    ["cost", r => r[2], cost => cost ?? "–"], ["next hop", r => r[1], text, "text"],
  ]),
};
$("internal").onchange = () => tables.addresses.show();

// ---- Charts ----

const CHARTS = [
  { title: "Deliveries per second", shown: count, lines: { in: "deliveriesIn", out: "deliveriesOut" } },
  { title: "Bytes per second", shown: bytes, lines: { received: "bytesIn", sent: "bytesOut" } },
  { title: "Outcomes per second", shown: count, lines: {
    accepted: "accepted", released: "released", rejected: "rejected", modified: "modified", dropped: "dropped" } },
  { title: "Latency, arrival to settlement", shown: seconds, log: true, lines: { p50: "p50", p99: "p99", "p99.9": "p999" } },
  { title: "Unsettled deliveries", shown: count, lines: { unsettled: "unsettled" } },
  { title: "CPU, 100 % is one core", shown: part, lines: { core: "coreCpu", "busiest worker": "workerCpu" } },
];
const HEIGHT = 160, LEFT = 54, RIGHT = 10, TOP = 8, BOTTOM = 20;
let past = null; // the answer of /history.json; a point's time is when it ended
let cursor = null; // the time that is read out, in seconds since 1970; null: the newest

const times = () => past.ages.map(age => past.time - age);
function nearest(time) {
  const all = times();
  let best = all.length - 1;
  if (time != null) all.forEach((t, i) => { if (Math.abs(t - time) < Math.abs(all[best] - time)) best = i; });
  return best;
}

class Chart {
  constructor({ title, shown, log = false, lines }) {
    Object.assign(this, { title, shown, log, lines: Object.entries(lines) });
    this.values = [];
    const legend = this.lines.map(([name], i) => {
      const sample = draw("svg", { viewBox: "0 0 22 8", "aria-hidden": "true" });
      sample.append(draw("path", { d: "M1 4H21", class: `plot plot-${i}` }));
      this.values.push(make("b", "–"));
      return make("li", [sample, name + " ", this.values[i]]);
    });
    this.svg = draw("svg", { tabindex: 0, role: "slider", "aria-label": title, "aria-valuemin": 0 });
    this.told(null);
    this.svg.onpointermove = event => this.point((event.clientX - this.svg.getBoundingClientRect().left - LEFT)
      / (this.width - LEFT - RIGHT));
    this.svg.onpointerleave = () => move(null);
    this.svg.onkeydown = event => this.key(event);
    this.svg.onblur = () => { move(null); this.told(null); };
    this.figure = make("figure", [make("figcaption", [make("h3", title), make("ul", legend)]), this.svg]);
  }
  point(x) {
    if (past && past.ages.length) move(times()[nearest(past.time - (1 - x) * past.step * past.most)]);
  }
  key(event) {
    const last = past ? past.ages.length - 1 : -1;
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowDown: -1, ArrowUp: 1, PageUp: 10, PageDown: -10 };
    if (last < 0 || event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.key === "Escape") move(null);
    else if (event.key === "Home" || event.key === "End") move(times()[event.key === "Home" ? 0 : last]);
    else if (steps[event.key]) move(times()[Math.max(0, Math.min(last, nearest(cursor) + steps[event.key]))]);
    else return;
    event.preventDefault();
    this.told(cursor);
  }
  // What a screen reader says of the cursor. It changes with a key only: the newest values would chatter.
  told(time) {
    const place = time == null ? -1 : nearest(time);
    this.svg.setAttribute("aria-valuemax", past ? Math.max(0, past.ages.length - 1) : 0);
    this.svg.setAttribute("aria-valuenow", place < 0 ? this.svg.getAttribute("aria-valuemax") : place);
    this.svg.setAttribute("aria-valuetext", place < 0 ? "newest; arrow keys read earlier values"
      : `${clock(times()[place], true)}: ` + this.read(place).map((value, i) => `${this.lines[i][0]} ${value}`).join(", "));
  }
  read(place) {
    return this.lines.map(([, key]) => this.shown(place < 0 ? null : past.points[place][past.names.indexOf(key)]));
  }
  show() {
    const width = this.width = Math.max(200, this.svg.clientWidth);
    this.svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    const columns = this.lines.map(([, key]) => past.points.map(point => point[past.names.indexOf(key)]));
    const seen = columns.flat().filter(value => value != null);
    const { marks, place } = this.log ? decades(seen) : levels(seen, this.shown);
    const right = width - RIGHT, bottom = HEIGHT - BOTTOM;
    const x = time => right - (past.time - time) / (past.step * past.most) * (right - LEFT);
    const y = value => bottom - place(value) * (bottom - TOP);
    const parts = marks.flatMap(mark => [
      draw("line", { class: "grid", x1: LEFT, x2: right, y1: y(mark), y2: y(mark) }),
      draw("text", { x: LEFT - 6, y: y(mark) + 4, "text-anchor": "end" }, this.shown(mark)),
    ]);
    const every = past.step < 5 ? 30 : 600;
    for (let time = Math.ceil((past.time - past.step * past.most) / every) * every; time <= past.time; time += every) {
      const label = draw("text", { x: x(time), y: HEIGHT - 5, "text-anchor": "middle" }, clock(time, every < 60));
      parts.push(draw("line", { class: "grid", x1: x(time), x2: x(time), y1: TOP, y2: bottom }));
      if (x(time) > LEFT + 8 && x(time) < right - 16) parts.push(label);
    }
    const all = times();
    // The first line is drawn last: it is the one to see where lines cover each other.
    columns.map((values, i) => draw("path", { class: `plot plot-${i}`, d: path(values, all, x, y) })).reverse()
      .forEach(line => parts.push(line));
    const at = nearest(cursor);
    if (cursor != null && at >= 0) parts.push(draw("line", { class: "cursor", x1: x(all[at]), x2: x(all[at]), y1: TOP, y2: bottom }));
    this.svg.replaceChildren(...parts);
    this.read(at).forEach((value, i) => set(this.values[i], value));
  }
}
// A line ends where there is no value; a value between two of these is a dot.
function path(values, all, x, y) {
  const joined = i => i > 0 && values[i - 1] != null;
  return values.map((value, i) => value == null ? ""
    : `${joined(i) ? "L" : "M"}${x(all[i]).toFixed(1)} ${y(value).toFixed(1)}${joined(i) ? "" : "h0"}`).join("");
}
// Marks of an axis from 0, and where a value is between its ends.
function levels(seen, shown) {
  const most = Math.max(shown === part ? 0.1 : 4, ...seen);
  const unit = shown === bytes ? 1024 ** Math.floor(Math.log(most) / Math.log(1024)) : 1; // whole KiB, not 1.95 of them
  const rough = most / unit / 4, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map(n => n * power).find(n => n >= rough * 0.999) * unit;
  const marks = Array.from({ length: Math.ceil(most / step - 1e-9) + 1 }, (_, i) => i * step);
  return { marks, place: value => value / marks.at(-1) };
}
function decades(seen) {
  const least = Math.floor(Math.log10(Math.max(1e-9, Math.min(1e-5, ...seen))));
  const most = Math.max(least + 2, Math.ceil(Math.log10(Math.max(1e-9, ...seen))));
  const marks = Array.from({ length: most - least + 1 }, (_, i) => Number(`1e${least + i}`));
  return { marks, place: value => (Math.log10(Math.max(value, 1e-9)) - least) / (most - least) };
}
function move(time) {
  cursor = time;
  showCharts();
}
function showCharts() {
  if (!past) return;
  const at = nearest(cursor);
  set($("moment"), at < 0 ? "no values yet" : clock(times()[at], true));
  charts.forEach(chart => chart.show());
}
const charts = CHARTS.map(what => new Chart(what));
$("charts").replaceChildren(...charts.map(chart => chart.figure));

// ---- The network: this router in the middle, neighbours around it, others behind their next hop ----

const MOST_DRAWN = 24;
const cut = (name, most) => name.length > most ? name.slice(0, most - 1) + "…" : name;

function showNetwork(me, routers) {
  const svg = $("picture"), width = Math.max(260, svg.clientWidth);
  const drawn = routers.slice(0, MOST_DRAWN), neighbours = drawn.filter(r => r[1] === r[0]);
  const groups = neighbours.map(hop => [hop, drawn.filter(r => r !== hop && r[1] === hop[0])]);
  const lost = drawn.filter(r => r[2] == null), grouped = new Set(groups.flatMap(([hop, behind]) => [hop, ...behind]));
  groups.push(...drawn.filter(r => !grouped.has(r)).map(r => [null, [r]]));
  const far = groups.some(([, behind]) => behind.length), slots = groups.reduce((n, [, b]) => n + Math.max(1, b.length), 0);
  const height = slots < 4 ? 190 : slots < 9 ? 270 : 360;
  const spot = (slot, ring) => {
    const angle = 2 * Math.PI * slot / slots + Math.PI; // the first one on the left
    return [width / 2 + Math.cos(angle) * ring * (width / 2 - 62), height / 2 - 6 + Math.sin(angle) * ring * (height / 2 - 30)];
  };
  const lines = [], nodes = [], middle = [width / 2, height / 2 - 6];
  const join = ([x1, y1], [x2, y2], name, cost) => {
    lines.push(draw("line", { x1, y1, x2, y2, class: name }));
    nodes.push(draw("text", { x: (x1 + x2) / 2, y: (y1 + y2) / 2 + 4 }, cost));
  };
  const node = ([x, y], name, kind) => {
    const circle = draw("circle", { cx: x, cy: y, r: kind === "me" ? 10 : 8, class: kind });
    circle.append(draw("title", {}, name));
    nodes.push(circle, draw("text", { x, y: y + 23, class: kind }, cut(name, width < 500 ? 14 : 20)));
  };
  let slot = 0;
  for (const [hop, behind] of groups) {
    const wide = Math.max(1, behind.length), at = spot(slot + (wide - 1) / 2, far ? 0.5 : 0.85);
    if (hop) {
      join(middle, at, "", hop[2]);
      node(at, hop[0], "");
    }
    behind.forEach((router, i) => {
      const there = spot(slot + i, 1), unreachable = router[2] == null;
      if (hop) join(at, there, "far", router[2]);
      node(there, router[0] + (unreachable ? " ✕" : ""), unreachable ? "lost" : "");
    });
    slot += wide;
  }
  node(middle, me, "me");
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("height", height);
  svg.setAttribute("aria-label", `${me} has ${neighbours.length} neighbours; ${routers.length} routers are in the table`
    + (lost.length ? `; ${lost.length} are unreachable` : ""));
  const more = routers.length - drawn.length;
  if (more) nodes.push(draw("text", { x: width / 2, y: height - 4 }, `${more} more are in the table`));
  svg.replaceChildren(...lines, ...nodes);
}

// ---- The page ----

let shown = null; // the answer of /status.json

function show(s) {
  shown = s;
  document.title = (s.alarms.length ? `(${s.alarms.length}) ` : "") + s.router + " · routerd";
  set($("router"), s.router);
  badge("live", s.live, "live", "not live");
  badge("ready", s.ready, "ready", "not ready");
  set($("about"), `routerd ${s.version}, up ${span(s.uptime)}`);
  say(`${s.live ? "live" : "not live"}, ${s.ready ? "ready" : "not ready"}, alarms: ${s.alarms.length}`);
  $("alarms").hidden = !s.alarms.length;
  $("alarms").querySelector("ul").replaceChildren(...s.alarms.map(alarm => make("li", alarm)));
  const figures = {
    "deliveries in /s": count(s.rates.deliveries_in), "deliveries out /s": count(s.rates.deliveries_out),
    "received /s": bytes(s.rates.bytes_in), "sent /s": bytes(s.rates.bytes_out),
    "not accepted /s": count(s.rates.released + s.rates.rejected + s.rates.modified),
    connections: count(s.openConnections), links: count(s.links), addresses: count(s.addressCount),
  };
  $("figures").replaceChildren(...Object.entries(figures).map(
    ([label, value]) => make("div", [make("dt", label), make("dd", value)])));
  tables.processes.update(s.processes);
  set($("internal-count"), `(${s.addresses.filter(a => internal(a.address)).length})`);
  tables.addresses.update(s.addresses, s.addressCount);
  tables.addresses.foot.replaceChildren(make("tr", [make("td", "deliveries of all others", "text soft"), make("td"),
    make("td", count(s.otherDeliveries))]));
  tables.connections.update(s.connections, s.openConnections);
  $("connecting").hidden = !s.connectors.length;
  tables.connectors.update(s.connectors);
  $("network").hidden = !s.routers.length;
  tables.routers.update(s.routers);
  if (s.routers.length) showNetwork(s.router, s.routers);
}
function say(words) {
  set($("said"), words);
}

async function ask(path) {
  const answer = await fetch(path, { cache: "no-store", signal: AbortSignal.timeout(4000) });
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
}
const wantedSpan = () => document.querySelector("input[name=span]:checked").value;
async function askPast() {
  const name = wantedSpan(), found = await ask("history.json?span=" + name);
  if (name === wantedSpan()) {
    const first = found.ages.findIndex(age => age < found.step * found.most); // slow ticks make points before the axis
    past = { ...found, ages: found.ages.slice(Math.max(0, first)), points: found.points.slice(Math.max(0, first)) };
    showCharts();
  }
}
async function look() {
  try {
    const fresh = past && past.step > 5 && Date.now() - askPast.last < 5000;
    show(await ask("status.json"));
    if (!fresh) {
      await askPast();
      askPast.last = Date.now();
    }
    $("gone").hidden = true;
    $("main").classList.remove("stale");
  } catch (error) {
    badge("live", false, "", "no answer");
    badge("ready", false, "", "unknown");
    say("no answer");
    const why = error instanceof TypeError || error.name === "TimeoutError" ? "the exporter does not answer" : error.message.trim();
    set($("gone"), `No answer: ${why}.` + (shown ? ` What follows is from ${clock(shown.time, true)}.` : ""));
    $("gone").hidden = false;
    $("main").classList.add("stale");
  }
  setTimeout(look, document.hidden ? 10000 : 1000);
}
document.querySelectorAll("input[name=span]").forEach(input => {
  input.onchange = () => { move(null); askPast().catch(() => {}); };
});
new ResizeObserver(() => {
  showCharts();
  if (shown && shown.routers.length) showNetwork(shown.router, shown.routers);
}).observe($("main"));
look();
