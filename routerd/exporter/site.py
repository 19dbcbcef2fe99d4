"""The paths of an HTTP listener and their answers."""

import gzip
import logging
import re
from base64 import b64encode
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Final

import msgspec
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.samples import Exemplar

from routerd.exporter.collector import Collector, Identity
from routerd.exporter.folder import file_answer
from routerd.exporter.observer import Observer, unhealthy
from routerd.exporter.server import Answer, Request, Site
from routerd.exporter.status import past, status
from shm.memory.segment import SegmentError

LOGGER = logging.getLogger("HTTP")


def _part(name: str) -> str:
    return files("routerd.exporter").joinpath("page", name).read_text("utf-8")


def _source(content: str) -> str:
    """Return the CSP source that allows an inline element with this content and no other (CSP Level 3, 2.3.1)."""
    return f"'sha256-{b64encode(sha256(content.encode()).digest()).decode()}'"


STYLE: Final = _part("page.css")
SCRIPTS: Final = ("elements", "tables", "charts", "network", "scram", "amqp", "console", "explain", "login", "page")
SCRIPT: Final = "\n".join(_part(f"{name}.js") for name in SCRIPTS)
# The page is one file, so that a browser never has parts of two versions, and a file below httpRootDir replaces none.
PAGE: Final = _part("page.html").replace("/* page.css */", STYLE).replace("/* page.js */", SCRIPT).encode()
PACKED_PAGE: Final = gzip.compress(PAGE, mtime=0)
PACKED_LEAST: Final = 1024  # bytes: what is smaller fits into a packet
PACKED_MOST: Final = 1024 * 1024  # bytes: some 10 ms
FAST: Final = 1  # zlib's level: four times as fast as the usual one, and a scrape gets as small as an eighth
_GZIP: Final = re.compile(r"(?i)(?:^|,)\s*(?:x-)?gzip\s*(?:;\s*q=(?!0(?:\.0*)?\s*(?:,|$))[\d.]*\s*)?(?:,|$)")
PAGE_HEADERS: Final = {
    "Content-Security-Policy": f"default-src 'none'; script-src {_source(SCRIPT)}; style-src {_source(STYLE)}; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
}
NOT_HERE: Final = "there is nothing here; see / or /metrics, /healthz, /readyz, /status.json, /history.json\n"


@dataclass
class Pages:
    """All pages that an exporter can answer with."""

    observer: Observer
    identity: Identity
    answered: Counter[int]
    refused: Counter[str]
    http: Callable[[], dict[str, int | None]] = dict  # open connections of the exporter's listeners, by name
    spans: Callable[[], dict[str, int]] = dict  # spans by what became of them
    exemplars: Callable[[], dict[int, Exemplar]] = dict  # some of them by latency

    def site(self, metrics: bool, healthz: bool, root: str = "", websockets: bool = True) -> Site:
        """Return the paths of a listener that its attributes leave on. `root` is a directory of files."""
        paths: dict[str, Callable[[Request], Answer]] = {
            "/": self.page,
            "/status.json": partial(self.status, websockets),
            "/history.json": self.history,
        }
        if metrics:
            paths["/metrics"] = self.metrics
        if healthz:
            paths |= {"/healthz": self.healthz, "/readyz": self.readyz}

        def answer(request: Request) -> Answer:
            page = paths.get(request.path)
            if root and (page is None or request.path == "/"):
                file = file_answer(Path(root), request.path)
                if file is not None:
                    return file
            if page is None:
                return Answer(NOT_HERE.encode(), status=404)
            try:
                return packed(page(request), request.accept_encoding)
            except SegmentError as error:
                return Answer(f"{error}\n".encode(), status=503)

        return answer

    def metrics(self, request: Request) -> Answer:
        """Answer Prometheus; `name[]` selects series, and `connections=1` adds the newest connections."""
        names = request.parameters.get("name[]")
        registry = CollectorRegistry(auto_describe=bool(names))  # selection needs the names
        wanted = request.parameters.get("connections", ["0"])[-1] not in ("", "0", "no")
        counted = self.http(), self.spans(), self.exemplars()
        registry.register(Collector(self.observer, self.identity, self.answered, self.refused, wanted, *counted))
        try:
            encode, content_type = choose_encoder(request.accept)
        except TypeError:  # the library compares versions without a look at their letters
            encode, content_type = choose_encoder("")
        if names:
            return Answer(encode(registry.restricted_registry(names)), content_type)
        return Answer(encode(registry), content_type)

    def healthz(self, request: Request) -> Answer:
        """Answer whether all processes live and their loops turn."""
        return _verdict("live", unhealthy(self.observer.states()))

    def readyz(self, request: Request) -> Answer:
        """Answer whether the router takes traffic."""
        return _verdict("ready", self.observer.unready(self.observer.states()))

    def status(self, websockets: bool, request: Request) -> Answer:
        """Answer with the data of the live page."""
        found = status(self.observer, self.identity, self.http(), websockets)
        return Answer(msgspec.json.encode(found), "application/json")

    def history(self, request: Request) -> Answer:
        """Answer with what the charts of the live page show; `span` is `minutes` or `hour`."""
        spans = self.observer.history.spans
        span = spans.get(request.parameters.get("span", ["minutes"])[-1])
        if span is None:
            return Answer(f"span is one of {', '.join(spans)}\n".encode(), status=400)
        return Answer(msgspec.json.encode(past(self.observer, span)), "application/json")

    def page(self, request: Request) -> Answer:
        """Answer with the live page."""
        return Answer(PAGE, "text/html; charset=utf-8", headers=PAGE_HEADERS)


def packed(answer: Answer, accept_encoding: str) -> Answer:
    """Return an answer in gzip's format if its client takes that (RFC 9110, 12.5.3) and it is worth the time."""
    if not PACKED_LEAST <= len(answer.body) <= PACKED_MOST or not _GZIP.search(accept_encoding):
        return answer
    body = PACKED_PAGE if answer.body is PAGE else gzip.compress(answer.body, FAST, mtime=0)
    headers = answer.headers | {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
    return msgspec.structs.replace(answer, body=body, headers=headers)


def _verdict(word: str, reasons: list[str]) -> Answer:
    if not reasons:
        return Answer(f"{word}\n".encode())
    return Answer("".join(f"{reason}\n" for reason in [f"not {word}", *reasons]).encode(), status=503)
