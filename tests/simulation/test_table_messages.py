"""Messages with a route key through the core: the rules of the spec and of facts rmr 5, one by one."""

import logging

import pytest

from core.rmr.active.route_tables import RouteTables
from core.rmr.active.unroutable_log import UnroutableLog
from shm import native as n
from shm.contract.control import SetTables
from shm.contract.tables import TableSetup
from tests.model.sites import Packet
from tests.model.table_life import TableLife
from tests.model.table_site import TableSite, got

FIGURE_3 = """newrt | start | rt-0928
rte | 2000 | logger:30311
mse | 1000 | 10 | forwarder:43086
mse | 1000,forwarder:43086 | 10 | app2:43086
mse | 1000 | -1 | app0:43086,app1:43086; logger:20311
newrt | end | 4
"""


def table(*records: str, name: str = "t") -> str:
    return "\n".join([f"newrt|start|{name}", *records, f"newrt|end|{len(records)}", ""])


def owners(*records: str) -> str:
    return "\n".join(["meid_map|start|m", *records, f"meid_map|end|{len(records)}", ""])


def test_figure_3_key_and_fallback() -> None:
    """MT/SID, then MT/-1 for a subscription without an entry (facts 5)."""
    site = TableSite()
    [outcome] = site.table(FIGURE_3)
    assert (outcome.kind, outcome.table_id, outcome.ok, outcome.entries) == ("table", "rt-0928", True, 4)
    forwarder, logger, other = (site.receiver(x) for x in ("forwarder:43086", "logger:30311", "logger:20311"))
    app0, app1 = site.receiver("app0:43086"), site.receiver("app1:43086")
    link = site.sender()
    site.give(link, 1, 1000, 10)
    site.give(link, 2, 2000, 7)
    site.give(link, 3, 1000, 99)
    site.give(link, 4, 1000)
    assert (got(forwarder), got(logger), got(other)) == ([1], [2], [3, 4])
    assert (got(app0), got(app1)) == ([3], [4])
    assert site.outcomes == {i: [n.S_ACCEPTED] for i in (1, 2, 3, 4)}


def test_figure_3_sender_specific_entry() -> None:
    """The last entry that applies to the sender wins (spec, Table Entry Ordering)."""
    site = TableSite()
    site.table(FIGURE_3)
    forwarder, app2 = site.receiver("forwarder:43086"), site.receiver("app2:43086")
    link = site.sender()
    site.give(link, 1, 1000, 10, source="forwarder:43086")
    site.give(link, 2, 1000, 10, source="other:1")
    assert (got(app2), got(forwarder)) == ([1], [2])


def test_a_generic_entry_behind_a_specific_one_wins() -> None:
    """Textual order alone counts (facts 4)."""
    site = TableSite()
    site.table(table("mse|1000,a:1|10|x:1", "mse|1000|10|y:1"))
    x, y = site.receiver("x:1"), site.receiver("y:1")
    site.give(site.sender(), 1, 1000, 10, source="a:1")
    assert (got(x), got(y)) == ([], [1])


def test_one_copy_per_group_and_turns_inside() -> None:
    """Each group has its members in turn, first member first."""
    site = TableSite()
    site.table(table("mse|1000|-1|a:1,b:1,c:1;d:1,e:1"))
    a, b, c, d, e = (site.receiver(f"{x}:1") for x in "abcde")
    link = site.sender()
    for number in range(6):
        site.give(link, number, 1000)
    assert [got(x) for x in (a, b, c)] == [[0, 3], [1, 4], [2, 5]]
    assert [got(x) for x in (d, e)] == [[0, 2, 4], [1, 3, 5]]


def test_outcomes_of_several_groups_are_merged() -> None:
    """Rejected counts more than accepted, as for multicast."""
    site = TableSite()
    site.table(table("mse|1000|-1|a:1;b:1"))
    a, b = site.receiver("a:1"), site.receiver("b:1")
    b.answer = n.S_REJECTED
    site.give(site.sender(), 1, 1000)
    assert site.outcomes == {1: [n.S_REJECTED]}
    assert (got(a), got(b)) == ([1], [1])


def test_dead_members_are_passed_over() -> None:
    """And have their turn again when they are back."""
    site = TableSite()
    site.table(table("mse|1000|-1|a:1,b:1,c:1"))
    a, c, link = site.receiver("a:1"), site.receiver("c:1"), site.sender()
    for number in range(4):
        site.give(link, number, 1000)
    assert (got(a), got(c)) == ([0, 2], [1, 3])
    site.detach(a)
    b = site.receiver("b:1")
    for number in range(4, 8):
        site.give(link, number, 1000)
    assert (got(b), got(c)) == ([4, 6], [1, 3, 5, 7])


