"""The key of every operator's result in a tree, from the keys of the stored relations; see `keys` for the rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from headrace.algebra.expressions import is_ref
from headrace.algebra.nodes import (
    Aggregate,
    Filter,
    Generate,
    Join,
    Newest,
    Node,
    Over,
    Project,
    Scan,
    SetOperation,
    TopK,
)

Key = tuple[str, ...] | None


def keys_of(root: Node, stored: Callable[[Scan], Key]) -> Mapping[Node, Key]:
    """The columns that tell each operator's rows apart; None where none are known, () where there is one row at most.

    `stored` gives a relation's own key, in its own names.
    """
    known: dict[Node, Key] = {}
    for node in root.walk():
        if node not in known:
            known[node] = _key(node, stored, known)
    return known


def _key(node: Node, stored: Callable[[Scan], Key], known: Mapping[Node, Key]) -> Key:
    match node:
        case Scan():
            return _scanned(node, stored(node))
        case Filter() | TopK() | Over() | Newest():
            return known[node.child]
        case Project():
            return _projected(node, known[node.child])
        case Aggregate():
            return node.keys
        case Join():
            sides = node.children
            if node.cells is not None:  # of all copies of a row, one meets a partner
                sides = tuple(side.child if isinstance(side, Generate) else side for side in sides)
            return _joined(node, *(known[side] for side in sides))
        case SetOperation():
            names = zip(node.left.names, node.names, strict=True)
            key = _renamed(known[node.left], dict(names))
            return key if node.all or key is not None else node.names
    return None


def _scanned(scan: Scan, key: Key) -> Key:
    names = {source.lower(): column.name for source, column in zip(scan.sources, scan.columns, strict=True)}
    return _renamed(None if key is None else tuple(name.lower() for name in key), names)


def _projected(node: Project, key: Key) -> Key:
    names = {item.name: name for item, name in zip(node.items, node.names, strict=True) if is_ref(item)}
    return _renamed(key, names)


def _joined(node: Join, left: Key, right: Key) -> Key:
    if node.kind in ("semi", "anti"):
        return left
    if left is None or right is None or node.kind == "full":
        return None
    # Where the condition names the whole key of one side, a row of the other meets one row at most.
    if set(right) <= {pair.right for pair in node.equal} and node.kind in ("inner", "left"):
        return left
    if set(left) <= {pair.left for pair in node.equal} and node.kind in ("inner", "right"):
        return right
    return tuple(dict.fromkeys(left + right))


def _renamed(key: Key, names: Mapping[str, str]) -> Key:
    if key is None or not all(name in names for name in key):
        return None
    return tuple(names[name] for name in key)
