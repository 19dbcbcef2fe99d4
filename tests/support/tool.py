"""The command line, run as a user runs it."""

import subprocess
import sys
from pathlib import Path

from tests.support.running import LONG, RunningRouter

ROUTERD = str(Path(sys.executable).with_name("routerd"))


def tool(router: RunningRouter, *arguments: str | bytes, given: bytes = b"") -> subprocess.CompletedProcess[str]:
    """Run a command on a router to its end; `given` is its standard input."""
    command = [ROUTERD, *arguments, "--bus", router.url]
    done = subprocess.run(command, capture_output=True, check=False, timeout=LONG, input=given)
    return subprocess.CompletedProcess(command, done.returncode, done.stdout.decode(), done.stderr.decode())


def begun(router: RunningRouter, *arguments: str) -> subprocess.Popen[str]:
    """Begin a command on a router."""
    command = [ROUTERD, *arguments, "--bus", router.url]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1)
