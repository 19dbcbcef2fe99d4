"""HTTP clients for the tests of the exporter."""

import re
import urllib.error
import urllib.request
from typing import NamedTuple

from tests.support.running import LONG, RunningRouter


class Got(NamedTuple):
    """An HTTP answer."""

    status: int
    type: str
    body: str


def site(router: RunningRouter, number: int = 0) -> str:
    """Where the router's HTTP listener of that number is."""
    return re.findall(r"http://[0-9.]+:\d+", router.output)[number]


def get(url: str, **headers: str) -> Got:
    """Ask once, for as long as it takes."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=LONG) as answer:  # noqa: S310  our own http URL
            return Got(answer.status, answer.headers["Content-Type"], answer.read().decode())
    except urllib.error.HTTPError as error:
        return Got(error.code, error.headers["Content-Type"], error.read().decode())


def series(text: str) -> dict[str, float]:
    """The samples of a scrape by name and labels, as they stand there."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}
