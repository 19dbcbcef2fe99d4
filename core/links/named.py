"""Keys of things by their names, which need not be theirs alone."""

from typing import Generic, TypeVar

from shm.contract.sparse import thinned

Key = TypeVar("Key", int, str, tuple[int, int])


class Named(Generic[Key]):
    """A table of keys by name. Most names have one key, which then takes no table of its own.

    Other threads may read it.
    """

    def __init__(self) -> None:
        self._keys: dict[str, Key | dict[Key, None]] = {}

    def add(self, name: str, key: Key) -> None:
        """Add a key of this name."""
        there = self._keys.setdefault(name, key)
        if isinstance(there, dict):
            there[key] = None
        elif there != key:
            self._keys[name] = {there: None, key: None}

    def remove(self, name: str, key: Key) -> None:
        """Remove what `add` added."""
        there = self._keys[name]
        if isinstance(there, dict):
            del there[key]
            if there:
                self._keys[name] = thinned(there)
                return
        del self._keys[name]
        self._keys = thinned(self._keys)

    def of(self, name: str) -> list[Key]:
        """Return the keys of this name, the first one first."""
        there = self._keys.get(name)
        if there is None:
            return []
        return list(there) if isinstance(there, dict) else [there]
