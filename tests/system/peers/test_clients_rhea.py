"""rhea, a client for node with an engine of its own: what it hears from the router is what it expects."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.certificates import Authority
from tests.support.running import LONG, Configuration, RunningRouter

ROOT = Path(__file__).parents[3]
PROGRAM = ROOT / "tests" / "support" / "programs" / "rhea_client.js"
MODULES = ROOT / ".venv" / "node" / "node_modules"
MISSING = "node with rhea is missing; `make test` installs it, or: make .venv/.node"


@pytest.fixture(scope="module")
def configuration(tmp_path_factory: pytest.TempPathFactory) -> Configuration:
    """With listeners for WebSockets, in clear and with TLS."""
    authority = Authority(tmp_path_factory.mktemp("authority"))
    certificate = authority.issue("server", "/CN=localhost")
    profile = f"name: p\n certFile: {certificate.certificate}\n privateKeyFile: {certificate.key}"
    web = "host: 127.0.0.1\n port: 0\n http: yes"
    return Configuration(
        sections="address {\n prefix: closed\n distribution: unavailable\n}\n"
        f"sslProfile {{\n {profile}\n}}\nlistener {{\n {web}\n}}\n"
        f"listener {{\n {web}\n sslProfile: p\n requireSsl: yes\n}}"
    )


@pytest.fixture(scope="module")
def node() -> str:
    """Where node is. Whoever can install it has no excuse."""
    program = shutil.which("node")
    if program is not None and (MODULES / "rhea").is_dir():
        return program
    if os.geteuid() == 0:
        pytest.fail(MISSING)
    pytest.skip(MISSING)


def run(node: str, router: RunningRouter, scenario: str, address: str = "", url: str = "") -> dict[str, Any]:
    """What a scenario of rhea_client.js saw; ``url``: over a WebSocket."""
    host, port = router.address
    done = subprocess.run(
        [node, PROGRAM, host, str(port), scenario, address or f"rhea.{scenario}", url],
        env={**os.environ, "NODE_PATH": str(MODULES)},
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    seen: dict[str, Any] = json.loads(done.stdout)
    return seen


def test_exchange(node: str, router: RunningRouter) -> None:
    """More messages than credit, in order, all accepted."""
    seen = run(node, router, "exchange")
    assert seen["bodies"] == list(range(500))
    assert seen["accepted"] == 500


@pytest.mark.parametrize("scheme", ["ws", "wss"])
def test_exchange_over_a_websocket(node: str, router: RunningRouter, scheme: str) -> None:
    """As a browser would, in clear and with TLS."""
    (place,) = re.findall(scheme.replace("ws", "http") + r"(://127\S+)", router.output)
    seen = run(node, router, "exchange", f"rhea.{scheme}", scheme + place)
    assert seen["bodies"] == list(range(500))
    assert seen["accepted"] == 500


def test_request_and_reply(node: str, router: RunningRouter) -> None:
    """Over a dynamic reply address and an anonymous sender."""
    seen = run(node, router, "reply")
    assert seen["answers"] == ["ONE", "TWO", "THREE"]
    assert seen["reply_to"].startswith(f"amqp:/_topo/0/{router.id}/temp.")


def test_outcomes(node: str, router: RunningRouter) -> None:
    """With error, flags and annotations; what is settled without an outcome has none."""
    outcomes = run(node, router, "outcomes")["outcomes"]
    assert [one["name"] for one in outcomes] == ["accepted", "rejected", "released", "released", "modified"]
    assert outcomes[1]["error"] == {"condition": "app:wrong", "description": "not this one"}
    modified = outcomes[4]  # which rhea tells as released, too
    assert (modified["failed"], modified["undeliverable"]) == (True, True)
    assert modified["annotations"] == {"key": "value"}


def test_content(node: str, router: RunningRouter) -> None:
    """Every section and kind of body comes back equal, up to a megabyte."""
    assert run(node, router, "content")["same"] == [True] * 8


def test_presettled(node: str, router: RunningRouter) -> None:
    """Settled at the receiver, too."""
    assert run(node, router, "presettled") == {"received": 100, "settled": True}


def test_drain(node: str, router: RunningRouter) -> None:
    """What is queued comes first, then the credit is gone."""
    assert run(node, router, "drain") == {"bodies": [0, 1, 2], "credit": 0}


def test_refused_links(node: str, router: RunningRouter) -> None:
    """Sender and receiver, with their condition."""
    assert run(node, router, "refused", "closed.shop")["errors"] == ["amqp:not-found"] * 2
