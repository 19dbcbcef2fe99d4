"""The live page in a real browser."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from proton import Message

from tests.support.clients.web import get, site
from tests.support.peer import Net
from tests.support.running import LONG, Configuration, RunningRouter, until

HOSTILE = "<img src=x onerror=alert(1)>"
HTTP = "listener {\n host: 127.0.0.1\n port: 0\n http: yes\n}\n"


@pytest.fixture(scope="module")
def configuration() -> Configuration:
    return Configuration(router="workers: 2", sections=HTTP)


@pytest.fixture
def browser() -> str:
    """A Chromium; skips where there is none."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    pytest.skip("install chromium to test the live page in a browser")


def dom(browser: str, url: str, folder: Path) -> str:
    """The page as it stands after three seconds of the browser's own time."""
    command = [
        browser, "--headless", "--disable-gpu", "--no-first-run", f"--user-data-dir={folder}",
        *(["--no-sandbox"] if os.getuid() == 0 else []),
        "--virtual-time-budget=3000", "--timeout=60000", "--dump-dom", url,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=2 * LONG, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_shows_the_router(router: RunningRouter, net: Net, browser: str, tmp_path: Path) -> None:
    """Processes, addresses and connections; what clients chose is text and nothing else."""
    peer = net.peer()
    for address in ("orders", HOSTILE):
        receiver, sender = peer.receiver(address, credit=1), peer.ready_sender(address)
        sent = net.send(sender, Message(body=b"x"))
        peer.take(receiver)[0].settle()
        net.settled(sent)
    until(lambda: "onerror" in get(site(router) + "/status.json").body, "the address's row")
    page = dom(browser, site(router), tmp_path)
    assert f'<h1 id="router">{router.id}</h1>' in page
    assert '<span id="live" class="badge good">live</span>' in page
    assert '<span id="ready" class="badge good">ready</span>' in page
    for shown in ("worker-0", "worker-1", "core", "supervisor", "orders", "&lt;img src=x onerror=alert(1)&gt;"):
        assert f">{shown}</td>" in page, shown
    assert "<img" not in page
    assert page.count('class="good">works</td>') == 4
    assert "(1 of 1)" in page
    assert '<section id="alarms" hidden="">' in page
    assert 'points="' in page
