"""Messages through workers of source routes, natively, against the same rules in Python.

The message is the same in both: its bare message is the model's payload.
"""

import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from proton import Message

sys.path.insert(0, str(Path(__file__).parent))

from routed import DONE, Answer, RefusedError, Router, build, setup_of
from routed_model import BODY, address_of, encoded, plain, said, shown

from core.source_routes.access import Access
from core.source_routes.address import Address, Route, local, show_route
from core.source_routes.explain import Place, Step, explain
from core.source_routes.message import Limits, State, new_message
from core.source_routes.message import Message as Model
from core.source_routes.metadata import Classes, MetaClass
from core.source_routes.rules import Rules
from core.source_routes.workers import (
    Collapse,
    Count,
    Discovery,
    Extend,
    Forward,
    KeepScopes,
    PayloadUnwrap,
    PayloadWrap,
    Proxy,
    Static,
    Tee,
    ToMarker,
    Unwrap,
    Worker,
    Wrap,
)


@pytest.fixture(scope="module")
def router(tmp_path_factory: pytest.TempPathFactory) -> Router:
    return build(tmp_path_factory.mktemp("routed"))


LIMITS = Limits(hops=12, onward=9, returning=9, nesting=4, meta_keys=5, meta_octets=120)
CLASSES = Classes({"trace": MetaClass.APPEND, "here": MetaClass.LOCAL, "seal": MetaClass.SEALED})
RULES = Rules(LIMITS, CLASSES)
POOL = [local(name) for name in ("a1", "b1", "c2", "d2", "e3", "f3")]
INNER = [local(f"{a}.in") for a in POOL]
FAR = [local("far9"), local("_scope"), Address(64, b"far"), local("na\u00efve")]


# ---- what there may be ----

places = st.sampled_from([*POOL, *POOL, *INNER, *FAR])


def ways(most: int = 3, least: int = 0) -> Any:
    return st.lists(places, min_size=least, max_size=most).map(tuple)


strips = st.one_of(
    st.integers(0, 3).map(Count),
    st.sets(st.sampled_from("1239")).map(lambda scopes: KeepScopes(frozenset(scopes))),
    st.just(ToMarker()),
)
forms = st.sampled_from(["amqp", "amqp", "bare"])
hidden = st.sampled_from(["hide", "copy", ("own",), ("seal", "here")])


def workers(address: Address, inner: Address) -> Any:
    common = {"address": st.just(address), "crosses": st.booleans()}
    tracer = {**common, "trace": st.booleans(), "trace_as": st.one_of(st.none(), places)}
    routed = {"route": ways(least=1)}
    return st.one_of(
        st.builds(Forward, **tracer),
        st.builds(Static, **common, **routed),
        st.builds(Proxy, **common, **routed, inner=st.just(inner)),
        st.builds(Extend, **tracer, **routed, marker=st.booleans()),
        st.builds(Collapse, **tracer, strip=strips),
        st.builds(PayloadWrap, **tracer, route=ways()),
        st.builds(PayloadUnwrap, **tracer),
        st.builds(Wrap, **common, **routed, returning=ways(), form=forms, metadata=hidden),
        st.builds(Unwrap, **tracer, form=forms, metadata=st.sampled_from(["restore", "merge"])),
        st.builds(Tee, **tracer, **routed),
        st.builds(
            Discovery,
            **common,
            **routed,
            inner=st.just(inner),
            uplinks=st.sampled_from([frozenset(), frozenset({"uplink:cloud"})]),
            strip=st.one_of(st.none(), strips),
            form=forms,
            metadata=hidden,
        ),
    )


SOURCES = ["local", "user:x", "uplink:cloud", "worker:a1", "worker:b1"]
listed = st.sets(st.sampled_from(SOURCES)).map(frozenset)


@st.composite
def routers(draw: Any) -> Place:
    found: list[Worker] = [draw(workers(a, i)) for a, i in zip(POOL, INNER, strict=True)]
    by_address = {address: worker for worker in found for address in worker.addresses}
    access = Access(
        draw(st.dictionaries(st.sampled_from(POOL[:2]), listed, max_size=1)),
        draw(st.dictionaries(st.sampled_from(POOL), st.sets(places).map(frozenset), max_size=1)),
    )
    return Place("", by_address, access, RULES)


metas = st.fixed_dictionaries(
    {},
    optional={
        "trace": st.lists(st.sampled_from(["z", "a1"]), max_size=2).map(tuple),
        "own": st.sampled_from(["text", b"octets", 7, True, ("x", 1)]),
        "here": st.just("hidden"),
        "seal": st.just(b"sealed"),
    },
)


@st.composite
def messages(draw: Any) -> Model:
    return Model(
        draw(ways(6, 1)),
        draw(ways(4)),
        BODY,
        tracing=draw(st.sampled_from([None, None, "context", "\u00e9" * 70])),
        state=draw(st.sampled_from(list(State))),
        hops=draw(st.integers(0, 3)),
        meta=draw(metas),
    )


# ---- between the two ----


def told(message: Model, source: frozenset[str], place: Place) -> list[Step]:
    """The end of the message, and of its copies, as the model sees it."""
    steps = list(explain(message, source, (place,)))
    if len(steps) >= 400:
        assume(False)
    return [step for step in steps if step.refused is not None or step.arrived is not None]


def is_body(octets: bytes) -> bool:
    message = Message()
    message.decode(octets)
    return plain(message.body) == b"ping"


