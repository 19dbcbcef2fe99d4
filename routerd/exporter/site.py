"""The paths of an HTTP listener and their answers."""

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Final

import msgspec
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from routerd.exporter.collector import Collector, Identity
from routerd.exporter.folder import file_answer
from routerd.exporter.observer import Observer, unhealthy
from routerd.exporter.server import Answer, Request, Site
from routerd.exporter.status import status
from shm.memory.segment import SegmentError

LOGGER = logging.getLogger("HTTP")

PAGE_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
}
PAGE: Final = files("routerd.exporter").joinpath("page.html").read_bytes()
NOT_HERE: Final = "there is nothing here; see / or /metrics, /healthz, /readyz, /status.json\n"


@dataclass
class Pages:
    """All pages that an exporter can answer with."""

    observer: Observer
    identity: Identity
    answered: Counter[int]
    refused: Counter[str]

    def site(self, metrics: bool, healthz: bool, root: str = "") -> Site:
        """Return the paths of a listener that its attributes leave on. `root` is a directory of files."""
        paths: dict[str, Callable[[Request], Answer]] = {"/": self.page, "/status.json": self.status}
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
                return page(request)
            except SegmentError as error:
                return Answer(f"{error}\n".encode(), status=503)

        return answer

    def metrics(self, request: Request) -> Answer:
        """Answer Prometheus; `name[]` selects series, and `connections=1` adds the newest connections."""
        names = request.parameters.get("name[]")
        registry = CollectorRegistry(auto_describe=bool(names))  # selection needs the names
        wanted = request.parameters.get("connections", ["0"])[-1] not in ("", "0", "no")
        registry.register(Collector(self.observer, self.identity, self.answered, self.refused, wanted))
        encode, content_type = choose_encoder(request.accept)
        if names:
            return Answer(encode(registry.restricted_registry(names)), content_type)
        return Answer(encode(registry), content_type)

    def healthz(self, request: Request) -> Answer:
        """Answer whether all processes live and their loops turn."""
        return _verdict("live", unhealthy(self.observer.states()))

    def readyz(self, request: Request) -> Answer:
        """Answer whether the router takes traffic."""
        return _verdict("ready", self.observer.unready(self.observer.states()))

    def status(self, request: Request) -> Answer:
        """Answer with the data of the live page."""
        return Answer(msgspec.json.encode(status(self.observer, self.identity)), "application/json")

    def page(self, request: Request) -> Answer:
        """Answer with the live page."""
        return Answer(PAGE, "text/html; charset=utf-8", headers=PAGE_HEADERS)


def _verdict(word: str, reasons: list[str]) -> Answer:
    if not reasons:
        return Answer(f"{word}\n".encode())
    return Answer("".join(f"{reason}\n" for reason in [f"not {word}", *reasons]).encode(), status=503)
