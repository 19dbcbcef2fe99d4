"""The clients of a crash test and what their ledgers must say."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

from tests.support.running import LONG

CLIENT = Path(__file__).parents[1] / "programs" / "ledger_client.py"


class Steps(NamedTuple):
    """What a sender did after a moment, in seconds since then; None: it has not, or had not to."""

    lost: float | None  # its connection
    dialled: float | None  # it has begun another one, a pause after the loss
    opened: float | None  # that is open
    credit: float | None  # its link may send
    accepted: float | None  # a message that it sent after that moment


class Clients:
    """Ledger clients in processes of their own."""

    def __init__(self, url: str, roles: Sequence[Sequence[str]]) -> None:
        self.processes = [
            subprocess.Popen(
                [sys.executable, CLIENT, url, *one], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            for one in roles
        ]

    def _tell(self, line: str) -> None:
        for process in self.processes:
            assert process.stdin is not None
            process.stdin.write(f"{line}\n")
            process.stdin.flush()

    def _ask(self, line: str) -> dict[str, Any]:
        """The answers of all processes together, by sender."""
        self._tell(line)
        answers: dict[str, Any] = {}
        for process in self.processes:
            assert process.stdout is not None
            answers |= json.loads(process.stdout.readline())
        return answers

    def accepted(self) -> dict[str, int]:
        """How many messages of each sender have been accepted so far."""
        return self._ask("count")

    def since(self, begin: float) -> list[Steps]:
        """What each sender has done since then: when it did each of the steps for the first time."""
        return [
            Steps(*(None if at is None else at - begin for at in one)) for one in self._ask(f"since {begin}").values()
        ]

    def finish(self) -> list[dict[str, Any]]:
        """Let every sender learn what became of its messages; the ledgers."""
        self.stop()
        return self.close()

    def stop(self) -> None:
        """Let every sender learn what became of its messages; receivers go on."""
        self._tell("stop")
        for process in self.processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "quiet\n"

    def close(self) -> list[dict[str, Any]]:
        """The ledgers."""
        self._tell("close")
        return [json.loads(process.communicate(timeout=LONG)[0]) for process in self.processes]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            process.kill()
            process.communicate()


def check(ledgers: list[dict[str, Any]], at_least: int) -> None:
    """What was accepted to a sender is in a receiver's ledger, undamaged; each sender got on."""
    assert [wrong for ledger in ledgers for wrong in ledger["wrong"]] == []
    received: dict[str, set[int]] = {}
    for ledger in ledgers:
        for name, numbers in ledger["received"].items():
            received.setdefault(name, set()).update(numbers)
    accepted = {name: set(numbers) for ledger in ledgers for name, numbers in ledger["accepted"].items()}
    missing = {name: sorted(numbers - received.get(name, set())) for name, numbers in accepted.items()}
    assert {name: numbers for name, numbers in missing.items() if numbers} == {}
    assert min(len(numbers) for numbers in accepted.values()) >= at_least
