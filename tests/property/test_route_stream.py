"""Tables in messages: any of them, in any order."""

from hypothesis import given
from hypothesis import strategies as st

from core.rmr.managers.messages import Heard
from core.rmr.managers.stream import Stream
from core.rmr.tables.decoding import octets_of
from tests.support.beds.rmr.stream import Bed

RECORDS = st.sampled_from(
    [
        "newrt|start|a", "newrt|start|b", "newrt|end", "newrt|end|1", "newrt|end|2", "mse|1|-1|a:1",
        "mse|2|-1|b:1", "updatert|start|c", "updatert|end|1", "del|1|-1", "meid_map|start|m",
        "meid_map|end|1", "mme_ar|a:1|x", "mme_del|x", "rubbish", "mse|x|y", "# c", "", "\r",
        "newrt", "|||", "mse|1|-1|a:1\0newrt|end|1", "newrt|start|K\udcf6ln", "mme_ar|a:1|\udcff\udcfe",
        "mme_del|\udcff", f"mse|{'9' * 5000}|-1|a:1", f"newrt|end|{'9' * 5000}",
        "mse|1|-1|\udced\udca0\udc80:1",
    ]
)  # fmt: skip


@given(st.lists(st.tuples(st.lists(RECORDS, max_size=6), st.booleans()), max_size=12), st.booleans())
def test_never_a_half_installed_table_nor_a_lost_old_one(
    messages: list[tuple[list[str], bool]], compatible: bool
) -> None:
    """Whatever comes, what is in use is what the last OK said; each ERR leaves it as it was."""
    bed = Bed(compatible)
    uses = [bed.use]

    def hear(_: Heard, __: str, reason: str) -> None:
        if reason:
            assert bed.use is uses[-1]
        else:
            assert bed.use is not uses[-1]
            uses.append(bed.use)

    bed.hear = hear  # type: ignore[method-assign]  # the test's own
    bed.stream = Stream(bed.install, lambda: True, lambda _, said: bed.said.append(said), hear, compatible, bed.held)
    for lines, ended in messages:
        before = len(bed.said), len(uses)
        bed.send(octets_of("\n".join(lines) + ("\n" if ended else "")))
        said = [one.payload[:3] for one in bed.said[before[0] :]]
        assert said.count(b"OK ") == len(uses) - before[1]
        assert set(said) <= {b"OK ", b"ERR"}
    bed.stream.lost()
    assert bed.use is uses[-1]
    assert bed.stream.finished
    assert bed.held.octets == 0
