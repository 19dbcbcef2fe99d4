"""Generated names of dynamic nodes and links: hard to guess, and repeatable with the same seed."""

import hashlib
import string
from typing import Final

DISCRIMINATOR: Final = 15
_ALPHABET: Final = string.ascii_letters + string.digits + "+_"


class Names:
    """A generator of names that depends only on its seed."""

    def __init__(self, seed: bytes) -> None:
        self._seed = seed
        self._count = 0
        self._request = 0

    def discriminator(self) -> str:
        """Return the next 15 characters, which carry 90 bits."""
        digest = hashlib.blake2b(self._count.to_bytes(8, "big"), key=self._seed[:64]).digest()
        self._count += 1
        return "".join(_ALPHABET[byte & 63] for byte in digest[:DISCRIMINATOR])

    def request(self) -> int:
        """Return a number for the next link request."""
        self._request += 1
        return self._request

    def hash_seed(self) -> int:
        """Return a 64-bit seed for hash tables."""
        return int.from_bytes(hashlib.blake2b(b"hash", key=self._seed[:64], digest_size=8).digest(), "big")
