"""Routers with workers of source routes, and messages, at random."""

from functools import cache
from typing import Any

from hypothesis import strategies as st

from routerd.source_routes.address import Address, local
from tests.model.routed import BODY
from tests.model.source_routes.access import Access
from tests.model.source_routes.message import Message as Model
from tests.model.source_routes.message import State
from tests.model.source_routes.place import Classes, Limits, MetaClass, Place, Rules
from tests.model.source_routes.workers import (
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

LIMITS = Limits(hops=12, onward=9, returning=9, nesting=4, meta_keys=5, meta_octets=120)
CLASSES = Classes({"trace": MetaClass.APPEND, "here": MetaClass.LOCAL, "seal": MetaClass.SEALED})
RULES = Rules(LIMITS, CLASSES)
POOL = [local(name) for name in ("a1", "b1", "c2", "d2", "e3", "f3")]
INNER = [local(f"{a}.in") for a in POOL]
FAR = [local("far9"), local("_scope"), Address(64, b"far"), local("na\u00efve")]


places = st.sampled_from([*POOL, *POOL, *INNER, *FAR])


def paths(most: int = 3, least: int = 0) -> Any:
    return st.lists(places, min_size=least, max_size=most).map(tuple)


strips = st.one_of(
    st.integers(0, 3).map(Count),
    st.sets(st.sampled_from("1239")).map(lambda scopes: KeepScopes(frozenset(scopes))),
    st.just(ToMarker()),
)
forms = st.sampled_from(["amqp", "amqp", "bare"])
hidden = st.sampled_from(["hide", "copy", ("own",), ("seal", "here")])


@cache
def workers(address: Address, inner: Address, forms: Any = forms) -> Any:
    """Any worker of these two addresses; made once, since making it takes longer than drawing from it."""
    common = {"address": st.just(address), "crosses": st.booleans()}
    tracer = {**common, "trace": st.booleans(), "trace_as": st.one_of(st.none(), places)}
    routed = {"route": paths(least=1)}
    return st.one_of(
        st.builds(Forward, **tracer),
        st.builds(Static, **common, **routed),
        st.builds(Proxy, **common, **routed, inner=st.just(inner)),
        st.builds(Extend, **tracer, **routed, marker=st.booleans()),
        st.builds(Collapse, **tracer, strip=strips),
        st.builds(PayloadWrap, **tracer, route=paths()),
        st.builds(PayloadUnwrap, **tracer),
        st.builds(Wrap, **common, **routed, returning=paths(), form=forms, metadata=hidden),
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
def routers(draw: Any, forms: Any = forms) -> Place:
    found: list[Worker] = [draw(workers(a, i, forms)) for a, i in zip(POOL, INNER, strict=True)]
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
        draw(paths(6, 1)),
        draw(paths(4)),
        BODY,
        tracing=draw(st.sampled_from([None, None, "context", "\u00e9" * 70])),
        state=draw(st.sampled_from(list(State))),
        hops=draw(st.integers(0, 3)),
        meta=draw(metas),
    )
