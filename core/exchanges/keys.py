"""Compiles binding keys into the tree of tokens by which the forwarder reads a subject.

core/forwarder/delivery/exchange.c reads the tree.

amqp   tokens between dots:    * is exactly one, # is any number, including none
mqtt   tokens between slashes: + is exactly one, # is any number (configured at the end only)
"""

from collections.abc import Iterable
from typing import Final

ITSELF, ONE, ANY = range(3)  # core/forwarder/delivery/exchange.c, exchange_token
SEPARATORS: Final = {"amqp": b".", "mqtt": b"/"}
_ONE: Final = {"amqp": "*", "mqtt": "+"}
_ANY: Final = "#"

Node = tuple[int, int, bytes]  # parent, kind, token


def compile_keys(keys: Iterable[str | None], method: str) -> tuple[list[Node], list[int]]:
    """Return the tree and the node of each key. A key that is None matches all messages."""
    nodes: list[Node] = [(0, ITSELF, b"")]
    children: dict[Node, int] = {}
    ends = []
    for key in keys:
        at = 0
        for token in _tokens(key or _ANY, method):
            node = _node(at, token, method)
            if nodes[at][1] == ANY and node[1] == ANY:
                continue  # `#` twice in a row means the same as once
            if node not in children:
                children[node] = len(nodes)
                nodes.append(node)
            at = children[node]
        ends.append(at)
    return nodes, ends


def _tokens(key: str, method: str) -> list[str]:
    return key.split(SEPARATORS[method].decode())


def _node(parent: int, token: str, method: str) -> Node:
    if token == _ONE[method]:
        return parent, ONE, b""
    if token == _ANY:
        return parent, ANY, b""
    return parent, ITSELF, token.encode("utf-8", "surrogateescape")
