"""The console of the live page: what a browser asks the management agent by AMQP, and may change."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from proton import Message

from tests.support.clients.browser import Browser
from tests.support.clients.console import BROKER, HTTP, press, see
from tests.support.clients.frame_client import FrameClient
from tests.support.clients.web import get, site
from tests.support.peer import Net
from tests.support.routers.network import NetworkRouter
from tests.support.running import Configuration, RunningRouter, until

WORKER = "routeWorker {\n address: D1\n kind: forward\n}\n"
SHUT = "address {\n prefix: shut\n distribution: unavailable\n}\n"
HOSTILE = ["<script>alert(1)</script>", "n" * 5000, "a\u202eb"]
SEED = "newrt|start|one\nrte|1000|app0:4560\nnewrt|end|1\n"
FIRST = "#rows tbody td:first-child"
READ = "request('READ', { type: 'org.amqp.management', name: 'self' }).then(() => 'answered', error => error.message)"


@pytest.fixture(scope="module")
def configuration(tmp_path_factory: pytest.TempPathFactory) -> Configuration:
    """Pages with all rights, for readers, for nobody."""
    folder = tmp_path_factory.mktemp("seed")
    (folder / "seed.rt").write_text(SEED)
    table = f"routeTable {{\n name: ric\n seed: {folder}/seed.rt\n connect: no\n}}\n"
    pages = "".join(HTTP.format(more) for more in ("", "management: read", "management: none", "websockets: no"))
    sections = pages + WORKER + SHUT + BROKER + table
    listener = "host: 127.0.0.1\n port: 0\n idleTimeoutSeconds: 0"  # nobody serves the connection of `stuck`
    return Configuration("workers: 2", listener, sections, "management|not-allowed|refused")


@pytest.fixture
def client(router: RunningRouter) -> Iterator[FrameClient]:
    with FrameClient(router.address) as client:
        yield client


@pytest.fixture(scope="module", autouse=True)
def stuck(router: RunningRouter) -> Iterator[None]:
    """An unsettled delivery and a receiver without credit, from the module's beginning: they are stuck after 10 s."""
    with Net(router.address) as net:
        peer = net.peer()
        receiver, sender = peer.receiver("stuck.here", credit=5), peer.ready_sender("stuck.here")
        peer.receiver("dry.here", credit=0)
        net.send(sender, Message(body=b"x"))
        peer.take(receiver)
        yield


def rows(browser: Browser) -> list[str]:
    return browser.texts("#rows tbody tr")


def test_from_addresses_to_links_to_connections(router: RunningRouter, net: Net, browser: Browser) -> None:
    """Each click narrows the next view; the browser's button leads back. Nothing is asked before a view is chosen."""
    peer = net.peer()
    peer.receiver("orders.eu", credit=1)
    peer.receiver("orders.us", credit=1)
    browser.open(site(router))
    browser.until("document.querySelectorAll('#processes tbody tr').length")
    assert "console-" not in get(site(router) + "/status.json").body
    press(browser, "#tab-addresses")
    browser.until("document.querySelectorAll('#rows tbody tr').length")
    assert browser.text("#rights") == "without login: may change the router; this listener takes no passwords"
    assert browser.run("document.querySelector('#log-in').hidden && document.querySelector('#log-out').hidden")
    assert not [text for text in browser.texts(FIRST) if text.startswith(("_", "$", "temp."))]
    browser.focus("#rows-search")
    browser.press(*"ERS.E")
    browser.until("document.querySelectorAll('#rows tbody tr').length === 1")
    assert browser.texts(FIRST) == ["orders.eu"]
    assert browser.text("#rows-count") == "(1 of 1)"
    press(browser, "#rows tbody button")
    browser.until("document.querySelector('#rows thead').innerText.includes('unsettled')")
    browser.until("document.querySelectorAll('#rows tbody tr').length === 1")
    assert browser.text("#narrowed") == "address orders.eu ✕"
    browser.run("[...document.querySelectorAll('#rows tbody button')].at(-1).click()")
    browser.until(f"document.querySelector('#rows').innerText.includes('{peer.connection.container}')")
    assert len(rows(browser)) == 1
    browser.run("history.back()")
    browser.until("document.querySelector('#narrowed').innerText.startsWith('address orders.eu')")
    assert browser.complaints == []


