// ---- The console: what the management agent says, asked by AMQP with the rights of its user ----

const ROWS = 100; // shown at once; the router chooses them
const LINES = 500; // of the log
const KEPT = 1000; // the most lines that the router gives
const LONGEST = 2000; // characters of a frame
const REFRESH = 3000; // milliseconds after an answer, or ten times what it took; after failures longer and longer
const INNER = ["L", "R", "T", "A", "H", "M0_", "M0$", "M0temp.", "M0qd."]; // how keys of internal addresses begin
const KINDS = { M: "mobile", L: "local", T: "topo", R: "router", A: "area", H: "edge", C: "link route, in", D: "link route, out" };
const keyText = key => cut(!key ? "–" : /^M\d/.test(key) ? key.slice(2) : key.slice(1), 200);
const dash = value => value == null || value === "" ? "–" : cut(String(value), 200);
const since = s => s == null ? "–" : span(s);
const figure = (title, by, shown = count) => [title, row => row[by], shown, "", { by }];
const word = (title, by) => [title, row => row[by] ?? "", dash, "text", { by }];
const state = good => ["state", row => row.operStatus, dash, row => row.operStatus === good ? "text good" : "text bad", { by: "operStatus" }];
const broker = ["broker", row => row.connection ?? row.containerId, dash, "text"];

// What a link's deliveries wait for; "" if there are none.
function wanted(link) {
  if (link.linkDir === "in") return link.unsettledCount ? link.waitsFor ? `link ${link.waitsFor}` : "its receivers" : "";
  if (link.undeliveredCount) return link.creditAvailable ? "its client to read" : "credit of its client";
  return link.unsettledCount ? "its client to settle" : "";
}

