// ---- Charts ----

const CHARTS = [
  { title: "Deliveries per second", shown: count, lines: { in: "deliveriesIn", out: "deliveriesOut" } },
  { title: "Bytes per second", shown: bytes, lines: { received: "bytesIn", sent: "bytesOut" } },
  { title: "Outcomes per second", shown: count, lines: {
    accepted: "accepted", released: "released", rejected: "rejected", modified: "modified", dropped: "dropped" } },
  { title: "Latency, arrival to settlement", shown: seconds, log: true, lines: { p50: "p50", p99: "p99", "p99.9": "p999" } },
  { title: "Unsettled deliveries, in and out", shown: count, lines: { unsettled: "unsettled" } },
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
