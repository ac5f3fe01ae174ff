"""Values inside a compiled aggregate: what kinds there are, and the pieces of program text that stand for them.

A value is two expressions: what it is, and whether it is NULL. Where it is, the first is still safe to compute with.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["int", "float", "bool", "time", "date", "span", "text", "decimal", "bytes", "other", "null"]

#: A name, one place of an array, or text in brackets that nothing can get into.
_PLAIN = re.compile(r"\w+(\[\w+\])?|\([^()]*\)")

#: What machine code can compute with. Points and lengths of time are microseconds, dates are days.
NATIVE = frozenset(("int", "float", "bool", "time", "date", "span"))
NUMBERS = frozenset(("int", "float", "decimal"))

_KINDS: dict[str, Kind] = {
    "TINYINT": "int", "SMALLINT": "int", "INT": "int", "BIGINT": "int", "FLOAT": "float", "DOUBLE": "float",
    "BOOLEAN": "bool", "TIMESTAMP": "time", "TIMESTAMP_NTZ": "time", "DATE": "date", "STRING": "text",
    "BINARY": "bytes", "INTERVAL DAY TO SECOND": "span",
}  # fmt: skip

#: What stands where a value of the kind is NULL.
DEFAULTS: dict[Kind, str] = {
    "int": "0", "float": "0.0", "bool": "False", "time": "0", "date": "0", "span": "0", "text": "''",
    "decimal": "_ZERO", "bytes": "b''", "other": "None", "null": "0",
}  # fmt: skip

#: The kind in words, for errors.
WORDS: dict[Kind, str] = {
    "int": "a whole number", "float": "a number", "bool": "a truth value", "time": "a time", "date": "a date",
    "span": "a length of time", "text": "text", "decimal": "a decimal number", "bytes": "binary data",
    "other": "a nested value", "null": "NULL",
}  # fmt: skip


def kind_of(type_: str) -> Kind:
    """The kind of a column's values, by its normal type."""
    if type_.startswith("DECIMAL"):
        return "decimal"
    return _KINDS.get(type_, "other")


@dataclass(frozen=True)
class Code:
    """A value as program text: `null` is "False" where it can never be NULL."""

    value: str
    kind: Kind
    null: str = "False"

    def __post_init__(self) -> None:
        # It is put into other text, where a comparison that is not in brackets would go on with what follows.
        if not _PLAIN.fullmatch(self.null):
            object.__setattr__(self, "null", f"({self.null})")

    @property
    def simple(self) -> bool:
        """Whether both are short enough to be written out more than once."""
        return len(self.value) <= 24 and len(self.null) <= 24


NULL = Code("0", "null", "True")


def either(*nulls: str) -> str:
    """Text for: one of these is NULL."""
    if "True" in nulls:
        return "True"
    found = list(dict.fromkeys(null for null in nulls if null != "False"))
    if not found:
        return "False"
    return found[0] if len(found) == 1 else f"({' or '.join(found)})"


@dataclass
class Writer:
    """Lines of a program, each at its depth, and those that stand before all of them."""

    lines: list[str] = field(default_factory=list)
    declared: list[str] = field(default_factory=list)
    depth: int = 1
    _count: int = 0

    def emit(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    def declare(self, line: str) -> None:
        """A line that stands before all others: what is allocated once."""
        if line not in self.declared:
            self.declared.append(line)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """What is written inside stands below `head`."""
        self.emit(head)
        before = len(self.lines)
        self.depth += 1
        yield
        if len(self.lines) == before:
            self.emit("pass")
        self.depth -= 1

    def put(self, values: Sequence[tuple[str, str]], row: str) -> None:
        """Put values into arrays that have room for as many rows each, at a row that may be the next."""
        with self.block(f"if {row} >= len({values[0][0]}):"):
            for array, _value in values:
                self.emit(f"{array} = _fit({array}, {row})")
        for array, value in values:
            self.emit(f"{array}[{row}] = {value}")

    def fresh(self, stem: str = "v") -> str:
        self._count += 1
        return f"{stem}{self._count}"

    def kept(self, code: Code) -> Code:
        """The same value under names, so that it is computed once."""
        if code.simple:
            return code
        value = self.fresh()
        self.emit(f"{value} = {code.value}")
        null = code.null
        if len(null) > 24:
            null = self.fresh("z")
            self.emit(f"{null} = {code.null}")
        return Code(value, code.kind, null)
