"""Which parts a view delta function needs for each part it makes, and which of its parts a changed part touches.

Part n of a relation with parts of L seconds spans the time from n * L to (n + 1) * L. A reference is sound if it keeps
its distance as time goes on, names at least one part, and never one that begins after the part that is to be made ends.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

from headrace.errors import DefinitionError, Place
from headrace.language import PartRange, RelationRef, Subscript


@dataclass(frozen=True)
class Reference:
    """A reference to parts of `length` seconds of the relation with this id; `own`: of the view itself."""

    relation: int
    name: str
    length: int
    parts: PartRange
    own: bool = False

    def needs(self, part: int) -> tuple[int, int]:
        """The first and last part that part `part` of the view needs."""
        return self.parts.at(part)

    def touched(self, changed: tuple[int, int], between: tuple[int, int]) -> range:
        """The parts of the view, in a range with both ends, for which one of the `changed` parts is needed."""
        low, high = between
        window = range(low, high + 1)
        first = bisect_left(window, changed[0], key=self.parts.last.at)
        last = bisect_left(window, changed[1] + 1, key=self.parts.first.at)
        return window[first:last]

    def first_from(self, oldest: int) -> int | None:
        """The first part of the view that needs no part before `oldest`; None when all do."""
        first = self.parts.first
        if first.scale == 0:
            return None if first.at(0) < oldest else -(1 << 62)
        # Rounded down: the least n with scale * n + offset >= oldest * divisor.
        return -((first.offset - oldest * first.divisor) // first.scale)

    def last_upto(self, newest: int, length: int) -> int:
        """The newest part of a view with parts of `length` seconds for which all it needs is there."""
        covered = newest * self.length // length
        last = self.parts.last
        if last.scale == 0:
            return covered if last.at(0) <= newest else -(1 << 62)
        return min(covered, ((newest + 1) * last.divisor - 1 - last.offset) // last.scale)


def check_reference(ref: RelationRef, length: int, source: int | None, variable: str, *, own: bool) -> PartRange:
    """The parts a mention of a relation names, checked; `length` is the view's, `source` the relation's."""
    parts = ref.parts
    if source is None:
        raise DefinitionError(
            "NO_PARTS",
            f"{ref.name} has no temporal parts, so it has no part {_shown(parts, variable)}.",
            hint=f"Declare it with PARTITION LENGTH, or read it as a whole: FROM {ref.name}.",
            place=ref.place,
        )
    if parts is None:
        raise DefinitionError(
            "PARTS_NOT_TOLD",
            f"{ref.name} grows part by part, and it is not told which of them are read.",
            hint=f"Write {ref.name}[{variable}] for the part of the same time.",
            place=ref.place,
        )
    if parts.variable is not None and parts.variable.lower() != variable.lower():
        raise DefinitionError(
            "BAD_PART",
            f"{ref.name}[{parts.variable}] is told by {parts.variable}, and the part that is made by {variable}.",
            hint=f"Write {ref.name}[{variable}], and numbers for lengths.",
            place=ref.place,
        )
    if length % source and source % length:
        raise _never(
            ref.place,
            f"parts of {ref.name} span {source} s and parts of the view {length} s: neither divides the other",
            f"Choose a PARTITION LENGTH that {source} divides.",
        )
    ratio = Fraction(length, source)
    for end in (parts.first, parts.last):
        _check_pace(ref, end, ratio, variable)
    rounds = lcm(parts.first.divisor, parts.last.divisor)
    for part in range(rounds):
        first, last = parts.at(part)
        if parts.first.scale and parts.last.scale and first > last:
            raise _never(
                ref.place,
                f"{ref.name}[{_shown(parts, variable)}] runs backwards and names {last - first + 1} parts",
                "The older part comes first.",
            )
        if own and parts.last.scale and last >= part:
            raise _never(
                ref.place,
                f"part {variable} of {ref.name} cannot read part {_shown(parts, variable)}, which is made later",
                f"Earlier parts can be read: {ref.name}[{variable}-1].",
            )
        if parts.last.scale and last * source >= (part + 1) * length:
            raise _never(
                ref.place,
                f"{ref.name}[{_shown(parts, variable)}] lies in the future of part {variable}",
                f"The newest part that can be there is {ref.name}[{_newest(ratio, variable)}].",
            )
    if not (parts.first.scale or parts.last.scale) and parts.first.at(0) > parts.last.at(0):
        raise _never(ref.place, f"{ref.name}[{_shown(parts, variable)}] runs backwards", "The older part comes first.")
    return parts


def _check_pace(ref: RelationRef, end: Subscript, ratio: Fraction, variable: str) -> None:
    if end.scale == 0 or Fraction(end.scale, end.divisor) == ratio:
        return
    whole = ratio.numerator if ratio.denominator == 1 else None
    right = (
        f"{ref.name}[{variable}*{whole} .. {variable}*{whole}+{whole - 1}]"
        if whole is not None and whole > 1
        else f"{ref.name}[{_newest(ratio, variable)}]"
    )
    raise _never(
        ref.place,
        f"the view goes on by one part while {ref.name} goes on by {_ratio(ratio)}, and the reference by "
        f"{_ratio(Fraction(end.scale, end.divisor))}: it drifts away from the time of the part that is made",
        f"The parts of the same time are {right}.",
    )


def _ratio(ratio: Fraction) -> str:
    return str(ratio) if ratio.denominator > 1 else str(ratio.numerator)


def _newest(ratio: Fraction, variable: str) -> str:
    if ratio == 1:
        return variable
    if ratio.denominator == 1:
        return f"{variable}*{ratio.numerator}+{ratio.numerator - 1}"
    return f"{variable}/{ratio.denominator}"


def _never(place: Place | None, why: str, hint: str) -> DefinitionError:
    return DefinitionError("PARTS_NEVER_THERE", f"These parts can never be there: {why}.", hint=hint, place=place)


def _shown(parts: PartRange | None, variable: str) -> str:
    return variable if parts is None else parts.words(variable)


def first_part(references: Sequence[Reference], first: dict[int, int], newest: dict[int, int], length: int) -> int:
    """The part a view begins with: the newest whose needs were there when it was made, but none before all can be.

    `first` and `newest` are the first and newest part of each relation that is referenced.
    """
    begin = max((found for ref in references if (found := ref.first_from(first[ref.relation])) is not None), default=0)
    there = min((ref.last_upto(newest[ref.relation], length) for ref in references), default=0)
    return max(begin, there)


def parts_touched_sql(parts: PartRange, source_part: str, first: int, last: int) -> tuple[str, str]:
    """SQL for the first and last part, from `first` to `last`, for which a row of part `source_part` is needed.

    The first is above the last where there is none.
    """
    low = f"CAST({first} AS BIGINT)"
    high = f"CAST({last} AS BIGINT)"
    end, begin = parts.last, parts.first
    if end.scale:
        low = f"greatest({low}, CAST(ceil(({source_part} * {end.divisor} - ({end.offset})) / {end.scale}) AS BIGINT))"
    if begin.scale:
        top = f"({source_part} + 1) * {begin.divisor} - 1 - ({begin.offset})"
        high = f"least({high}, CAST(floor(({top}) / {begin.scale}) AS BIGINT))"
    return low, high