def test_dead_members_miss_their_turn_if_that_is_wanted() -> None:
    """As in the RMR library, where the message is lost; here its sender has it back."""
    site = TableSite(skip_dead=False)
    site.table(table("mse|1000|-1|a:1,b:1"))
    a, link = site.receiver("a:1"), site.sender()
    for number in range(4):
        site.give(link, number, 1000)
    assert got(a) == [0, 2]
    assert [site.outcomes[i] for i in range(4)] == [[n.S_ACCEPTED], [n.S_RELEASED]] * 2
    assert site.active.native.endpoint(*site.active.numbers("b:1")) == (0, 2)


def test_nobody_there_is_released_and_counted() -> None:
    """No entry, nobody at the endpoints, no owner: each for itself."""
    site = TableSite()
    site.table(table("mse|1000|-1|a:1", "mse|1001|-1|%meid"))
    link = site.sender()
    site.give(link, 1, 1000)
    site.give(link, 2, 3000)
    site.give(link, 3, 1001)
    assert site.outcomes == {i: [n.S_RELEASED] for i in (1, 2, 3)}
    assert site.active.native.counts() == (0, 1, 1, 1, 0)


def test_the_log_says_why_messages_went_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    """Released has no place for a reason: once a minute for table and reason, with the last key."""
    caplog.set_level(logging.INFO)
    site = TableSite()
    site.table(table("mse|1000|-1|a:1", "mse|1001|-1|%meid"))
    link, second = site.sender(), 1_000_000_000
    nowhere = UnroutableLog([site.active])

    def said(now: int) -> list[str]:
        caplog.clear()
        nowhere.step(now * second)
        return [one.partition(" were released: ")[2] for one in caplog.messages]

    for number, (kind, subscription) in enumerate([(1000, 6), (1000, 7), (3000, -1), (1001, 5)]):
        site.give(link, number, kind, subscription)
    assert said(100) == [
        "no entry applies to them; the last one had message type 3000, subscription -1",
        "no endpoint of their entry has a receiver; the last one had message type 1000, subscription 7",
        "their managed entity has no owner; the last one had message type 1001, subscription 5",
    ]
    site.give(link, 9, 4000)
    site.give(link, 10, 4001)
    assert said(130) == []
    assert said(170) == ["no entry applies to them; the last one had message type 4001, subscription -1"]
    assert "2 of its messages were released" in caplog.text
    assert said(300) == []


def test_no_table_yet() -> None:
    """Senders have credit and their messages back."""
    site = TableSite()
    link = site.sender()
    assert link.credit == 250
    site.give(link, 1, 1000)
    assert site.outcomes == {1: [n.S_RELEASED]}
    assert link.credit == 250


@pytest.mark.parametrize("mt", [0, 20, 99])
def test_reserved_types_are_rejected(mt: int) -> None:
    """0 to 99, with the reason (spec, Reserved Message Types)."""
    site = TableSite(compatible=True)
    site.table(table(f"mse|{mt}|-1|a:1", "mse|100|-1|a:1"))
    a, link = site.receiver("a:1"), site.sender()
    site.give(link, 1, mt)
    site.give(link, 2, 100)
    assert site.outcomes == {1: [n.S_REJECTED], 2: [n.S_ACCEPTED]}
    assert (site.reasons, got(a)) == ({1: "routerd:reserved-message-type"}, [2])


def test_a_message_without_key_is_rejected() -> None:
    site = TableSite()
    site.table(FIGURE_3)
    site.give(site.sender(), 1, -1)
    assert (site.outcomes, site.reasons) == ({1: [n.S_REJECTED]}, {1: "routerd:no-route-key"})


def test_own_endpoint_is_left_out() -> None:
    """And an entry with no other has no fallback (facts 4, 5)."""
    site = TableSite()
    site.table(table("mse|1000|5|a:1,b:1;a:1", "mse|1000|6|a:1", "mse|1000|-1|c:1"))
    a, b, c, link = site.receiver("a:1"), site.receiver("b:1"), site.receiver("c:1"), site.sender()
    for number in range(3):
        site.give(link, number, 1000, 5, source="a:1")
    site.give(link, 9, 1000, 6, source="a:1")
    assert (got(a), got(b), got(c)) == ([], [0, 1, 2], [])
    assert site.outcomes[9] == [n.S_RELEASED]


