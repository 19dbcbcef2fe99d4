"""Tables of Python that give memory back.

A dict keeps memory for all entries that it has ever had at once.
"""

import sys
from typing import Final, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")

_KEPT: Final = 1 << 16  # bytes; a smaller dict is left alone
_SPARSE: Final = 256  # bytes for each entry, of which a full dict has about 50


def thinned(table: dict[Key, Value]) -> dict[Key, Value]:
    """Return a table, or a copy of one that has lost most of its entries; to be called after a removal.

    A copy costs as much as the removals before it.
    """
    size = sys.getsizeof(table)
    return dict(table) if size > _KEPT and size > _SPARSE * len(table) else table
