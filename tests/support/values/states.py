"""States of deliveries, as the processes give them to each other: as octets (AMQP 1.0 part 3.4)."""

from typing import Any

from proton import Data


def condition_of(octets: bytes) -> str:
    """The condition of a rejected state."""
    data = Data()
    data.decode(octets)
    data.rewind()
    data.next()
    state: Any = data.get_object()
    return str(state.value[0].value[0])