def test_meid_routes_to_its_owner() -> None:
    """By the map, which changes on its own and survives a new table (facts 6)."""
    site = TableSite()
    site.table(table("mse|1000|-1|%meid") + owners("mme_ar|a:1|m1 m2", "mme_ar|b:1|m3"))
    a, b, link = site.receiver("a:1"), site.receiver("b:1"), site.sender()
    for number, meid in enumerate(["m1", "m3", "m2", "m9", ""]):
        site.give(link, number, 1000, meid=meid)
    assert (got(a), got(b)) == ([0, 2], [1])
    assert [site.outcomes[i] for i in (3, 4)] == [[n.S_RELEASED]] * 2
    site.table(owners("mme_del|m1", "mme_ar|b:1|m2"))
    site.table(table("mse|1001|-1|%meid"))
    site.give(link, 5, 1001, meid="m1")
    site.give(link, 6, 1001, meid="m2")
    assert (site.outcomes[5], got(b)) == ([n.S_RELEASED], [1, 6])


def test_update_and_delete() -> None:
    """updatert changes what it names; del makes room for the fallback."""
    site = TableSite()
    site.table(table("mse|1000|1|a:1", "mse|1000|2|a:1", "mse|1000|-1|c:1"))
    a, b, c, link = site.receiver("a:1"), site.receiver("b:1"), site.receiver("c:1"), site.sender()
    [outcome] = site.table("updatert|start|u\nmse|1000|1|b:1\ndel|1000|2\nupdatert|end|2\n")
    assert (outcome.kind, outcome.ok) == ("update", True)
    for number, sid in enumerate([1, 2, 3]):
        site.give(link, number, 1000, sid)
    assert (got(a), got(b), got(c)) == ([], [0], [1, 2])


def test_turns_survive_updates_of_other_entries() -> None:
    """Facts 6."""
    site = TableSite()
    site.table(table("mse|1000|-1|a:1,b:1,c:1"))
    links = [site.receiver(f"{x}:1") for x in "abc"]
    link = site.sender()
    site.give(link, 0, 1000)
    site.table("updatert|start|u\nmse|2000|-1|a:1\nupdatert|end|1\n")
    site.give(link, 1, 1000)
    site.table(table("mse|7|-1|z:1", "mse|1000|-1|a:1,b:1,c:1"))
    site.give(link, 2, 1000)
    assert [got(x) for x in links] == [[0], [1], [2]]
    assert site.active.native.endpoint(*site.active.numbers("a:1")) == (1, 0)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (table("mse|1000|-1|b:1").replace("end|1", "end|2"), "missing table records: expected 2 got 1"),
        ("newrt|start|t\nmse|1000|-1|b:1\n", "table not complete"),
        (table("mse|x|-1|b:1"), "message type is no number"),
        ("", "the text contains no table and no map"),
        ("meid_map|start|m\nmme_ar|b:1|m\nmeid_map|end|1|00\n", "MD5"),
    ],
)
def test_a_bad_table_leaves_the_old_one(text: str, reason: str) -> None:
    """And says why to whoever sent it."""
    site = TableSite()
    site.table(table("mse|1000|-1|a:1"))
    a, link = site.receiver("a:1"), site.sender()
    [outcome] = site.table(text, "somebody")
    assert reason in outcome.reason
    assert site.active.history.refused == 1
    assert "somebody" in site.active.history.last_error
    site.give(link, 1, 1000)
    assert got(a) == [1]


def test_an_update_before_any_table_is_refused() -> None:
    [outcome] = TableSite().table("updatert|start|u\nmse|1000|1|b:1\nupdatert|end|1\n")
    assert outcome.reason == "an update before any table"


def test_settled_messages_go_too_and_give_their_credit_back() -> None:
    """Even those of a receiver that takes none; what nobody gets is dropped and counted."""
    site = TableSite()
    site.table(table("mse|1000|-1|a:1;b:1"))
    a, b, link = site.receiver("a:1"), site.receiver("b:1"), site.sender()
    site.give(link, 1, 1000, settled=True)
    site.give(link, 2, 2000, settled=True)
    assert (got(a), got(b), link.credit) == ([1], [1], 250)
    assert site.core.forwarder.counts()["incoming"] == 0


@pytest.mark.parametrize("outgoing", [True, False])
def test_an_endpoint_is_its_address_in_the_usual_phase(outgoing: bool) -> None:
    """A link that requests another phase of the address neither takes the endpoint's place nor takes it away."""
    site = TableSite()
    site.table(table("mse|1000|-1|a:1"))
    a, link = site.receiver("a:1"), site.sender()
    other = site.attach(outgoing, "routes/a:1", capabilities=["qd.waypoint.3"])
    site.settle_all()
    site.give(link, 1, 1000)
    site.detach(other)
    site.settle_all()
    site.give(link, 2, 1000)
    assert got(a) == [1, 2]


