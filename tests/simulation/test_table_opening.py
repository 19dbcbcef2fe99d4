"""Senders to a route table that there is from the start have credit once there is somebody to send to."""

from pathlib import Path

import pytest

from bench.contract import C_ATTACH, C_ENDPOINT
from core.links.terminus import RMR
from core.rmr.active.opening import LONGEST_NS
from shm.contract.control import SetTables
from shm.contract.payloads import Attach, Endpoint
from shm.contract.tables import TableSetup
from tests.model.table_site import TableSite, got

TEXT = "newrt|start|t\nrte|1000|a:1,b:1\nnewrt|end|1\n"


@pytest.fixture
def seed(tmp_path: Path) -> Path:
    path = tmp_path / "seed"
    path.write_text(TEXT)
    return path


def reached(site: TableSite, name: str) -> None:
    """The worker has connected to an endpoint."""
    connection = site.connect(role=RMR)
    link = site._new_link(connection, True)
    site.control(C_ATTACH, Attach(link.index, 1, connection, "rmr-endpoint", True, f"routes/{name}"))
    site.settle_all()


def failed(site: TableSite, name: str) -> None:
    """It could not."""
    site.control(C_ENDPOINT, Endpoint("routes", f"routes/{name}", name.partition(":")[0], 1, open=False))
    site.settle_all()


def test_every_endpoint_is_there_or_cannot_be(seed: Path) -> None:
    """As soon as the last one has answered, and not before."""
    site = TableSite(seed=str(seed))
    link = site.sender()
    failed(site, "b:1")
    assert link.credit == 0
    reached(site, "a:1")
    assert link.credit > 0
    late = site.sender()
    assert late.credit > 0


def test_an_amqp_client_is_the_endpoint(seed: Path) -> None:
    """Nobody is connected to; what comes on credit of an earlier core goes by the table all the same."""
    site = TableSite(seed=str(seed))
    a = site.receiver("a:1")
    restored = site.attach(False, "routes", restored=True, granted=3, to_table=True)
    restored.open = True
    site.settle_all()
    site.give(restored, 1, 1000)
    assert (got(a), restored.credit) == ([1], -1)
    site.receiver("b:1")
    assert restored.credit > 0


def test_an_endpoint_does_not_answer(seed: Path) -> None:
    """It is waited for so long, from when its table is in use."""
    site = TableSite(seed=str(seed))
    link = site.sender()
    site.core.tick(site.now)
    site.core.tick(site.now + LONGEST_NS - 1)
    site.settle_all()
    assert link.credit == 0
    site.core.tick(site.now + LONGEST_NS)
    site.settle_all()
    assert link.credit > 0


@pytest.mark.parametrize("then", [SetTables([]), SetTables([TableSetup("routes", "elsewhere")])])
def test_a_table_goes_before_its_endpoints_have_answered(seed: Path, then: SetTables) -> None:
    """It does not open for want of endpoints to wait for: the core would keep a pointer to a table that is gone."""
    site = TableSite(seed=str(seed))
    site.sender()
    gone = site.active.native
    address = gone.address
    site.core.configure(then)
    assert site.core.forwarder.address_info(address)["redirects"] == 0
    with pytest.raises(ValueError, match="does not open again"):
        gone.open()
    assert site.core.forwarder.address_info(address)["redirects"] == 0


@pytest.mark.parametrize("text", ["", "newrt|start|t\nrte|1000|\nnewrt|end|1\n", None])
def test_a_seed_that_leads_nowhere(seed: Path, text: str | None) -> None:
    """Messages are refused, as without a table; nobody waits."""
    if text is None:
        seed.unlink()
    else:
        seed.write_text(text)
    assert TableSite(seed=str(seed)).sender().credit > 0


def test_endpoints_that_nobody_connects_to(seed: Path) -> None:
    """Their clients come when they come."""
    assert TableSite(seed=str(seed), connect=False).sender().credit > 0


def test_what_was_kept_is_no_good(seed: Path) -> None:
    """Then it is the seed that is waited for."""
    stash = seed.with_name("stash")
    stash.write_text("nonsense")
    site = TableSite(seed=str(seed), stash=str(stash))
    link = site.sender()
    failed(site, "a:1")
    assert link.credit == 0
    failed(site, "b:1")
    assert link.credit > 0


def test_what_was_kept(seed: Path) -> None:
    """Its endpoints are waited for, without a seed, too."""
    stash = seed.with_name("stash")
    before = TableSite(stash=str(stash))
    before.table(TEXT)
    site = TableSite(stash=str(stash))
    link = site.sender()
    assert link.credit == 0
    failed(site, "a:1")
    failed(site, "b:1")
    assert link.credit > 0
