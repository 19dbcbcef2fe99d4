"""What a supervisor of one version says to processes of the next: a rolling restart keeps it (docs/operations.md)."""

from typing import get_args

from msgspec import inspect

from shm.contract.control import FromChild, ToChild

TO_CHILD = """ChangeAddresses ChangeManagement ChangeReply CloseConnections CoreBack CoreGone Exit SetAddresses
SetConnectors SetFlow SetLinkRoutes SetListeners SetLogs SetManagement SetPolicy SetRouting SetSourceRoutes SetTables
SetTracing Setup StopAccepting WorkerAdded WorkerGone"""
FROM_CHILD = "Alive Answered ChangeRequest Closed Drained Fatal Quiesced Ready WorkerReclaimed"


def tags(union: object) -> list[str]:
    kinds = [inspect.type_info(one) for one in get_args(union)]
    return sorted(str(one.tag) for one in kinds if isinstance(one, inspect.StructType))


def test_messages_keep_their_names_on_the_wire() -> None:
    """A class may be renamed; its tag may not: the other side would take the message for the end of the router."""
    assert tags(ToChild) == TO_CHILD.split()
    assert tags(FromChild) == FROM_CHILD.split()