def test_thousands_of_addresses_and_hostile_names(router: RunningRouter, client: FrameClient, browser: Browser) -> None:
    """The router chooses a hundred rows of them; names are text."""
    names = [*HOSTILE, *(f"load.{number:05}" for number in range(3_000))]
    client.begin()
    client.write(b"".join(client.attaching(name, handle, receiver=True) for handle, name in enumerate(names)))
    client.round_trip()
    see(browser, site(router), "addresses")
    browser.until("document.querySelector('#rows-count').innerText.startsWith('(100 of 300')")
    source = "new Described(SOURCE, [new Typed(0xa1, 5, 99, 97, 102, 0xc3, 0xa9)])"
    attach = f"['x', uint(9), true, ubyte(2), ubyte(0), {source}, new Described(TARGET, [])]"
    browser.run(f"peer.frame(new Described(ATTACH, {attach}))")
    browser.focus("#rows-search")
    browser.press(*"load.02999")
    browser.until("document.querySelectorAll('#rows tbody tr').length === 1")
    browser.run("document.querySelector('#rows-search').value = 'caf'")
    browser.run("document.querySelector('#rows-search').oninput()")
    browser.until("document.querySelector('#rows tbody').innerText.startsWith('caf')")
    assert browser.texts(FIRST) == ["caf\u00e9"]
    press(browser, "#rows tbody button")
    browser.until("document.querySelector('#rows thead').innerText.includes('unsettled')")
    browser.until("document.querySelectorAll('#rows tbody tr').length === 1")
    assert browser.run("document.querySelectorAll('#rows script').length") == 0
    browser.size(390, 800)
    assert browser.run("document.documentElement.scrollWidth") == 390
    assert browser.complaints == []


def test_what_is_stuck(router: RunningRouter, stuck: None, browser: Browser) -> None:
    """Unsettled deliveries at once, after 10 s as stuck; a receiver that gives no credit."""
    see(browser, site(router), "links")
    browser.until("document.querySelector('#only').options.length === 4")
    said = "document.querySelector('#rows tbody').innerText.includes"
    for place, there, away in ((1, "stuck", "dry"), (2, "stuck", "dry"), (3, "dry", "stuck")):
        browser.run(f"document.querySelector('#only').selectedIndex = {place}")
        browser.run("document.querySelector('#only').onchange()")
        browser.until(f"{said}('{there}.here') && !{said}('{away}.here')")
        if place == 2:  # the sender's link names that of the receiver that does not settle
            browser.until("/link \\d+/.test(document.querySelector('#rows tbody').innerText)")


def test_a_connection_is_closed(router: RunningRouter, net: Net, browser: Browser) -> None:
    """After a question; the answer that has the focus is no."""
    peer = net.peer()
    peer.receiver("closing.here", credit=1)
    peer.expect_error = True
    see(browser, site(router), "connections")
    name = peer.connection.container
    mine = f"[...document.querySelectorAll('#rows tbody tr')].find(row => row.innerText.includes('{name}'))"
    close = f"{mine}.querySelector('button[aria-label^=close]')"
    browser.until(f"{mine} && {close} !== null")
    browser.run(f"{close}.click()")
    assert browser.text("#question").startswith("Close connection ")
    browser.press("Enter")
    browser.until("!document.querySelector('#sure').open")
    browser.run(f"{close}.click()")
    browser.run("document.querySelector('#sure button[value=yes]').click()")
    browser.until(f"!({mine})")
    browser.until("document.querySelector('#did').innerText.endsWith('is closed')")
    browser.run("document.querySelector('#rows button[aria-label^=close]').click()")
    browser.press("Escape")
    browser.until("!document.querySelector('#sure').open")
    assert browser.run("document.querySelector('#sure').returnValue") == ""  # the former answer does not count
    net.until(lambda: peer.transport.closed or bool(peer.connection.remote_condition), "the connection ends")


@pytest.mark.parametrize("answer", ["Escape", "no", "yes"])
def test_the_focus_stays_in_the_table(router: RunningRouter, net: Net, browser: Browser, answer: str) -> None:
    """Whoever has no mouse goes on from there, also if the table was shown anew while the question was open."""
    peer = net.peer()
    peer.receiver("closing.here", credit=1)
    peer.expect_error = True
    see(browser, site(router), "connections")
    name = peer.connection.container
    mine = f"[...document.querySelectorAll('#rows tbody tr')].find(row => row.innerText.includes('{name}'))"
    close = f"{mine}.querySelector('button[aria-label^=close]')"
    browser.until(f"{mine} && {close} !== null")
    browser.run(f"{close}.focus()")
    browser.run(f"{close}.click()")
    browser.run("rows.show()")
    if answer == "Escape":
        browser.press("Escape")
    else:
        browser.run(f"document.querySelector('#sure button[value={answer}]').click()")
    browser.until("!document.querySelector('#sure').open")
    if answer == "yes":
        browser.until(f"!({mine})")
        browser.until("document.activeElement.id === 'rows-box'")
    else:
        browser.until(f"document.activeElement === {close}")


