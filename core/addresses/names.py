"""Names of dynamic nodes and links: hard to guess, and the same in a run replayed with its seed."""

import hashlib
import string
from typing import Final

DISCRIMINATOR: Final = 15
_ALPHABET: Final = string.ascii_letters + string.digits + "+_"


class Names:
    """A generator of names that is a function of its seed."""

    def __init__(self, seed: bytes) -> None:
        self._seed = seed
        self._count = 0
        self._request = 0

    def discriminator(self) -> str:
        """15 characters, 90 bits."""
        digest = hashlib.blake2b(self._count.to_bytes(8, "big"), key=self._seed[:64]).digest()
        self._count += 1
        return "".join(_ALPHABET[byte & 63] for byte in digest[:DISCRIMINATOR])

    def request(self) -> int:
        """A number for a link that is asked for."""
        self._request += 1
        return self._request

    def hash_seed(self) -> int:
        """64 bits for hash tables."""
        return int.from_bytes(hashlib.blake2b(b"hash", key=self._seed[:64], digest_size=8).digest(), "big")
