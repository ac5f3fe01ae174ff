"""Synchronization streams as sets of moments, as their definitions tell, and which contains which (SyncSQL 4.3.1).

A set is seconds by their remainders (every two seconds is remainder 0 of 2), the moments of a stream that is only known
by its name, or a union or intersection of sets. `contains` says yes only where that follows for every course of events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import lcm

from sqlglot import exp

from headrace.algebra.expressions import unparen
from headrace.language import Query
from headrace.language.dialect import headrace_sql

#: Remainders of more seconds than these are not written out.
_MOST = 100_000


@dataclass(frozen=True)
class Seconds:
    """The seconds with some remainders."""

    length: int
    remainders: frozenset[int]


@dataclass(frozen=True)
class Moments:
    """The moments of a stream; `within` are sets of which it is surely a part."""

    name: str
    within: tuple[Times, ...] = ()


@dataclass(frozen=True)
class Either:
    """The moments of any of several sets."""

    sets: tuple[Times, ...]


@dataclass(frozen=True)
class Both:
    """The moments that several sets have in common."""

    sets: tuple[Times, ...]


Times = Seconds | Moments | Either | Both

EVERY_SECOND = Seconds(1, frozenset({0}))


def contains(outer: Times, inner: Times) -> bool:
    """Whether every moment of `inner` is one of `outer`, whatever happens."""
    if outer == inner:
        return True
    match inner:
        case Either():
            return all(contains(outer, one) for one in inner.sets)
        case Moments() if any(contains(outer, one) for one in inner.within):
            return True
        case Both() if any(contains(outer, one) for one in inner.sets):
            return True
    match outer:
        case Both():
            return all(contains(one, inner) for one in outer.sets)
        case Either():
            return any(contains(one, inner) for one in outer.sets)
        case Seconds() if isinstance(inner, Seconds):
            return _remainders_contain(outer, inner)
    return False


def _remainders_contain(outer: Seconds, inner: Seconds) -> bool:
    both = _over(lcm(outer.length, inner.length), inner)
    return both is not None and all(second % outer.length in outer.remainders for second in both)


def _over(length: int, seconds: Seconds) -> frozenset[int] | None:
    """The remainders of a longer length; None where they are too many."""
    times = length // seconds.length
    if times * len(seconds.remainders) > _MOST:
        return None
    return frozenset(r + n * seconds.length for r in seconds.remainders for n in range(times))


def either(sets: Iterable[Times]) -> Times:
    """The union of sets, seconds put together."""
    return _joined(sets, Either, frozenset.union)


def both(sets: Iterable[Times]) -> Times:
    """The intersection of sets, seconds put together."""
    return _joined(sets, Both, frozenset.intersection)


def _joined(
    sets: Iterable[Times],
    kind: type[Either] | type[Both],
    join: Callable[[frozenset[int], frozenset[int]], frozenset[int]],
) -> Times:
    flat: list[Times] = []
    for one in sets:
        flat += one.sets if isinstance(one, kind) else [one]
    seconds = [one for one in flat if isinstance(one, Seconds)]
    others: list[Times] = list(dict.fromkeys(one for one in flat if not isinstance(one, Seconds)))
    if seconds:
        made: Seconds | None = seconds[0]
        for one in seconds[1:]:
            made = None if made is None else _two(made, one, join)
        others = [made, *others] if made is not None else [*dict.fromkeys(seconds), *others]
    return others[0] if len(others) == 1 else kind(tuple(others))


def _two(
    one: Seconds, other: Seconds, join: Callable[[frozenset[int], frozenset[int]], frozenset[int]]
) -> Seconds | None:
    length = lcm(one.length, other.length)
    sides = _over(length, one), _over(length, other)
    return None if sides[0] is None or sides[1] is None else Seconds(length, join(sides[0], sides[1]))


def moments_of(name: str, query: Query, known: Callable[[str], Times]) -> Times:
    """The set that the view `name` of a query ticks at; `known` tells those of the relations it reads."""
    found = _set(query.tree, known)
    return found if found is not None else Moments(name)


def _set(tree: exp.Expr, known: Callable[[str], Times]) -> Times | None:
    """The set of a query; None if nothing can be said of it."""
    match tree:
        case exp.Subquery():
            return _set(tree.this, known)
        case exp.Union() | exp.Intersect() | exp.Except():
            left, right = _set(tree.this, known), _set(tree.expression, known)
            if isinstance(tree, exp.Union):
                return None if left is None or right is None else either([left, right])
            if left is None or isinstance(tree, exp.Except):
                return None if left is None else Moments(headrace_sql(tree), (left,))
            return both([left, right]) if right is not None else Moments(headrace_sql(tree), (left,))
        case exp.Select():
            return _select(tree, known)
    return None


_CLAUSES = {"expressions", "from_", "where", "distinct", "order", "kind", "operation_modifiers", "hint"}


def _select(select: exp.Select, known: Callable[[str], Times]) -> Times | None:
    source = select.args["from_"].this if select.args.get("from_") else None
    if source is None or any(value for key, value in select.args.items() if key not in _CLAUSES):
        return None
    if isinstance(source, exp.Subquery):
        inner = _set(source.this, known)
    elif isinstance(source, exp.Table) and not source.args.get("changes_of") and not source.args.get("joins"):
        inner = known(source.name) if not source.args.get("suffixes") else None
    else:
        inner = None
    shown = [unparen(item.unalias()) for item in select.expressions]
    if inner is None or len(shown) != 1 or not isinstance(shown[0], exp.Column | exp.Star):
        return None
    sets: list[Times] = [inner]
    where = select.args.get("where")
    for condition in [] if where is None else where.this.flatten() if isinstance(where.this, exp.And) else [where.this]:
        seconds = _remainder(unparen(condition), shown[0])
        sets.append(Moments(headrace_sql(select), (inner,)) if seconds is None else seconds)
    return both(sets)


def _remainder(condition: exp.Expr, column: exp.Expr) -> Seconds | None:
    """`Timepoint mod 5 = 2`, of the column that is shown."""
    if not isinstance(condition, exp.EQ):
        return None
    for one, other in ((condition.this, condition.expression), (condition.expression, condition.this)):
        found, number = unparen(one), unparen(other)
        if not isinstance(found, exp.Mod) or not (isinstance(number, exp.Literal) and number.is_int):
            continue
        of, by = unparen(found.this), unparen(found.expression)
        same = isinstance(of, exp.Column) and (isinstance(column, exp.Star) or of.name.lower() == column.name.lower())
        if same and isinstance(by, exp.Literal) and by.is_int and int(by.name) > 0:
            length, rest = int(by.name), int(number.name)
            return Seconds(length, frozenset({rest} if rest < length else ()))
    return None


def words(times: Times) -> str:
    """A set in words."""
    match times:
        case Seconds(length=1):
            return "every second"
        case Seconds():
            if times.remainders == frozenset({0}):
                return f"every {times.length} seconds"
            rests = ", ".join(map(str, sorted(times.remainders)[:8])) + (", ..." if len(times.remainders) > 8 else "")
            return f"the seconds with remainder {rests} of {times.length}" if times.remainders else "never"
        case Moments():
            return f"the moments of {times.name}"
        case Either():
            return " or ".join(map(words, times.sets))
        case Both():
            return " where also ".join(map(words, times.sets))
