"""The first message of the README goes through a router as it is written there."""

import re
import subprocess
import sys
from pathlib import Path

from running import LONG, RunningRouter

README = Path(__file__).parents[2] / "README.md"


def test_the_first_message_arrives(router: RunningRouter) -> None:
    """The lines are run as they stand, with the port of this router."""
    (lines,) = re.findall(r"(?s)```python\n(.*?)```", README.read_text(encoding="utf-8"))
    assert "127.0.0.1:5672" in lines
    host, port = router.address
    done = subprocess.run(
        [sys.executable, "-c", lines.replace("127.0.0.1:5672", f"{host}:{port}")],
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "hello\n", "")
