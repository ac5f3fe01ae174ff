"""Tree nodes for what Headrace adds to Spark's queries.

Each construct has its own class, so that a reader of the tree asks "is there a `StreamWindow`?" and never reads text.
Constructs that follow a relation in FROM are *suffixes*: a list on the relation that carries them, in written order.
"""

# mypy: allow-subclassing-any
from __future__ import annotations

from typing import ClassVar

from sqlglot import exp


class Length(exp.Expression):
    """A number with an optional unit, as in ``10 SECONDS`` or ``100`` (rows, or seconds for times)."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "unit": False}


class Suffix(exp.Expression):
    """Base of everything that may stand between a relation in FROM and its alias."""

    arg_types: ClassVar[dict[str, bool]] = {"this": False}


class StreamWindow(Suffix):
    """``[RANGE l SLIDE s INTERNAL]``, ``[ROWS n SLIDE s]``, ``[PARTITION BY k ROWS n]``, ``[WINDOW l SLIDE s]``."""

    arg_types: ClassVar[dict[str, bool]] = {
        "kind": True, "this": False, "partition_by": False, "slide": False, "internal": False,
    }  # fmt: skip


class Sync(Suffix):
    """``S SYNC y`` (in the papers ``R[y](S)``): S read through the synchronization stream y."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class PartReference(Suffix):
    """``M[i]`` or ``M[i-3..i]``: one temporal part, or a run of them."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "to": False}


class PatternVariable(exp.Expression):
    """One variable of a PATTERN; `plus` stands for one or more rows."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "plus": False}


class Pattern(Suffix):
    """``M PATTERN [a, b, c+] WITHIN 10 MINUTES``; `within` is a `Length` in seconds."""

    arg_types: ClassVar[dict[str, bool]] = {"expressions": True, "within": False}


class RowPattern(exp.Expression):
    """``(a b c+)`` of MATCH_RECOGNIZE: variables in a row."""

    arg_types: ClassVar[dict[str, bool]] = {"expressions": True}


class MatchRecognize(exp.MatchRecognize):
    """The standard's MATCH_RECOGNIZE (...); `pattern` is a `RowPattern`, or the words of a richer one."""

    arg_types: ClassVar[dict[str, bool]] = {**exp.MatchRecognize.arg_types, "within": False, "subset": False}


class AsOfTime(Suffix):
    """``AS OF t``; `this` is a number of microseconds."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class AsOfSnapshot(Suffix):
    """``AS OF SNAPSHOT n``."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


#: Of CHANGES(v, OLD), what `changes_of` has.
CHANGES_AND_OLD = "CHANGES, OLD"


class Relation(exp.Table):
    """A named relation with suffixes; `changes_of` is CHANGES or SYNC_POINTS, of which it stands in brackets."""

    arg_types: ClassVar[dict[str, bool]] = {**exp.Table.arg_types, "suffixes": False, "changes_of": False}


class WindowedSubquery(exp.Subquery):
    """A subquery in FROM that carries suffixes: ``(SELECT ...) [ROWS 10]``."""

    arg_types: ClassVar[dict[str, bool]] = {**exp.Subquery.arg_types, "suffixes": False}


class SlidingWindow(exp.Window):
    """An OVER window with ``SLIDE s`` or ``ACTIVE EXPIRATION``."""

    arg_types: ClassVar[dict[str, bool]] = {**exp.Window.arg_types, "slide": False, "active": False}


class RelationToStream(exp.Expression):
    """Base of ``Istream(*)`` and its kin. `window` is the output window of Wstream."""

    arg_types: ClassVar[dict[str, bool]] = {"expressions": True, "window": False}
    spelling = ""


class Istream(RelationToStream):
    spelling = "Istream"


class Dstream(RelationToStream):
    spelling = "Dstream"


class Rstream(RelationToStream):
    spelling = "Rstream"


class Wstream(RelationToStream):
    spelling = "Wstream"


class IstreamRestore(RelationToStream):
    spelling = "Istream-restore"


class RstreamRestore(RelationToStream):
    spelling = "Rstream-restore"


class Now(exp.Expression):
    """The clock's current value, as in ``Now - 5 < R.TS``."""

    arg_types: ClassVar[dict[str, bool]] = {}


RELATION_TO_STREAM: dict[str, type[RelationToStream]] = {
    node.spelling.upper(): node for node in (Istream, Dstream, Rstream, Wstream, IstreamRestore, RstreamRestore)
}


def goes_by_clock(window: SlidingWindow) -> bool:
    """Whether results of the window come when it is time, though nothing arrives: rows leave, or a slot ends."""
    spec = window.args.get("spec")
    ranges = spec is not None and str(spec.args.get("kind")).upper() == "RANGE"
    return bool(window.args.get("active") or (window.args.get("slide") and ranges))
