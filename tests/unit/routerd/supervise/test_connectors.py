"""Which worker has which connector, and what it is told."""

from routerd.config.entities.transport import Connector
from routerd.supervise.restart_policy import Life
from routerd.translate.connectors import Connecting, assign, connector_setup, taken_over
from tests.support.beds.household import Home


def connector(name: str | None, **attributes: object) -> Connector:
    return Connector(name=name, **attributes)  # type: ignore[arg-type]  # a test's shorthand


def test_connectors_are_spread_over_the_workers() -> None:
    """None has two more than another."""
    found = assign((), [connector(f"c{i}") for i in range(7)], 3)
    assert [one.worker for one in found] == [0, 1, 2, 0, 1, 2, 0]
    assert len({one.number for one in found}) == 7


def test_one_that_stays_keeps_its_worker_and_number() -> None:
    """Also when what it says has changed; what is new goes where fewest are."""
    before = assign((), [connector(f"c{i}") for i in range(4)], 2)
    after = assign(before, [connector("c3"), connector("c1", cost=9), connector("new")], 2)
    assert [(one.number, one.worker) for one in after[:2]] == [(before[3].number, 1), (before[1].number, 1)]
    assert after[1].connector.cost == 9
    assert after[2].worker == 0


def test_connectors_of_a_worker_that_is_removed_go_to_others() -> None:
    before = assign((), [connector(f"c{i}") for i in range(4)], 4)
    after = assign(before, [one.connector for one in before], 2)
    assert [one.worker for one in after] == [0, 1, 0, 1]
    assert [one.number for one in after[:2]] == [one.number for one in before[:2]]


def test_connectors_of_a_worker_that_cannot_start_are_made_by_another(home: Home) -> None:
    """One that has served, and died, comes back within half a second and keeps its own; so it stays later."""
    before = assign((), [connector(f"c{i}") for i in range(3)], 2)
    home.up()
    dead = home.workers[0]
    dead.child = None
    dead.lives.append(Life(0.0, 1.0, 2.0))
    assert taken_over(before, home.children.absent, home.children.able) is None
    dead.lives.append(Life(2.0, None, 3.0))
    moved = taken_over(before, home.children.absent, home.children.able)
    assert moved is not None
    assert [(one.number, one.worker) for one in moved] == [(one.number, 1) for one in before]
    assert taken_over(moved, home.children.absent, home.children.able) is None
    assert assign(moved, [one.connector for one in before], 2) == moved


def test_connectors_stay_where_no_worker_serves(home: Home) -> None:
    """There is nobody to make them."""
    before: list[Connecting] = assign((), [connector("c")], 1)
    for worker in home.workers:
        worker.lives.append(Life(0.0, None, 1.0))
    assert taken_over(before, home.children.absent, home.children.able) is None


def test_connectors_without_names_are_told_apart_by_their_place() -> None:
    """Two that are alike are two."""
    before = assign((), [connector(None, port="1"), connector(None, port="1"), connector(None, port="2")], 2)
    assert len({one.number for one in before}) == 3
    after = assign(before, [connector(None, port="2"), connector(None, port="1")], 2)
    assert [one.number for one in after] == [before[2].number, before[0].number]


def test_a_worker_is_told_hosts_and_terms() -> None:
    """The configured place first, then the failover list; no password in a log."""
    one = connector(
        None,
        host="::1",
        port="amqps",
        failover_urls="amqps://b:77, c",
        sasl_mechanisms="PLAIN, EXTERNAL",
        sasl_password="pass:secret",  # noqa: S106 - of this test
        max_sessions=0,
    )
    setup = connector_setup(assign((), [one], 1)[0], 30, ())
    assert setup.name == "connector/::1:amqps"
    assert setup.hosts == ["[::1]:5671", "amqps://b:77", "c:5672"]
    assert (setup.sasl_mechanisms, setup.link_capacity, setup.max_sessions) == ("PLAIN EXTERNAL", 30, 32768)
    assert "secret" not in repr(setup)
