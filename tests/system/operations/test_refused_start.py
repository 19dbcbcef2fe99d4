"""What keeps `routerd run` from starting is told in one line, and nothing is left running.

Status 78 says that the file has a mistake, after which another start does not help.
"""

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from shm.memory.segment import DIRECTORY
from tests.support.running import LONG, own_lines

ROUTERD = Path(sys.executable).with_name("routerd")
LISTENER = "listener {\n host: 127.0.0.1\n port: 0\n}\n"

MISTAKES = {
    "an unknown attribute": (
        "f.conf",
        LISTENER + "address {\n prefix: a\n distributoin: closest\n}\n",
        r"7: address distributoin: there is no such attribute; did you mean distribution\?",
    ),
    "a wrong type": (
        "f.json",
        '[["listener", {"port": 0}],\n ["router", {"workers": "some"}]]',
        "2: router workers: 'some' does not fit; give a whole number from 1 to 64 or auto",
    ),
    "a duplicate listener": (
        "f.toml",
        '[[listener]]\nhost = "127.0.0.1"\nport = 5672\n\n[[listener]]\nhost = "127.0.0.1"\nport = "amqp"\n',
        "7: listener port: host .+ port amqp is the address of the listener in line 1; give another port",
    ),
    "an unknown CPU": (
        "f.conf",
        "router {\n coreCpu: 4000\n}\n" + LISTENER,
        r"2: router coreCpu: CPU 4000 cannot be used here; give some of [\d,-]+",
    ),
    "a malformed .conf": ("f.conf", LISTENER.removesuffix("}\n"), "1: section 'listener' is not closed; .+"),
    "a malformed .json": ("f.json", '[["router", {"id": "A"}]', "1: what begins here is not closed; .+"),
    "a malformed .toml": ("f.toml", "[router]\nid = A\n", "2: this is not TOML .+"),
    "a host of another machine": (
        "f.conf",
        "# nobody listens there\nlistener {\n host: 192.0.2.1\n port: 0\n}\n",
        r"2: listener: cannot listen on 192\.0\.2\.1:0: no such address on this machine; give .+",
    ),
}


def refused(file: Path, status: int) -> str:
    """Start a router that must refuse: this status, one line, no process and no segment left; the line."""
    before = set(os.listdir(DIRECTORY))
    process = subprocess.Popen(
        [ROUTERD, "run", "--config", file],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    out, err = process.communicate(timeout=LONG)
    assert (process.returncode, out) == (status, "")
    assert [pid for pid in psutil.pids() if session(pid) == process.pid] == []
    segments = f"-{process.pid}-"
    assert [name for name in set(os.listdir(DIRECTORY)) - before if segments in name] == []
    (line,) = own_lines(err)
    return line


def session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return 0


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_the_file_is_told_with_its_place(mistake: str, tmp_path: Path) -> None:
    """FILE:LINE, what is wrong, and what instead."""
    name, text, told = MISTAKES[mistake]
    file = tmp_path / name
    file.write_text(text)
    status = 1 if "cannot listen" in told else os.EX_CONFIG  # an address may come; a mistake is mended by a person
    assert re.fullmatch(f"{re.escape(str(file))}:{told}", refused(file, status))


def test_a_port_in_use_is_told_with_the_place_of_its_listener(tmp_path: Path) -> None:
    """The second of two listeners cannot listen: its line is named, and the first is closed again."""
    file = tmp_path / "f.conf"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        file.write_text(f"{LISTENER}listener {{\n name: clients\n host: 127.0.0.1\n port: {port}\n}}\n")
        line = refused(file, 1)
    assert line.startswith(f"{file}:5: listener clients: cannot listen on 127.0.0.1:{port}: the port is in use")
    assert "give another port" in line
