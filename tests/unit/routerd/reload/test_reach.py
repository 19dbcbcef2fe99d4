"""Files that management requests name: in which directories they may lie, however they are spelt."""

import os
from pathlib import Path

import pytest

from routerd.config import ConfigError, load
from routerd.config.entities.schema import ENTITY_TYPES
from routerd.reload.changes import ChangeError, changed
from routerd.reload.reach import SERVED, WRITTEN
from routerd.translate.identities import Identities
from shm.contract.control import ChangeRequest

FORBIDDEN = 403


def refused(folder: Path, kind: str, attributes: dict[str, object], more: str = "", identity: str = "") -> str:
    """Why a change of a configuration in a folder is out of reach; empty: it is not."""
    file = folder / "router.conf"
    file.write_text(f"router {{\nid: r\n{more}\n}}\nlistener {{\nport: 0\n}}\n")
    request = ChangeRequest(1, "UPDATE" if identity else "CREATE", kind, identity, attributes)
    try:
        changed(load(file), request, Identities())
    except ChangeError as error:
        return str(error) if error.status == FORBIDDEN else ""
    return ""


CASES = [
    ("listener", {"port": "0", "httpRootDir": "/etc"}, "listener httpRootDir: /etc is in none"),
    ("listener", {"port": "0", "httpRoot": "HERE"}, "listener httpRootDir: "),
    ("listener", {"port": "0", "http-root-dir": "/etc"}, "listener httpRootDir: /etc is in none"),
    ("listener", {"port": "0", "http-root": "/etc"}, "listener httpRootDir: /etc is in none"),
    ("listener", {"port": "0", "httpRootDir": "/var/lib/routerd/www/x"}, ""),
    ("listener", {"port": "0", "httpRootDir": "/var/lib/routerd/www/../"}, "listener httpRootDir: "),
    ("listener", {"port": "0", "trustedCertsFile": "/etc/shadow"}, "listener trustedCertsFile: "),
    ("sslProfile", {"name": "p", "certFile": "HERE/c.pem"}, ""),
    ("sslProfile", {"name": "p", "certFile": "/etc/routerd/c.pem"}, ""),
    ("sslProfile", {"name": "p", "certFile": "HERE/../c.pem"}, "sslProfile certFile: "),
    ("sslProfile", {"name": "p", "certFile": "HERE/out/c.pem"}, "sslProfile certFile: "),
    ("sslProfile", {"name": "p", "password": "file:/etc/shadow"}, "sslProfile password: /etc/shadow"),
    ("connector", {"host": "h", "saslPassword": "file:/etc/shadow"}, "connector saslPassword: /etc/shadow"),
    ("connector", {"host": "h", "sasl-password": "file:/etc/shadow"}, "connector saslPassword: /etc/shadow"),
    ("routeTable", {"name": "t", "stash": "/etc/cron.d/x"}, "routeTable stash: "),
    ("routeTable", {"name": "t", "seed": "/etc/shadow"}, "routeTable seed: "),
    ("flowLog", {"directory": "/root"}, "flowLog directory: "),
    ("flowLog", {"directory": "/var/lib/routerd/flows"}, ""),
]


@pytest.mark.parametrize(("kind", "attributes", "what"), CASES)
def test_requests_name_files_in_listed_directories_only(
    tmp_path: Path, kind: str, attributes: dict[str, object], what: str
) -> None:
    """Links and .. resolved; what is wrong names the path and the directories. By default as fits the use."""
    (tmp_path / "out").symlink_to("/usr")
    here = {key: str(value).replace("HERE", str(tmp_path)) for key, value in attributes.items()}
    found = refused(tmp_path, kind, here)
    assert found.startswith(what)
    assert bool(found) == bool(what)
    assert not found or "managementDirs" in found


