// ---- Explaining ----

async function explainTable(event) {
  event.preventDefault();
  const number = id => $(id).value === "" ? {} : { [id]: Number($(id).value) };
  try {
    const { body } = await request("EXPLAIN", { type: "org.apache.qpid.dispatch.routeTable", name: $("table").value },
      { ...number("mt"), ...number("sid"), ...($("meid").value ? { meid: $("meid").value } : {}) });
    steps(body.get("steps"));
  } catch (error) {
    failedTo(error);
  }
}
const stop = text => {
  const [, kind, name] = text.trim().match(/^(?:(\d{1,3})#)?([^#]+)$/) ?? [];
  if (!name || kind > 255) throw new Error(`${text.trim() || "an empty text"} is no address; give addresses such as D1=>B2`);
  return kind > 0 ? [ubyte(Number(kind)), octetsOf(name)] : name;
};
const shownStop = value => Array.isArray(value) ? `${value[0]}#${textOf(value[1])}` : value;
// The message visits the route workers and returns here; the last address of the route never sees it.
async function trace(event) {
  event.preventDefault();
  try {
    const way = $("way").value.split("=>").map(stop);
    if (way.length < 2) throw new Error("give at least a route worker and a destination, such as D1=>B2");
    await connected();
    const there = [...way.slice(0, -1), peer.address];
    const found = (await peer.send(null, [new Described(ANNOTATIONS, new Map([[symbol("x-opt-route.onward"), there],
      [symbol("x-opt-route.return"), ["trace"]], [symbol("x-opt-route.meta"), new Map([[symbol("trace"), []]])]])),
    new Described(VALUE, null)], "trace"))[ANNOTATIONS];
    const passed = found?.get("x-opt-route.meta")?.get("trace") ?? [], returning = found?.get("x-opt-route.return") ?? [];
    steps([...passed, `arrives at ${shownStop(way.at(-1))} after ${found?.get("x-opt-route.hops") ?? 0} route workers`,
      `return route to the sender: ${returning.map(shownStop).join("=>") || "none"}; ${found?.get("x-opt-route.state") ?? "none"}`]);
  } catch (error) {
    steps([`refused: ${error.message}`]);
  }
}
function steps(lines) {
  $("steps").replaceChildren(...lines.map(line => make("li", line)));
  tell("");
}
$("by-table").onsubmit = explainTable;
$("by-table").oninput = () => tell(""); // what is being corrected is no longer wrong
$("by-route").onsubmit = trace;
