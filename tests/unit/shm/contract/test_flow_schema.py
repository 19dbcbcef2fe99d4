"""The flow log's schema keeps the rules that its readers rely on."""

import re
from datetime import UTC, datetime

from shm.contract.flow_log import schema as flow
from shm.contract.flow_log.arrow import SCHEMA


def test_columns_keep_the_rules() -> None:
    """Names are unique, every type is known, units stand in the names."""
    names = [column.name for column in flow.COLUMNS]
    assert len(names) == len(set(names))
    for column in flow.COLUMNS:
        assert column.name in SCHEMA.names
        assert (column.unit == "ns") == column.name.endswith("_ns")
        assert (column.unit == "bytes") == column.name.endswith("_bytes")
        assert column.meaning


def test_first_version_is_as_it_was_published() -> None:
    """Columns of a version are never taken away, renamed or moved."""
    assert flow.VERSION == "routerd.flow.v1"
    published = (
        "kind ts router_id worker_id seq boot_id ingress_conn_id ingress_link_id egress_conn_id "
        "egress_link_id ingress_kind egress_kind peer_container address address_class priority mtype sub_id "
        "meid xact_id msg_id_hash fragment_count size_bytes body_bytes n_deliveries latency_ns settle_ns "
        "queue_ns credit_wait_ns outcome error_type settled redelivery hops path_id path trace_id span_id "
        "end_reason sample_weight lat_hist"
    )
    names = [column.name for column in flow.COLUMNS]
    assert names[: len(published.split())] == published.split()
    added = (
        "onward_route return_route message_number by_meid ingress_container ingress_user ingress_host egress_user "
        "egress_host further_copy route_state"
    )
    assert names[len(published.split()) :] == added.split()
    assert all(column.nullable for column in flow.COLUMNS[len(published.split()) :])


def test_a_file_stands_where_its_hour_says() -> None:
    begun = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
    assert flow.folder(begun) == "date=2026-01-02/hour=03"
    assert flow.file_name("Router.A_1", "19a.1", 7) == "Router.A_1-all-19a.1-000007.parquet"


def test_ids_that_a_name_cannot_have_are_told_apart() -> None:
    """Characters are replaced, and a digest says which they were; the parts of the name stay apart."""
    assert re.fullmatch(r"Rou_ter_A~[0-9a-f]{16}-all-19a\.1-000007\.parquet", flow.file_name("Rou-ter/A", "19a.1", 7))
    ids = ["Rou-ter-A", "Rou_ter_A", "Rou-ter_A", "Rou/ter A", "Rou\u0308ter-A", "Rou~ter~A", "Rou\udcffter_A"]
    for name in (flow.manifest_name, flow.clock_name, lambda id: flow.file_name(id, "", 0)):
        assert len({name(id) for id in ids}) == len(ids)
    assert flow.file_name("-all", "19a.1", 7)[0].isalnum()  # readers pass over names that begin with _ or .
    assert flow.file_name("_all", "19a.1", 7)[0].isalnum()
    assert len(flow.file_name("-" * 127, "ffffffffffff.999999", 999999).encode()) <= 200
