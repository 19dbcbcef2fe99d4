"""Names and links of the flow log against plain models: what is read is right, or known to be gone."""

from hypothesis import given, settings
from hypothesis import strategies as st

from core.forwarder.link_terms import LinkTerms
from shm import native as n
from tests.support.beds import flow as flow_bed

TEXTS = st.binary(min_size=1, max_size=20) | st.binary(min_size=240, max_size=300)


class Bed(flow_bed.Bed):
    """Both sides of telemetry, and lives of the core."""

    def __init__(self) -> None:
        super().__init__()
        self.generation = 1
        self.reads = self.reader()

    def next_core(self) -> None:
        """The next life of the core."""
        self.generation += 1
        self.core(self.generation)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(TEXTS, st.booleans()), max_size=60), st.integers(0, 60))
def test_a_number_is_a_text(names: list[tuple[bytes, bool]], dies: int) -> None:
    """A pinned text keeps its number; each number reads as its text, in later lives of the core, too."""
    bed = Bed()
    known: dict[bytes, int] = {}
    seen: dict[int, bytes] = {}
    for at, (text, pinned) in enumerate(names):
        if at == dies:
            bed.next_core()
            known.clear()
        number = bed.telemetry.name(text)
        assert number
        assert known.setdefault(text, number) == number
        seen[number] = text
        if not pinned:
            bed.telemetry.forget(number)
    for number, text in seen.items():
        found = bed.reads.name(number)
        assert found is not None
        assert found == text if len(text) <= 248 else (found[:231] == text[:231] and len(found) == 248)
    cut = [text for text in set(seen.values()) if len(text) > 248]
    assert len({bed.reads.name(known.get(text, 0)) for text in cut if text in known}) == len(
        [text for text in cut if text in known]
    )


def test_a_place_used_again_is_known_to_be_gone() -> None:
    """All places are used once more: the old number says nothing, a pinned one stands."""
    bed = Bed()
    pinned, other = bed.telemetry.name(b"pinned"), bed.telemetry.name(b"other")
    bed.telemetry.forget(other)
    for i in range(70_000):
        bed.telemetry.forget(bed.telemetry.name(b"text %d" % i))
    assert bed.reads.name(pinned) == b"pinned"
    assert bed.reads.name(other) is None
    assert bed.telemetry.name(b"pinned") == pinned
    assert bed.telemetry.name(b"other") != other


def test_a_quarter_of_the_places_is_never_pinned() -> None:
    """Then there is no name to keep, and nothing else changes: one that is forgotten makes room for another."""
    bed = Bed()
    numbers = [bed.telemetry.name(b"%d" % i) for i in range(50_000)]
    first = next(i for i, number in enumerate(numbers) if not number)
    assert first == 3 * (1 << 16) // 4 - 1  # the router's own name is pinned, too
    assert all(numbers[:first])
    assert not any(numbers[first:])
    assert bed.reads.name(numbers[0]) == b"0"
    assert bed.telemetry.name(b"7") == numbers[7]
    bed.telemetry.forget(numbers[7])
    assert not bed.telemetry.name(b"one more")
    bed.telemetry.forget(numbers[7])
    assert bed.telemetry.name(b"one more")


@settings(deadline=None, max_examples=60)
@given(st.lists(st.sampled_from(["attach", "detach"]), max_size=40))
def test_links_are_read_as_written(steps: list[str]) -> None:
    """A link's number reads as that link while it is there, and for long after."""
    bed = Bed()
    address = bed.forwarder.add_address(1)
    written: dict[int, tuple[int, int, int, int, int, int]] = {}
    there: list[tuple[int, int]] = []
    for at, step in enumerate(steps):
        if step == "attach":
            assert bed.forwarder.add_link(0, at, 1, LinkTerms(True, address, 10))
            container = bed.telemetry.name(b"c%d" % (at % 3))
            user, host = bed.telemetry.name(b"u%d" % (at % 2)), bed.telemetry.name(b"h%d" % (at % 4))
            number = bed.telemetry.add_link(
                0, at, 1, connection=at, number=at + 100, container=container, kind=at % 5, user=user, host=host
            )
            assert number
            assert number not in written
            written[number] = (at, at + 100, container, at % 5, user, host)
            there.append((at, number))
        elif there:
            link, number = there.pop(0)
            bed.forwarder.remove_link(0, link, 1)
            bed.telemetry.drop_link(number)
    assert {number: bed.reads.link(number) for number in written} == written


def test_nonsense_is_not_read() -> None:
    """Numbers of nothing, and a head that makes no sense."""
    bed = Bed()
    for number in (0, 1, 0xFFFF, 0xFFFFFFFF, 5 << 16 | 40_000):
        assert bed.reads.name(number) is None
        assert bed.reads.link(number) is None
    bed.flow[64:72] = b"\xff" * 8
    assert bed.reads.waiting() == 0
    assert bed.reads.read(n.FlowColumns(10), 0) == 0
