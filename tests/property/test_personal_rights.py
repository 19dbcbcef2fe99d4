"""What `${user}` in a policy stands for, however a user's name is spelled: no other user's addresses."""

from typing import Final

from hypothesis import assume, given
from hypothesis import strategies as st

from core.links.rights import AddressRights
from shm.contract.spelling import strip_spelling
from workers.control.policy import USER, personal

PARTS: Final = st.lists(st.sampled_from(["amqp:", "/", ".", "a", "b", "*", "#"]), min_size=1, max_size=5)
USERS: Final = PARTS.map("".join)
ENTRIES: Final = st.sampled_from(
    ["${user}", "q.${user}", "${user}.q", "${user}/q", "/${user}.q", "amqp:/${user}/q", "amqp://h/${user}"]
)  # fmt: skip
SPELLINGS: Final = ("", "/", "amqp:/", "amqp://h/")


@given(ENTRIES, USERS, USERS)
def test_no_user_has_the_addresses_of_another(entry: str, one: str, other: str) -> None:
    """As another spelling, or by what another reader takes for one."""
    assume(one != other)
    rights = AddressRights(personal([entry], one), [])
    theirs = strip_spelling(entry).replace(USER, other)
    for spelled in personal([entry], other) and [f"{prefix}{theirs}" for prefix in SPELLINGS]:
        assert not rights.allow(spelled) or strip_spelling(spelled) != theirs


@given(ENTRIES, USERS)
def test_a_user_has_no_address_without_the_own_name(entry: str, user: str) -> None:
    """Not all addresses either, as one called `amqp:` would have by `${user}/*`."""
    for own in (entry, f"{entry}*", f"{entry}/*"):
        rights = AddressRights(personal([own], user), [])
        assert not any(rights.allow(address) for address in ("", "q", "qq", "q/q", "c", "/c", "amqp:/c/q"))


@given(ENTRIES, st.sampled_from(["ann", "a.b", "CN=ann", "svc/host@REALM", "a b"]))
def test_an_ordinary_name_has_the_own_address_in_each_spelling(entry: str, user: str) -> None:
    rights = AddressRights(personal([entry], user), [])
    own = strip_spelling(entry).replace(USER, user)
    assert all(rights.allow(f"{prefix}{own}") for prefix in SPELLINGS)