def outcome(router: Router, message: bytes, source: frozenset[str] = frozenset({"user:x"})) -> Answer | str:
    """What becomes of a message: the reason, if it is refused."""
    try:
        return router(message, source)
    except RefusedError as refused:
        return refused.reason


def agree(router: Router, place: Place, message: Model, source: frozenset[str]) -> None:
    """The same leaves the router as the model says, copies too, or it is refused for the same reason."""
    router.load(setup_of(place))
    ends = told(message, source, place)
    first = next(end for end in ends if not end.copy)
    found = outcome(router, encoded(message), source)
    if first.arrived is None or isinstance(found, str):
        assert first.refused is not None
        assert found == first.refused.reason.label
        return
    assert found.result == DONE
    if found.visits:
        assert said(found.octets) == shown(first.arrived)
        assert found.first.decode() == str(first.arrived.onward[0])
        copies = [shown(end.arrived) for end in ends if end.copy and end.arrived is not None]
        assert sorted(map(repr, map(said, found.copies))) == sorted(map(repr, copies))
    if first.arrived.payload == BODY:
        assert is_body(found.octets)


# ---- what holds ----


@settings(max_examples=150, deadline=None)
@given(place=routers(), message=messages(), source=st.sampled_from(["user:x", "uplink:cloud"]))
def test_a_chain_is_what_the_model_says(router: Router, place: Place, message: Model, source: str) -> None:
    """Any workers, any routes: the same message leaves, or it is refused for the same reason."""
    agree(router, place, message, frozenset({source}))


@settings(max_examples=60, deadline=None)
@given(place=routers(), message=messages())
def test_hop_by_hop_is_all_at_once(router: Router, place: Place, message: Model) -> None:
    """Each worker in a process of its own, so that wrapped messages are written and read: as if in one."""
    place = Place("", place.workers, Access(), RULES)
    assume(not any(isinstance(worker, Tee) for worker in place.workers.values()))
    router.load(setup_of(place))
    whole = outcome(router, encoded(message))
    now = encoded(message)
    while (worker := place.workers.get(address_of(first_of(now)))) is not None:
        router.load(setup_of(Place("", dict.fromkeys(worker.addresses, worker), Access(), RULES)))
        assume(not set(worker.addresses) & set(getattr(worker, "route", ())))
        assume(not set(worker.addresses) & set(message.onward[1:]))
        found = outcome(router, now)
        if isinstance(found, str):
            assert whole == found
            return
        now = found.octets
    assert not isinstance(whole, str)
    assert said(now) == said(whole.octets)


METADATA: dict[str, Any] = {"trace": ("z",), "own": "mine", "here": 5, "seal": b"s"}


@pytest.mark.parametrize("form", ["amqp", "bare"])
@pytest.mark.parametrize("option", ["restore", "merge"])
@pytest.mark.parametrize("hiding", ["hide", "copy", ("own",), ("seal", "here")])
def test_metadata_at_a_wrapper_and_its_unwrapper(router: Router, form: Any, option: Any, hiding: Any) -> None:
    """With a forwarder between; at once, and each in a process of its own."""
    wrap = Wrap(address=local("w"), route=(local("x"), local("u")), form=form, metadata=hiding)
    unwrap = Unwrap(address=local("u"), form=form, metadata=option, trace=True)
    chain: list[Worker] = [wrap, Forward(address=local("x")), unwrap]
    place = Place("", {worker.address: worker for worker in chain}, Access(), RULES)
    message = new_message((local("w"), local("end")), (local("me"),), BODY)._replace(meta=METADATA)
    agree(router, place, message, frozenset({"user:x"}))
    now = encoded(message)
    for worker in chain:
        router.load(setup_of(Place("", {worker.address: worker}, Access(), RULES)))
        now = router(now).octets
    (end,) = told(message, frozenset({"user:x"}), place)
    assert end.arrived is not None
    assert said(now) == shown(end.arrived)


def first_of(octets: bytes) -> Any:
    message = Message()
    message.decode(octets)
    return plain(message.annotations["x-opt-route.onward"][0])


@settings(max_examples=60, deadline=None)
@given(kinds=st.lists(st.sampled_from(["trace", "pair", "bare"]), min_size=1, max_size=5))
def test_the_sender_sees_its_own_onward_route(router: Router, kinds: list[str]) -> None:
    """Through tracers and pairs of wrapper and unwrapper: a reply finds its way, and its return route is the
    onward route of the question."""
    names = [f"w{n}" for n in range(len(kinds))]
    found: list[Worker] = []
    for name, kind in zip(names, kinds, strict=True):
        if kind == "trace":
            found.append(Forward(address=local(name), trace=True))
            continue
        form: Any = "bare" if kind == "bare" else "amqp"
        found.append(Wrap(address=local(name), route=(local(f"{name}.u"),), form=form))
        unwrap = Unwrap(address=local(f"{name}.u"), trace=True, trace_as=local(name), form=form)
        found.append(unwrap)
    router.load(setup_of(Place("", {worker.address: worker for worker in found})))
    question = new_message((*map(local, names), local("bob")), (local("alice"),), BODY)
    there = said(router(encoded(question)).octets)
    assert there[0] == "bob"
    back: Route = tuple(map(local, there[1].split("=>")))
    answer = said(router(encoded(new_message(back, (local("bob"),), BODY))).octets)
    assert answer[:2] == ("alice", show_route(question.onward))
    assert answer[2] == "complete"
