"""Part references as plain data: which temporal parts ``M[i]``, ``M[i-3..i]`` or ``M[i*60-59 .. i*60]`` mean.

A subscript is whole-number arithmetic on one part variable: sums, products with a number, and division rounded down.
All of it comes to ``(scale * variable + offset) // divisor``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from headrace.errors import LanguageError, Place
from headrace.language import nodes


@dataclass(frozen=True)
class Subscript:
    """``(scale * variable + offset) // divisor``, rounded down; without a variable the scale is 0."""

    scale: int
    offset: int
    divisor: int = 1

    def at(self, part: int) -> int:
        return (self.scale * part + self.offset) // self.divisor

    def words(self, variable: str) -> str:
        """The subscript as it could be written."""
        if self.scale == 0:
            return str(self.at(0))
        text = variable if self.scale == 1 else f"{variable}*{self.scale}"
        text += f"{self.offset:+d}" if self.offset else ""
        if self.divisor == 1:
            return text
        return f"({text})/{self.divisor}" if text != variable else f"{text}/{self.divisor}"


@dataclass(frozen=True)
class PartRange:
    """The parts from `first` to `last`, both included, and the variable they are told by, if there is one."""

    first: Subscript
    last: Subscript
    variable: str | None = None

    def at(self, part: int) -> tuple[int, int]:
        return self.first.at(part), self.last.at(part)

    def ending(self, count: int) -> PartRange:
        """So many parts that end where these do, or fewer where these are."""
        first = Subscript(self.last.scale, self.last.offset - (count - 1) * self.last.divisor, self.last.divisor)
        return PartRange(first, self.last, self.variable)

    def words(self, variable: str) -> str:
        """The parts as they could be written."""
        first, last = self.first.words(variable), self.last.words(variable)
        return first if first == last else f"{first}..{last}"


def parts_of(suffixes: Sequence[exp.Expr], place: Place | None = None) -> PartRange | None:
    """The part reference among what stands behind a relation, if there is one."""
    found = [suffix for suffix in suffixes if isinstance(suffix, nodes.PartReference)]
    if not found:
        return None
    if len(found) > 1:
        raise LanguageError(
            "DUPLICATE_CLAUSE",
            "A relation in FROM has one part reference, and here are two.",
            hint="Write a run of parts as M[i-3..i].",
            place=place,
        )
    node = found[0]
    ends = [node.this, node.args.get("to") or node.this]
    variables = {column.name for end in ends for column in end.find_all(exp.Column)}
    if len(variables) > 1:
        raise LanguageError(
            "BAD_PART",
            f"A part reference has one variable, and here are {' and '.join(sorted(variables))}.",
            hint="Write numbers for the others, such as M[i-9..i] for ten parts.",
            place=place,
        )
    first, last = (_subscript(end, place) for end in ends)
    return PartRange(first, last, next(iter(variables), None))


def _subscript(node: exp.Expr, place: Place | None) -> Subscript:
    match node:
        case exp.Paren():
            return _subscript(node.this, place)
        case exp.Literal() if not node.is_string and node.name.isdigit():
            return Subscript(0, int(node.name))
        case exp.Column() if not node.table:
            return Subscript(1, 0)
        case exp.Neg():
            return _times(_subscript(node.this, place), -1, place)
        case exp.Add() | exp.Sub():
            sign = -1 if isinstance(node, exp.Sub) else 1
            return _sum(_subscript(node.this, place), _times(_subscript(node.expression, place), sign, place), place)
        case exp.Mul():
            left, right = _subscript(node.this, place), _subscript(node.expression, place)
            if left.scale and right.scale:
                raise _bad(place)
            return _times(left, right.at(0), place) if left.scale else _times(right, left.at(0), place)
        case exp.Div() | exp.IntDiv():
            return _over(_subscript(node.this, place), _subscript(node.expression, place), place)
    raise _bad(place)


def _sum(left: Subscript, right: Subscript, place: Place | None) -> Subscript:
    if left.divisor != 1 and right.divisor != 1:
        raise _bad(place)
    if left.divisor == 1 and right.divisor != 1:
        left, right = right, left
    divisor = left.divisor
    return Subscript(left.scale + divisor * right.scale, left.offset + divisor * right.offset, divisor)


def _times(of: Subscript, factor: int, place: Place | None) -> Subscript:
    if of.divisor != 1:
        if factor == 1:
            return of
        raise _bad(place)
    return Subscript(of.scale * factor, of.offset * factor)


def _over(of: Subscript, by: Subscript, place: Place | None) -> Subscript:
    if by.scale or by.at(0) < 1:
        raise _bad(place)
    return Subscript(of.scale, of.offset, of.divisor * by.at(0))


def _bad(place: Place | None) -> LanguageError:
    return LanguageError(
        "BAD_PART",
        "A part is told by its variable and whole numbers: sums, products with a number, division by one.",
        hint="M[i], M[j-1], M[i*60 .. i*60+59], M[j/60].",
        place=place,
    )


def at_part(tree: exp.Expr, part: int) -> exp.Expr:
    """The tree with its part variable set: every reference names its parts by numbers."""
    copy = tree.copy()
    for node in copy.find_all(nodes.PartReference):
        found = parts_of([node])
        if found is None:
            continue
        first, last = found.at(part)
        node.set("this", _number(first))
        node.set("to", None if first == last else _number(last))
    return copy


def _number(value: int) -> exp.Expr:
    literal = exp.Literal.number(abs(value))
    return exp.Neg(this=literal) if value < 0 else literal


def without_parts(tree: exp.Expr) -> exp.Expr:
    """The tree with every relation read as a whole."""
    copy = tree.copy()
    for table in copy.find_all(exp.Table):
        suffixes = table.args.get("suffixes") or ()
        table.set("suffixes", [suffix for suffix in suffixes if not isinstance(suffix, nodes.PartReference)] or None)
    return copy
