"""The live page in a real browser, as its user sees it."""

import json
import os
import signal
from pathlib import Path

import pytest
from proton import Message

from tests.support.clients.browser import Browser
from tests.support.clients.web import get, site
from tests.support.peer import Net
from tests.support.running import Configuration, RunningRouter, roles, until

HOSTILE = "<img src=x onerror=alert(1)>"
HTTP = "listener {\n host: 127.0.0.1\n port: 0\n http: yes\n}\n"
CONNECTOR = "connector {\n name: nobody\n host: 127.0.0.1\n port: 1\n role: route-container\n}\n"
ADDRESSES = "#addresses tbody td:first-child"


@pytest.fixture(scope="module")
def configuration() -> Configuration:
    return Configuration(router="workers: 2", sections=HTTP + CONNECTOR, expected="nobody|127.0.0.1:1|worker.1")


def pass_to(net: Net, *addresses: str) -> None:
    """Pass messages to each address, one more than to the one before."""
    peer = net.peer()
    for number, address in enumerate(addresses, 1):
        receiver, sender = peer.receiver(address, credit=number), peer.ready_sender(address)
        for _ in range(number):
            sent = net.send(sender, Message(body=b"x"))
            peer.take(receiver)[-1].settle()
            net.settled(sent)


def test_it_shows_the_router(router: RunningRouter, net: Net, browser: Browser) -> None:
    """Processes, addresses, connections, connectors; what clients chose is text and nothing else."""
    pass_to(net, "orders", HOSTILE)
    until(lambda: "onerror" in get(site(router) + "/status.json").body, "the address's row")
    browser.open(site(router))
    browser.until("document.querySelectorAll('#addresses tbody tr').length")
    assert browser.text("#router") == router.id
    assert (browser.text("#live"), browser.text("#ready")) == ("live", "ready")
    assert browser.texts("#processes tbody td:first-child") == ["worker-0", "worker-1", "core", "supervisor"]
    assert browser.texts("#processes tbody td:nth-child(2)") == ["works"] * 4
    assert {"orders", HOSTILE} <= set(browser.texts(ADDRESSES))
    assert browser.run("document.querySelectorAll('img').length") == 0
    assert browser.text("#connections-count") == "(1 of 1)"
    assert browser.run("document.querySelector('#alarms').hidden") == (browser.texts("#alarms li") == [])
    assert browser.texts("#connectors tbody td")[:2] == ["nobody", "down"]
    browser.until("document.querySelector('#connectors tbody td.whole').innerText.includes('refused')")
    assert browser.run("document.querySelector('#network').hidden")
    assert browser.complaints == []


def test_what_turns_or_hides_other_words_is_an_escape(router: RunningRouter, net: Net, browser: Browser) -> None:
    """As in the log: a name can neither turn the rest of an alarm round nor look like another one."""
    pass_to(net, "pay\u202eorders\u200b")
    until(lambda: "pay" in get(site(router) + "/status.json").body, "the address's row")
    browser.open(site(router))
    browser.until("document.querySelectorAll('#addresses tbody td:first-child').length")
    assert r"pay\u202eorders\u200b" in browser.texts(ADDRESSES)
    assert browser.run(r"printable('\x1b\u0085\u2028\u{e0001}\ud800 é→\u{1f600}')") == (
        r"\x1b\x85\u2028\U000e0001\ud800 " + "é→\U0001f600"
    )
    for shown in ("make('p', name)", "draw('text', {}, name)", "pressed('x', null, name)"):
        text = browser.run(f"(name => {{ const it = {shown}; return it.ariaLabel ?? it.textContent; }})('a\\u202eb')")
        assert text == r"a\u202eb", shown
    browser.run(r"tell('a\u202eb')")
    assert browser.text("#told") == r"a\u202eb"
    assert browser.complaints == []


