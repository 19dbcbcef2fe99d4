// ---- The network: routers, the connections between them, their costs and this router's traffic ----

const MOST_DRAWN = 40;
let places = { key: "", at: [] }; // where the routers were drawn last, each in a square of side 1

// Like ones repel each other and connections are springs (Fruchterman and Reingold, 1991); from the same start each time.
function placed(routers, edges) {
  const key = JSON.stringify([routers, edges.map(([one, other]) => [one, other])]);
  if (places.key === key) return places.at;
  const ideal = Math.sqrt(1 / routers.length);
  const at = routers.map((_, i) => i ? [0.5 + 0.4 * Math.cos(2.4 * i), 0.5 + 0.4 * Math.sin(2.4 * i)] : [0.5, 0.5]);
  for (let heat = 0.15; heat > 0.0005; heat *= 0.96) {
    const moved = at.map(() => [0, 0]);
    const pull = (one, other, force) => {
      const [x, y] = [at[one][0] - at[other][0], at[one][1] - at[other][1]];
      const far = Math.max(0.001, Math.hypot(x, y)), part = force(far) / far;
      moved[one][0] += x * part; moved[one][1] += y * part;
      moved[other][0] -= x * part; moved[other][1] -= y * part;
    };
    for (let one = 1; one < at.length; one++) for (let other = 0; other < one; other++) pull(one, other, far => ideal * ideal / far);
    for (const [one, other] of edges) pull(one, other, far => -far * far / ideal);
    moved.forEach(([x, y], i) => {
      const far = Math.max(0.001, Math.hypot(x, y));
      at[i] = [at[i][0] + x / far * Math.min(far, heat), at[i][1] + y / far * Math.min(far, heat)];
    });
  }
  // The long way lies across with this router on the left, and both ways are filled.
  const mean = axis => at.reduce((sum, one) => sum + one[axis], 0) / at.length, [mx, my] = [mean(0), mean(1)];
  const moment = (a, b) => at.reduce((sum, one) => sum + (one[a] - [mx, my][a]) * (one[b] - [mx, my][b]), 0);
  const turn = Math.atan2(2 * moment(0, 1), moment(0, 0) - moment(1, 1)) / 2, [cos, sin] = [Math.cos(turn), Math.sin(turn)];
  const side = (at[0][0] - mx) * cos + (at[0][1] - my) * sin > 0 ? -1 : 1;
  at.forEach(([x, y], i) => { at[i] = [side * (x * cos + y * sin), y * cos - x * sin]; });
  for (const axis of [0, 1]) {
    const least = Math.min(...at.map(one => one[axis])), span = Math.max(...at.map(one => one[axis])) - least;
    at.forEach(one => { one[axis] = span < 0.05 ? 0.5 : (one[axis] - least) / span; });
  }
  places = { key, at };
  return at;
}

// Deliveries per second of each neighbour, from two answers of the router at least 2 s apart.
const flows = new Map();
function follow(time, routers) {
  for (const [router, , , came = 0, went = 0] of routers) {
    const before = flows.get(router) ?? { time, came, went, in: 0, out: 0 };
    if (time - before.time >= 2) {
      const rate = (now, then) => Math.max(0, now - then) / (time - before.time);
      flows.set(router, { time, came, went, in: rate(came, before.came), out: rate(went, before.went) });
    } else flows.set(router, before);
  }
  for (const router of flows.keys()) if (!routers.some(([name]) => name === router)) flows.delete(router);
}

function showNetwork(me, routers, edges) {
  const svg = $("picture"), width = Math.max(260, svg.clientWidth), names = [me, ...routers.map(r => r[0])].slice(0, MOST_DRAWN);
  const lines = edges.filter(([one, other]) => one < names.length && other < names.length);
  const narrow = width < 500; // a phone: the long way lies down
  const height = narrow ? 150 + 40 * Math.min(10, names.length) : names.length < 4 ? 170 : names.length < 9 ? 290 : names.length < 16 ? 360 : 460;
  const at = placed(names, lines).map(([x, y]) => narrow ? [y, x] : [x, y]).map(([x, y]) => [66 + x * (width - 132), 22 + y * (height - 66)]);
  const drawn = [], words = [];
  for (const [one, other, cost] of lines) {
    const [[x1, y1], [x2, y2]] = [at[one], at[other]], flow = one === 0 && flows.get(names[other]);
    const busy = flow ? flow.in + flow.out : 0, lost = [one, other].some(i => i && routers[i - 1][2] == null);
    drawn.push(draw("line", { x1, y1, x2, y2, class: lost ? "lost" : one ? "far" : "",
      "stroke-width": (1.6 + Math.log10(1 + busy)).toFixed(1) }));
    const text = draw("text", { x: (x1 + x2) / 2, y: (y1 + y2) / 2 + 4 }, `cost ${cost}`);
    if (busy >= 0.5) text.append(draw("tspan", { x: (x1 + x2) / 2, dy: 13 }, `${count(Math.round(flow.out))} out, ${count(Math.round(flow.in))} in /s`));
    words.push(text);
  }
  names.forEach((name, i) => {
    const [x, y] = at[i], kind = !i ? "me" : routers[i - 1][2] == null ? "lost" : "";
    const circle = draw("circle", { cx: x, cy: y, r: i ? 8 : 10, class: kind });
    circle.append(draw("title", {}, cut(name, 200)));
    words.push(circle, draw("text", { x, y: y + 24, class: kind }, cut(name, narrow ? 12 : 18) + (kind === "lost" ? " ✕" : "")));
  });
  const more = routers.length + 1 - names.length, lost = routers.filter(r => r[2] == null).length;
  if (more) words.push(draw("text", { x: width / 2, y: height - 4 }, `${more} more are in the table`));
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("height", height);
  svg.setAttribute("aria-label", `${me} has ${routers.filter(r => r[1] === r[0]).length} neighbours; ${routers.length} `
    + `routers and their neighbours are in the table` + (lost ? `; ${lost} are unreachable` : ""));
  svg.replaceChildren(...drawn, ...words);
  for (const text of svg.querySelectorAll("text")) { // a plate, or else a line shows through between words
    const { x, y, width, height } = text.getBBox();
    text.before(draw("rect", { x: x - 2, y, width: width + 4, height }));
  }
}
function neighboursOf(place, names, edges) {
  return edges.flatMap(([one, other, cost]) => one === place ? [[other, cost]] : other === place ? [[one, cost]] : [])
    .filter(([other]) => other < names.length).map(([other, cost]) => `${names[other]} (${cost})`).join(", ");
}
