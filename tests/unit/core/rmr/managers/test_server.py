"""The router as Route Manager: what applications are sent, and what is known of them, rule by rule."""

import pytest

from core.rmr.managers import application as a
from core.rmr.managers.changes import MOST_CHANGES
from core.rmr.managers.messages import Said
from core.rmr.managers.server import FORGOTTEN
from core.rmr.tables import writing
from shm.contract.failures import failures
from tests.support.beds.rmr.table_server import APP, CONTROL, Bed, S, owners, table
from tests.support.values.table_use import Use


def test_a_request_is_answered_on_its_connection_one_table_and_one_map() -> None:
    """M1 to M4: both identities are known; each with an id, a count and a transaction id of its own."""
    bed = Bed("rm:4561")
    bed.install(table("mse|1|-1|a:1"))
    bed.install(owners("mme_ar|a:1|x y"))
    bed.ask()
    assert (bed.app.endpoint, bed.app.control, bed.app.state) == (APP, CONTROL, a.PENDING)
    assert bed.take() == ["newrt|start", "mse|1|-1|a:1", "newrt|end|1"]
    ((connection, said),) = bed.taken
    assert (connection, said.source, said.call, len(said.xact)) == ("c1", "rm:4561", 0, 32)
    first = bed.ids[0], said.xact
    bed.answer()
    assert bed.take() == ["meid_map|start", "mme_ar|a:1|x y", "meid_map|end|1"]
    assert bed.app.state == a.PENDING
    assert {first[0], first[1]}.isdisjoint({bed.ids[0], bed.taken[0][1].xact})
    bed.answer()
    assert (bed.app.state, bed.app.table.table_id, bed.app.map.table_id) == (a.OK, first[0], bed.ids[0])
    bed.later(1000)
    assert bed.sent == []


def test_a_manager_without_a_table_does_not_answer() -> None:
    """Applications go on asking; the table goes to them as soon as there is one."""
    bed = Bed()
    bed.ask()
    bed.later(1)
    assert bed.sent == []
    assert (bed.app.state, bed.app.reason) == (a.PENDING, "no table is in use yet")
    bed.install(table("mse|1|-1|a:1"))
    bed.later(1)
    assert bed.take() == ["newrt|start", "mse|1|-1|a:1", "newrt|end|1"]
    bed.answer()
    assert bed.app.state == a.OK
    assert bed.sent == []  # and no map: there is none


def test_a_change_goes_as_such_to_who_runs_what_it_changes() -> None:
    """Updates, maps, and whole tables that have much in common."""
    bed = Bed().synchronised()
    bed.install(table("mse|2|-1|b:1", "del|7|7", frame="updatert"))
    assert bed.take() == ["updatert|start", "mse|2|-1|b:1", "del|7|7", "updatert|end|2"]
    bed.answer()
    bed.install(owners("mme_ar|b:1|y", "mme_del|x"))
    assert bed.take() == ["meid_map|start", "mme_del|x", "mme_ar|b:1|y", "meid_map|end|2"]
    bed.answer()
    bed.install(table("mse|1|-1|a:1", "mse|2|-1|c:1"))
    assert bed.take() == ["updatert|start", "mse|2|-1|c:1", "updatert|end|1"]
    bed.answer()
    assert bed.app.state == a.OK


def test_changes_during_an_acknowledgement_go_together_afterwards() -> None:
    """One thing is under way at a time."""
    bed = Bed().synchronised()
    bed.install(table("mse|2|-1|b:1", frame="updatert"))
    bed.take()
    bed.install(table("mse|3|-1|b:1", frame="updatert"))
    bed.install(table("mse|4|-1|b:1", frame="updatert"))
    bed.later(1)
    assert bed.sent == []
    bed.answer()
    assert bed.take() == ["updatert|start", "mse|3|-1|b:1", "mse|4|-1|b:1", "updatert|end|2"]


