"""A Python target fails for what the router would have contained, too."""

from collections.abc import Callable

from shm.contract.failures import failures

One = Callable[[bytes], None]


def strict(one: One) -> One:
    """Return the target, which now raises the exceptions that the router logs as unexpected."""
    told: list[BaseException] = []

    def tell(what: str, error: BaseException, then: str) -> None:
        told.append(error)

    def checked(octets: bytes) -> None:
        one(octets)
        if told:
            raise told.pop()

    failures.tell = tell  # type: ignore[method-assign]  # its users have the object, not the method
    return checked
