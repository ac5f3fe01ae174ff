"""An aggregate's tables as variables of its program, and the names that an expression can speak of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from headrace.algebra.user_aggregates.faults import Fault
from headrace.algebra.user_aggregates.values import Code, Kind, kind_of
from headrace.language.dialect import headrace_sql
from headrace.language.statement import Column


@dataclass(frozen=True)
class Table:
    """A table: for each column an array `p_0`, `p_1`, ... of values and one of NULLs, `p_n` rows.

    `single`: it never has more than one row, so its columns are plain variables. The window's rows lie between `p_h`
    and `p_n`.
    """

    name: str
    columns: tuple[Column, ...]
    prefix: str
    single: bool = False
    window: bool = False

    @property
    def first(self) -> str:
        return f"{self.prefix}_h" if self.window else "0"

    @property
    def count(self) -> str:
        return f"{self.prefix}_n"

    def value(self, number: int, row: str) -> str:
        return f"{self.prefix}_{number}" if self.single else f"{self.prefix}_{number}[{row}]"

    def null(self, number: int, row: str) -> str:
        return f"{self.prefix}_{number}_z" if self.single else f"{self.prefix}_{number}_z[{row}]"

    def kind(self, number: int) -> Kind:
        return kind_of(self.columns[number].type)

    def number_of(self, name: str) -> int | None:
        names = [column.name.lower() for column in self.columns]
        return names.index(name.lower()) if name.lower() in names else None


@dataclass
class Known:
    """What one compilation finds out: which columns can be NULL and which of the window's are read."""

    nullable: set[tuple[str, int]] = field(default_factory=set)
    read: set[tuple[str, int]] = field(default_factory=set)
    slow: list[str] = field(default_factory=list)

    def cell(self, table: Table, number: int, row: str) -> Code:
        self.read.add((table.prefix, number))
        null = table.null(number, row) if (table.prefix, number) in self.nullable else "False"
        return Code(table.value(number, row), table.kind(number), null)

    def is_slow(self, reason: str) -> None:
        """Note why there can be no machine code."""
        if reason not in self.slow:
            self.slow.append(reason)


@dataclass(frozen=True)
class Row:
    """A row of a table that a statement is looking at."""

    alias: str
    table: Table
    row: str


@dataclass(frozen=True)
class Scope:
    """The names an expression can speak of: rows, innermost first, and then the parameters."""

    known: Known
    parameters: dict[str, Code]
    rows: tuple[Row, ...] = ()
    outer: Scope | None = None

    def inside(self, rows: Sequence[Row]) -> Scope:
        return Scope(self.known, self.parameters, tuple(rows), self)

    def with_row(self, row: Row) -> Scope:
        return replace(self, rows=(*self.rows, row))

    def column(self, node: exp.Column) -> Code:
        """The value that a column stands for."""
        name, qualifier = node.name, node.table.lower()
        scope: Scope | None = self
        while scope is not None:
            found = [
                (row, number)
                for row in scope.rows
                if not qualifier or row.alias == qualifier
                if (number := row.table.number_of(name)) is not None
            ]
            if len(found) > 1:
                tables = " and ".join(row.alias for row, _number in found)
                raise Fault(
                    "AMBIGUOUS_COLUMN", f"{name} may be of {tables}", node, f"Write {found[0][0].alias}.{name}."
                )
            if found and not qualifier and name.lower() in self.parameters:
                table = found[0][0].alias
                hint = f"Write {table}.{name} for the column; call the parameter something else."
                raise Fault("AMBIGUOUS_COLUMN", f"{name} is a column of {table} and a parameter", node, hint)
            if found:
                row, number = found[0]
                return self.known.cell(row.table, number, row.row)
            scope = scope.outer
        if not qualifier and name.lower() in self.parameters:
            return self.parameters[name.lower()]
        raise Fault("UNKNOWN_COLUMN", f"there is no column or parameter {headrace_sql(node)}", node, self._told())

    def _told(self) -> str:
        names = [f"{row.alias}.{column.name}" for row in self._all_rows() for column in row.table.columns]
        return f"Known here: {', '.join([*names, *self.parameters]) or 'nothing'}."

    def _all_rows(self) -> list[Row]:
        return [*self.rows, *(self.outer._all_rows() if self.outer is not None else ())]
