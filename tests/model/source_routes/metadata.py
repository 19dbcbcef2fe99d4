"""Classes of metadata keys and what each part of the way does (docs/source-routes.md, "Metadata").

| class | a forwarder | leaving the scope | a wrapper |
|---|---|---|---|
| carry | keeps it | keeps it | hides it inside, or copies it outside as its option says |
| append | may add to its list | keeps it | copies it outside; the unwrapper merges what was added |
| local | keeps it | removes it | removes it |
| sealed | keeps it | keeps it | hides it inside, always |

Nothing in metadata is used for access control.
"""

from tests.model.source_routes.message import Meta, MetaValue
from tests.model.source_routes.place import Classes, MetaClass
from tests.model.source_routes.workers import Unwrapped, Wrapped

TRACE = "trace"  # each route worker appends its address to this key if a message has it


def appended(meta: Meta, classes: Classes, key: str, value: MetaValue) -> Meta:
    """Return the metadata with a value appended to a key of class append that holds a list."""
    list_ = meta.get(key)
    if classes[key] is not MetaClass.APPEND or not isinstance(list_, tuple):
        return meta
    return {**meta, key: (*list_, value)}


def leaving(meta: Meta, classes: Classes) -> Meta:
    """Return the metadata that leaves a scope."""
    return {key: value for key, value in meta.items() if classes[key] is not MetaClass.LOCAL}


def outside(meta: Meta, classes: Classes, option: Wrapped) -> Meta:
    """Return the metadata on the outside of a wrapper; inside stands everything that leaves the scope."""
    return {key: value for key, value in meta.items() if _shown(key, classes, option)}


def _shown(key: str, classes: Classes, option: Wrapped) -> bool:
    kind = classes[key]
    if kind is not MetaClass.CARRY:
        return kind is MetaClass.APPEND
    return option == "copy" or (isinstance(option, tuple) and key in option)


def unwrapped(inner: Meta, outer: Meta, classes: Classes, option: Unwrapped) -> Meta:
    """Return an unwrapped message's metadata: its own, appended values, and with `merge` all outside."""
    found: dict[str, MetaValue] = dict(inner)
    for key, value in leaving(outer, classes).items():
        mine = inner.get(key)
        if classes[key] is MetaClass.APPEND and isinstance(value, tuple) and isinstance(mine, tuple):
            found[key] = value if value[: len(mine)] == mine else mine + value
        elif classes[key] is MetaClass.APPEND or option == "merge":
            found.setdefault(key, value)
    return found