def test_a_table_has_no_receivers_of_its_own() -> None:
    site = TableSite()
    link = site.attach(True, "routes")
    site.settle_all()
    assert link.error == "amqp:not-allowed"


def test_senders_attach_again_when_tables_come_and_go() -> None:
    """Their workers have to know whether to look for keys."""
    site = TableSite()
    link = site.sender()
    site.core.configure(SetTables([]))
    site.settle_all()
    assert (site.detached, site.core.plane(RouteTables).find("routes")) == ([link.index], None)
    plain = site.attach(False, "routes")
    site.settle_all()
    assert not site.to_table[plain.index]


@pytest.mark.parametrize("reported", [True, False])
def test_a_sender_of_the_former_core_is_heard_whether_its_worker_reports_keys_or_not(reported: bool) -> None:
    """Where its address became a table's when there was no core, the core reads the keys of its messages itself."""
    life = TableLife(1)
    life.table(table("mse|1000|-1|a:1"))
    a, link = life.receiver("a:1"), life.attach(False, "routes", restored=True, granted=3, to_table=reported)
    link.open = True
    life.settle_all()
    if reported:
        life.give(link, 1, 1000)
    else:
        life.ask(link, Packet(1), 1000, -1, "", "")
        life.settle_all()
    assert (got(a), life.outcomes, life.reasons) == ([1], {1: [n.S_ACCEPTED]}, {})


def test_nobody_is_connected_to_where_that_is_not_wanted() -> None:
    """And no more from when it is switched off."""
    site = TableSite(connect=False)
    site.table(table("mse|1000|-1|a:1"))
    assert site.endpoints == []
    site.core.configure(SetTables([TableSetup("routes", "routes")]))
    site.core.configure(SetTables([TableSetup("routes", "routes", connect=False)]))
    site.settle_all()
    assert [(e.host, e.open) for e in site.endpoints] == [("a", True), ("a", False)]


def test_a_table_that_comes_to_receivers_or_leaves_them() -> None:
    """A reload adds it, or changes its address: only endpoints without an AMQP receiver are connected to."""
    site = TableSite()
    link = site.receiver("a:1")
    site.core.configure(SetTables([]))
    site.core.configure(SetTables([site.setup]))
    site.table(table("mse|1000|-1|a:1,b:1"))
    assert [(e.host, e.open) for e in site.endpoints] == [("b", True)]
    site.endpoints.clear()
    site.core.configure(SetTables([TableSetup("routes", "elsewhere")]))
    site.table(table("mse|1000|-1|a:1,b:1"))
    assert {(e.address, e.open) for e in site.endpoints} == {
        ("routes/b:1", False), ("elsewhere/a:1", True), ("elsewhere/b:1", True),
    }  # fmt: skip
    site.endpoints.clear()
    site.core.configure(SetTables([site.setup]))
    site.table(table("mse|1000|-1|a:1,b:1"))
    site.endpoints.clear()
    site.detach(link)
    site.settle_all()
    assert [(e.address, e.open) for e in site.endpoints] == [("routes/a:1", True)]


def test_who_is_connected_to() -> None:
    """Endpoints without an AMQP receiver; the worker's successor is told again."""
    site = TableSite()
    site.table(table("mse|1000|-1|a:1,[::1]:7") + owners("mme_ar|o:1|m"))
    assert {(e.address, e.host, e.port, e.open) for e in site.endpoints} == {
        ("routes/a:1", "a", 1, True), ("routes/[::1]:7", "::1", 7, True), ("routes/o:1", "o", 1, True),
    }  # fmt: skip
    site.endpoints.clear()
    link = site.receiver("a:1")
    assert [(e.host, e.open) for e in site.endpoints] == [("a", False)]
    site.detach(link)
    site.settle_all()
    assert [(e.host, e.open) for e in site.endpoints[1:]] == [("a", True)]
    site.endpoints.clear()
    site.die()
    assert {(e.host, e.open) for e in site.endpoints} == {("a", True), ("::1", True), ("o", True)}
    site.endpoints.clear()
    site.table(table("mse|1000|-1|a:1"))
    assert [(e.host, e.open) for e in site.endpoints] == [("::1", False)]


def test_a_table_that_goes_leaves_no_address() -> None:
    """A reload that renames it does so each time: neither its own nor that of its control messages stays."""
    site = TableSite()
    before = len(site.core.addresses)
    for name in ("one", "two", "routes"):
        site.core.configure(SetTables([TableSetup("routes", name)]))
        site.settle_all()
    assert len(site.core.addresses) == before
