"""`routerd reload`: has a local router read its configuration again and says what became of it."""

import os
import signal
import time

import click

from routerd.cli.log import later
from routerd.cli.printed import print_json
from routerd.cli.restart import Found, RestartError, lives
from routerd.log.beginnings import RELOAD
from shm.contract.roles import Role
from shm.memory.observer import Page, SharedView
from shm.memory.segment import SegmentError

LOOK_SECONDS = 0.02
LATE = (
    "its supervisor hangs or is busy, and reads it once it goes on: /healthz says whether it hangs, and "
    "`routerd log` what has become of the configuration"
)
LINES = 1 << 20  # of the supervisor: more than its journal holds
MORE = "the first lines have made room for these; those of a log that goes to a file, or to the journal, are whole"


def run(router: Found, timeout: float, as_json: bool = False) -> None:
    """Send SIGHUP and print what the router logs about the reload. Raises RestartError, also if it is refused."""
    try:
        view = SharedView(router.prefix)
        journal, before = view.journal(Role.SUPERVISOR), _page(view)
        known = journal.lines(LINES)
        os.kill(router.pid, signal.SIGHUP)
    except SegmentError as error:
        raise RestartError(f"router {router.id}: {error}") from error
    except (PermissionError, ProcessLookupError) as error:
        raise RestartError(f"router {router.id}, process {router.pid}: {error.strerror}") from error
    end = time.monotonic() + timeout
    while _page(view).counters["config_reads"] == before.counters["config_reads"]:
        if not lives(router):
            raise RestartError(f"router {router.id} has stopped meanwhile; its log says why")
        if time.monotonic() >= end:
            text = f"router {router.id} has not read its configuration within {timeout:g} s"
            raise RestartError(f"{text}; {LATE}")
        time.sleep(LOOK_SECONDS)
    taken = bool(_page(view).counters["config_taken"])
    there = journal.lines(LINES)
    fresh = later(known, there)
    lines = [
        (level, text.removesuffix(f" process={Role.SUPERVISOR}").removeprefix(RELOAD))
        for _, level, text, *_ in fresh
        if text.startswith(RELOAD)
    ]
    if known and len(fresh) == len(there):
        lines.insert(0, ("warning", MORE))
    if as_json:
        print_json({"router": router.id, "taken": taken, "lines": [text for _, text in lines]})
    else:
        for level, text in lines:
            click.echo(text, err=level in ("warning", "error"))
    if not taken:
        raise RestartError(f"router {router.id} keeps its configuration; mend the file and reload again")


def _page(view: SharedView) -> Page:
    return view.page(Role.SUPERVISOR)
