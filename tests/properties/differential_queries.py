"""Random query trees over four relations, for views that are maintained by their changes.

Every operator takes relations and gives one, so that any may stand above any other. What an engine may answer in two
ways is kept out of where it would matter: sums of floating-point numbers (`inexact`) are shown and aggregated, but
nothing is compared, grouped or ordered by them, and whoever numbers or cuts rows orders them by all of their columns.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st

#: Each relation's columns and their kinds. `t` and `r` have the key k; `u` and `s` may hold a row many times.
RELATIONS: dict[str, dict[str, str]] = {
    "t": {"k": "int", "g": "text", "d": "dec", "x": "float", "day": "date"},
    "u": {"k": "int", "g": "text", "d": "dec3", "x": "float", "a": "array"},
    "s": {"k": "int", "g": "text", "v": "big", "at": "big"},
    "r": {"k": "int", "g": "text", "v": "big", "at": "big"},
}
SQL_TYPES = {
    "int": "INT",
    "big": "BIGINT",
    "text": "STRING",
    "dec": "DECIMAL(10,2)",
    "dec3": "DECIMAL(12,3)",
    "float": "DOUBLE",
    "date": "DATE",
    "array": "ARRAY<INT>",
    "bool": "BOOLEAN",
}
#: Kinds that may be compared with each other.
_FAMILY = {"int": "whole", "big": "whole", "dec": "decimal", "dec3": "decimal"}
_SHOWN_ONLY = ("inexact", "array")
_CONDITIONS = {
    "int": ["{} > 1", "{} IS NULL", "{} <> 2 OR {} IS NULL", "{} IN (0, 3)", "NOT ({} <= 1)"],
    "big": ["{} > 1", "{} IS NOT NULL", "{} % 2 = 0"],
    "text": ["{} = 'a'", "{} LIKE 'b%'", "coalesce({}, 'a') <> 'b'"],
    "dec": ["{} > 1.25", "{} IS NULL OR {} < 0"],
    "dec3": ["{} >= 1.5", "{} IS NULL"],
    "float": ["{} > 0.5", "{} = 0", "NOT ({} < 1e9)"],
    "date": ["{} > DATE'2024-01-02'", "year({}) = 2024"],
    "bool": ["{}", "NOT {}", "{} IS NULL"],
}
_COMPUTED = {
    "int": [("{} + 1", "int"), ("CAST({} AS BIGINT) * 2", "big"), ("CAST({} AS STRING)", "text")],
    "big": [("{} - 1", "big"), ("coalesce({}, CAST(0 AS BIGINT))", "big")],
    "text": [("upper({})", "text"), ("concat({}, 'z')", "text"), ("length({})", "int")],
    "dec": [("CAST({} * 2 AS DECIMAL(12,3))", "dec3"), ("{} IS NULL", "bool")],
    "dec3": [("CASE WHEN {} > 1 THEN 'big' WHEN {} IS NULL THEN 'none' ELSE 'small' END", "text")],
    "float": [("coalesce({}, CAST(2.5 AS DOUBLE))", "float")],
    "date": [("date_add({}, 1)", "date"), ("month({})", "int")],
    "bool": [("coalesce({}, false)", "bool")],
}


@dataclass(frozen=True)
class Relation:
    """A query's text and the columns it gives, each with its kind."""

    text: str
    columns: dict[str, str]

    def of(self, *kinds: str) -> list[str]:
        return [name for name, kind in self.columns.items() if kind in kinds]

    @property
    def comparable(self) -> list[str]:
        return [name for name, kind in self.columns.items() if kind not in _SHOWN_ONLY]


