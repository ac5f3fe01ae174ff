"""A class in Python in the place of a body: the blocks of a program are calls of its methods.

What a group keeps of it is one object: a variable while the group is gone through, one BINARY cell in between.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace

from sqlglot import exp

from headrace.algebra.user_aggregates.classes import written
from headrace.algebra.user_aggregates.definition import INWINDOW, Definition, types_of
from headrace.algebra.user_aggregates.selects import OnRow
from headrace.algebra.user_aggregates.statements import Body, Lookup
from headrace.algebra.user_aggregates.tables import Known, Table
from headrace.algebra.user_aggregates.values import Code, Writer, kind_of
from headrace.language.statement import Column


class ExternalBody(Body):
    """The methods of a class as the blocks of an aggregate."""

    def __init__(
        self, writer: Writer, known: Known, definition: Definition, prefix: str, lookup: Lookup,
        calling: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        super().__init__(writer, known, replace(definition, tables=(), blocks={}), prefix, lookup, calling)
        assert definition.external is not None
        self._written = written(definition.external, window=definition.window)
        self.definition = replace(definition, blocks=dict(self._written.blocks))
        if self._written.needs_window:
            self.window = Table(INWINDOW, definition.parameters, f"{prefix}w", window=True)
        self._object = Table("object", (Column("object", "BINARY"),), f"{prefix}o", single=True)
        self._held, self._class = f"{prefix}o", f"{prefix}c"
        known.is_slow(f"{definition.name} is written in Python ({definition.external})")

    @property
    def stored(self) -> list[Table]:
        return [self._object]

    def declare(self) -> None:
        super().declare()
        one = self.definition
        parameters = tuple((column.name, column.type) for column in one.parameters)
        told = (one.external, one.name, one.window, parameters, types_of(one.returns))
        self._writer.declare(f"{self._class} = _external{told!r}")
        self._writer.declare(f"{self._held} = None")

    def opened(self) -> None:
        with self._writer.block(f"if {self._object.count} > 0:"):
            self._writer.emit(f"{self._held} = {self._class}.restored({self._object.value(0, '')})")

    def closed(self) -> None:
        with self._writer.block(f"if {self._object.count} > 0:"):
            self._writer.emit(f"{self._object.value(0, '')} = {self._class}.kept({self._held})")

    def has(self, block: str) -> bool:
        return block in self.definition.blocks

    def mentions(self, what: Callable[[exp.Expr], bool], *blocks: str) -> bool:  # noqa: ARG002 - there is no statement
        return self.window is not None

    def spoken(self, *blocks: str) -> set[str]:
        found = any(self.has(block) for block in blocks)
        return {column.name.lower() for column in self.definition.parameters} if found else set()

    def run(self, block: str, parameters: Mapping[str, Code], on_return: OnRow) -> None:
        if not self.has(block):
            return
        writer, count = self._writer, self._object.count
        with writer.block(f"if {count} == 0:"):
            writer.emit(f"{self._held} = {self._class}.new()")
            writer.emit(f"{count} = 1")
        given = {} if block == "TERMINATE" else {name.lower(): code for name, code in parameters.items()}
        cells = "".join(f"{_cell(given[column.name.lower()])}, " for column in self.definition.parameters if given)
        rows, row = writer.fresh("rows"), writer.fresh("row")
        (method,) = self.definition.blocks[block]
        writer.emit(f"{rows} = {self._class}.called({self._held}, {method!r}, ({cells}){self._asked()})")
        with writer.block(f"if {self.telling}:") if self.telling is not None else nullcontext():
            codes = [
                Code(f"{row}[{2 * number}]", kind_of(column.type), f"{row}[{2 * number + 1}]")
                for number, column in enumerate(self.definition.returns)
            ]
            with writer.block(f"for {row} in {rows}:"):
                on_return(codes)

    def _asked(self) -> str:
        """The window's rows as a method is given them."""
        window = self.window
        if window is None:
            return ""
        cells = [self._known.cell(window, number, "0") for number in range(len(window.columns))]
        values = "".join(f"{window.prefix}_{number}, " for number in range(len(cells)))
        nulls = "".join(
            "None, " if cell.null == "False" else f"{window.prefix}_{number}_z, " for number, cell in enumerate(cells)
        )
        return f", ({values}), ({nulls}), {window.first}, {window.count}"


def _cell(code: Code) -> str:
    """A value as Python has it: NULL is None."""
    return code.value if code.null == "False" else f"(None if {code.null} else {code.value})"
