"""What the rows of the flow log say of deliveries."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from routerd.recorder.main import _offset
from routerd.recorder.rows import trimmed
from shm import native as n
from shm.contract.flow_log import schema as flow
from tests.support.beds.recorder_desk import Desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_a_delivery_becomes_a_row_with_every_column(desk: Desk) -> None:
    """Links, names, times and outcome are those of the delivery; the schema is the published one."""
    desk.bed.settle(desk.bed.send(123), waited=50)
    desk.bed.settle(desk.bed.send(presettled=True))
    desk.bed.settle(desk.bed.send(), n.S_RELEASED)
    desk.after(0)
    desk.after(11)
    table = pq.ParquetFile(desk.files()[0]).read()
    assert table.column_names == [column.name for column in flow.COLUMNS]
    first, second, third = table.to_pylist()
    assert (first["ingress_conn_id"], first["ingress_link_id"]) == (7, 70)
    assert (first["egress_conn_id"], first["egress_link_id"]) == (8, 71)
    assert (first["peer_container"], first["address"], first["path"]) == ("receiver", "news", "me")
    assert (first["address_class"], first["priority"], first["size_bytes"]) == ("balanced", 4, 123)
    assert first["latency_ns"] == first["settle_ns"] - 1200
    assert (first["queue_ns"], first["credit_wait_ns"]) == (first["latency_ns"], 50)
    assert (first["mtype"], first["sub_id"], first["hops"], first["sample_weight"]) == (-1, -1, 0, 1)
    assert [row["outcome"] for row in (first, second, third)] == ["accepted", "presettled", "released"]
    assert [row["seq"] for row in (first, second, third)] == [1, 2, 3]
    for end, who in (("ingress", ("sender", "alice", "10.0.0.1")), ("egress", ("receiver", "bob", "10.0.0.2"))):
        container = "ingress_container" if end == "ingress" else "peer_container"
        assert (first[container], first[f"{end}_user"], first[f"{end}_host"]) == who
    assert (first["further_copy"], first["route_state"]) == (False, None)
    assert second["settled"]
    assert second["settle_ns"] is None


def test_what_a_record_says_of_its_message_is_in_the_row(desk: Desk) -> None:
    """Hash of the message-id, where the body begins, delivery-count; each only as far as it was told."""
    desk.bed.settle(desk.bed.send(100, delivery=1 << 63 | 77, credit=30, extra=3))
    desk.bed.settle(desk.bed.send(100, delivery=0, credit=0, extra=0))
    desk.bed.settle(desk.bed.send(100, delivery=5, credit=101, extra=0))
    desk.bed.settle(desk.bed.send(100))
    desk.recorder.finish(1)
    told = [(row["msg_id_hash"], row["body_bytes"], row["redelivery"]) for row in desk.rows()]
    assert told == [(77, 70, 3), (None, None, 0), (5, None, 0), (None, None, None)]


def test_names_are_those_of_their_rows(desk: Desk) -> None:
    """Rows of several names, in several batches and row groups, of which each looks up its own."""
    names = [f"news.{number % 7}" for number in range(150)]
    for name in names:
        desk.bed.rename(name.encode())
        desk.bed.pass_on()
    desk.make(70)
    desk.recorder.finish(1)
    rows = desk.rows()
    assert [row["address"] for row in rows] == names
    assert {row["peer_container"] for row in rows} == {"receiver"}
    assert pq.ParquetFile(desk.files()[0]).num_row_groups == 3


def test_a_name_whose_place_is_used_again_while_its_row_waits_is_not_taken_for_the_new_one(desk: Desk) -> None:
    """65,536 names later the place holds another text: the row has none rather than that."""
    desk.bed.rename(b"first")
    desk.bed.pass_on()
    for number in range(1 << 16):
        desk.bed.telemetry.forget(desk.bed.telemetry.name(b"%d" % number))
    desk.bed.rename(b"last")
    desk.bed.pass_on(2)
    desk.recorder.finish(1)
    assert [row["address"] for row in desk.rows()] == [None, "last", "last"]


def test_a_message_for_nobody_is_a_drop(desk: Desk) -> None:
    """It has no link that it went to; who sent it is its peer."""
    desk.bed.forwarder.remove_link(0, 1, 1)
    assert not desk.bed.send()
    desk.recorder.finish(1)
    (row,) = desk.rows()
    assert (row["kind"], row["outcome"], row["peer_container"]) == ("drop", "undeliverable", "sender")
    assert row["egress_link_id"] is None
    assert row["address"] == "news"


def test_octets_that_are_no_text_are_escaped(desk: Desk) -> None:
    """Two names with other octets stay two."""
    for name in (b"a\xff", b"a\xfe", "ü".encode()):
        desk.bed.rename(name)
        desk.bed.pass_on()
    desk.recorder.finish(1)
    assert [row["address"] for row in desk.rows()] == ["a\\xff", "a\\xfe", "ü"]


@given(st.lists(st.none() | st.binary(max_size=32)))
def test_zeros_behind_a_transaction_id_are_none_of_it(ids: list[bytes | None]) -> None:
    """Whatever octets it has: zeros within it, and what is no text, stay."""
    column = pa.array([one and one.ljust(32, b"\0") for one in ids], pa.binary())
    assert trimmed(column).to_pylist() == [one and one.rstrip(b"\0") for one in ids]


@pytest.mark.parametrize("interrupted", range(9))
def test_an_interruption_between_two_clocks_is_no_difference_of_them(
    monkeypatch: pytest.MonkeyPatch, interrupted: int
) -> None:
    """Records of one turn would all come a moment too early, before those of the router that sent the messages."""
    monotonic, ahead, looks = 10**9, 10**18, 0

    def now() -> int:
        nonlocal monotonic, looks
        monotonic += 150_000 if looks == interrupted else 20
        looks += 1
        return monotonic

    monkeypatch.setattr("routerd.recorder.main.time.monotonic_ns", now)
    monkeypatch.setattr("routerd.recorder.main.time.time_ns", lambda: now() + ahead)
    assert abs(_offset() - ahead) <= 20
