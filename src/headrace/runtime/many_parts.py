"""Many parts of a view by one query of the engine: what each relation brings, with the part that a row goes into.

A row goes into as many parts as read it. Where rows are grouped at once, groups are made of each part that is read, and
only these are multiplied (`maintenance.panes`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.algebra.nodes import Node, Scan
from headrace.algebra.part_wise.lifting import PART
from headrace.algebra.part_wise.references import Reference, parts_touched_sql
from headrace.algebra.text import to_sql
from headrace.algebra.trees import all_nodes, with_children
from headrace.engine import apart
from headrace.maintenance.logs import listed, relation_fields
from headrace.maintenance.panes import Panes, panes
from headrace.maintenance.relations import Relations, least
from headrace.runtime.delta_functions import Step
from headrace.runtime.home import Home
from headrace.runtime.part_trees import part_tree
from headrace.storage.records import Object
from headrace.storage.writer import MICROS


def frame_of_parts(home: Home, relations: Relations, step: Step, made: tuple[int, int], view: Object) -> Any:
    """The rows of the parts from the first to the last of `made`; the last column tells the part."""
    root = None if step.whole else part_tree(home, relations, step, view, many=True)
    grouped = {} if root is None else _grouped(step, root, made[0])
    if root is not None and grouped:
        return _in_panes(home, relations, step, made, root, grouped)
    assert step.many is not None
    base = apart("relation_", step.many.sql())
    frames = {}
    for number, (name, reference) in enumerate(step.inputs):
        item, whole = relations.source.find(name), reference is None
        frames[f"{base}{number}_"] = (
            relations.at(item, None) if whole else _multiplied(home, relations, item, reference, made)
        )
    return home.engine.sql(step.many.to_spark(list(frames)), frames)


# --- Groups first -----------------------------------------------------------------------------------------------------


def _grouped(step: Step, root: Node, part: int) -> dict[Scan, Panes]:
    """The scans whose rows are grouped at once and go into several parts."""
    found = {}
    for scan in all_nodes(root):
        reference = step.inputs[scan.relation][1] if isinstance(scan, Scan) else None
        if isinstance(scan, Scan) and reference is not None and _goes_on(reference, part):
            groups = panes(root, scan, PART)
            if groups is not None:
                found[scan] = groups
    return found


def _goes_on(reference: Reference, part: int) -> bool:
    """Whether the part after one reads what that has read too."""
    newest = reference.needs(part)[1]
    return len(reference.touched((newest, newest), (part, part + 1))) > 1


def _in_panes(
    home: Home, relations: Relations, step: Step, made: tuple[int, int], root: Node, grouped: Mapping[Scan, Panes]
) -> Any:
    frames: dict[str, Any] = {}
    read: dict[Scan, str] = {}
    instead: dict[Node, Node] = {}
    for scan in [node for node in all_nodes(root) if isinstance(node, Scan)]:
        name, reference = step.inputs[scan.relation]
        assert reference is not None
        item, frame = relations.source.find(name), f"input_{len(frames)}_"
        if scan in grouped:
            groups = grouped[scan]
            put = Scan(scan.relation, scan.name, groups.aggregate.columns, groups.aggregate.names)
            frames[frame] = _put_together(home, relations, item, reference, made, groups)
            instead[groups.aggregate], read[put] = put, frame
        else:
            frames[frame], read[scan] = _multiplied(home, relations, item, reference, made), frame
    return home.engine.sql(to_sql(_with(root, instead), lambda scan: read[scan]), frames)


def _put_together(
    home: Home, relations: Relations, item: Object, reference: Reference, made: tuple[int, int], groups: Panes
) -> Any:
    """The groups of every part of the view, from those of each part that it reads."""
    rows = _numbered(home, relations, item, reference, made)
    panes_ = home.engine.sql(to_sql(groups.aggregate, lambda _scan: "rows_"), {"rows_": rows})
    low, high = parts_touched_sql(reference.parts, groups.part, *made)
    others = [name for name in groups.aggregate.names if name != groups.part]
    multiplied = [*others, f"explode(sequence({low}, {high})) AS {groups.part}"]
    types = {column.name: column.type for column in groups.aggregate.columns}
    sums = [f"CAST({function}({of}) AS {types[name]}) AS {name}" for name, function, of in groups.calls]
    keys = groups.aggregate.keys
    text = (
        f"SELECT {', '.join([*keys, *sums])} FROM"
        f" (SELECT {', '.join(multiplied)} FROM panes_ WHERE {low} <= {high}) GROUP BY {', '.join(keys)}"
    )
    return home.engine.sql(text, {"panes_": panes_})


def _with(node: Node, instead: Mapping[Node, Node]) -> Node:
    return instead.get(node) or with_children(node, [_with(child, instead) for child in node.children])


# --- The rows of a relation -------------------------------------------------------------------------------------------


def _multiplied(home: Home, relations: Relations, item: Object, reference: Any, made: tuple[int, int]) -> Any:
    """The rows of all parts that are needed, each once for every part of the view that needs it."""
    rows = _numbered(home, relations, item, reference, made)
    low, high = parts_touched_sql(reference.parts, PART, *made)
    names = listed([field.name for field in relation_fields(item)])
    text = f"SELECT {names}, explode(sequence({low}, {high})) AS {PART} FROM parted_rows WHERE {low} <= {high}"
    return home.engine.sql(text, {"parted_rows": rows})


def _numbered(home: Home, relations: Relations, item: Object, reference: Reference, made: tuple[int, int]) -> Any:
    """The rows of all parts that are needed, each with the part it is of."""
    length = reference.length * MICROS
    oldest, newest = reference.needs(made[0])[0], reference.needs(made[1])[1]
    stored = relations.source.parts(item)
    upto = least((newest + 1) * length - 1, relations.reach(item, stored))
    rows = relations.logs.relation(item, stored, upto, forgotten_before=oldest * length, extra=("__t",))
    names = listed([field.name for field in relation_fields(item)])
    text = f"SELECT {names}, CAST(floor(__t / {length}) AS BIGINT) AS {PART} FROM parted_rows"
    return home.engine.sql(text, {"parted_rows": rows})
