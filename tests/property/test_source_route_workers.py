"""Messages through workers of source routes, natively, against the same rules in Python.

The message is the same in both: its bare message is the model's payload.
"""

from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from proton import Message

from routerd.cli import route_steps as steps
from routerd.source_routes.address import local
from tests.model.routed import BODY, address_of, encoded, plain, said, shown
from tests.model.routed_worlds import RULES, messages, routers
from tests.model.source_routes.access import Access
from tests.model.source_routes.explain import Step, explain
from tests.model.source_routes.message import Message as Model
from tests.model.source_routes.message import new_message
from tests.model.source_routes.place import Place
from tests.model.source_routes.setup import setup_of
from tests.model.source_routes.workers import Forward, Tee, Unwrap, Worker, Wrap
from tests.support.native.routed import DONE, Answer, RefusedError, Router

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
def test_each_step_is_what_the_model_says(place: Place, message: Model, source: str) -> None:
    """What the command line tells of a message and of its copies, one worker at a time."""
    sent = new_message(message.onward, message.returning, b"")
    expected = [
        (step.copy, step.message.onward, step.message.returning, step.message.state.value,
         step.refused.reason.label if step.refused else "", step.arrived is not None)
        for step in explain(sent, frozenset({source}), (place,))
    ]  # fmt: skip
    found = [
        (step.copy, step.onward, step.returning, step.state, step.refused, step.arrived)
        for step in steps.explain(
            message.onward, message.returning, frozenset({source}), [steps.Router("", setup_of(place))]
        )
    ]
    assert found[: len(expected)] == expected


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