def test_addresses_are_searched_and_sorted_by_keyboard(router: RunningRouter, net: Net, browser: Browser) -> None:
    """A second press of a column's button turns the order; internal addresses are shown when they are asked for."""
    pass_to(net, "plum", "apple", "pear")
    until(lambda: "pear" in get(site(router) + "/status.json").body, "the address's row")
    browser.open(site(router))
    browser.until("document.querySelectorAll('#addresses tbody tr').length > 2")
    assert not [address for address in browser.texts(ADDRESSES) if address.startswith(("_", "$"))]
    browser.focus("#addresses-search")
    browser.press("p", "L")
    assert set(browser.texts(ADDRESSES)) == {"apple", "plum"}
    browser.focus("#addresses th:nth-child(1) button")
    browser.press("Enter")
    assert browser.texts(ADDRESSES) == ["apple", "plum"]
    browser.press("Enter")
    assert browser.texts(ADDRESSES) == ["plum", "apple"]
    assert browser.run("document.querySelector('#addresses th').ariaSort") == "descending"
    browser.focus("#addresses th:nth-child(3) button")
    browser.press("Enter")
    assert browser.texts(ADDRESSES) == ["apple", "plum"]  # most deliveries first
    browser.run("document.querySelector('#addresses-search').value = ''")
    browser.focus("#internal")
    browser.press(" ")
    assert [address for address in browser.texts(ADDRESSES) if address.startswith("_")]
    assert browser.complaints == []


def test_charts_have_a_span_and_a_readout(router: RunningRouter, browser: Browser) -> None:
    """The span is switched by keyboard; arrow keys and the pointer read out earlier values."""
    until(lambda: len(json.loads(get(site(router) + "/history.json").body)["points"]) > 3, "points")
    browser.open(site(router))
    browser.until("document.querySelectorAll('.plot[d*=L]').length")
    assert "out" in browser.text("#charts figcaption")
    assert len(browser.texts("#charts figure")) == 6
    newest = browser.text("#moment")
    browser.focus("#charts figure > svg")
    browser.press("Home")
    assert browser.text("#moment") < newest
    said = browser.run("document.querySelector('#charts figure > svg').getAttribute('aria-valuetext')")
    assert said.startswith(browser.text("#moment") + ": in ")
    browser.press("Escape")
    assert browser.text("#moment") >= newest
    assert browser.run("document.querySelectorAll('.cursor').length") == 0
    browser.focus("input[value=minutes]")
    browser.press("ArrowRight")
    browser.until("past.step === 10")
    assert browser.complaints == []


def test_it_fits_a_phone(router: RunningRouter, browser: Browser) -> None:
    """Tables scroll inside their sections; the page itself does not."""
    browser.size(390, 800)
    browser.open(site(router))
    browser.until("document.querySelectorAll('#processes tbody tr').length")
    assert browser.run("document.documentElement.scrollWidth") == 390


def test_a_phone_shows_why_a_connector_fails(router: RunningRouter, browser: Browser) -> None:
    """Its table is as wide as the window: nobody scrolls to the end of each line of a reason."""
    browser.size(390, 800)
    browser.open(site(router))
    browser.until("document.querySelector('#connectors tbody td.whole')?.innerText.includes('refused')")
    assert browser.run("(box => box.scrollWidth - box.clientWidth)(document.querySelector('#connecting .scroll'))") == 0


def test_a_worker_that_keeps_dying_is_an_alarm(router: RunningRouter, browser: Browser) -> None:
    """The page says that the worker was started again three times, and the title counts alarms."""
    browser.open(site(router))
    browser.until("document.querySelectorAll('#processes tbody tr').length")
    killed: set[int] = set()

    def successor() -> int:
        found = roles(router.process.pid).get("worker 1")
        return found.pid if found and found.pid not in killed else 0

    for _ in range(3):
        until(successor, "a worker 1")
        killed.add(pid := successor())
        os.kill(pid, signal.SIGKILL)
    browser.until("document.querySelector('#alarms').innerText.includes('worker-1: started again 3 times')")
    assert browser.run("document.title").startswith("(")


def test_a_dead_router_says_so(browser: Browser, tmp_path: Path) -> None:
    """What was known stays, marked as old."""
    router = RunningRouter(tmp_path, Configuration(sections=HTTP))
    try:
        browser.open(site(router))
        browser.until("document.querySelectorAll('#processes tbody tr').length")
        router.process.kill()
        browser.until("!document.querySelector('#gone').hidden")
    finally:
        router.kill()
    assert browser.text("#live") == "no answer"
    assert "What follows is from" in browser.text("#gone")
    assert {"worker-0", "core", "supervisor"} <= set(browser.texts("#processes tbody td:first-child"))
