"""The Debian package in a fresh Debian 12 with a systemd of its own, by the commands of docs/install.md."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.routers.debs import ASKED, boot, changed, deb, wheel
from tests.support.routers.documented import blocks
from tests.support.tree import ROOT

SERVICES = ("routerd.service", "routerd@a.service", "routerd@b.service")
PAGE = ROOT / "docs" / "install.md"
HEADINGS = ("Install", "Several routers", "Serve other machines", "Upgrade", "Roll back", "Remove")
APT = 'APT::Get::Assume-Yes "true";\nAPT::Sandbox::User "root";\nDir::Etc::SourceList "/dev/null";\n'


def commands() -> dict[str, str]:
    """The commands of each part of the page."""
    text = PAGE.read_text(encoding="utf-8")
    headings = [(text.count("\n", 0, one.start()) + 1, one[1]) for one in re.finditer(r"(?m)^## (.+)$", text)]
    return {
        max(entry for entry in headings if entry[0] < block.line)[1]: block.text
        for block in blocks(PAGE)
        if block.language == "sh"
    }


@pytest.mark.timeout(1200)
@pytest.mark.skipif(not ASKED, reason="it takes a minute, and two the first time: make test-packages runs it")
def test_the_page_works_under_load(tmp_path: Path) -> None:
    """Install, two more routers, open, upgrade, an upgrade that a configuration forbids, roll back, remove, purge: no
    client is refused, what was accepted arrived, and nothing stays but what the administrator made."""
    packages = tmp_path / "packages"
    packages.mkdir()
    first = wheel(tmp_path)
    later = tmp_path / "later"
    later.mkdir()
    opening = "routerd/lib/workers/control/opening.py"
    second = changed(first, later, opening, 'PRODUCT: Final = "routerd"', 'PRODUCT: Final = "the next one"')
    for version, source in (("0.1.0", first), ("0.2.0", second), ("0.3.0", second)):
        deb(source, version, packages)
    told = commands()
    (packages / "page.json").write_text(json.dumps({name: told[name] for name in HEADINGS}))
    (packages / "apt.conf").write_text(APT)
    result, printed = boot(tmp_path, packages)
    file = result / "done.json"
    assert file.exists(), printed
    done = json.loads(file.read_text())
    journal = (result / "journal").read_text()
    assert "error" not in done, f"{done}\n{journal[-5000:]}"
    check_installed(done)
    check_upgrades(done)
    check_removed(done)


def check_installed(done: dict[str, Any]) -> None:
    """The service runs as its own user, at each boot, and the sample listens on this machine alone."""
    assert "Active: active (running)" in done["install"]
    assert "routerd 0.1.0, commit " in done["install"]
    assert "Router.A" in done["install"]
    assert done["enabled"] == ["enabled", "enabled"]
    assert done["user"].splitlines() == ["routerd", "root routerd 750", "routerd routerd 750"]
    assert done["completion"] == "plain,stat\n"
    assert "Listening url=amqp://127.0.0.1:5672" in done["log"]
    assert "Router.b" in done["instance"]
    listening = {line.split()[3] for line in done["open"].splitlines()}
    assert listening == {"*:5672", *(f"127.0.0.1:{port}" for port in (5673, 5674, 8672, 8673, 8674))}


def check_upgrades(done: dict[str, Any]) -> None:
    """Each takes the new program into use, unless it refuses the configuration; an instance as the service does."""
    assert done["new processes"]
    assert done["products"] == {unit: ["routerd", "the next one"] for unit in SERVICES}
    assert done["changed"] == {"upgrade": [*SERVICES], "refused": [*SERVICES[1:]], "roll back": [*SERVICES]}
    assert "routerd.service keeps running the old version: correct its configuration" in done["refused"]
    assert "routerd.conf:" in done["refused"], "the mistake is shown"
    assert {"routerd.log.1", "a.log.1", "b.log.1"} <= set(done["rotated"].split())
    for unit in SERVICES:
        clients = done["clients"][unit]
        assert clients["missing"] == [], (unit, clients)
        assert clients["refused"] == {}, (unit, clients)
        assert clients["accepted"] > 200, (unit, clients)
        assert set(clients["outcomes"]) <= {"served", "cut off", "ConnectionResetError"}, (unit, clients)


def check_removed(done: dict[str, object]) -> None:
    """A removal keeps the configuration, and an installation after it starts what is enabled; a purge leaves what the
    administrator made."""
    assert done["stopped"]
    units = [unit.replace(".service", kind) for unit in SERVICES for kind in (".socket", ".service")]
    assert done["installed again"] == dict.fromkeys(units, "active"), done["start"]
    assert done["disabled"] == dict(zip(units, ["inactive"] * 2 + ["active"] * 4, strict=True))
    assert done["kept after removal"] == ["/etc/routerd/routerd.conf"]
    system = "/etc/systemd/system"
    mine = ["/etc/routerd", "/etc/routerd/of-the-administrator.pem", f"{system}/routerd.socket.d",
            f"{system}/routerd.socket.d/override.conf"]  # fmt: skip
    for name in ("a", "b"):
        mine += [f"/etc/routerd/{name}.conf", f"{system}/routerd@{name}.socket"]
        mine += [f"{system}/sockets.target.wants/routerd@{name}.socket"]
    assert done["left"] == sorted(mine)
    assert done["users"]