@pytest.mark.parametrize(
    ("number", "rights", "told"), [(1, "may only read", ""), (2, "", "unauthorized"), (3, "", "set websockets: yes")]
)
def test_rights_are_those_of_the_listener(
    router: RunningRouter, browser: Browser, number: int, rights: str, told: str
) -> None:
    """Readers see no buttons that change; without any right the page says why the console is empty."""
    see(browser, site(router, number), "connections")
    if rights:
        browser.until("document.querySelectorAll('#rows tbody tr').length")
        assert rights in browser.text("#rights")
        assert not browser.run("document.querySelectorAll('[aria-label^=close]').length")
        refused = "request('DELETE', { type: 'dummy', name: 'x' }).then(() => '', error => error.message)"
        assert "not allowed" in browser.run(refused)
    else:
        browser.until("document.querySelector('#told').innerText")
        assert told in browser.text("#told")
        if number == 2:  # the reason is the router's each time
            assert all(told in browser.run(READ) for _ in range(3))


def test_after_a_refused_address_others_are_asked(router: RunningRouter, browser: Browser) -> None:
    """The console answers the router's DETACH, and takes each handle and name once."""
    see(browser, site(router), "log")
    browser.until("document.querySelectorAll('#rows tbody tr').length")
    for key in ("first", "second"):
        refused = browser.run(f"peer.send('shut.here', [new Described(VALUE, null)], '{key}').catch(e => e.message)")
        assert "amqp:not-found" in refused
        own = f"exchange('{router.id}', 'READ', {{ type: 'org.amqp.management', name: 'self' }}, {{}})"
        assert browser.run(f"{own}.then(() => 'answered', error => error.message)") == "answered"
    assert browser.run(READ) == "answered"
    assert browser.complaints == []


def test_what_is_told_as_failed_is_not_sent_later(router: RunningRouter, net: Net, browser: Browser) -> None:
    """A request that waited for credit in vain goes away; credit that comes later is for others."""
    see(browser, site(router), "log")
    browser.until("document.querySelectorAll('#rows tbody tr').length")
    browser.run("window.setTimeout = (wait => (act, ms) => wait(act, ms === SECONDS * 1000 ? 100 : ms))(setTimeout)")
    ask = "peer.send('late.here', [new Described(VALUE, '{0}')], '{0}').catch(error => error.message)"
    assert browser.run(ask.format("failed")) == "the router does not answer"
    peer = net.peer()
    receiver = peer.receiver("late.here", credit=10)
    browser.until("peer.senders.get('late.here').credit > 0")
    browser.run(ask.format("wanted"))
    assert [arrived.message.body for arrived in peer.take(receiver)] == ["wanted"]


def test_log_and_explain(router: RunningRouter, browser: Browser) -> None:
    """The last lines, newest first; what becomes of a message of a route table, and of a source route."""
    see(browser, site(router), "log")
    browser.until("document.querySelector('#rows tbody').innerText.includes('serves')")
    browser.run("document.querySelector('#only').selectedIndex = 5")
    browser.run("document.querySelector('#only').onchange()")
    browser.until("!document.querySelector('#rows tbody').innerText.includes('serves')")
    press(browser, "#tab-explain")
    browser.until("!document.querySelector('#by-table').hidden")
    browser.run("document.querySelector('#mt').value = 1000")
    press(browser, "#by-table button")
    browser.until("document.querySelector('#steps').innerText.includes('app0:4560')")
    browser.run("document.querySelector('#way').value = 'D1=>B2'")
    press(browser, "#by-route button")
    browser.until("document.querySelector('#steps').innerText.includes('arrives at B2 after 1')")
    assert browser.texts("#steps li")[0] == "D1"
    browser.run("document.querySelector('#way').value = 'nothing.here=>B2'")
    press(browser, "#by-route button")
    browser.until("document.querySelector('#steps').innerText.includes('refused')")
    assert browser.complaints == []


