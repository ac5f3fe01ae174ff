"""Queries whose answer is not a function of their relations."""

from __future__ import annotations

from sqlglot import exp

from headrace.algebra.aggregates import is_aggregate
from headrace.errors import DefinitionError
from headrace.language.query import Query

_KINDS: tuple[tuple[type[exp.Expr], str], ...] = (
    (exp.Rand, "rand"),
    (exp.Randn, "randn"),
    (exp.Uuid, "uuid"),
    (exp.CurrentTimestamp, "current_timestamp"),
    (exp.CurrentDate, "current_date"),
    (exp.CurrentTime, "current_time"),
    (exp.Localtimestamp, "localtimestamp"),
    (exp.Localtime, "localtime"),
    (exp.CurrentDatetime, "current_timestamp"),
    (exp.CurrentUser, "current_user"),
    (exp.TableSample, "TABLESAMPLE"),
)
_NAMES = frozenset(
    """
    rand randn random uuid shuffle current_timestamp now curdate current_date current_time localtimestamp
    monotonically_increasing_id spark_partition_id input_file_name input_file_block_start input_file_block_length
    randstr uniform current_user session_user user version current_catalog current_database current_schema
    current_timezone reflect java_method
    """.split()  # noqa: SIM905
)
#: With these, which rows come first decides, and a relation has no order.
_ORDERED_KINDS = (
    exp.First, exp.Last, exp.FirstValue, exp.LastValue, exp.AnyValue, exp.ArrayAgg, exp.ArrayUniqueAgg, exp.GroupConcat,
    exp.ArgMax, exp.ArgMin, exp.Mode,
)  # fmt: skip


def nondeterministic(query: Query) -> str | None:
    """The first call that gives another value each time it is asked; None if there is none."""
    for node in query.tree.walk():
        for kind, name in _KINDS:
            if isinstance(node, kind):
                return name
        if isinstance(node, exp.Func):
            name = node.name.lower() if isinstance(node, exp.Anonymous) else node.sql_name().lower()
            if name in _NAMES:
                return name
        # Without an argument it is the present time.
        if isinstance(node, exp.TimeToUnix | exp.UnixSeconds | exp.StrToUnix) and node.this is None:
            return "unix_timestamp"
    return None


def order_dependent(query: Query) -> str | None:
    """The first call whose value depends on an order that the query does not fix; None if there is none.

    Such are first, last, any_value and the collecting aggregates without an ORDER BY of their own.
    """
    for node in query.tree.find_all(*_ORDERED_KINDS):
        within = node.find_ancestor(exp.WithinGroup) is not None or node.find(exp.Order) is not None
        window = node.find_ancestor(exp.Window, exp.Select)
        ordered = isinstance(window, exp.Window) and (window.args.get("order") or window.args.get("alias"))
        if is_aggregate(node) and not within and not ordered:
            return node.sql_name().lower()
    return None


def check_deterministic(query: Query) -> None:
    """Refuse calls that give another value each time."""
    call = nondeterministic(query)
    if call is not None:
        raise DefinitionError(
            "NOT_DETERMINISTIC",
            f"{call} gives another value each time it is asked, so a view with it has nothing that could be kept.",
            hint="Take a time from the rows, or Now, the time of the clock. CREATE TABLE t AS SELECT ... keeps what "
            "such a call gives once.",
            place=query.place,
        )
