"""The aggregates that SQL has of its own, inside a body: variables that rows are added to, and a result.

Variables are named by a function, since with GROUP BY each is an array with a place for every group.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from headrace.algebra.user_aggregates.faults import Fault
from headrace.algebra.user_aggregates.functions import above, converted
from headrace.algebra.user_aggregates.values import DEFAULTS, NUMBERS, WORDS, Code, Kind, Writer

#: What is kept of each, by name: count of the values, what they add up to or the best of them.
BUILT_IN: dict[type[exp.Expr], str] = {
    exp.Count: "count", exp.Sum: "sum", exp.Avg: "avg", exp.Min: "min", exp.Max: "max",
}  # fmt: skip


@dataclass(frozen=True)
class Variable:
    """A variable of an accumulator, and what it is at the beginning."""

    name: str
    kind: Kind
    start: str


@dataclass(frozen=True)
class Accumulator:
    """One aggregate over rows: `argument` is None for count(*)."""

    function: str
    kind: Kind
    variables: tuple[Variable, ...]

    def step(self, writer: Writer, argument: Code | None, at: Callable[[Variable], str]) -> None:
        """Add a row."""
        if argument is None:
            writer.emit(f"{at(self.variables[0])} += 1")
            return
        value = writer.kept(argument)
        if value.null == "True":
            return
        with writer.block("if True:" if value.null == "False" else f"if not {value.null}:"):
            count = at(self.variables[0])
            if self.function in ("sum", "avg"):
                total = at(self.variables[1])
                added = converted(value, self.variables[1].kind).value
                text = f"_add({total}, {added})" if self.variables[1].kind == "int" else f"{total} + {added}"
                writer.emit(f"{total} = {text}")
            elif self.function in ("min", "max"):
                best = at(self.variables[1])
                better = above(value, best) if self.function == "max" else above(Code(best, value.kind), value.value)
                with writer.block(f"if {count} == 0 or {better}:"):
                    writer.emit(f"{best} = {value.value}")
            writer.emit(f"{count} += 1")

    def result(self, at: Callable[[Variable], str]) -> Code:
        count = at(self.variables[0])
        if self.function == "count":
            return Code(count, "int")
        found = at(self.variables[1])
        if self.function == "avg":
            return Code(f"_divide({found}, {count})", self.kind, f"{count} == 0")
        return Code(found, self.kind, f"{count} == 0")


def accumulator(node: exp.Expr, argument: Code | None, writer: Writer) -> Accumulator:
    """The accumulator of a call, given what its argument is like."""
    function = BUILT_IN[type(node)]
    count = Variable(writer.fresh("n"), "int", "0")
    if function == "count":
        return Accumulator(function, "int", (count,))
    assert argument is not None
    kind = argument.kind
    if function in ("sum", "avg"):
        if kind not in NUMBERS and kind != "null":
            raise Fault("WRONG_TYPE", f"{function} of {WORDS[kind]}", node)
        kind = "int" if kind == "null" else kind
        kept: Kind = "float" if function == "avg" and kind == "int" else kind
        return Accumulator(function, kept, (count, Variable(writer.fresh("s"), kept, DEFAULTS[kept])))
    return Accumulator(function, kind, (count, Variable(writer.fresh("b"), kind, DEFAULTS[kind])))
