"""A query over one window of a stream, described for translation into view delta functions (ViewDF 5.2).

Part j of the view spans a slide and holds the query's answer over the window that ends where the part ends. So a slide
is the view's part length, and slide and window are whole numbers of the source's parts. A query that has this can at
least be recomputed part by part; what else can be done depends on its `aggregate`. If it has none, `unfit` says why.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from math import gcd

from sqlglot import exp

from headrace.algebra.part_wise.windows.window_aggregate import WindowAggregate, describe_aggregate
from headrace.algebra.typed import Describe
from headrace.errors import DefinitionError, HeadraceError, LanguageError
from headrace.language import Query, RelationRef, format_duration, nodes

_SECOND = 1_000_000


@dataclass(frozen=True)
class WindowSource:
    """The relation that the window lies over: its columns with their types, and the seconds that one part spans.

    `describe` tells the column types of a Spark text, where the caller has an engine that can be asked.
    """

    name: str
    columns: Sequence[tuple[str, str]]
    length: int
    describe: Describe | None = field(default=None, compare=False, repr=False)

    def column_names(self) -> Collection[str]:
        return [name for name, _ in self.columns]


@dataclass(frozen=True)
class WindowQuery:
    """A query over the last `window` seconds of its source, answered anew every `slide` seconds."""

    query: Query
    source: WindowSource
    window: int
    slide: int
    aggregate: WindowAggregate | None
    unfit: str | None = None

    @property
    def pane(self) -> int:
        """The longest span, in seconds, of which both window and slide are made."""
        return gcd(self.window, self.slide)

    @property
    def source_parts(self) -> int:
        """Parts of the source in a window."""
        return self.window // self.source.length

    @property
    def overlaps(self) -> bool:
        """Whether the windows of two parts that follow each other share rows."""
        return self.window > self.slide


def slides_by_parts(query: Query) -> bool:
    """Whether a query has the window of the ViewDF paper, ``[WINDOW w]``: ``[RANGE w]`` is one on time."""
    return any(node.args["kind"] == "WINDOW" for node in query.tree.find_all(nodes.StreamWindow))


def windowed_relation(query: Query) -> RelationRef:
    """The one relation of the query that has a window of time."""
    found = [ref for ref in query.relations() if ref.window is not None]
    subquery = query.tree.find(nodes.WindowedSubquery)
    if subquery is not None:
        raise DefinitionError(
            "WINDOW_NOT_PARTED",
            "The window lies over a subquery, and a subquery has no parts.",
            hint="Make the subquery a view with a PARTITION LENGTH, and put the window on that view.",
            place=query.place,
        )
    if not found:
        raise DefinitionError(
            "WINDOW_MISSING",
            "The query has no window, so no part of the view would have bounds.",
            hint="Write FROM s [WINDOW 10 MINUTES].",
            place=query.place,
        )
    if len(found) > 1:
        raise DefinitionError(
            "SEVERAL_WINDOWS",
            f"The query has {len(found)} windows, over {', '.join(ref.name for ref in found)}; here it may have one.",
            hint="Leave out PARTITION LENGTH, or write INITIALIZE and UPDATE yourself.",
            place=found[1].place,
        )
    return found[0]


def window_query(query: Query, length: int, source: WindowSource, names: Sequence[str] | None = None) -> WindowQuery:
    """Describe the query of a view whose parts span `length` seconds; refuse what cannot be made part by part.

    `names` are the view's columns, where they are not to be taken from the query.
    """
    ref = windowed_relation(query)
    window = _window_seconds(ref)
    _check_slide(ref, length)
    _check_relation(query, ref)
    for seconds, what in ((length, "The view's PARTITION LENGTH"), (window, "The window")):
        if seconds % source.length:
            raise _not_whole(ref, source, seconds, what)
    told = describe_aggregate(query, ref.name, source.column_names(), names)
    if isinstance(told, WindowAggregate):
        return WindowQuery(query, source, window, length, told)
    return WindowQuery(query, source, window, length, None, told)


def _window_seconds(ref: RelationRef) -> int:
    window = ref.window
    assert window is not None
    if window.kind != "range" or window.length is None or window.partition or window.internal:
        raise DefinitionError(
            "WINDOW_NOT_PARTED",
            f"The window over {ref.name} is not a plain length of time, so it is not made of whole parts.",
            hint="Write [WINDOW 10 MINUTES], or leave out PARTITION LENGTH.",
            place=ref.place,
        )
    if window.length % _SECOND:
        raise DefinitionError(
            "WINDOW_NOT_PARTED",
            f"The window over {ref.name} is {format_duration(window.length)}, and parts span whole seconds.",
            hint="Write the window in seconds or longer units.",
            place=ref.place,
        )
    return window.length // _SECOND


def _check_slide(ref: RelationRef, length: int) -> None:
    slide = ref.window.slide if ref.window is not None else None
    if slide is not None and slide != length * _SECOND:
        raise DefinitionError(
            "SLIDE_NOT_PART_LENGTH",
            f"The window slides by {format_duration(slide)}, and a part of the view spans "
            f"{format_duration(length * _SECOND)}.",
            hint="A part is made for each slide: write both alike, or leave out SLIDE.",
            place=ref.place,
        )


def _check_relation(query: Query, ref: RelationRef) -> None:
    if ref.kind != "relation" or ref.as_of is not None:
        raise DefinitionError(
            "WINDOW_NOT_PARTED",
            f"The window lies over the changes or a past state of {ref.name}, which have no parts.",
            hint=f"Put the window on {ref.name} itself.",
            place=ref.place,
        )
    if query.features() or query.tree.find(nodes.Now) is not None:
        what = (*query.features(), "Now")[0]
        raise LanguageError(
            "NOT_PART_WISE",
            f"{what} cannot stand in a window query that is made part by part.",
            hint="Leave it out, or leave out PARTITION LENGTH.",
            place=query.place,
        )


def _not_whole(ref: RelationRef, source: WindowSource, seconds: int, what: str) -> HeadraceError:
    return DefinitionError(
        "NOT_WHOLE_PARTS",
        f"{what} is {format_duration(seconds * _SECOND)}, which is no whole number of parts of {source.name}, "
        f"{format_duration(source.length * _SECOND)} each.",
        hint=f"Write a multiple of {format_duration(source.length * _SECOND)}.",
        place=ref.place,
    )


def windowed_table(tree: exp.Expr) -> nodes.Relation:
    """The relation with the window, in a tree that has one."""
    window = tree.find(nodes.StreamWindow)
    found = window.parent if window is not None else None
    assert isinstance(found, nodes.Relation)
    return found
