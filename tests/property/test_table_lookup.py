"""The forwarder's route tables against the plain rules of core.rmr.tables.lookup."""

from collections import defaultdict

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.rmr.tables.lookup import Question, explain
from core.rmr.tables.parser import Parser
from core.rmr.tables.table import MeidMap, Table
from tests.model.table_site import TableSite

ENDPOINTS = ["a:1", "b:1", "c:1", "d:2"]
TYPES, SUBSCRIPTIONS = st.integers(100, 103), st.integers(-1, 2)
GROUPS = st.one_of(
    st.just("%meid"),
    st.lists(st.lists(st.sampled_from(ENDPOINTS), min_size=1, max_size=3).map(",".join), min_size=1, max_size=3).map(
        ";".join
    ),
)
SENDERS = st.lists(st.sampled_from(ENDPOINTS[:2]), max_size=2, unique=True)


@st.composite
def records(draw: st.DrawFn) -> list[str]:
    """Entries and deletions, as they may stand in a table."""
    found = []
    for _ in range(draw(st.integers(1, 12))):
        head = ",".join([str(draw(TYPES)), *draw(SENDERS)])
        subscription = draw(SUBSCRIPTIONS)
        if draw(st.integers(0, 4)):
            found.append(f"mse|{head}|{subscription}|{draw(GROUPS)}")
        else:
            found.append(f"del|{head}|{subscription}")
    return found


QUESTIONS = st.lists(
    st.tuples(TYPES, SUBSCRIPTIONS, st.sampled_from(["m1", "m2", ""]), st.sampled_from(["", *ENDPOINTS])),
    min_size=1,
    max_size=15,
)
OWNERS = "meid_map|start|m\nmme_ar|a:1|m1\nmeid_map|end|1\n"


def framed(rows: list[str], kind: str = "newrt") -> str:
    return "\n".join([f"{kind}|start|t", *rows, f"{kind}|end|{len(rows)}", ""])


class Model:
    """Where messages go by the table alone, with a turn for each entry."""

    def __init__(self, text: str, alive: set[str]) -> None:
        self.owners: dict[str, str] = {}
        self.alive = alive
        for result in Parser().feed(text):
            if isinstance(result, Table):
                self.table = result
            elif isinstance(result, MeidMap):
                self.owners = result.owners
        self.turns: dict[tuple[int, int, tuple[str, ...]], int] = defaultdict(int)

    def route(self, asked: Question) -> list[str]:
        """Who gets a copy."""
        found = explain(self.table, self.owners, asked)
        if found.entry is None:
            return []
        key = found.entry.message_type, found.entry.subscription, found.entry.senders
        turn = self.turns[key]
        self.turns[key] += 1
        if found.entry.groups.by_meid:
            return [one for (one,) in found.groups if one in self.alive]
        living = [[one for one in group if one in self.alive] for group in found.groups]
        return [group[turn % len(group)] for group in living if group]


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(records(), records(), st.sets(st.sampled_from(ENDPOINTS), min_size=1), QUESTIONS, QUESTIONS)
def test_every_message_goes_where_the_rules_say(
    rows: list[str],
    more: list[str],
    alive: set[str],
    before: list[tuple[int, int, str, str]],
    after: list[tuple[int, int, str, str]],
) -> None:
    """Key and fallback, senders, deletions, MEIDs, own endpoints, turns; and the same after an update.

    An update is the same as a table with its records behind those there were.
    """
    site = TableSite()
    site.table(framed(rows) + OWNERS)
    receivers = {name: site.receiver(name) for name in sorted(alive)}
    link = site.sender()
    for model, questions in (
        (Model(framed(rows) + OWNERS, alive), before),
        (Model(framed(rows + more) + OWNERS, alive), after),
    ):
        for number, (mt, sid, meid, source) in enumerate(questions):
            site.give(link, number, mt, sid, meid, source)
            taken = {name: len(one.got) for name, one in receivers.items() if one.got}
            wanted = model.route(Question(mt, sid, meid, source))
            assert taken == {name: wanted.count(name) for name in wanted}
            for one in receivers.values():
                one.got.clear()
        update = site.table(framed(more, "updatert"))
        assert [one.ok for one in update] == [True]
        site = TableSite()  # with turns of its own: the model of the whole has none from before
        site.table(framed(rows) + OWNERS)
        site.table(framed(more, "updatert"))
        receivers = {name: site.receiver(name) for name in sorted(alive)}
        link = site.sender()
    assert site.core.forwarder.counts()["incoming"] == 0
