"""Whether one predicate follows from another, for every row.

Comparisons of a column with constants, BETWEEN, IN and IS NOT NULL, joined by AND, OR and NOT, are understood; anything
else follows only from itself. A predicate holds where it is true, so what compares a column says that it is not NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from itertools import product
from typing import Literal

from sqlglot import exp

from headrace.algebra.expressions import text, unparen
from headrace.algebra.matching.values import Numbers, Texts, Values, is_within, joined

#: What is known of a column of a name: whether it is compared as a number, as a floating-point one, or as a text.
Kind = Literal["number", "float", "text"]
Kinds = Callable[[str], Kind | None]

#: A predicate of more branches than these is taken as it is written.
_MOST_BRANCHES = 64
#: Whole numbers up to here are floating-point numbers too.
_EXACT = 1 << 53

_OPERATORS: dict[type[exp.Expr], str] = {
    exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=", exp.EQ: "=", exp.NEQ: "<>",
}  # fmt: skip
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "<>": "<>"}
_DENIED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "=": "<>", "<>": "="}


@dataclass(frozen=True, eq=False)
class _Atom:
    """What is not put together by AND, OR or NOT."""

    expression: exp.Expr

    @cached_property
    def text(self) -> str:
        return text(self.expression)


@dataclass(frozen=True, eq=False)
class _All:
    parts: tuple[_Formula, ...]


@dataclass(frozen=True, eq=False)
class _Any:
    parts: tuple[_Formula, ...]

    @cached_property
    def text(self) -> frozenset[str] | None:
        """The parts of a disjunction of atoms, by which it is told from others."""
        atoms = [part for part in self.parts if isinstance(part, _Atom)]
        return frozenset(part.text for part in atoms) if len(atoms) == len(self.parts) else None


_Formula = _Atom | _All | _Any


@dataclass(frozen=True, eq=False)
class Condition:
    """A conjunction, with what has been worked out of it: it is compared with many others."""

    parts: tuple[exp.Expr, ...]

    @cached_property
    def formula(self) -> _Formula:
        return _together(_All, [_formula(part) for part in self.parts])

    @cached_property
    def branches(self) -> list[list[_Atom | _Any]]:
        return _branches(self.formula)

    def implies(self, wanted: Condition, kinds: Kinds) -> bool:
        """Whether another condition is true of every row of which this is."""
        return not wanted.parts or all(_holds(one, wanted.formula, kinds) for one in self._facts(kinds))

    def unsaid(self, wanted: Condition, kinds: Kinds) -> list[exp.Expr]:
        """The parts of another condition that do not follow from this one."""
        facts = self._facts(kinds)
        return [part for part in wanted.parts if not all(_holds(one, _formula(part), kinds) for one in facts)]

    def _facts(self, kinds: Kinds) -> list[_Facts]:
        found = []
        for branch in self.branches:
            facts = _Facts()
            for atom in branch:
                facts.add(atom, kinds)
            found += [] if facts.never else [facts]
        return found


def implies(given: exp.Expr | None, wanted: exp.Expr | None, kinds: Kinds) -> bool:
    """Whether `wanted` is true of every row of which `given` is; None stands for no condition."""
    one, other = (Condition(() if part is None else (part,)) for part in (given, wanted))
    return one.implies(other, kinds)


@dataclass
class _Facts:
    """What holds in one branch of a predicate: the values of columns, columns that are not NULL, and what it says."""

    values: dict[str, Values] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)
    said: set[str | frozenset[str]] = field(default_factory=set)
    never: bool = False

    def add(self, atom: _Atom | _Any, kinds: Kinds) -> None:
        if atom.text is not None:
            self.said.add(atom.text)
        if isinstance(atom, _Any):
            return
        column = _not_null(atom.expression)
        if column is not None:
            self.known.add(column)
        found = _compared(atom.expression, kinds)
        if found is None:
            return
        name, values = found
        self.known.add(name)
        now = joined(self.values.get(name), values, both=True)
        if now is not None:
            self.values[name] = now
            self.never = self.never or now.empty


def _holds(facts: _Facts, wanted: _Formula, kinds: Kinds) -> bool:
    if isinstance(wanted, _All):
        return all(_holds(facts, part, kinds) for part in wanted.parts)
    if wanted.text is not None and wanted.text in facts.said:
        return True
    if isinstance(wanted, _Any):
        return any(_holds(facts, part, kinds) for part in wanted.parts) or _covered(facts, wanted.parts, kinds)
    column = _not_null(wanted.expression)
    if column is not None:
        return column in facts.known
    return _covered(facts, [wanted], kinds)


def _covered(facts: _Facts, parts: Sequence[_Formula], kinds: Kinds) -> bool:
    """Whether a column's values all lie in what some comparisons of it allow together."""
    found = [_compared(part.expression, kinds) if isinstance(part, _Atom) else None for part in parts]
    names = {one[0] for one in found if one is not None}
    if None in found or len(names) != 1:
        return False
    (name,) = names
    allowed: Values | None = None
    for one in found:
        assert one is not None
        allowed = joined(allowed, one[1], both=False)
        if allowed is None:
            return False
    return name in facts.values and allowed is not None and is_within(facts.values[name], allowed)


