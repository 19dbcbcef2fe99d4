"""Workers of source routes: wrapped messages in pieces of any size, tables, counts."""

import pytest
from proton import Message, symbol

from routerd.source_routes.address import local
from tests.model.routed import BODY, encoded, said
from tests.model.source_routes.message import new_message
from tests.model.source_routes.place import Place
from tests.model.source_routes.setup import setup_of
from tests.model.source_routes.workers import Forward, Unwrap, Worker, Wrap
from tests.support.native.routed import DONE, MORE, PASS, RefusedError, Router
from workers.source_routes.table import Sources, compiled

LONG = bytes(range(256)) * 20
WHOLE = 1 << 20  # octets of a message that may come before its payload
STEP = 100  # octets that come at a time


@pytest.mark.parametrize("step", [1, 7, 4096])
@pytest.mark.parametrize("form", [1, 2, 3])
def test_wrapped_and_opened_piece_by_piece(router: Router, step: int, form: int) -> None:
    """One to three wrappers around each other, put around and taken off while the message arrives in pieces
    of any size: the bare message stays as it is, octet for octet."""
    opens: list[Worker] = [Unwrap(address=local(f"u{n}")) for n in range(form)]
    message = Message(body=LONG, inferred=True, subject="s")
    message.annotations = {symbol("x-opt-route.onward"): ["w0", "end"]}
    whole = bytes(message.encode())
    nexts = [*(f"w{n}" for n in range(1, form)), "x"]
    wraps = [Wrap(address=local(f"w{n}"), route=(local(then), local(f"u{n}"))) for n, then in enumerate(nexts)]
    router.load(setup_of(Place("", {worker.address: worker for worker in wraps})))
    wrapped = in_pieces(router, whole, 300, step)
    assert said(wrapped)[4] == form
    assert said(wrapped)[0] == f"x=>u{form - 1}"
    opens.append(Forward(address=local("x")))
    router.load(setup_of(Place("", {worker.address: worker for worker in opens})))
    opened = in_pieces(router, wrapped, 900, step)
    assert said(opened)[0] == "end"
    assert opened[opened.index(b"\x00Ss") :] == whole[whole.index(b"\x00Ss") :]


def in_pieces(router: Router, message: bytes, first: int, step: int) -> bytes:
    """A message whose first octets come together, and the others in steps."""
    found = router(message[:first], complete=False)
    assert found.result == DONE
    out = found.octets
    for start in range(first, len(message), step):
        out += router.piece(message[start : start + step])
    assert router.piece(b"") == b""
    return out


def test_what_is_cut_short_is_noticed_at_its_end(router: Router) -> None:
    """A data section that promises more than comes, or something that is no data."""
    router.load(setup_of(Place("", {local("w"): Wrap(address=local("w"), route=(local("u"),))})))
    message = new_message((local("w"), local("end")), (), BODY)
    wrapped = router(encoded(message)).octets
    router.load(setup_of(Place("", {local("u"): Unwrap(address=local("u"))})))
    assert router(wrapped[:-2], complete=False).result == DONE
    assert router.piece(wrapped[-2:-1]) != b""
    with pytest.raises(ValueError, match="-2"):
        router.piece(b"")
    assert router(wrapped[:-2], complete=False).result == DONE
    with pytest.raises(ValueError, match="-1"):
        router.piece(wrapped[-2:] + b"\x00Sw\xa1\x01x")
    with pytest.raises(RefusedError, match="bad-encoding"):
        router(wrapped[:-2])
    assert router(wrapped[: wrapped.index(b"\x00Su") + 40], complete=False).result == MORE


@pytest.mark.parametrize("between", [b"\x00Su\xa0\x00", b"\x00Ss\xc0\x01\x00"], ids=["data", "properties"])
def test_what_has_no_payload_is_looked_at_a_few_times(router: Router, between: bytes) -> None:
    """However small its pieces are; with 1 MiB of it the message is refused."""
    router.load(setup_of(Place("", {local("u"): Unwrap(address=local("u"))})))
    message = encoded(new_message((local("u"),), (), BODY))
    octets = message[: message.index(b"\x00Su")] + between * (WHOLE // len(between))
    need, looks = 0, 0
    for size in range(300, WHOLE, STEP):
        if size < need:
            continue
        answer = router(octets[:size], complete=False)
        assert answer.result == MORE
        assert answer.need > size
        need, looks = answer.need, looks + 1
    assert looks < 100
    with pytest.raises(RefusedError, match="message-octets"):
        router(octets[:WHOLE], complete=False)


def test_what_is_needed_of_a_section_is_its_end(router: Router) -> None:
    router.load(setup_of(Place("", {local("u"): Unwrap(address=local("u"))})))
    message = encoded(new_message((local("u"),), (), BODY))
    front = message[: message.index(b"\x00Su")]
    octets = front + b"\x00Ss\xd0" + (100_000).to_bytes(4, "big") + bytes(20_000)
    assert router(octets, complete=False).need == len(front) + 8 + 100_000


def test_a_table_that_makes_no_sense_is_not_taken(router: Router) -> None:
    """Cut short anywhere, or with more behind its end."""
    place = Place("", {local("w"): Wrap(address=local("w"), route=(local("u"),))})
    setup = setup_of(place)
    table = compiled(setup, Sources(setup.workers))
    assert router.table(table)
    assert not any(router.table(table[:size]) for size in range(len(table)))
    assert not router.table(table + b"\0")


def test_counts_are_kept_by_address(router: Router) -> None:
    """In, out, refused; a table that has the worker still goes on counting."""
    place = Place("", {local("count"): Forward(address=local("count"))})
    router.load(setup_of(place))
    before = router.counts(0)
    for onward in ("count far", "count far", "count"):
        message = new_message(tuple(map(local, onward.split())), (), BODY)
        if len(message.onward) > 1:
            assert router(encoded(message)).result == DONE
            continue
        with pytest.raises(RefusedError, match="no-next"):
            router(encoded(message))
    router.load(setup_of(place))
    now = router.counts(0)
    assert [b - a for a, b in zip(before, now, strict=True)] == [3, 2, 1]


def test_what_is_for_no_worker_passes(router: Router) -> None:
    router.load(setup_of(Place("", {local("w"): Forward(address=local("w"))})))
    plain = bytes(Message(body=b"ping", inferred=True, address="q").encode())
    assert router(plain).result == PASS
    assert router(plain, target="q").result == PASS
    transit = encoded(new_message((local("w"), local("far")), (), BODY), address="elsewhere")
    assert router(transit, frozenset({"uplink:r"}), inter_router=True).result == PASS