@dataclass
class _Trees:
    """One tree in the making."""

    draw: st.DrawFn
    relations: Sequence[str]
    without: frozenset[str] = frozenset()
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def fresh(self, hint: str) -> str:
        return f"{hint}{next(self.numbers)}"

    def one_of(self, items: Sequence[str]) -> str:
        return self.draw(st.sampled_from(items))

    def some(self, items: Sequence[str], least: int, most: int) -> list[str]:
        if not items:
            return []
        count = min(self.draw(st.integers(least, most)), len(items))
        return list(self.draw(st.permutations(items)))[:count]

    def chance(self, of: int = 3) -> bool:
        return self.draw(st.integers(1, of)) == 1

    def tree(self, depth: int) -> Relation:
        if depth == 0:
            return self.leaf()
        choices = sorted(set(_OPERATORS) - self.without)
        return _OPERATORS[self.one_of(choices)](self, depth - 1)

    def below(self, depth: int) -> Relation:
        """An input: of the next depth at most."""
        return self.tree(self.draw(st.integers(0, depth)))

    def leaf(self) -> Relation:
        name = self.one_of(self.relations)
        columns = RELATIONS[name]
        made = {self.fresh(column): column for column in columns}
        text = ", ".join(f"{old} AS {new}" for new, old in made.items())
        return Relation(f"SELECT {text} FROM {name}", {new: columns[old] for new, old in made.items()})

    def exact(self, child: Relation) -> Relation:
        """The relation without what nothing may be compared by."""
        kept = child.comparable or None
        if kept is None:
            return Relation(f"SELECT 1 AS one FROM ({child.text}) q", {"one": "int"})
        if len(kept) == len(child.columns):
            return child
        return Relation(f"SELECT {', '.join(kept)} FROM ({child.text}) q", {name: child.columns[name] for name in kept})

    def condition(self, child: Relation, prefix: str = "") -> str:
        column = self.one_of(child.comparable) if child.comparable else None
        if column is None:
            return "1 = 1"
        text = self.one_of(_CONDITIONS[child.columns[column]])
        return text.replace("{}", prefix + column)

    # Row by row

    def filter(self, depth: int) -> Relation:
        child = self.below(depth)
        condition = self.condition(child)
        if self.chance():
            condition = f"({condition}) {self.one_of(['AND', 'OR'])} ({self.condition(child)})"
        return Relation(f"SELECT * FROM ({child.text}) q WHERE {condition}", child.columns)

    def project(self, depth: int) -> Relation:
        child = self.below(depth)
        kept = self.some(list(child.columns), 1, 4)
        items = {name: (name, child.columns[name]) for name in kept}
        for column in self.some(child.comparable, 0, 2):
            text, kind = self.draw(st.sampled_from(_COMPUTED[child.columns[column]]))
            items[self.fresh("p")] = (text.replace("{}", column), kind)
        shown = ", ".join(f"{text} AS {name}" for name, (text, _kind) in items.items())
        return Relation(f"SELECT {shown} FROM ({child.text}) q", {name: kind for name, (_text, kind) in items.items()})

    def explode(self, depth: int) -> Relation:
        child = self.below(depth)
        made = self.fresh("e")
        arrays, wholes = child.of("array"), child.of("int")
        if arrays and self.chance(2):
            generator = f"explode({arrays[0]})"
        elif wholes:
            generator = f"explode(array({wholes[0]}, 7, {wholes[-1]}))"
        else:
            generator = "explode(array(1, 1, NULL))"
        outer = self.one_of(["", "OUTER "])
        text = f"SELECT q.*, {made} FROM ({child.text}) q LATERAL VIEW {outer}{generator} l AS {made}"
        return Relation(text, {**child.columns, made: "int"})

    # Pairs

    def _on(self, left: Relation, right: Relation) -> str:
        """A condition between two sides, l and r: equalities where their kinds allow it."""
        pairs = [
            (one, other)
            for one, kind in left.columns.items()
            for other, its in right.columns.items()
            if kind not in _SHOWN_ONLY and _FAMILY.get(kind, kind) == _FAMILY.get(its, its)
        ]
        if not pairs:
            return "1 = 1"
        conditions = []
        for one, other in self.draw(st.lists(st.sampled_from(pairs), min_size=1, max_size=2)):
            conditions.append(f"l.{one} {self.one_of(['=', '=', '=', '<=>', '<'])} r.{other}")
        return " AND ".join(conditions)

    def join(self, depth: int) -> Relation:
        left, right = self.below(depth), self.below(depth)
        kind = self.one_of(["JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"])
        on = self._on(left, right)
        if self.chance():
            on += f" AND ({self.condition(right, 'r.') if self.chance(2) else self.condition(left, 'l.')})"
        both = left.columns if "SEMI" in kind or "ANTI" in kind else {**left.columns, **right.columns}
        shown = [f"{'l' if name in left.columns else 'r'}.{name}" for name in both]
        return Relation(f"SELECT {', '.join(shown)} FROM ({left.text}) l {kind} ({right.text}) r ON {on}", both)

    def self_join(self, depth: int) -> Relation:
        child = self.exact(self.below(depth))
        shared, other = self.fresh("shared"), {name: self.fresh("o") for name in child.columns}
        on = self._on(child, child)
        shown = ", ".join([f"l.{name}" for name in other] + [f"r.{name} AS {new}" for name, new in other.items()])
        text = f"WITH {shared} AS ({child.text}) SELECT {shown} FROM {shared} l JOIN {shared} r ON {on}"
        return Relation(text, {**child.columns, **{new: child.columns[name] for name, new in other.items()}})

    # Groups

    def _calls(self, child: Relation) -> dict[str, tuple[str, str]]:
        choices: list[tuple[str, str]] = [("count(*)", "big")]
        for name, kind in child.columns.items():
            if kind in ("int", "big"):
                choices += [(f"sum({name})", "big"), (f"avg({name})", "inexact"), (f"sum(DISTINCT {name})", "big")]
            if kind == "dec":
                choices += [(f"CAST(sum({name}) AS DECIMAL(10,2))", "dec"), (f"avg({name})", "inexact")]
            if kind in ("float", "inexact"):
                choices += [(f"sum({name})", "inexact"), (f"avg({name})", "inexact")]
            if kind == "bool":
                choices += [(f"bool_or({name})", "bool"), (f"count_if({name})", "big")]
            if kind not in _SHOWN_ONLY:
                choices += [(f"count({name})", "big"), (f"count(DISTINCT {name})", "big")]
                choices += [(f"{function}({name})", kind) for function in ("min", "max") if kind != "bool"]
                choices.append((f"count(*) FILTER (WHERE {name} IS NOT NULL)", "big"))
        found = self.draw(st.lists(st.sampled_from(choices), min_size=1, max_size=3))
        return {self.fresh("n"): item for item in found}

    def aggregate(self, depth: int) -> Relation:
        child = self.below(depth)
        keys = self.some(child.comparable, 0, 2)
        calls = self._calls(child)
        shown = ", ".join([*keys, *(f"{text} AS {name}" for name, (text, _kind) in calls.items())])
        text = f"SELECT {shown} FROM ({child.text}) q" + (f" GROUP BY {', '.join(keys)}" if keys else "")
        if self.chance(4):
            text += " HAVING count(*) > 1"
        kinds = {name: kind for name, (_text, kind) in calls.items()}
        return Relation(text, {**{name: child.columns[name] for name in keys}, **kinds})

    def grouping_sets(self, depth: int) -> Relation:
        child = self.below(depth)
        keys = self.some(child.comparable, 2, 2)
        if len(keys) < 2:
            return child
        # Without (): over no rows the engines differ about it.
        sets = self.one_of(["(({0}), ({1}))", "(({0}, {1}), ({0}))", "(({0}, {1}), ({1}), ({0}))"]).format(*keys)
        name = self.fresh("n")
        text = f"SELECT {', '.join(keys)}, count(*) AS {name} FROM ({child.text}) q GROUP BY GROUPING SETS {sets}"
        return Relation(text, {**{key: child.columns[key] for key in keys}, name: "big"})

    def distinct(self, depth: int) -> Relation:
        child = self.exact(self.below(depth))
        kept = self.some(list(child.columns), 1, 3)
        return Relation(
            f"SELECT DISTINCT {', '.join(kept)} FROM ({child.text}) q", {name: child.columns[name] for name in kept}
        )

    def over(self, depth: int) -> Relation:
        child = self.exact(self.below(depth))
        names = list(self.draw(st.permutations(list(child.columns))))
        parts = f"PARTITION BY {names[0]}" if self.chance(2) else ""
        order = f"ORDER BY {', '.join(names)}"
        number = child.of("int", "big")
        calls = [f"row_number() OVER ({parts} {order})", f"count(*) OVER ({parts})", f"dense_rank() OVER ({order})"]
        if number:
            calls += [f"sum({number[0]}) OVER ({parts})", f"max({number[0]}) OVER ({parts})"]
            calls.append(f"sum({number[0]}) OVER ({parts} {order} ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)")
        chosen = self.draw(st.lists(st.sampled_from(calls), min_size=1, max_size=2))
        made = {self.fresh("w"): call for call in chosen}
        shown = ", ".join(f"{call} AS {name}" for name, call in made.items())
        return Relation(f"SELECT q.*, {shown} FROM ({child.text}) q", {**child.columns, **dict.fromkeys(made, "big")})

    def top(self, depth: int) -> Relation:
        child = self.exact(self.below(depth))
        names = self.draw(st.permutations(list(child.columns)))
        order = ", ".join(f"{name} {self.one_of(['ASC', 'DESC', 'DESC NULLS FIRST', 'NULLS LAST'])}" for name in names)
        limit, offset = self.draw(st.integers(1, 4)), self.one_of(["", "", " OFFSET 1", " OFFSET 3"])
        return Relation(f"SELECT * FROM ({child.text}) q ORDER BY {order} LIMIT {limit}{offset}", child.columns)

    # Sets

    def sets(self, depth: int) -> Relation:
        left, right = self.exact(self.below(depth)), self.exact(self.below(depth))
        kept = self.some(list(left.columns), 1, 3)
        items = []
        for name in kept:
            kind = left.columns[name]
            alike = right.of(kind)
            items.append(self.one_of(alike) if alike else f"CAST(NULL AS {SQL_TYPES[kind]})")
        words = ["UNION ALL", "UNION", "EXCEPT", "EXCEPT ALL", "INTERSECT"]
        shown = ", ".join(f"{item} AS {name}" for item, name in zip(items, kept, strict=True))
        text = (
            f"SELECT * FROM (SELECT {', '.join(kept)} FROM ({left.text}) q {self.one_of(words)}"
            f" SELECT {shown} FROM ({right.text}) q) q"
        )
        return Relation(text, {name: left.columns[name] for name in kept})

    # Subqueries

    def subquery(self, depth: int) -> Relation:
        outer, inner = self.below(depth), self.below(min(depth, 1))
        whole, theirs = outer.of("int", "big"), inner.of("int", "big")
        if not whole or not theirs:
            return outer
        mine, other = self.one_of(whole), self.one_of(theirs)
        there = f"SELECT 1 FROM ({inner.text}) r WHERE r.{other} = l.{mine}"
        made = self.fresh("q")
        shape = self.one_of(["exists", "not exists", "in", "not in", "or", "case", "scalar", "correlated"])
        where = {
            "exists": f"EXISTS ({there})",
            "not exists": f"NOT EXISTS ({there})",
            "in": f"l.{mine} IN (SELECT {other} FROM ({inner.text}) r)",
            "not in": f"l.{mine} NOT IN (SELECT {other} FROM ({inner.text}) r)",
            "or": f"EXISTS ({there}) OR l.{mine} > 2",
        }
        if shape in where:
            return Relation(f"SELECT l.* FROM ({outer.text}) l WHERE {where[shape]}", outer.columns)
        kind, item = {
            "case": ("text", f"CASE WHEN EXISTS ({there}) THEN 'yes' ELSE 'no' END"),
            "scalar": ("big", f"(SELECT max(CAST({other} AS BIGINT)) FROM ({inner.text}) r)"),
            "correlated": ("big", f"(SELECT count(*) FROM ({inner.text}) r WHERE r.{other} = l.{mine})"),
        }[shape]
        return Relation(f"SELECT l.*, {item} AS {made} FROM ({outer.text}) l", {**outer.columns, made: kind})


_OPERATORS: dict[str, Callable[[_Trees, int], Relation]] = {
    "aggregate": _Trees.aggregate,
    "distinct": _Trees.distinct,
    "explode": _Trees.explode,
    "filter": _Trees.filter,
    "grouping_sets": _Trees.grouping_sets,
    "join": _Trees.join,
    "over": _Trees.over,
    "project": _Trees.project,
    "self_join": _Trees.self_join,
    "sets": _Trees.sets,
    "subquery": _Trees.subquery,
    "top": _Trees.top,
}


@st.composite
def queries(
    draw: st.DrawFn,
    relations: Sequence[str] = ("t", "u", "s", "r"),
    most: int = 4,
    without: frozenset[str] = frozenset(),
) -> str:
    """The text of a random query."""
    return _Trees(draw, relations, without).tree(draw(st.integers(1, most))).text
