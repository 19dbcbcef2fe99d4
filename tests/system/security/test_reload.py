"""SIGHUP: other certificates, vhosts and limits hold for who comes from then on; who is there stays."""

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from proton.utils import BlockingConnection

from tests.support.certificates import Authority
from tests.support.clients.secured import Credentials, attempt, urls_of
from tests.support.running import LONG, Configuration, RunningRouter, until

pytestmark = pytest.mark.skipif(
    shutil.which("openssl") is None, reason="openssl makes the certificates: install the package openssl"
)

HERE = "host: 127.0.0.1\n port: 0"
LIMITS = """policy {{
    enableVhostPolicy: yes
    maxConnections: {most}
}}
vhost {{
    hostname: v
    allowUnknownUser: yes
    groups: {{
        $default: {{
            remoteHosts: *
            sources: {sources}
        }}
    }}
}}
"""
TOO_MANY = "amqp:resource-limit-exceeded"


class Reloading:
    """A router whose file is written again."""

    def __init__(self, folder: Path, listener: str, sections: str) -> None:
        self._file = folder / "router.conf"
        self._listener = listener
        self.router = RunningRouter(folder, Configuration("workers: 2", listener, sections))

    def reload(self, sections: str, *expected: str) -> None:
        """With other sections; the log says these things then."""
        text = Configuration("workers: 2", self._listener, sections).text(self.router.id)
        self._file.write_text(text)
        before = len(self.router.log)
        os.kill(self.router.process.pid, signal.SIGHUP)
        for line in expected:
            until(lambda line=line: line in self.router.log[before:], line)


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Reloading]:
    reloading = Reloading(tmp_path, HERE, LIMITS.format(most=100, sources="one"))
    yield reloading
    reloading.router.kill()


def at(vhost: str) -> Credentials:
    return Credentials(vhost=vhost, mechanisms="ANONYMOUS")


def test_rights_and_limits(guarded: Reloading) -> None:
    """A connection keeps what it was let in with; the next one gets what the file says now."""
    router = guarded.router
    held = BlockingConnection(router.url, virtual_host="v", allowed_mechs="ANONYMOUS", timeout=LONG)
    guarded.reload(LIMITS.format(most=2, sources="two"), "Reload: policy changed", "Reload: vhost")
    assert attempt(router.url, at("v"), [("receiver", "one")]).link_errors == ("amqp:unauthorized-access",)
    assert attempt(router.url, at("v"), [("receiver", "two")]).link_errors == ()
    held.create_receiver("one")
    until(lambda: router.core["connections_admitted"] == 1, "end of those who tried")
    more = BlockingConnection(router.url, virtual_host="v", allowed_mechs="ANONYMOUS", timeout=LONG)
    until(lambda: router.core["connections_admitted"] == 2, "the second one")
    assert attempt(router.url, at("v"), [("receiver", "two")]).error == TOO_MANY
    guarded.reload("", "Reload: policy changed", " removed")
    assert attempt(router.url, at("anything"), [("receiver", "x")]).error == ""
    held.close()
    more.close()
    router.stop()


def test_limits_that_make_no_sense_change_nothing(guarded: Reloading) -> None:
    """Every mistake is told with its line; the limits of before hold on."""
    wrong = LIMITS.format(most=-2, sources="two")
    guarded.reload(wrong, "router.conf:", "Reload refused: the router keeps its configuration")
    assert attempt(guarded.router.url, at("v"), [("receiver", "one")]).link_errors == ()


def test_other_certificates(tmp_path: Path) -> None:
    """Another file for the profile: the next client sees it; one that cannot be used changes nothing."""
    authority, stranger = Authority(tmp_path), Authority(tmp_path, "stranger")
    mine, other = authority.issue("mine", "/CN=localhost"), stranger.issue("other", "/CN=localhost")
    profile = "sslProfile {{\n name: p\n certFile: {}\n privateKeyFile: {}\n}}\n"
    first = profile.format(mine.certificate, mine.key)
    reloading = Reloading(tmp_path, f"{HERE}\n sslProfile: p\n requireSsl: yes", first)
    router = reloading.router
    url = urls_of(router.output)[0]
    old, new = Credentials(str(authority.certificate)), Credentials(str(stranger.certificate))
    try:
        assert attempt(url, old).opened
        reloading.reload(profile.format(other.certificate, mine.key), "Reload refused")
        assert attempt(url, old).opened
        reloading.reload(profile.format(other.certificate, other.key), "Reload: sslProfile p changed")
        until(lambda: attempt(url, new).opened, "the other certificate")
        assert not attempt(url, old).opened
    finally:
        router.kill()