def test_who_leaves_the_page_ends_the_connection_in_order(router: RunningRouter, browser: Browser) -> None:
    """A page that is closed is no failed connection, of which the next one would warn."""
    failed = router.counted("connections_failed")
    see(browser, site(router), "log")
    browser.until("document.querySelectorAll('#rows tbody tr').length")
    until(lambda: "console-" in get(site(router) + "/status.json").body, "the console's connection")
    browser.open("about:blank")
    until(lambda: "console-" not in get(site(router) + "/status.json").body, "its end")
    assert router.counted("connections_failed") == failed


def test_octets_that_are_no_amqp(router: RunningRouter, browser: Browser) -> None:
    """A reader of values ends with a RangeError, whatever comes; it neither hangs nor fails in another way."""
    see(browser, site(router), "log")
    script = """(() => { let bad = 0, seed = 7;
      const next = most => (seed = (seed * 1103515245 + 12345) % 2147483648) % most;
      for (let i = 0; i < 50000; i++) {
        const likely = () => next(3) ? next(256) : [0, 0xc0, 0xd1, 0xf0, 0x53][next(5)];
        const octets = Uint8Array.from({ length: 1 + next(60) }, likely);
        try { const reader = new Reader(octets); while (reader.more) reader.value(); }
        catch (error) { bad += !(error instanceof RangeError); }
      }
      return bad; })()"""
    assert browser.run(script) == 0


def test_an_error_goes_with_its_cause(router: RunningRouter, browser: Browser) -> None:
    """A lost connection is told until one stands again, also in the view that asks nothing by itself."""
    see(browser, site(router), "explain")
    browser.until("!document.querySelector('#by-table').hidden")
    fails = "{ this.close = () => {}; setTimeout(() => this.onclose()); }"
    browser.run(f"window.Usual = WebSocket; WebSocket = function () {fails}")
    browser.run("peer.socket.close()")
    browser.until("peer.closed")
    browser.run("document.querySelector('#mt').value = 1000")
    press(browser, "#by-table button")
    browser.until("document.querySelector('#told').innerText.includes('no AMQP connection')")
    browser.run("WebSocket = Usual")
    browser.until("document.querySelector('#told').hidden")
    press(browser, "#by-table button")
    browser.until("document.querySelector('#steps').innerText.includes('app0:4560')")


def test_link_routes_and_auto_links(router: RunningRouter, net: Net, browser: Browser) -> None:
    """Each with its state, here while the broker is away."""
    see(browser, site(router), "linkRoutes")
    browser.until("document.querySelectorAll('#rows tbody tr').length")
    assert rows(browser) == ["to-broker\tbroker.#\tin\tbrk\tinactive"]
    press(browser, "#tab-autoLinks")
    browser.until("document.querySelector('#rows tbody').innerText.includes('from-broker')")
    why = "no connection with the role route-container has the container id brk"
    assert rows(browser) == [f"from-broker\tqueue\tin\tbrk\tinactive\t{why}"]


def test_what_an_address_waits_for(router: RunningRouter, net: Net, browser: Browser) -> None:
    """The sum of its receivers' credit and of what is not sent or settled, and what each link waits for."""
    peer = net.peer()
    receiver, sender = peer.receiver("waiting.here", credit=3), peer.ready_sender("waiting.here")
    for _ in range(5):
        net.send(sender, Message(body=b"x"))
    peer.take(receiver, 3)
    browser.size(1300, 900)
    see(browser, site(router), "links")
    browser.run("go('links', { owningAddr: 'M0waiting.here' }, 'address waiting.here')")
    browser.until("document.querySelector('#summary').innerText.includes('Not sent: 2; unsettled: 3 here')")
    assert browser.text("#summary") == (
        "Receivers here: 1, their credit: 0; routers with receivers: 0. Not sent: 2; unsettled: 3 here, 0 at other "
        "routers. Those that are not sent wait for credit of the receivers. Unsettled ones wait for their receivers."
    )
    assert sorted(row.split("\t")[10] for row in rows(browser)) == ["credit of its client", "its receivers"]


