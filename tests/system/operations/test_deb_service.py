"""The Debian package in a fresh Debian 12 with a systemd of its own, by the commands of docs/install.md."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.routers.debs import ASKED, boot, changed, deb, wheel
from tests.support.routers.documented import blocks
from tests.support.tree import ROOT

PAGE = ROOT / "docs" / "install.md"
HEADINGS = ("Install", "Serve other machines", "Upgrade", "Roll back", "Remove")
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
    """Install, open, upgrade, an upgrade that the configuration forbids, roll back, remove, purge: no client is
    refused, what was accepted arrived, and nothing stays but what the administrator made."""
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


def check_installed(done: dict[str, str]) -> None:
    """The service runs as its own user, at each boot, and the sample listens on this machine alone."""
    assert "Active: active (running)" in done["install"]
    assert "routerd 0.1.0, commit " in done["install"]
    assert "Router.A" in done["install"]
    assert done["enabled"] == ["enabled", "enabled"]
    assert done["user"].splitlines() == ["routerd", "root routerd 750", "routerd routerd 750"]
    assert done["completion"] == "plain,stat\n"
    assert "Listening url=amqp://127.0.0.1:5672" in done["log"]
    assert "*:5672" in done["open"]
    assert "127.0.0.1:8672" in done["open"]


def check_upgrades(done: dict[str, Any]) -> None:
    """Each takes the new program into use, unless it refuses the configuration."""
    assert done["new processes"]
    assert done["products"] == ["routerd", "the next one"]
    assert "routerd.service keeps running the old version: correct /etc/routerd/routerd.conf" in done["refused"]
    assert "routerd.conf:" in done["refused"], "the mistake is shown"
    assert done["kept"]
    assert "routerd.log.1" in done["rotated"]
    clients = done["clients"]
    assert clients["missing"] == [], clients
    assert clients["refused"] == {}, clients
    assert set(clients["outcomes"]) <= {"served", "cut off", "ConnectionResetError"}, clients


def check_removed(done: dict[str, object]) -> None:
    """A removal keeps the configuration, and an installation after it starts what is enabled; a purge leaves what the
    administrator made."""
    assert done["stopped"]
    assert done["installed again"] == ["active", "active"]
    assert done["disabled"] == ["inactive", "inactive"]
    assert done["kept after removal"] == ["/etc/routerd/routerd.conf"]
    mine = ("/etc/routerd/of-the-administrator.pem", "/etc/systemd/system/routerd.socket.d/override.conf")
    assert done["left"] == sorted([*mine, *(str(Path(one).parent) for one in mine)])
    assert done["users"]
