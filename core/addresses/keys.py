"""Keys of bindings, compiled: a tree of tokens that the forwarder reads a subject by (exchange.h).

amqp   tokens between dots:    * is exactly one, # any number, none among them
mqtt   tokens between slashes: + is exactly one, # any number (the configuration has it at the end only)
"""

from collections.abc import Iterable
from typing import Final

ITSELF, ONE, ANY = range(3)  # exchange.h, exchange_token
SEPARATORS: Final = {"amqp": b".", "mqtt": b"/"}
_ONE: Final = {"amqp": "*", "mqtt": "+"}
_ANY: Final = "#"

Node = tuple[int, int, bytes]  # parent, kind, token


def compile_keys(keys: Iterable[str | None], method: str) -> tuple[list[Node], list[int]]:
    """The tree, and the node of each key; no key is that of all messages."""
    nodes: list[Node] = [(0, ITSELF, b"")]
    children: dict[Node, int] = {}
    ends = []
    for key in keys:
        at = 0
        for token in _tokens(key or _ANY, method):
            node = _node(at, token, method)
            if nodes[at][1] == ANY and node[1] == ANY:
                continue  # any number, twice over
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