def _branches(formula: _Formula) -> list[list[_Atom | _Any]]:
    """The ways in which a predicate can hold, each as what must hold then."""
    parts: list[list[list[_Atom | _Any]]] = []
    count = 1
    for part in formula.parts if isinstance(formula, _All) else (formula,):
        ways: list[list[_Atom | _Any]]
        if isinstance(part, _Any):
            ways = [one for way in part.parts for one in _branches(way)]
            ways = [[part]] if count * len(ways) > _MOST_BRANCHES else ways
        else:
            assert isinstance(part, _Atom)
            ways = [[part]]
        count *= len(ways)
        parts.append(ways)
    return [[atom for way in ways for atom in way] for ways in product(*parts)]


def _formula(predicate: exp.Expr, *, denied: bool = False) -> _Formula:
    """The predicate with NOT pushed down to where it denies a comparison, or something that is not understood."""
    predicate = unparen(predicate)
    if isinstance(predicate, exp.Not):
        return _formula(predicate.this, denied=not denied)
    if isinstance(predicate, exp.And | exp.Or):
        parts = [_formula(part, denied=denied) for part in (predicate.this, predicate.expression)]
        return _together(_All if isinstance(predicate, exp.And) != denied else _Any, parts)
    if isinstance(predicate, exp.Boolean) and bool(predicate.this) is not denied:
        return _All(())
    if not denied:
        return _Atom(predicate)
    operator = _OPERATORS.get(type(predicate))
    if operator is not None:
        turned = next(kind for kind, sign in _OPERATORS.items() if sign == _DENIED[operator])
        return _Atom(turned(this=predicate.this.copy(), expression=predicate.expression.copy()))
    return _Atom(exp.Not(this=predicate.copy()))


def _together(kind: type[_All] | type[_Any], parts: Sequence[_Formula]) -> _Formula:
    flat: list[_Formula] = []
    for part in parts:
        flat += part.parts if isinstance(part, kind) else [part]
    return flat[0] if len(flat) == 1 else kind(tuple(flat))


def _not_null(atom: exp.Expr) -> str | None:
    """The column that `x IS NOT NULL` is about, however it is spelled."""
    if isinstance(atom, exp.Not):
        inner = unparen(atom.this)
        if isinstance(inner, exp.Is) and isinstance(inner.expression, exp.Null):
            column = unparen(inner.this)
            return _name(column) if isinstance(column, exp.Column) else None
    return None


def _compared(atom: exp.Expr, kinds: Kinds) -> tuple[str, Values] | None:
    """A column, and the values of it for which a predicate holds; None where it is about something else."""
    denied = isinstance(atom, exp.Not)
    inner = unparen(atom.this) if denied else atom
    if isinstance(inner, exp.In) and not inner.args.get("query"):
        return _listed(inner, denied, kinds)
    if isinstance(inner, exp.Between):
        ends = [("<", inner.args["low"]), (">", inner.args["high"])] if denied else None
        ends = ends or [(">=", inner.args["low"]), ("<=", inner.args["high"])]
        found = [_one(inner.this, operator, end, kinds) for operator, end in ends]
        if found[0] is None or found[1] is None:
            return None
        values = joined(found[0][1], found[1][1], both=not denied)
        return None if values is None else (found[0][0], values)
    operator = _OPERATORS.get(type(inner))
    if operator is None or denied:
        return None
    left, right = unparen(inner.this), unparen(inner.args["expression"])
    if isinstance(left, exp.Column):
        return _one(left, operator, right, kinds)
    return _one(right, _TURNED[operator], left, kinds)


def _listed(atom: exp.In, denied: bool, kinds: Kinds) -> tuple[str, Values] | None:
    values: Values | None = None
    name = ""
    for item in atom.expressions:
        found = _one(atom.this, "<>" if denied else "=", item, kinds)
        if found is None:
            return None
        name = found[0]
        values = joined(values, found[1], both=denied)
    return None if values is None else (name, values)


def _one(side: exp.Expr, operator: str, other: exp.Expr, kinds: Kinds) -> tuple[str, Values] | None:
    column, constant = unparen(side), unparen(other)
    if not isinstance(column, exp.Column) or not isinstance(column.this, exp.Identifier):
        return None
    kind = kinds(column.name)
    negative = isinstance(constant, exp.Neg)
    literal = unparen(constant.this) if negative else constant
    if not isinstance(literal, exp.Literal):
        return None
    if literal.is_string:
        values = Texts.compared(operator, literal.name) if kind == "text" and not negative else None
        return None if values is None else (_name(column), values)
    if kind not in ("number", "float") or "e" in literal.name.lower():
        return None
    number = Decimal(literal.name).copy_negate() if negative else Decimal(literal.name)
    # Constants that are near each other may be the same floating-point number.
    if kind == "float" and (number != number.to_integral_value() or abs(number) > _EXACT):
        return None
    return _name(column), Numbers.compared(operator, number)


def _name(column: exp.Column) -> str:
    return ".".join(_lowered(column))


def _lowered(column: exp.Column) -> Iterator[str]:
    if column.table:
        yield column.table.lower()
    yield column.name.lower()
