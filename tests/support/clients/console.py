"""The console of the live page, as a browser's user sees it."""

from tests.support.clients.browser import Browser

HTTP = "listener {{\n host: 127.0.0.1\n port: 0\n http: yes\n {}\n}}\n"
BROKER = (
    "linkRoute {\n name: to-broker\n prefix: broker\n direction: in\n containerId: brk\n}\n"
    "autoLink {\n name: from-broker\n address: queue\n direction: in\n containerId: brk\n}\n"
)


def see(browser: Browser, url: str, view: str) -> None:
    """Open the page and a view of the console."""
    browser.open(url)
    browser.until("document.querySelectorAll('#processes tbody tr').length")
    press(browser, f"#tab-{view}")


def press(browser: Browser, selector: str) -> None:
    """Press a button by keyboard."""
    browser.focus(selector)
    browser.press("Enter")
