"""Random queries that Spark runs, over any relations of integers and strings.

`queries(tables)` gives texts. Every query has the answer of a bag: LIMIT only stands over a total order, and nothing
that fails on some rows (division, casts) is in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

#: Relations by name: their columns, each "int" or "string".
Tables = Mapping[str, Mapping[str, str]]

_CONSTANTS = (-7, 0, 1, 1, 2, 2, 3, 5, 10, 11, 20, 100)
_JOINS = ("join", "left join", "right join", "full join", "left semi join", "left anti join", "cross join")


@dataclass(frozen=True)
class Source:
    """Something in FROM: its alias, and its columns with their types."""

    text: str
    alias: str
    columns: tuple[tuple[str, str], ...]

    def all(self, kind: str) -> list[str]:
        return [f"{self.alias}.{name}" for name, type_ in self.columns if type_ == kind]


@dataclass
class _Writer:
    """Writes one query; `draw` takes from Hypothesis."""

    draw: Callable
    tables: Tables
    aliases: int = 0

    def one(self, *choices: Any) -> Any:
        return self.draw(st.sampled_from(choices))

    def chance(self, percent: int) -> bool:
        return bool(self.draw(st.integers(1, 100)) <= percent)

    def alias(self) -> str:
        self.aliases += 1
        return f"r{self.aliases}"

    # -- relations ----------------------------------------------------------------------------------------------------

    def source(self, depth: int) -> Source:
        alias = self.alias()
        if depth > 0 and self.chance(35):
            text, columns = self.query(depth - 1)
            return Source(f"({text}) {alias}", alias, columns)
        name = self.one(*sorted(self.tables))
        return Source(f"{name} {alias}", alias, tuple(self.tables[str(name)].items()))

    def sources(self, depth: int) -> tuple[str, list[Source]]:
        first = self.source(depth)
        text, found = first.text, [first]
        for _ in range(self.one(0, 0, 1, 1, 2) if depth > 0 else self.one(0, 1)):
            other = self.source(depth - 1)
            kind = str(
                self.one("join", "left join", "right join", "full join", "left semi join", "left anti join", ",")
            )
            if kind == ",":
                text, found = f"{text} cross join {other.text}", [*found, other]
                continue
            text = f"{text} {kind} {other.text} on {self.on(found, other)}"
            if kind not in ("left semi join", "left anti join"):
                found = [*found, other]
        return text, found

    def on(self, found: list[Source], other: Source) -> str:
        left = [c for source in found for c in source.all("int")]
        parts = [f"{self.one(*left)} = {self.one(*other.all('int'))}"]
        if self.chance(25):
            parts.append(f"{self.one(*left)} {self.one('<', '>=', '<>')} {self.one(*other.all('int'))}")
        if self.chance(15):
            parts.append(self.predicate([other], 0))
        return " and ".join(parts)

    # -- expressions --------------------------------------------------------------------------------------------------

    def number(self, found: list[Source]) -> str:
        columns = [c for source in found for c in source.all("int")]
        picked = str(self.one(*columns))
        match self.draw(st.integers(0, 9)):
            case 0:
                return f"{picked} + {self.draw(st.integers(-3, 3))}"
            case 1:
                return f"({picked} - {self.one(*columns)})"
            case 2:
                return f"coalesce({picked}, {self.draw(st.integers(0, 5))})"
            case 3:
                return f"case when {self.comparison(found)} then {picked} else {self.draw(st.integers(0, 3))} end"
        return picked

    def string(self, found: list[Source]) -> str:
        columns = [c for source in found for c in source.all("string")]
        return str(self.one(*columns)) if columns else str(self.one("'x'", "'y'"))

    def comparison(self, found: list[Source]) -> str:
        columns = [c for source in found for c in source.all("int")]
        match self.draw(st.integers(0, 6)):
            case 0:
                return f"{self.one(*columns)} is {self.one('', 'not ')}null"
            case 1:
                word = self.one("x", "y", "z")
                return f"{self.string(found)} {self.one('=', '<>')} '{word}'"
            case 2:
                return f"{self.one(*columns)} in (1, 2, {self.one(*_CONSTANTS)})"
        operator = self.one("=", "<>", "<", "<=", ">", ">=")
        return f"{self.one(*columns)} {operator} {self.one(*_CONSTANTS)}"

    def predicate(self, found: list[Source], depth: int) -> str:
        if depth > 0 and self.chance(40):
            return self.subquery_predicate(found, depth - 1)
        if self.chance(30):
            joined = f" {self.one('and', 'or')} ".join([self.comparison(found), self.predicate(found, depth - 1)])
            return f"{self.one('', 'not ')}({joined})"
        return self.comparison(found)

    # -- subqueries ---------------------------------------------------------------------------------------------------

    def correlation(self, outer: list[Source], inner: Source, *, equality: bool = False) -> str:
        operator = "=" if equality or self.chance(70) else str(self.one("<", ">", "<>"))
        theirs = self.one(*[c for source in outer for c in source.all("int")])
        return f"{self.one(*inner.all('int'))} {operator} {theirs}"

    def subquery_predicate(self, outer: list[Source], depth: int) -> str:
        inner = self.source(0)
        where = [self.comparison([inner])] if self.chance(40) else []
        kind = self.one("exists", "not exists", "in", "not in", "scalar", "two")
        if kind in ("exists", "not exists"):
            where.append(self.correlation(outer, inner))
        elif self.chance(50):
            where.append(self.correlation(outer, inner, equality=kind == "scalar" and self.chance(80)))
        if depth > 0 and self.chance(25):
            where.append(self.subquery_predicate([inner], depth - 1))
        tail = f" where {' and '.join(where)}" if where else ""
        numbers = [c for source in outer for c in source.all("int")]
        match kind:
            case "exists" | "not exists":
                return f"{kind} (select 1 from {inner.text}{tail})"
            case "in" | "not in":
                return f"{self.one(*numbers)} {kind} (select {self.one(*inner.all('int'))} from {inner.text}{tail})"
            case "two":
                pair = f"({self.one(*numbers)}, {self.one(*numbers)})"
                given = f"{self.one(*inner.all('int'))}, {self.one(*inner.all('int'))}"
                return f"{pair} {self.one('in', 'not in')} (select {given} from {inner.text}{tail})"
        function = self.one("max", "min", "count", "sum", "avg")
        value = f"(select {function}({self.one(*inner.all('int'))}) from {inner.text}{tail})"
        return f"{self.one(*numbers)} {self.one('=', '<', '>=', '<>')} {value}"

    def scalar(self, outer: list[Source]) -> str:
        inner = self.source(0)
        where = f" where {self.correlation(outer, inner, equality=True)}" if self.chance(75) else ""
        function = self.one("max", "min", "count", "sum")
        return f"(select {function}({self.one(*inner.all('int'))}) from {inner.text}{where})"

    # -- queries ------------------------------------------------------------------------------------------------------

    def query(self, depth: int) -> tuple[str, tuple[tuple[str, str], ...]]:
        """A text and the columns that it gives."""
        if depth > 0 and self.chance(15):
            return self.set_operation(depth)
        text, found = self.sources(depth)
        where = f" where {self.predicate(found, depth)}" if self.chance(60) else ""
        if self.chance(35):
            return self.grouped(text, where, found, depth)
        items, columns = self.items(found, depth)
        distinct = "distinct " if self.chance(15) else ""
        whole = f"select {distinct}{', '.join(items)} from {text}{where}"
        return self.limited(whole, columns)

    def limited(self, whole: str, columns: list[tuple[str, str]]) -> tuple[str, tuple[tuple[str, str], ...]]:
        if self.chance(12):
            order = ", ".join(f"{name}{self.one('', ' desc')}" for name, _ in columns)
            return f"{whole} order by {order} limit {self.draw(st.integers(1, 6))}", tuple(columns)
        return whole, tuple(columns)

    def items(self, found: list[Source], depth: int) -> tuple[list[str], list[tuple[str, str]]]:
        items: list[str] = []
        columns: list[tuple[str, str]] = []
        for number in range(self.draw(st.integers(1, 3))):
            name = f"c{number}"
            kind = "int" if number == 0 or self.chance(70) else "string"
            if kind == "string":
                item = self.string(found)
            elif depth > 0 and number > 0 and self.chance(15):
                item = self.scalar(found)
            elif number > 0 and self.chance(12):
                item = self.window(found)
            else:
                item = self.number(found)
            items.append(f"{item} as {name}")
            columns.append((name, kind))
        return items, columns

    def window(self, found: list[Source]) -> str:
        columns = [c for source in found for c in source.all("int")]
        partition = f"partition by {self.one(*columns)}" if self.chance(70) else ""
        if self.chance(50):
            return f"{self.one('sum', 'count', 'max')}({self.one(*columns)}) over ({partition})"
        return f"{self.one('rank', 'dense_rank')}() over ({partition} order by {self.one(*columns)})"

    def grouped(
        self, text: str, where: str, found: list[Source], depth: int
    ) -> tuple[str, tuple[tuple[str, str], ...]]:
        columns = [c for source in found for c in source.all("int")]
        keys = [self.number(found) for _ in range(self.one(0, 1, 1, 2))]
        calls = [self.call(found) for _ in range(self.one(1, 1, 2, 3))]
        items = [f"{key} as g{n}" for n, key in enumerate(keys)] + [f"{call} as a{n}" for n, call in enumerate(calls)]
        names = [f"g{n}" for n in range(len(keys))] + [f"a{n}" for n in range(len(calls))]
        group = f" group by {', '.join(keys)}" if keys else ""
        having = ""
        if self.chance(30):
            having = f" having {self.one('count(*)', f'max({self.one(*columns)})')} > {self.one(0, 0, 1, 2, 10)}"
            if depth > 0 and self.chance(30):
                inner = self.source(0)
                having += f" and count(*) >= (select min({self.one(*inner.all('int'))}) from {inner.text})"
        return f"select {', '.join(items)} from {text}{where}{group}{having}", tuple((name, "int") for name in names)

    def call(self, found: list[Source]) -> str:
        inside = self.number(found)
        match self.draw(st.integers(0, 7)):
            case 0:
                return "count(*)"
            case 1:
                return f"count(distinct {inside})"
            case 2:
                return f"sum(distinct {inside})"
            case 3:
                return f"count({inside}) filter (where {self.comparison(found)})"
        return f"{self.one('sum', 'min', 'max', 'count')}({inside})"

    def set_operation(self, depth: int) -> tuple[str, tuple[tuple[str, str], ...]]:
        sides = []
        width = self.one(1, 2)
        for _ in range(2):
            text, found = self.sources(depth - 1)
            items = ", ".join(f"{self.number(found)} as c{n}" for n in range(width))
            where = f" where {self.predicate(found, depth - 1)}" if self.chance(50) else ""
            sides.append(f"(select {items} from {text}{where})")
        kind = self.one("union", "union all", "except", "except all", "intersect", "intersect all")
        return f"{sides[0]} {kind} {sides[1]}", tuple((f"c{n}", "int") for n in range(width))


@st.composite
def queries(draw: Callable, tables: Tables, depth: int = 2) -> str:
    """Texts of queries over `tables`; `depth` is how deep queries may stand in queries (at most 4 is wise)."""
    text, _ = _Writer(draw, tables).query(depth)
    return text
