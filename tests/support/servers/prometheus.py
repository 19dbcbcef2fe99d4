"""A real Prometheus for the tests: installed, or unpacked from its Debian package into the environment."""

import json
import os
import re
import shutil
import subprocess
import sys
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.clients.web import get
from tests.support.running import LONG, free_port, until

CACHE = Path(sys.prefix) / "prometheus"  # in the virtual environment: it goes when that goes


def tool(name: str) -> str:
    """Where `prometheus` or `promtool` is; skips the test, saying what to install, where there is none."""
    path = f"{os.environ['PATH']}:{CACHE}/usr/bin"
    found = shutil.which(name, path=path)
    if found is None and shutil.which("apt-get") and shutil.which("dpkg"):
        _unpack()
        found = shutil.which(name, path=path)
    if found is None:
        pytest.skip("install the Debian package prometheus to test with a real one")
    return found


def _unpack() -> None:
    """Without installing it: that would start a service."""
    CACHE.mkdir(exist_ok=True)
    download = [shutil.which("apt-get") or "", "download", "-q", "prometheus"]
    subprocess.run(download, cwd=CACHE, capture_output=True, check=False)
    for package in CACHE.glob("prometheus_*.deb"):
        subprocess.run([shutil.which("dpkg") or "", "-x", package, CACHE], capture_output=True, check=False)
        package.unlink()


class Prometheus:
    """A server that scrapes every second."""

    def __init__(self, url: str) -> None:
        self.url = url

    def query(self, text: str) -> list[dict[str, Any]]:
        """Samples of an instant query, each with its metric and value."""
        got = get(f"{self.url}/api/v1/query?{urllib.parse.urlencode({'query': text})}")
        assert got.status == 200, got.body
        return list(json.loads(got.body)["data"]["result"])

    def value(self, text: str) -> float:
        """Of a query with one sample; nan if there is none."""
        found = self.query(text)
        return float(found[0]["value"][1]) if found else float("nan")

    def targets(self) -> list[dict[str, Any]]:
        return list(json.loads(get(f"{self.url}/api/v1/targets").body)["data"]["activeTargets"])


@contextmanager
def scraping(folder: Path, target: str, rules: Path) -> Iterator[Prometheus]:
    """A Prometheus that scrapes ``target`` (host:port) and evaluates the rules until the block ends."""
    config = folder / "prometheus.yml"
    config.write_text(
        "global: {scrape_interval: 1s, evaluation_interval: 1s}\n"
        f"rule_files: [{rules}]\n"
        "scrape_configs:\n"
        f"  - {{job_name: routerd, static_configs: [{{targets: ['{target}']}}]}}\n"
    )
    port = free_port()
    command = [
        tool("prometheus"),
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
    try:
        server = Prometheus(f"http://127.0.0.1:{port}")
        until(lambda: _ready(server), "a Prometheus that is ready")
        yield server
    finally:
        process.terminate()
        process.wait(timeout=LONG)


def _ready(server: Prometheus) -> bool:
    try:
        return get(f"{server.url}/-/ready").status == 200
    except OSError:
        return False


def dashboard_queries(document: Path, instance: str) -> list[str]:
    """What a Grafana would ask for the panels of a dashboard."""
    panels = json.loads(document.read_text())["panels"]
    texts = [target["expr"] for panel in panels for target in panel["targets"]]
    return [
        re.sub(r"\$__rate_interval", "1m", text.replace("$instance", re.escape(instance).replace("\\", "\\\\")))
        for text in texts
    ]
