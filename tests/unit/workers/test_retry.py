"""What a connector tries next, and how long after: a function of what happened."""

import pytest

from shm.contract.payloads import LONGEST, ConnectorState, record
from workers.control.retry import MOST_HOSTS, Schedule, failover_hosts, split


def test_what_opened_nothing_is_tried_again_after_five_seconds_and_what_was_open_after_two() -> None:
    """As other routers do it."""
    schedule = Schedule(["a:1"])
    assert schedule.ended() == 5.0
    schedule.opened()
    assert schedule.ended() == 2.0
    assert schedule.ended() == 5.0  # an earlier connection does not count


def test_two_hosts_are_several() -> None:
    schedule = Schedule(["a:1", "b:2"])
    assert (schedule.ended(), schedule.host) == (1.0, "b:2")


def test_of_several_hosts_the_next_is_tried_after_a_second() -> None:
    """Round and round, whether the last one was open or not."""
    schedule = Schedule(["a:1", "b:2", "c:3"])
    tried = []
    for _ in range(4):
        tried.append(schedule.host)
        assert schedule.ended() == 1.0
    assert tried == ["a:1", "b:2", "c:3", "a:1"]
    assert schedule.urls == ["amqp://b:2", "amqp://c:3", "amqp://a:1"]


def test_the_list_of_a_peer_takes_the_place_of_all_but_the_configured_host() -> None:
    """And of the one that is open; a peer without a list changes nothing, one with an empty list does."""
    schedule = Schedule(["a:1", "old:9"])
    schedule.opened(["amqp://b:2", "amqp://c:3"])
    assert schedule.urls == ["amqp://a:1", "amqp://b:2", "amqp://c:3"]
    schedule.ended()
    schedule.opened()
    assert schedule.host == "amqp://b:2"
    schedule.opened(["amqp://x:7", "b:2"])
    assert schedule.urls == ["amqp://b:2", "amqp://a:1", "amqp://x:7"]
    schedule.opened([])
    assert schedule.urls == ["amqp://b:2", "amqp://a:1"]


@pytest.mark.parametrize(
    ("listed", "hosts"),
    [
        ([{"network-host": "h", "port": "77"}], ["amqp://h:77"]),
        ([{"network-host": "h", "port": 77, "scheme": "amqps"}], ["amqps://h:77"]),
        ([{"network-host": "h", "scheme": "amqps"}], ["amqps://h:5671"]),
        ([{"network-host": "::1"}], ["amqp://[::1]:5672"]),
        ([{"port": "1"}, {"network-host": 3}, {"network-host": ""}, "h:1", None], []),
        ([{"network-host": "h", "port": "0"}, {"network-host": "h", "port": "x"}], []),
        ([{"network-host": "h", "port": "9" * 5000}], []),
        ([{"network-host": "n" * 256}, {"network-host": "n" * 255}], [f"amqp://{'n' * 255}:5672"]),
        ([], []),
        ("h:1", None),
        (None, None),
    ],
)
def test_what_a_peer_lists_is_read_with_care(listed: object, hosts: list[str] | None) -> None:
    """What makes no sense is left out."""
    assert failover_hosts({"failover-server-list": listed}) == hosts


def test_a_peer_lists_no_more_hosts_than_the_core_can_be_told_of() -> None:
    """A state too long for the core ended the worker, with all its connections, when this one was lost."""
    longest = "n" * 248
    listed = [{"network-host": f"{longest}{number:04}"} for number in range(4000)]
    schedule = Schedule(["a:1"])
    schedule.opened(failover_hosts({"failover-server-list": listed}))
    assert len(schedule.urls) == 1 + MOST_HOSTS
    assert schedule.urls[-1] == f"amqp://{longest}{MOST_HOSTS - 1:04}:5672"
    assert len(record(ConnectorState("c", "CONNECTING", hosts=schedule.urls))[1]) <= LONGEST // 2


def test_a_host_is_split_into_name_and_port() -> None:
    assert [split(host) for host in ("h:1", "amqps://h:1", "[::1]:2")] == [("h", "1"), ("h", "1"), ("::1", "2")]