def test_frames_of_a_connection(router: RunningRouter, net: Net, browser: Browser) -> None:
    """Switched on by keyboard after a question, shown, and switched off; only the connection's own lines."""
    peer = net.peer()
    name = peer.connection.container
    see(browser, site(router), "connections")
    mine = f"[...document.querySelectorAll('#rows tbody tr')].find(row => row.innerText.includes('{name}'))"
    browser.until(f"({mine})?.querySelector('[aria-label^=show]') != null")
    browser.run(f"{mine}.querySelector('[aria-label^=show]').focus()")
    browser.press("Enter")
    browser.until("!document.querySelector('#trace').disabled")
    assert rows(browser) == []
    browser.focus("#trace")
    browser.press(" ")
    assert browser.text("#question").startswith("Log each frame of connection ")
    browser.press("Enter")  # leaves it
    browser.until("!document.querySelector('#sure').open")
    assert not browser.run("document.querySelector('#trace').checked")
    browser.focus("#trace")
    browser.press(" ")
    browser.run("document.querySelector('#sure button[value=yes]').click()")
    browser.until("document.querySelector('#trace').checked")
    peer.receiver("framed.here", credit=1)
    browser.until("document.querySelector('#rows tbody').innerText.includes('framed.here')")
    assert all("FRAME: 0 " in row for row in rows(browser))
    browser.size(390, 800)
    narrow = "document.querySelector('#rows td.whole').clientWidth"
    assert browser.run(narrow) > 280
    browser.focus("#trace")
    browser.press(" ")
    browser.until("document.querySelector('#did').innerText.endsWith('is off')")
    peer.receiver("unseen.here", credit=1)
    browser.until("!document.querySelector('#trace').checked")
    press(browser, "#tab-log")
    browser.until("document.querySelector('#rows tbody').innerText.includes('protocol trace switched off')")
    assert "unseen.here" not in browser.text("#rows")
    assert browser.complaints == []


def close_a_connection_of(far: NetworkRouter, browser: Browser) -> None:
    """Ask for it, and answer when the console no longer shows that router: the row's router closes it."""
    press(browser, "#tab-connections")
    with Net(far.address) as net:
        peer = net.peer()
        peer.expect_error = True
        name = peer.connection.container
        mine = f"[...document.querySelectorAll('#rows tbody tr')].find(row => row.innerText.includes('{name}'))"
        browser.until(f"({mine})?.querySelector('button[aria-label^=close]') != null")
        browser.run(f"{mine}.querySelector('button[aria-label^=close]').click()")
        choose(browser, 0)
        browser.run("document.querySelector('#sure button[value=yes]').click()")
        net.until(lambda: bool(peer.connection.remote_condition), "the connection ends")
    browser.until("document.querySelector('#did').innerText.endsWith('is closed')")


def choose(browser: Browser, router: int) -> int:
    """Choose a router from the list; return the number of rows that the view shows then."""
    browser.run(f"document.querySelector('#of').selectedIndex = {router}")
    chosen = "document.querySelector('#of').onchange() || document.querySelectorAll('#rows tbody tr').length"
    return int(browser.run(chosen))


def test_the_network_and_another_routers_agent(tmp_path: Path, browser: Browser) -> None:
    """Two routers and the line between them; the console asks the one that is chosen; a lost one is marked.

    A change is for the router whose row it is, also where that router has left the list while the question stands.
    """
    near = NetworkRouter(tmp_path / "near", more=HTTP.format(""))
    far = NetworkRouter(tmp_path / "far", near.routers_url)
    try:
        near.knows(far.id)
        browser.open(site(near))
        browser.until("document.querySelectorAll('#picture circle').length === 2")
        assert browser.run("document.querySelectorAll('#picture line').length") == 1
        assert "cost 1" in browser.run("document.querySelector('#picture').textContent")
        plate = "(text.previousSibling.tagName === 'rect' ? text.previousSibling.getBBox().width : 0)"
        bare = f"[...document.querySelectorAll('#picture text')].filter(text => {plate} < text.getBBox().width)"
        assert browser.run(f"{bare}.map(text => text.textContent)") == [], "lines show through these words"
        browser.until("document.querySelector('#routers').innerText.includes('(1)')")
        until(lambda: json.loads(get(site(near) + "/status.json").body)["routers"][0][3] > 0, "what came from it")
        choose(browser, 1)
        press(browser, "#tab-log")
        browser.until(f"document.querySelector('#rows tbody').innerText.includes('Router {far.id} core started')")
        assert choose(browser, 0) == 0  # at once: a button must not act on another router's row
        browser.until(f"document.querySelector('#rows tbody').innerText.includes('Router {near.id} core started')")
        choose(browser, 1)
        close_a_connection_of(far, browser)
        choose(browser, 1)
        far.process.kill()
        browser.until("document.querySelector('#routers').innerText.includes('unreachable')")
        browser.until("document.querySelector('#told').innerText")
        assert browser.complaints == []
    finally:
        far.kill()
        near.kill()