const VIEWS = {
  addresses: {
    type: "router.address", sorted: 0, folded: { without: { key: INNER } },
    names: ["key", "distribution", "subscriberCount", "remoteCount", "inProcess", "deliveriesIngress", "deliveriesEgress",
      "deliveriesTransit", "trackedDeliveries"],
    columns: [
      ["address", a => a.key, keyText, "text", { by: "key", press: a => go("links", { owningAddr: a.key }, `address ${keyText(a.key)}`),
        said: a => `links of address ${keyText(a.key)}` }],
      ["kind", a => KINDS[a.key[0]] ?? a.key[0], String, "text"], word("distribution", "distribution"),
      figure("receivers", "subscriberCount"), figure("routers", "remoteCount"), figure("from clients", "deliveriesIngress"),
      figure("to clients", "deliveriesEgress"), figure("to routers", "deliveriesTransit"),
      figure("unsettled at routers", "trackedDeliveries"),
    ],
  },
  links: {
    type: "router.link", folded: { where: { linkType: "endpoint" }, without: { owningAddr: INNER } },
    only: {
      "all": {}, "with unsettled deliveries": { atLeast: { unsettledCount: 1 } },
      "stuck: unsettled for 10 s": { atLeast: { deliveriesStuck: 1 } },
      "receivers without credit for 10 s": { where: { linkDir: "out" }, atLeast: { zeroCreditSeconds: 10 } },
    },
    names: ["identity", "linkDir", "owningAddr", "connectionId", "unsettledCount", "deliveriesStuck", "undeliveredCount",
      "creditAvailable", "zeroCreditSeconds", "deliveryCount", "settleRate", "acceptedCount", "rejectedCount", "releasedCount",
      "modifiedCount", "droppedPresettledCount", "name"],
    columns: [
      ["link", l => l.identity, String, "", { by: "identity" }],
      ["direction", l => l.linkDir === "in" ? "sender" : "receiver", String, "text", { by: "linkDir" }],
      ["address", l => l.owningAddr, keyText, "whole", { by: "owningAddr" }],
      ["connection", l => l.connectionId, dash, "", { by: "connectionId", press: l => go("connections", { identity: l.connectionId },
        `connection ${l.connectionId}`), said: l => `connection ${l.connectionId}` }],
      figure("unsettled", "unsettledCount"), figure("stuck", "deliveriesStuck"), figure("not sent", "undeliveredCount"),
      figure("credit", "creditAvailable"), figure("no credit for", "zeroCreditSeconds", s => s ? span(s) : "–"),
      ["waits for", wanted, dash, "whole"],
      figure("deliveries", "deliveryCount"), figure("settled /s", "settleRate"), figure("accepted", "acceptedCount"),
      ["not accepted", l => l.rejectedCount + l.releasedCount + l.modifiedCount, count], figure("dropped", "droppedPresettledCount"),
      ["name", l => l.name, dash, "whole", { by: "name" }],
    ],
    act: ["detach", l => ({ operation: "UPDATE", type: "router.link", identity: l.identity, body: { adminStatus: "disabled" },
      done: `link ${l.identity} is detached`, ask: `Detach link ${l.identity} of address ${keyText(l.owningAddr)}? Its client may attach again.` })],
  },
  connections: {
    type: "connection",
    names: ["identity", "host", "container", "user", "role", "dir", "sslProto", "worker", "uptimeSeconds", "lastDlvSeconds", "enableProtocolTrace"],
    columns: [
      ["connection", c => c.identity, String, "", { by: "identity", press: c => go("links", { connectionId: c.identity },
        `connection ${c.identity}`), said: c => `links of connection ${c.identity}` }],
      word("host", "host"), word("container", "container"), word("user", "user"), word("role", "role"), word("TLS", "sslProto"),
      ["dialled by", c => c.dir === "out" ? "this router" : "the peer", String, "text", { by: "dir" }], figure("worker", "worker", String),
      figure("open for", "uptimeSeconds", since), figure("last delivery before", "lastDlvSeconds", since),
      ["frames", c => c.enableProtocolTrace, traced => traced ? "traced" : "show", "text", { by: "enableProtocolTrace",
        press: c => go("log", { frames: c.identity }, `frames of connection ${c.identity}`),
        said: c => `${c.enableProtocolTrace ? "traced" : "show"} frames of connection ${c.identity}` }],
    ],
    act: ["close", c => ({ operation: "UPDATE", type: "connection", identity: c.identity, body: { adminStatus: "deleted" },
      done: `connection ${c.identity} is closed`, ask: `Close connection ${c.identity} of ${dash(c.host)}? Its client may connect again.` })],
  },
  linkRoutes: {
    type: "router.config.linkRoute", sorted: 0,
    names: ["name", "pattern", "prefix", "direction", "connection", "containerId", "operStatus"],
    columns: [word("link route", "name"), ["addresses", r => r.pattern ?? `${r.prefix}.#`, dash, "text"], word("direction", "direction"),
      broker, state("active")],
  },
  autoLinks: {
    type: "router.config.autoLink", sorted: 0,
    names: ["name", "address", "direction", "connection", "containerId", "operStatus", "lastError"],
    columns: [word("auto link", "name"), word("address", "address"), word("direction", "direction"), broker, state("active"),
      ["last error", a => a.lastError ?? "", dash, "whole", { by: "lastError" }]],
  },
};
const LEVELS = ["trace", "debug", "info", "notice", "warning", "error", "critical"];

let peer = null, opening = null, asked = 0, refresh = 0, rows = null;
let ruled = null, mayChange = false; // the router whose rights are known, and whether they include changes
let at = { view: "", where: {}, label: "" };

// ---- Asking ----

