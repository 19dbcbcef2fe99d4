"""A real supervisor over stub children: `stub_router.py CONFIG BEHAVIOURS`."""

import sys
from pathlib import Path

from routerd.config import load
from routerd.supervise.child import command
from routerd.supervise.supervisor import run


def launch(role: str, index: int) -> list[str]:
    stub = Path(__file__).with_name("stub_child.py")
    return [sys.executable, "-P", str(stub), sys.argv[2], *command(role, index)[4:]]


if __name__ == "__main__":
    sys.exit(run(load(sys.argv[1]), launch))