def test_never_an_update_before_a_whole_table_was_acknowledged() -> None:
    """M5, on this instance of the application."""
    bed = Bed()
    bed.install(table("mse|1|-1|a:1"))
    bed.ask()
    bed.take()
    bed.install(table("mse|2|-1|b:1", frame="updatert"))
    bed.later(6)
    bed.later(3)
    assert bed.take()[0] == "newrt|start"
    bed.answer()
    bed.later(60)
    assert bed.sent == []
    bed.install(table("mse|3|-1|b:1", frame="updatert"))
    assert bed.take()[0] == "updatert|start"


def test_an_error_is_no_success() -> None:
    """It is shown with its reason, and everything is sent again, later and later."""
    bed = Bed().synchronised()
    bed.install(table("mse|2|-1|b:1", frame="updatert"))
    bed.take()
    bed.answer("missing table records: expected 1 got 0")
    assert (bed.app.state, bed.app.reason) == (a.ERR, "missing table records: expected 1 got 0")
    assert ("err", CONTROL) in bed.events
    bed.later(1)
    assert bed.sent == []
    waits = []
    for _ in range(8):
        start = bed.now
        while not bed.sent:
            bed.later(1)
        waits.append((bed.now - start) // S)
        assert bed.take() == ["newrt|start", "mse|1|-1|a:1", "mse|2|-1|b:1", "newrt|end|2"]
        bed.answer("no")
    assert waits == sorted(waits)
    assert waits[-1] in (60, 61)
    bed.later(61)
    bed.take()
    bed.answer()
    assert bed.take()[0] == "meid_map|start"
    bed.answer()
    assert (bed.app.state, bed.app.reason, bed.app.failures) == (a.OK, "", 0)


def test_no_answer_is_no_knowledge() -> None:
    """M6: state unknown, then the whole table again."""
    bed = Bed().synchronised()
    bed.install(table("mse|2|-1|b:1", frame="updatert"))
    bed.take()
    bed.later(4)
    assert bed.app.state == a.PENDING
    bed.later(1)
    assert bed.app.state == a.UNKNOWN
    assert bed.app.reason.endswith("within 5 s")
    assert bed.events[-1] == ("late", CONTROL)
    bed.later(3)
    assert bed.take()[0] == "newrt|start"


def test_a_late_answer_counts() -> None:
    """The table of that id is in use there, whatever we thought."""
    bed = Bed().synchronised()
    bed.install(table("mse|2|-1|b:1", frame="updatert"))
    bed.take()
    bed.later(6)
    assert bed.app.state == a.UNKNOWN
    bed.answer()
    assert bed.app.table.acknowledged != a.NOTHING
    bed.take()  # the map: nobody knows whether it is as it was
    bed.answer()
    assert bed.app.state == a.OK


def test_an_answer_without_an_id_is_known_by_its_transaction() -> None:
    """M4: by table id first, by transaction id second; neither: it is about nothing of ours."""
    bed = Bed()
    bed.install(table("mse|1|-1|a:1"))
    bed.ask()
    bed.take()
    bed.answer(table_id="another@1.1")
    assert bed.app.state == a.PENDING
    bed.answer(table_id="<id-missing>")
    assert bed.app.state == a.OK


def test_who_asks_again_is_another_instance() -> None:
    """M7: everything again, whatever its former instance had acknowledged."""
    bed = Bed().synchronised()
    bed.later(10)
    bed.ask("c2")
    assert ("restart", CONTROL) in bed.events
    assert bed.take()[0] == "newrt|start"
    assert {connection for connection, _ in bed.taken} == {"c2"}
    bed.answer(connection="c2")
    assert bed.take()[0] == "meid_map|start"
    assert bed.app.requests == 2


def test_who_asks_while_its_table_is_under_way_is_not_sent_it_twice_at_once() -> None:
    """But it is, when it asks again after a while: what was sent is lost."""
    bed = Bed()
    bed.install(table("mse|1|-1|a:1"))
    bed.ask()
    bed.ask()
    assert bed.take() == ["newrt|start", "mse|1|-1|a:1", "newrt|end|1"]
    bed.later(2)
    bed.ask()
    assert bed.take()[0] == "newrt|start"


def test_an_application_whose_connection_is_lost_is_looked_for_at_its_control_port() -> None:
    """It will not ask again; when it is reached it gets everything."""
    bed = Bed().synchronised()
    bed.server.lost("c1", bed.now)
    assert bed.reached == {CONTROL: True}
    assert bed.app.state == a.UNKNOWN
    bed.install(table("mse|2|-1|b:1", frame="updatert"))
    assert bed.sent == []
    bed.server.reached(CONTROL, "to", bed.now)
    assert bed.take()[0] == "newrt|start"
    assert bed.taken[0][0] == "to"
    bed.answer(connection="to")
    assert bed.take()[0] == "meid_map|start"
    bed.ask("c2")  # it has a connection of its own again
    assert bed.reached == {CONTROL: False}


def test_a_connection_that_is_gone_is_noticed_when_something_is_sent() -> None:
    """Nobody is there to receive it."""
    bed = Bed().synchronised()
    bed.gone.add("c1")
    bed.install(table("mse|2|-1|b:1", frame="updatert"))
    assert bed.app.state == a.UNKNOWN
    assert bed.reached == {CONTROL: True}


def test_applications_of_before_are_reached_after_a_restart() -> None:
    """They would never ask again (M7)."""
    bed = Bed()
    bed.server.know(APP, CONTROL, CONTROL)
    assert (bed.app.state, bed.app.endpoint) == (a.UNKNOWN, APP)
    assert bed.reached == {CONTROL: True}
    bed.install(table("mse|1|-1|a:1"))
    assert bed.sent == []
    bed.server.reached(CONTROL, "to", bed.now)
    assert bed.take()[0] == "newrt|start"


def test_an_application_that_is_only_configured_has_a_name_when_it_asks() -> None:
    """It stays the same one."""
    bed = Bed()
    bed.server.know("", CONTROL, CONTROL, fixed=True)
    bed.ask()
    assert bed.app.endpoint == APP
    assert bed.app.fixed


def test_the_day_of_who_was_known_before_begins_with_the_core() -> None:
    """The core's clock is the machine's, which may have run for days already."""
    bed = Bed()
    bed.now += 2 * FORGOTTEN
    bed.server.know(APP, CONTROL, CONTROL)
    bed.later(1)
    assert bed.reached == {CONTROL: True}
    bed.later(FORGOTTEN // S + 1)
    assert bed.reached == {CONTROL: False}


def test_who_is_gone_for_a_day_is_forgotten() -> None:
    """Unless it is configured."""
    bed = Bed()
    bed.server.know("", "fixed:1", "fixed:1", fixed=True)
    bed.ask()
    bed.server.lost("c1", bed.now)
    bed.later(FORGOTTEN // S + 1)
    assert [one.control for one in bed.server] == ["fixed:1"]
    assert bed.reached == {"fixed:1": True, CONTROL: False}


def test_managed_entities_that_nobody_owns_any_more_are_taken_away() -> None:
    """A new table keeps the whole map there, so who missed a deletion has to be told of it."""
    bed = Bed().synchronised()
    bed.server.lost("c1", bed.now)
    bed.install(owners("mme_ar|b:1|y", "mme_del|x"))
    bed.server.reached(CONTROL, "to", bed.now)
    bed.take()
    bed.answer(connection="to")
    assert bed.take() == ["meid_map|start", "mme_del|x", "mme_ar|b:1|y", "meid_map|end|2"]


def test_who_is_behind_by_many_changes_gets_everything() -> None:
    """Not all of them are remembered."""
    bed = Bed().synchronised()
    bed.install(table("mse|2|-1|b:1", frame="updatert"))
    bed.take()
    for number in range(MOST_CHANGES + 1):
        bed.install(table(f"mse|3|-1|b:{1 + number}", frame="updatert"))
    bed.answer()
    assert bed.take()[0] == "newrt|start"


def test_a_table_that_is_longer_than_a_message_is_sent_in_pieces_as_there_is_room() -> None:
    """All of one transaction; the clock of the acknowledgement starts with the last."""
    bed = Bed()
    bed.install(table(*(f"mse|{number}|-1|a:1" for number in range(100))))
    bed.free = 3
    bed.ask()
    bed.later(1)
    assert len(bed.sent) == 3
    assert not bed.server.busy
    bed.later(60)
    assert bed.app.state == a.PENDING
    bed.free = 1000
    assert bed.server.busy
    bed.later(0)
    assert not bed.server.busy
    assert len({said.xact for _, said in bed.sent}) == 1
    assert max(len(said.payload) for _, said in bed.sent) < 220
    assert len(bed.take()) == 102
    bed.answer()
    assert bed.app.state == a.OK


def test_applications_that_need_the_same_share_its_text() -> None:
    """A table is written once, however many run it; each has a transaction of its own."""
    bed = Bed()
    bed.install(table("mse|1|-1|a:1"))
    for number in range(20):
        bed.ask(f"c{number}", f"app{number}:1", f"app{number}:2")
    assert len({said.payload for _, said in bed.sent}) == 1
    assert len({said.xact for _, said in bed.sent}) == 20


def test_the_table_in_use_when_serving_begins() -> None:
    """It goes out whole, as does its map."""
    bed = Bed()
    use = Use().apply(table("mse|1|-1|a:1")).apply(owners("mme_ar|a:1|x"))
    bed.server.install(use, None)
    bed.ask()
    assert bed.take()[0] == "newrt|start"
    bed.answer()
    assert bed.take()[0] == "meid_map|start"


def test_a_table_and_a_map_that_are_installed_at_once_both_go_out() -> None:
    """As when a seed of both has changed: who runs the former ones was told of no change of the map."""
    bed = Bed().synchronised()
    bed.use = bed.use.apply(table("mse|1|-1|b:1")).apply(owners("mme_ar|b:1|y", "mme_del|x"))
    bed.server.install(bed.use, None)
    bed.later(0)
    bed.take()
    bed.answer()
    assert bed.take() == ["meid_map|start", "mme_del|x", "mme_ar|b:1|y", "meid_map|end|2"]


def test_a_table_and_an_update_at_once_leave_the_map_alone() -> None:
    bed = Bed().synchronised()
    bed.use = bed.use.apply(table("mse|1|-1|b:1")).apply(table("mse|2|-1|b:1", frame="updatert"))
    bed.server.install(bed.use, None)
    bed.later(0)
    bed.take()
    bed.answer()
    assert (bed.take(), bed.app.state) == ([], a.OK)


def test_a_long_change_of_the_map_goes_out_as_the_whole_map(monkeypatch: pytest.MonkeyPatch) -> None:
    """One text for all: to look for what each of a million entities has become takes too long for each application."""
    monkeypatch.setattr(writing, "LONGEST_UPDATE", 1)
    bed = Bed().synchronised()
    bed.install(owners("mme_ar|b:1|y z", "mme_del|x"))
    assert bed.take() == ["meid_map|start", "mme_del|x", "mme_ar|b:1|y z", "meid_map|end|2"]
    bed.answer()
    bed.install(owners("mme_del|z"))
    assert bed.take() == ["meid_map|start", "mme_del|z", "meid_map|end|1"]


def test_a_failure_at_one_application_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others get their table, and it gets everything once the failure is over."""
    bed, before, send = Bed(), failures.number, Bed.send

    def fails(self: Bed, connection: str, said: Said) -> bool:
        if connection == "c1":
            raise OverflowError("a fault of the router")
        return send(self, connection, said)

    bed.ask()
    bed.ask("c2", "other:4560", "other:4561")
    monkeypatch.setattr(Bed, "send", fails)
    bed.install(table("mse|1|-1|a:1"))
    bed.later(1)
    assert failures.number == before + 1
    assert [connection for connection, _ in bed.sent] == ["c2"] * len(bed.sent) != []
    states = {one.control: (one.state, one.reason) for one in bed.server}
    assert states[CONTROL] == (a.UNKNOWN, "OverflowError in the router, whose log says more")
    monkeypatch.undo()
    bed.sent.clear()
    bed.later(3)
    assert "c1" in [connection for connection, _ in bed.sent]
