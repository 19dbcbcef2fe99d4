"""Who gets tables from a router that serves them: how many, and whereto it connects for them."""

from core.rmr.managers.messages import REQUEST, STATE, Heard, request, state
from core.rmr.managers.server import FORGOTTEN, Limits, Server
from tests.support.beds.rmr.table_server import APP, CONTROL, Bed, S, table


def test_a_host_and_all_hosts_together_have_so_many_applications() -> None:
    """Who is one too many is told why, and is connected to by nobody; those that are known go on."""
    bed = Bed()
    bed.server = Server("me1", "", bed, bed.hear, Limits(4, 3))
    bed.install(table("mse|1|-1|a:1"))
    asked = [bed.ask(f"c{number}", f"app:{number}", f"app:{number}") for number in range(1, 5)]
    assert asked == ["", "", "", "its host has 3 applications already (maxApplicationsPerHost)"]
    assert bed.ask("c1", "app:1", "app:1") == ""
    for number, why in ((5, ""), (6, "the router knows 4 applications already (maxApplications)")):
        heard = Heard(REQUEST, f"b:{number}", request(f"b:{number}", 1), f"c{number}", "10.0.0.2:40000")
        assert bed.server.requested(heard, heard.source, bed.now) == why
    assert len(list(bed.server)) == 4


def test_an_application_is_connected_to_where_it_may_be() -> None:
    """That is no longer where it asked from before, and nowhere if there is no such place."""
    bed = Bed()
    heard = Heard(REQUEST, CONTROL, request(APP, 1), "c1", "10.0.0.1:40000")
    bed.server.requested(heard, "10.0.0.1:4561", bed.now)
    bed.server.lost("c1", bed.now)
    assert bed.reached["10.0.0.1:4561"]
    bed.server.requested(heard._replace(answer="c2"), "", bed.now)
    bed.server.lost("c2", bed.now)
    assert bed.reached == {"10.0.0.1:4561": False}


def test_a_configured_application_may_ask_when_there_are_as_many_as_may_be() -> None:
    """`pushTo` names it, and its place is not one of theirs."""
    bed = Bed()
    bed.server = Server("me1", "", bed, bed.hear, Limits(1, 1))
    bed.server.know("", "fixed:1", "fixed:1", fixed=True)
    assert bed.ask("c1", "app:1", "app:1") == ""
    assert bed.ask("c2", "fixed:4560", "fixed:1") == ""
    assert bed.ask("c3", "app:2", "app:2")


def acknowledge(bed: Bed, number: int) -> None:
    """Application `app:number` runs what it was sent."""
    (text,) = {one.table.text.table_id for one in bed.server if one.control == f"app:{number}" and one.table.text}
    bed.server.answered(Heard(STATE, f"app:{number}", state(text, ""), f"c{number}"), bed.now)


def test_who_has_gone_without_an_acknowledgement_makes_room() -> None:
    """The one that has been gone for longest first; who is connected or has acknowledged something stays."""
    bed = Bed()
    bed.server = Server("me1", "", bed, bed.hear, Limits(100, 3))
    bed.install(table("mse|1|-1|a:1"))
    for number in (1, 2, 3):
        assert bed.ask(f"c{number}", f"app:{number}", f"app:{number}") == ""
    acknowledge(bed, 1)
    for number in (1, 3, 2):
        bed.server.lost(f"c{number}", bed.now)
    assert bed.ask("c4", "app:4", "app:4") == ""
    assert bed.reached["app:3"] is False
    assert bed.ask("c5", "app:5", "app:5") == ""
    assert [one.control for one in bed.server] == ["app:1", "app:4", "app:5"]
    assert "maxApplicationsPerHost" in bed.ask("c6", "app:6", "app:6")
    bed.later(2 * FORGOTTEN / S)
    assert "app:1" not in [one.control for one in bed.server]


def test_an_idle_application_of_any_host_makes_room() -> None:
    bed = Bed()
    bed.server = Server("me1", "", bed, bed.hear, Limits(2, 2))
    for number in (1, 2):
        assert bed.ask(f"c{number}", f"app:{number}", f"app:{number}") == ""
    other = Heard(REQUEST, "b:1", request("b:1", 1), "c3", "10.0.0.2:40000")
    assert "maxApplications" in bed.server.requested(other, "b:1", bed.now)
    bed.server.lost("c2", bed.now)
    assert bed.server.requested(other, "b:1", bed.now) == ""
    assert [one.control for one in bed.server] == ["app:1", "b:1"]
