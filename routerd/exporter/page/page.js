// ---- The page: what /status.json and /history.json say ----

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
    ["links", p => p.links, count], ["unsettled in and out", p => p.unsettled, count], ["arena", p => p.arenaFill, part],
    ["ring", p => p.ringFill, part],
  ]),
  addresses: new Table("addresses", [
    ["address", a => a.address, String, "text", { press: a => go("links", {}, "", a.address), said: a => `links of address ${cut(a.address, 100)}` }],
    ["distribution", a => a.distribution, String, "text"],
    ["deliveries", a => a.deliveries, count], ["per second", a => a.rate, count],
    ["receivers", a => a.receivers, count], ["senders", a => a.senders, count],
    ["not settled", a => a.backlog, count], ["senders without credit", a => a.blockedSenders, count],
  ], { wanted: a => $("internal").checked || !internal(a.address) }),
  connections: new Table("connections", [
    ["host", c => c[2], String, "text"], ["container", c => c[1], text, "text"], ["user", c => c[4], text, "text"],
    ["role", c => c[3], String, "text"], ["worker", c => c[0]],
  ]),
  connectors: new Table("connectors", [
    ["connector", c => c[0], String, "text", { press: c => go("log", {}, "", c[0]), said: c => `log lines about connector ${c[0]}` }],
    ["state", c => c[1] ? "up" : "down", String, c => c[1] ? "text good" : "text bad"],
    ["failed attempts", c => c[2], count], ["why not", c => c[3], text, () => "whole"],
  ]),
  routers: new Table("routers", [
    ["router", r => r[0], String, "text"],
    ["cost", r => r[2], cost => cost ?? "unreachable", r => r[2] == null ? "bad" : ""], ["next hop", r => r[1], text, "text"],
    ["out /s", r => flows.get(r[0])?.out ?? null, count], ["in /s", r => flows.get(r[0])?.in ?? null, count],
    ["neighbours (cost)", r => r.neighbours, text, () => "whole"],
  ]),
};
tables.routers.sort(0, false); // they come in the order of their places in the router's tables
tables.connectors.sort(0, false);
$("internal").onchange = () => tables.addresses.show();


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
  tables.addresses.foot.replaceChildren(roled("tr", "row", [roled("td", "cell", "deliveries of all others", "text soft"),
    roled("td", "cell"), roled("td", "cell", count(s.otherDeliveries))]));
  tables.connections.update(s.connections, s.openConnections);
  $("connecting").hidden = !s.connectors.length;
  tables.connectors.update(s.connectors);
  $("network").hidden = !s.routers.length;
  const names = [s.router, ...s.routers.map(([name]) => name)];
  follow(s.time, s.routers);
  s.routers.forEach((row, i) => { row.neighbours = neighboursOf(i + 1, names, s.edges); });
  tables.routers.update(s.routers);
  if (s.routers.length) showNetwork(s.router, s.routers, s.edges);
  $("which").hidden = !s.routers.length;
  if (names.join("\n") !== show.names) {
    const kept = $("of").value;
    $("of").replaceChildren(...names.map((name, i) => Object.assign(make("option", name), { value: i ? name : "" })));
    $("of").value = names.slice(1).includes(kept) ? kept : "";
    if ($("of").value !== kept) $("of").onchange();
    show.names = names.join("\n");
  }
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
  if (shown && shown.routers.length) showNetwork(shown.router, shown.routers, shown.edges);
}).observe($("main"));
look();