@pytest.mark.parametrize(("name", "allowed"), [("log", True), ("out/log", False), ("router.conf", False)])
def test_a_log_goes_where_logs_may_go(tmp_path: Path, name: str, allowed: bool) -> None:
    """Never into the configuration file."""
    (tmp_path / "out").symlink_to("/usr")
    found = refused(tmp_path, "log", {"outputFile": str(tmp_path / name)}, identity="log/SERVER")
    assert bool(found) != allowed, found
    assert not refused(tmp_path, "log", {"outputFile": "stderr"}, identity="log/SERVER")


def test_managementDirs_stands_for_all_of_them(tmp_path: Path) -> None:  # noqa: N802  as it is spelt
    """The defaults do not count beside it."""
    more = f"managementDirs: {tmp_path}/a, /srv/www"
    served = {"port": "0", "httpRootDir": "/srv/www/x"}
    assert not refused(tmp_path, "listener", served, more)
    found = refused(tmp_path, "flowLog", {"directory": "/var/lib/routerd/flows"}, more)
    assert f"({tmp_path}/a, /srv/www)" in found
    with pytest.raises(ConfigError, match="managementDirs: 'b' is not an absolute path"):
        refused(tmp_path, "listener", served, "managementDirs: b")


def test_every_path_of_the_schema_is_known() -> None:
    """A new attribute with a path is read unless it is listed as one that is written or served."""
    paths = {one.name for kind in ENTITY_TYPES for one in kind.attributes.values() if one.kind == "path"}
    read = {"trustedCertsFile", "caCertFile", "certFile", "privateKeyFile", "passwordFile", "seed", "home"}
    read |= {"uidNameMappingFile", "policyDir", "saslConfigDir"}
    assert paths == {*read, *WRITTEN, *SERVED}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, ""),
        (b"", ""),
        (b"2026-11-22 10:00:00.000001 +0000 SERVER (info) x", ""),
        (b'{"time": "2026-11-22T10:00:00Z"}', ""),
        (b"SERVER (notice) without a time", ""),
        (b"\x00\x01users", "contains something other than log lines"),
        (b"listener {\n}\n", "contains something other than log lines"),
    ],
)
def test_a_log_goes_on_behind_lines_of_a_log_only(tmp_path: Path, content: bytes | None, why: str) -> None:
    """A request cannot have the log appended to a database of users, a key or a configuration."""
    file = tmp_path / "there"
    if content is not None:
        file.write_bytes(content)
    more = f"managementDirs: {tmp_path}"
    told = refused(tmp_path, "log", {"outputFile": str(file)}, more, identity="log/SERVER")
    assert (why in told) if why else not told
    assert (file.read_bytes() if content is not None else None) == content


def test_a_request_cannot_have_the_router_wait_at_a_pipe(tmp_path: Path) -> None:
    """For its first line."""
    os.mkfifo(tmp_path / "pipe")
    file, more = str(tmp_path / "pipe"), f"managementDirs: {tmp_path}"
    told = refused(tmp_path, "log", {"outputFile": file}, more, identity="log/SERVER")
    assert "something other than log lines" in told


@pytest.mark.parametrize(
    ("kind", "attributes"),
    [
        ("sslProfile", {"name": "p", "certFile": "/etc/routerd/a\0b"}),
        ("sslProfile", {"name": "p", "password": "file:/etc/routerd/a\0b"}),
        ("listener", {"port": "0", "httpRootDir": "/var/lib/routerd/www/\0"}),
        ("routeTable", {"name": "t", "seed": "a\0"}),
        ("flowLog", {"directory": "/var/lib/routerd/\0"}),
        ("address", {"prefix": "a\0b"}),
    ],
)
def test_a_nul_is_no_part_of_any_value(tmp_path: Path, kind: str, attributes: dict[str, object]) -> None:
    """One in a path of a request was the end of the router; it is a mistake that is told, in files, too."""
    file = tmp_path / "router.conf"
    file.write_text("listener {\nport: 0\n}\n")
    with pytest.raises(ChangeError, match=r"contains a NUL|without control characters") as error:
        changed(load(file), ChangeRequest(1, "CREATE", kind, "", attributes), Identities())
    assert error.value.status == 400
