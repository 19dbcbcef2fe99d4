"""What the pages tell a reader to type, as a program, and a clean machine to run it on.

The word behind the fence of a block says what it is; what stands behind that word, which viewers do not show,
is for this module:

``sh``                  commands; each must succeed
``sh after Ctrl-C``     the same, once the routers of earlier blocks are stopped
``sh elsewhere: WHY``   commands that are not run here, and why
``sh long: WHY``        commands that are run only with ROUTERD_TEST_LONG_PAGES=1 in the environment
``console``             commands behind `$ ` with what they print: its words, not numbers, are printed soon
``python``              a program; what may stand behind ``sh`` may stand here
``python FILE.py``      the content of that file
``LANGUAGE FILE``       with any other language: the content of that file
``text`` and others     not run

A `routerd run` or `make run` stays in the background until its page ends, as in another terminal.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

import pytest

ROOT: Final = Path(__file__).parents[3]
PAGES: Final = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LONG: Final = os.environ.get("ROUTERD_TEST_LONG_PAGES") == "1"
SECONDS: Final = 600 if LONG else 120

# A machine as far as the pages look: its own network, and folders in which nothing that is written stays.
MACHINE: Final = """
set -e
ip link set lo up
mount -t tmpfs none "$HERE"
for folder in /etc /var /opt "$CHECKOUT"; do
    mkdir -p "$HERE/up$folder" "$HERE/work$folder"
    layers="lowerdir=$folder,upperdir=$HERE/up$folder,workdir=$HERE/work$folder"
    mount -t overlay none -o "$layers" "$folder"
done
mount -t tmpfs none /dev/shm
mkdir "$HERE/home"
export HOME="$HERE/home" PATH="$CHECKOUT/.venv/bin:$PATH"
cd "$CHECKOUT"
started=0
stopped() {
    kill $(jobs -p) 2>/dev/null || true
    wait
}
trap stopped EXIT
background() {
    started=$((started + 1))
    "$@" >"$HERE/run.$started" 2>&1 &
    until grep -qs "connect to" "$HERE/run.$started"; do
        kill -0 $! 2>/dev/null || { cat "$HERE/run.$started"; return 1; }
        sleep 0.05
    done
}
prints() {
    local place="$1" command="$2" printed missing word turn
    shift 2
    for turn in {1..50}; do
        printed="$(eval "$command"$'\\n')"
        missing=
        for word in "$@"; do grep -qwF -e "$word" <<<"$printed" || missing="$missing $word"; done
        if [ -z "$missing" ]; then echo "$printed"; return; fi
        sleep 0.2
    done
    echo "$place: not printed:$missing"
    echo "$printed"
    return 1
}
routerd() { if [ "$1" = run ]; then background command routerd "$@"; else command routerd "$@"; fi; }
make() { if [ "$1" = run ]; then background command make "$@"; else command make "$@"; fi; }
npm() { ln -sfn "$CHECKOUT/.venv/node/node_modules" node_modules; } # `make test` has installed the client
"""


class Block(NamedTuple):
    """A fenced block. ``more`` is what stands behind the language."""

    page: Path
    line: int
    language: str
    more: str
    text: str

    @property
    def place(self) -> str:
        """For messages."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path) -> list[Block]:
    """All fenced blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    found = re.finditer(r"(?ms)^```(\w*)[ ]*([^\n]*)\n(.*?)^```", text)
    return [Block(page, text.count("\n", 0, one.start()) + 1, one[1], one[2], one[3]) for one in found]


def program(page: Path) -> str:
    """The page as a program for bash; empty: there is nothing on it to be run."""
    steps = [step for block in blocks(page) if (step := _step(block))]
    acts = any(block.language in ("sh", "console", "python") for block in blocks(page) if _step(block))
    return "\n".join([MACHINE, *steps]) if acts else ""


def _step(block: Block) -> str:
    if block.more.startswith("elsewhere:") or (block.more.startswith("long:") and not LONG):
        return ""
    said = f"echo '== {block.place}'"
    if block.language == "sh":
        stop = "stopped\n" if block.more == "after Ctrl-C" else ""
        return f"{said}\n{stop}{block.text}"
    if block.language == "console":
        return f"{said}\n{_session(block)}"
    if block.language == "python" and not block.more.endswith(".py"):
        return f"{said}\npython - <<'END OF FILE'\n{block.text}END OF FILE"
    return f"cat >{block.more} <<'END OF FILE'\n{block.text}END OF FILE" if block.more else ""


def _session(block: Block) -> str:
    """Each command, and a look whether it printed the words that stand below it."""
    parts = []
    for part in re.split(r"(?m)^\$ ", block.text)[1:]:
        command, _, printed = part.partition("\n")
        words = sorted(set(re.findall(r"(?<![\w.@])[A-Za-z]{3,}(?![\w.@])", printed)))
        parts.append(shlex.join(["prints", block.place, command, *words]) if words else command)
    return "\n".join(parts)


def run(page: Path, folder: Path) -> "subprocess.CompletedProcess[str]":
    """Do what a page says. The test is skipped where there cannot be a machine of its own."""
    if os.geteuid() != 0 or not shutil.which("unshare"):
        # the pages use the default ports and /etc: outside a namespace of its own a block would change this machine
        pytest.skip("the pages need a network and folders of their own: run the tests as root")
    environment = {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "LANG": "C.UTF-8",
        "COLUMNS": "200",
        "HERE": str(folder),
        "CHECKOUT": str(ROOT),
    }
    if home := os.environ.get("JAVA_HOME"):
        environment["JAVA_HOME"] = home
    return subprocess.run(
        ["unshare", "--net", "--mount", "--ipc", "bash", "-c", program(page)],  # noqa: S607  found above
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
        stdin=subprocess.DEVNULL,
    )


if __name__ == "__main__":
    print(program(Path(sys.argv[1]).resolve()))
