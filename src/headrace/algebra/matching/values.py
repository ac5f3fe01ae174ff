"""Sets of values of a column, as comparisons with constants tell them: runs of numbers, or texts that are in or out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

#: A bound: the number, and whether it lies just below it (-1), at it (0) or just above it (1).
Bound = tuple[Decimal, int]
_LOWEST: Bound = (Decimal("-Infinity"), 0)
_HIGHEST: Bound = (Decimal("Infinity"), 0)


@dataclass(frozen=True)
class Numbers:
    """Runs of numbers, in order and apart: each from a bound up to another, both included."""

    runs: tuple[tuple[Bound, Bound], ...]

    @classmethod
    def compared(cls, operator: str, number: Decimal) -> Numbers:
        """The numbers for which a comparison with one holds."""
        found: dict[str, list[tuple[Bound, Bound]]] = {
            "<": [(_LOWEST, (number, -1))],
            "<=": [(_LOWEST, (number, 0))],
            ">": [((number, 1), _HIGHEST)],
            ">=": [((number, 0), _HIGHEST)],
            "=": [((number, 0), (number, 0))],
            "<>": [(_LOWEST, (number, -1)), ((number, 1), _HIGHEST)],
        }
        return cls(tuple(found[operator]))

    def either(self, other: Numbers) -> Numbers:
        return Numbers(tuple(_together(sorted((*self.runs, *other.runs)))))

    def both(self, other: Numbers) -> Numbers:
        found = [(max(a[0], b[0]), min(a[1], b[1])) for a in self.runs for b in other.runs]
        return Numbers(tuple(_together(sorted(run for run in found if run[0] <= run[1]))))

    def within(self, other: Numbers) -> bool:
        return all(any(b[0] <= a[0] and a[1] <= b[1] for b in other.runs) for a in self.runs)

    @property
    def empty(self) -> bool:
        return not self.runs


def _together(runs: Iterable[tuple[Bound, Bound]]) -> list[tuple[Bound, Bound]]:
    """Runs that touch are one: there is nothing between just below a number and the number."""
    found: list[tuple[Bound, Bound]] = []
    for low, high in runs:
        if found and low <= _next(found[-1][1]):
            found[-1] = (found[-1][0], max(found[-1][1], high))
        else:
            found.append((low, high))
    return found


def _next(bound: Bound) -> Bound:
    return (bound[0], bound[1] + 1) if bound[1] < 1 else bound


@dataclass(frozen=True)
class Texts:
    """Some texts, or all but some."""

    listed: frozenset[str]
    are_in: bool = True

    @classmethod
    def compared(cls, operator: str, text: str) -> Texts | None:
        """The texts for which a comparison holds; None where their order would matter."""
        return cls(frozenset({text}), operator == "=") if operator in ("=", "<>") else None

    def either(self, other: Texts) -> Texts:
        if self.are_in and other.are_in:
            return Texts(self.listed | other.listed)
        if not self.are_in and not other.are_in:
            return Texts(self.listed & other.listed, False)
        inside, outside = (self, other) if self.are_in else (other, self)
        return Texts(outside.listed - inside.listed, False)

    def both(self, other: Texts) -> Texts:
        if self.are_in and other.are_in:
            return Texts(self.listed & other.listed)
        if not self.are_in and not other.are_in:
            return Texts(self.listed | other.listed, False)
        inside, outside = (self, other) if self.are_in else (other, self)
        return Texts(inside.listed - outside.listed)

    def within(self, other: Texts) -> bool:
        return self.either(other) == other

    @property
    def empty(self) -> bool:
        return self.are_in and not self.listed


Values = Numbers | Texts


def joined(one: Values | None, other: Values, *, both: bool) -> Values | None:
    """Two sets together; None where they are of different kinds."""
    if one is None:
        return other
    if isinstance(one, Numbers) and isinstance(other, Numbers):
        return one.both(other) if both else one.either(other)
    if isinstance(one, Texts) and isinstance(other, Texts):
        return one.both(other) if both else one.either(other)
    return None


def is_within(one: Values, other: Values) -> bool:
    """Whether all values of one set are in another."""
    if isinstance(one, Numbers) and isinstance(other, Numbers):
        return one.within(other)
    return isinstance(one, Texts) and isinstance(other, Texts) and one.within(other)