async function connected() {
  if (peer && !peer.closed) return;
  ruled = null;
  if (login?.refused) throw new Error(REFUSED);
  const mine = login, opened = opening ??= Peer.open(location.href.replace(/^http/, "ws").replace(/[?#].*/, ""), mine);
  try {
    const found = await opened;
    if (mine === login) peer = found; else found.close();
  } catch (error) {
    if (mine && error.message === REFUSED) mine.refused = true; // it is not sent again: guesses may lock a user out
    if (mine === login) throw error;
  } finally {
    if (opening === opened) opening = null;
  }
  if (mine !== login) await connected();
}
async function request(operation, properties = {}, body = {}) {
  const router = $("of").value; // as it was when this was asked for
  await connected();
  if (ruled !== router) {
    const { body: self } = await exchange(router, "READ", { type: "org.amqp.management", name: "self" }, {});
    ruled = router;
    mayChange = self.get("management") === "all";
    showLogin(mayChange ? "may change the router" : "may only read");
  }
  return exchange(router, operation, properties, body);
}
async function exchange(router, operation, properties, body) {
  const key = `q${++asked}`;
  const answer = await peer.send(router ? `_topo/0/${router}/$management` : "$management", [
    new Described(PROPERTIES, [null, null, null, null, peer.address, key]),
    new Described(APPLICATION, { operation, ...properties }), new Described(VALUE, body)], key);
  const status = answer[APPLICATION].get("statusCode");
  if (status >= 300) throw new Error(answer[APPLICATION].get("statusDescription"));
  return { body: answer[VALUE] };
}
async function query(view, choice, most = ROWS) {
  const { body } = await request("QUERY", { type: "org.amqp.management", name: "self", entityType: view.type, count: most },
    { attributeNames: view.names, ...choice });
  const names = body.get("attributeNames");
  return { rows: body.get("results").map(row => Object.fromEntries(row.map((value, i) => [names[i], value]))), total: body.get("total") };
}

// ---- Where the console is: a view and what it is narrowed to; the browser's own buttons lead back ----

function go(view, where = {}, label = "", search = "") {
  history.pushState({ view, where, label, search }, "");
  enter({ view, where, label, search });
  $("console").scrollIntoView({ block: "nearest" });
}
window.onpopstate = event => { if (event.state) enter(event.state); };

function enter(state) {
  const view = VIEWS[state.view];
  at = state;
  document.querySelectorAll("[role=tab]").forEach(tab => {
    tab.ariaSelected = tab.dataset.view === at.view;
    tab.tabIndex = tab.dataset.view === at.view ? 0 : -1;
  });
  $("panel").hidden = false;
  $("panel").setAttribute("aria-labelledby", `tab-${at.view}`);
  $("rows-search").value = at.search ?? "";
  $("tools").hidden = at.view === "explain";
  $("explaining").hidden = at.view !== "explain";
  $("rows-box").hidden = at.view === "explain";
  $("rows").className = at.view;
  $("folding").hidden = !view?.folded;
  $("tracing").hidden = !at.where.frames;
  $("only").hidden = !view?.only && at.view !== "log" || !!at.where.frames;
  $("narrowed").hidden = !at.label;
  set($("narrowed"), at.label ? `${cut(at.label, 60)} ✕` : "");
  $("narrowed").setAttribute("aria-label", `Show all, not only of ${printable(cut(at.label, 60))}`);
  $("only").replaceChildren(...(at.view === "log" ? LEVELS.slice(0, -1).map(level => `${level} and above`) : Object.keys(view?.only ?? {}))
    .map(name => make("option", name)));
  if (at.view === "log") $("only").selectedIndex = 2;
  tell("");
  set($("did"), "");
  set($("summary"), "");
  rows = at.view === "log" ? logTable() : view ? viewTable(view) : null;
  watch();
}
function viewTable(view) {
  const columns = [...view.columns];
  if (view.act && mayChange) columns.splice(1, 0, ["", () => "", () => view.act[0], "text", { press: row => act(row.router, view.act[1](row)),
    said: row => `${view.act[0]} ${row.identity}` }]);
  const made = new Table("rows", columns, { ask: () => watch(250) });
  made.changing = mayChange;
  if (view.sorted != null) made.sort(view.sorted, false);
  return made;
}
function logTable() {
  const time = ["time", l => l[5], time => clock(time, true), "text"];
  if (at.where.frames) return new Table("rows", [time, ["frame", l => l[2], String, () => "whole"]]);
  return new Table("rows", [
    time, ["level", l => l[1], String, l => LEVELS.indexOf(l[1]) > 3 ? "text bad" : "text"],
    ["module", l => l[0], String, "text"], ["text", l => l[2], String, () => "whole"],
  ], { wanted: line => LEVELS.indexOf(line[1]) >= $("only").selectedIndex });
}

// ---- What is shown is asked for again every few seconds, one request after the other ----

function watch(delay = 0) {
  clearTimeout(refresh);
  refresh = setTimeout(renew, delay);
}
let renewing = false, again = false, failed = 0, trouble = "";
async function renew() {
  if (renewing) {
    again = true;
    return;
  }
  const began = Date.now(), by = login;
  renewing = true;
  again = false;
  try {
    if (!document.hidden && at.view) await (at.view === "log" ? renewLog() : at.view === "explain" ? renewExplain() : renewView());
    if ($("told").textContent === trouble) tell(""); // what an action has told stays
    failed = 0;
  } catch (error) {
    if (by !== login) again = true; // somebody else is to ask
    else tell(trouble = printable(error.message));
    failed++;
  } finally {
    renewing = false;
  }
  if (again) watch();
  else if (at.view === "explain" ? failed : $("following").checked) watch(Math.max(REFRESH * 2 ** Math.min(failed, 5), 10 * (Date.now() - began)));
}
async function renewView() {
  const mine = at, table = rows, router = $("of").value, view = VIEWS[at.view], folded = view.folded && !$("inner").checked && !at.label ? view.folded : {};
  const only = view.only?.[$("only").value] ?? {};
  const found = await query(view, { search: $("rows-search").value.trim(), ...table.order, ...folded, ...only,
    where: { ...folded.where, ...only.where, ...at.where } });
  if (view === VIEWS.links) await blame(found.rows);
  if (mine !== at || table !== rows || again || router !== $("of").value) return; // something else is wanted by now
  if (table.changing !== mayChange) rows = viewTable(view); // it is known only now what the user may do
  rows.update(found.rows.map(row => ({ ...row, router })), found.total); // a change is for the router whose row it is
  if (at.where.owningAddr) {
    const words = await summary(at.where.owningAddr, found);
    if (mine === at) set($("summary"), words);
  }
}
// Say which link holds up each sender's link that is stuck; a router of another kind does not know, and may refuse to say.
async function blame(links) {
  const stuck = { where: { linkDir: "in" }, atLeast: { deliveriesStuck: 1 } };
  if (!links.some(link => link.linkDir === "in" && link.deliveriesStuck)) return;
  const { rows: said } = await query({ type: "router.link", names: ["identity", "waitsFor"] }, stuck, KEPT).catch(() => ({ rows: [] }));
  const holders = new Map(said.map(link => [link.identity, link.waitsFor]));
  links.forEach(link => { link.waitsFor = holders.get(link.identity); });
}
// Say how many deliveries of an address wait, and for what, from its links and what the router knows of it.
async function summary(key, { rows: links, total }) {
  const { rows: [address] } = await query({ type: "router.address", names: ["key", "subscriberCount", "remoteCount", "inProcess",
    "trackedDeliveries"] }, { where: { key } });
  const receivers = links.filter(link => link.linkDir === "out");
  const sum = name => receivers.reduce((n, link) => n + (link[name] ?? 0), 0);
  const { subscriberCount: here = receivers.length, remoteCount: far = 0, inProcess: own = 0, trackedDeliveries: tracked = 0 } = address ?? {};
  const credit = sum("creditAvailable"), undelivered = sum("undeliveredCount"), unsettled = sum("unsettledCount");
  const waits = !here && !far && !own ? ["There is no receiver: senders wait for one."]
    : [undelivered && !credit && "Those that are not sent wait for credit of the receivers.", undelivered && credit
      && "Those that are not sent wait for receivers that are slow, or have no credit.", unsettled && "Unsettled ones wait for their receivers."];
  return [`Receivers here: ${here}, their credit: ${count(credit)}; routers with receivers: ${far}.`,
    `Not sent: ${count(undelivered)}; unsettled: ${count(unsettled)} here, ${count(tracked)} at other routers.`, ...waits.filter(Boolean),
    links.length < total ? `This counts the first ${links.length} links.` : ""].join(" ");
}
async function renewLog() {
  const mine = at, { frames } = at.where;
  const { body } = await request("GET-LOG", { type: "org.amqp.management", name: "self", limit: frames ? KEPT : LINES });
  if (mine !== at) return;
  if (!frames) return rows.update(body.reverse());
  const head = `[C${frames}]:`, lines = body.filter(line => line[0] === "PROTOCOL" && line[2].startsWith(head)).slice(-LINES);
  rows.update(lines.reverse().map(line => line.with(2, cut(line[2].slice(head.length), LONGEST))));
  const { rows: [connection] } = await query(VIEWS.connections, { where: { identity: frames } });
  if (mine !== at) return;
  $("trace").checked = connection?.enableProtocolTrace ?? false;
  $("trace").disabled = !mayChange || !connection;
  $("trace").title = mayChange ? "" : "You may read, not change: the listener or the policy gives this user no management: all.";
  if (!connection) throw new Error(`connection ${frames} is gone`);
}
async function renewExplain() {
  await connected();
  const { rows: found } = await query({ type: "routeTable", names: ["name"] }, {}).catch(() => ({ rows: [] }));
  if (!peer || peer.closed) throw new Error(peer ? peer.closed : "no connection");
  const names = found.map(row => row.name), kept = $("table").value;
  $("table").replaceChildren(...names.map(name => make("option", name)));
  if (names.includes(kept)) $("table").value = kept;
  $("by-table").hidden = !names.length;
  $("no-table").hidden = !!names.length;
}
// Say why an action has failed. A lost connection is over when something is answered again; anything else was the action's.
function failedTo(error) {
  if (!peer || peer.closed) {
    trouble = printable(error.message);
    watch();
  }
  tell(error.message);
}
function tell(words) {
  set($("told"), words);
  $("told").hidden = !words;
  if (peer?.closed || Peer.offered && !peer) showLogin("not connected");
}

// ---- Changes ----

async function act(router, { ask: question, done, operation, type, identity, body }) {
  if (question) {
    const opener = document.activeElement, { key } = opener.dataset, table = rows;
    set($("question"), question);
    const wanted = await agreed($("sure"));
    if (key && table === rows) rows.hold(key); // the table may have been shown anew, with another button in its place
    else if (opener.isConnected) opener.focus();
    if (!wanted) return;
  }
  try {
    await connected();
    await exchange(router, operation, { type: "org.apache.qpid.dispatch." + type, identity }, body);
    tell("");
    set($("did"), done);
  } catch (error) {
    failedTo(error);
  }
  watch(300);
}
async function switchTrace() {
  const on = $("trace").checked, { frames } = at.where;
  $("trace").checked = !on; // until the router says so
  await act($("of").value, { operation: "UPDATE", type: "connection", identity: frames, body: { enableProtocolTrace: on },
    done: `the trace of connection ${frames} is ${on ? "on" : "off"}`, ask: on ? `Log each frame of connection ${frames}? The router's log `
      + "then has its messages, and each costs far more, until you switch the trace off or the connection ends." : "" });
}
// Open a dialog and return whether its first button closed it.
function agreed(dialog) {
  dialog.returnValue = ""; // Escape leaves what the last answer was
  dialog.showModal();
  return new Promise(done => { // the event of an earlier close may come late
    dialog.onclose = () => { if (!dialog.open) done(dialog.returnValue === "yes"); };
  });
}

// ---- Controls ----

document.querySelectorAll("[role=tab]").forEach((tab, i, all) => {
  tab.onclick = () => go(tab.dataset.view);
  tab.onkeydown = event => {
    const to = { ArrowRight: i + 1, ArrowLeft: i - 1, Home: 0, End: all.length - 1 }[event.key];
    if (to == null) return;
    event.preventDefault(); // Home and End would scroll
    all[(to + all.length) % all.length].focus();
  };
});
$("narrowed").onclick = () => { go(at.view); document.getElementById(`tab-${at.view}`).focus(); };
$("only").onchange = () => { if (at.view === "log") rows.show(); else watch(); };
$("inner").onchange = () => watch();
$("trace").onchange = switchTrace;
$("of").onchange = () => { // a row's button must not act on a row of another router
  if (rows) rows.update([], 0);
  if (at.where.frames) go("connections"); // another router numbers its own
  else if (at.view) watch();
};
$("following").onchange = () => watch();
window.addEventListener("pagehide", () => { if (peer) peer.close(); });
document.addEventListener("visibilitychange", () => { if (!document.hidden && at.view) watch(); });
