"""What a core did before its death is in a file, which kills the same core again, is cut down, and is a test then."""

import json
import os
import re
import shutil
import signal
import subprocess
import sysconfig
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from proton import Message

from tests.fuzz.conftest import SANITIZER, runtime
from tests.support.peer import ACCEPTED, Net
from tests.support.running import PROGRAM, Configuration, RunningRouter, address_of, roles, until
from tests.support.tree import ROOT

SOUND = "else if (r->type == A_DRAIN) core_post_link(c, l, W_DRAINED);"
PLANTED = "else if (r->type == A_DRAIN) core_post_link(c, l->outs->link, W_DRAINED);"

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def glue(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What Cython has made of the core, compiled: of both planted cores it is the larger half."""
    made = tmp_path_factory.mktemp("glue") / "forward.o"
    compiled("-c", str(ROOT / "core/forwarder/forward.c"), "-o", str(made))
    return made


def compiled(*command: str) -> None:
    includes = [f"-I{ROOT}", f"-I{sysconfig.get_paths()['include']}"]
    flags = ["-fPIC", "-O0", "-g1", "-std=gnu11", "-D_GNU_SOURCE", "-w"]
    done = subprocess.run(["gcc", *flags, *command, *includes], capture_output=True, text=True, check=False)  # noqa: S607  on the path
    assert done.returncode == 0, done.stderr


def planted(folder: Path, glue: Path, *flags: str) -> Path:
    """A folder for PYTHONPATH with a core that takes it for granted that a receiver which drains has a delivery."""
    package = folder / "core"
    shutil.copytree(ROOT / "core", package, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    body = package / "forwarder/turns/actions.c"
    text = body.read_text()
    assert SOUND in text
    body.write_text(text.replace(SOUND, PLANTED))
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    shutil.copy(ROOT / f"core/rmr/tables/records{suffix}", package / "rmr/tables")
    unity, made = package / "forwarder/unity.c", package / f"forwarder/forward{suffix}"
    compiled("-shared", *flags, f"-I{folder}", str(unity), str(glue), "-o", str(made))
    return folder


def routerd(*command: str | Path, path: Path | None = None, **more: str) -> subprocess.CompletedProcess[str]:
    """A command that has ended; ``path``: with the core there."""
    environment = os.environ | ({} if path is None else {"PYTHONPATH": str(path)}) | more
    return subprocess.run(
        [PROGRAM, *command], env=environment, capture_output=True, text=True, timeout=600, check=False
    )


@pytest.fixture
def router(tmp_path: Path) -> Iterator[RunningRouter]:
    kept = f"workers: 1\n flightRecords: 65536\n flightDirectory: {tmp_path}/kept"
    router = RunningRouter(tmp_path, Configuration(router=kept, expected=".*"))
    try:
        yield router
    finally:
        router.kill()


def recording(folder: Path) -> Path:
    """The first file that the supervisor has kept."""
    until(lambda: any(folder.glob("kept/*.flight")), "recording of the core")
    return min(folder.glob("kept/*.flight"))


def exchange(router: RunningRouter) -> None:
    """Messages to an address and their outcomes."""
    with Net(address_of(router.url)) as net:
        at = net.peer()
        receiver, sender = at.receiver("queue", 50), at.ready_sender("queue")
        sent = [net.send(sender, Message(body=b"secret")) for _ in range(20)]
        for got in at.take(receiver, len(sent)):
            got.settle()
        assert net.settled(*sent) == [ACCEPTED] * 20


def test_a_killed_core_leaves_its_records(router: RunningRouter, tmp_path: Path) -> None:
    """They replay to the same work; neither bodies nor addresses are among them, and nobody else may read them."""
    exchange(router)
    os.kill(roles(router.process.pid)["core"].pid, signal.SIGKILL)
    file = recording(tmp_path)
    assert file.stat().st_mode & 0o777 == 0o600
    assert b"secret" not in file.read_bytes()
    assert b"queue" not in file.read_bytes()
    done = routerd("replay", file, "--print")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the same work as recorded" in done.stdout
    assert "TRANSFER" in done.stdout


def test_a_running_core_is_recorded(router: RunningRouter, tmp_path: Path) -> None:
    """`routerd record` disturbs nobody."""
    exchange(router)
    file = tmp_path / "it.flight"
    which = ("record", "--pid", str(router.process.pid))
    done = routerd(*which, "--last", "10", "--output", file, "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["file"], told["records"] > 0) == (str(file), True)
    nowhere = routerd(*which, "--output", tmp_path / "none" / "it.flight", "--json")
    assert (nowhere.returncode, "cannot be written" in json.loads(nowhere.stdout)["error"]) == (1, True)
    assert routerd("replay", file).returncode == 0
    exchange(router)


def test_from_report_to_regression_test(glue: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/replay.md, step by step."""
    buggy = planted(tmp_path / "buggy", glue)
    monkeypatch.setenv("PYTHONPATH", str(buggy))
    kept = f"workers: 1\n flightRecords: 65536\n flightDirectory: {tmp_path}/kept"
    router = RunningRouter(tmp_path, Configuration(router=kept, expected=".*"))
    try:
        exchange(router)
        with suppress(AssertionError), Net(address_of(router.url)) as net:
            receiver = net.peer().receiver("other")
            receiver.drain(10)
            net.until(lambda: any(tmp_path.glob("kept/*.flight")), "death of the core")
        file = recording(tmp_path)
    finally:
        router.kill()
    monkeypatch.delenv("PYTHONPATH")
    done = routerd("replay", file, "--until-crash", "--minimise", path=buggy)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the core dies of SIGSEGV in record" in done.stdout
    small = Path(f"{file}.small")
    assert small.stat().st_mode & 0o777 == 0o600
    assert small.stat().st_size < file.stat().st_size / 4
    assert "FLOW drain" in routerd("replay", small, "--no-run").stdout
    assert routerd("replay", small, "--until-crash", path=buggy).returncode == 0
    preloaded = {"LD_PRELOAD": runtime(), "ASAN_OPTIONS": "detect_leaks=0"}
    watched = planted(tmp_path / "watched", glue, *SANITIZER)
    done = routerd("replay", small, path=watched, **preloaded)
    assert re.search("the (replay's process ended with status [0-9]+|core dies of SIG[A-Z]+) in record", done.stdout)
    assert "AddressSanitizer" in done.stderr, done.stdout + done.stderr
    assert routerd("replay", small).returncode == 0
