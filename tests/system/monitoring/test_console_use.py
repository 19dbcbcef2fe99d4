"""How the console looks in windows of several sizes, and its use with a keyboard or a screen reader."""

import pytest

from tests.support.clients.browser import Browser
from tests.support.clients.console import BROKER, HTTP, press, see
from tests.support.clients.web import site
from tests.support.peer import Net, is_open
from tests.support.running import Configuration, RunningRouter

VIEWS = ["addresses", "links", "connections", "linkRoutes", "autoLinks", "log"]


@pytest.fixture(scope="module")
def configuration() -> Configuration:
    return Configuration("workers: 2", sections=HTTP.format("") + BROKER)


def test_no_table_is_cut(router: RunningRouter, net: Net, browser: Browser) -> None:
    """A window of 1300 pixels shows each table whole, and a long address, too."""
    net.peer().receiver("orders.europe.north.warehouse-3.confirmed", credit=1)
    browser.size(1300, 900)
    browser.open(site(router))
    browser.until("document.querySelectorAll('#processes tbody tr').length")
    for view in VIEWS:
        press(browser, f"#tab-{view}")
        browser.until(f"rows.columns && at.view === '{view}' && document.querySelectorAll('#rows tbody tr').length")
        cut = "[...document.querySelectorAll('.scroll')].filter(box => box.scrollWidth > box.clientWidth)"
        assert browser.run(f"{cut}.map(box => box.firstElementChild.id)") == [], view
        if view == "links":
            cells = "[...document.querySelectorAll('#rows td')]"
            whole = f"{cells}.find(cell => cell.innerText.includes('warehouse-3'))"
            browser.until(f"({whole})?.scrollWidth === ({whole})?.clientWidth")


def test_the_log_of_a_phone_is_a_table(router: RunningRouter, browser: Browser) -> None:
    """Its rows are laid out as grids; browsers that take the roles of a table away for that find them said."""
    browser.size(390, 800)
    see(browser, site(router), "log")
    browser.until("document.querySelectorAll('#rows tbody tr').length")
    assert browser.run("getComputedStyle(document.querySelector('#rows tbody tr')).display") == "grid"
    for kind, role in (("tr", "row"), ("th", "columnheader"), ("td", "cell"), ("thead, tbody, tfoot", "rowgroup")):
        assert set(browser.run(f"[...document.querySelectorAll('#rows :is({kind})')].map(e => e.role)")) == {role}
    assert browser.run("document.querySelector('#rows').role") == "table"


def test_the_links_of_a_phone_are_rows_of_few_lines(router: RunningRouter, net: Net, browser: Browser) -> None:
    """Their table is wider than the window, so a long name needs no narrow column."""
    session = net.peer().default_session
    assert session is not None
    link = session.receiver("4553a774-8c5d-4b58-a539-" * 2 + "orders")
    link.source.address = "orders"
    link.open()
    net.until(lambda: is_open(link), "the link")
    browser.size(390, 800)
    see(browser, site(router), "links")
    browser.until("document.querySelector('#rows tbody').innerText.includes('4553a774')")
    lines = "[...document.querySelectorAll('#rows tbody tr')].map(row => Math.round(row.clientHeight / 21))"
    assert max(browser.run(lines)) <= 3


def test_views_are_chosen_by_keyboard(router: RunningRouter, browser: Browser) -> None:
    """Arrows go round, Home and End go to the first and the last; whatever a mouse can press, Tab reaches."""
    see(browser, site(router), "connections")
    browser.until("document.querySelectorAll('#rows tbody tr').length")
    for key, view in (("ArrowLeft", "links"), ("End", "explain"), ("ArrowRight", "addresses"), ("ArrowLeft", "explain"),
                      ("Home", "addresses")):  # fmt: skip
        browser.press(key)
        assert browser.run("document.activeElement.dataset.view") == view
    pressed = "[...document.querySelectorAll('*')].filter(e => e.onclick || e.onpointermove || e.onchange)"
    assert browser.run(f"{pressed}.length") > 20
    assert browser.run(f"{pressed}.filter(e => e.tabIndex < 0 && e.role !== 'tab').map(e => e.outerHTML)") == []


@pytest.mark.parametrize("view", [*VIEWS, "explain"])
def test_every_control_has_a_name(router: RunningRouter, net: Net, browser: Browser, view: str) -> None:
    """A screen reader says what each button, box and field of a view is for."""
    net.peer().receiver("named.here", credit=1)
    see(browser, site(router), view)
    if view != "explain":
        browser.until("document.querySelectorAll('#rows tbody tr').length")
    assert browser.nameless() == []
