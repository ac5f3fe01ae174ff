"""The key of a query's result, inferred from the keys of what it reads.

- A selection and projection keeps its input's key as long as all key columns are projected.
- GROUP BY has its grouping expressions as key; an aggregate without GROUP BY has one row, hence the empty key.
  ROLLUP, CUBE and GROUPING SETS have none: the NULL of a column that a grouping lacks is also the NULL of a group.
- A join has the keys of both sides together, unless it is full; a semi or anti join has that of its left side.

None means that no key is known, and then the result is a bag: no update can be told from a delete and an insert.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.language import Projection, Query, QueryShape

_KEEPS_LEFT_ONLY = ("LEFT SEMI", "LEFT ANTI", "SEMI", "ANTI")


def infer_key(
    query: Query, input_keys: Sequence[tuple[str, ...] | None], columns: Sequence[str]
) -> tuple[str, ...] | None:
    """The key of `query` whose i-th relation has `input_keys[i]` and whose result has `columns`; None if unknown."""
    shape = query.shape()
    if shape is None or shape.generates or shape.grouping_sets:
        return None
    names = [item.output_name for item in shape.projections]
    if not any(item.is_star for item in shape.projections):
        # The query may give its columns other names than the view does.
        names = list(columns)
    if shape.group_by is not None:
        return _grouping_key(shape, names)
    if shape.aggregates:
        return ()
    return _key_of_join(shape, input_keys, names, columns)


def _grouping_key(shape: QueryShape, names: Sequence[str | None]) -> tuple[str, ...] | None:
    found = []
    for text in shape.group_by or ():
        name = next((names[i] for i, item in enumerate(shape.projections) if _says(item, i, text)), None)
        if name is None:
            return None
        found.append(name)
    return tuple(dict.fromkeys(found))


def _says(item: Projection, position: int, text: str) -> bool:
    """Whether a projection is the grouping expression `text`: by its text, its alias or its number."""
    wanted = text.lower()
    return wanted in (item.expression_text.lower(), (item.output_name or "").lower(), str(position + 1))


def _key_of_join(
    shape: QueryShape,
    input_keys: Sequence[tuple[str, ...] | None],
    names: Sequence[str | None],
    columns: Sequence[str],
) -> tuple[str, ...] | None:
    if any("FULL" in source.join for source in shape.sources):
        return None  # a row of NULLs may come from either side
    found: list[str] = []
    for source in shape.sources:
        if source.join in _KEEPS_LEFT_ONLY:
            continue
        key = None if source.relation is None else input_keys[source.relation]
        if key is None:
            return None
        for column in key:
            name = _projected(shape, names, columns, source.alias, column)
            if name is None:
                return None
            found.append(name)
    return tuple(dict.fromkeys(found)) or None


def _projected(
    shape: QueryShape, names: Sequence[str | None], columns: Sequence[str], alias: str, column: str
) -> str | None:
    """The output name under which a source's column is projected as it is."""
    alone = len(shape.sources) == 1
    for name, item in zip(names, shape.projections, strict=False):
        qualifier, bare = item.column or (None, "")
        same_source = alone if qualifier is None else qualifier.lower() == alias.lower()
        if item.is_star and (qualifier is None or same_source):
            return next((known for known in columns if known.lower() == column.lower()), None)
        if item.column and same_source and bare.lower() == column.lower():
            return name
    return None
