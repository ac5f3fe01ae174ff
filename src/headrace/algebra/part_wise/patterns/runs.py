"""A run of the state machine as text: its columns in the helper view, and the conditions on which it moves."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from headrace.algebra.expressions import rewrite
from headrace.algebra.part_wise.patterns.accumulators import Accumulators, Naming
from headrace.algebra.part_wise.patterns.pattern_columns import Bound, identifier
from headrace.algebra.part_wise.patterns.state_machine import NEW, PREV, Edge, StateMachine, state_machine
from headrace.language import format_seconds, quote_name
from headrace.language.query import Scalar

#: The columns of a joined row, or of the arguments of a lambda: both are written New.x and Prev.y.
JOINED = Naming(
    lambda name: exp.Column(this=identifier(name), table=exp.to_identifier(NEW)),
    lambda name: exp.Column(this=identifier(name), table=exp.to_identifier(PREV)),
)
_TIMES = ("TIMESTAMP", "TIMESTAMP_NTZ", "DATE", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL")


@dataclass(frozen=True)
class Runs:
    """All that the text of a helper view is made from."""

    bound: Bound
    machine: StateMachine
    helper: str
    length: int
    state: str
    kept: Accumulators

    @property
    def groups(self) -> list[str]:
        return [quote_name(name) for name in self.bound.described.groups]

    def complete(self) -> None:
        """Keep also what the machine itself reads: the columns of the last row, and the time of the first."""
        for column in self.machine.auxlist:
            self.kept.keep("last", _column(column))
        if self.machine.within is not None:
            self.kept.keep("first", _column(self.time()))

    def time(self) -> str:
        """The column that tells when a row happened."""
        order = self.bound.order_by()
        type_ = self.bound.types[order[0]] if order else ""
        if type_.split("(")[0] not in _TIMES:
            raise self.bound.error(
                "BAD_PATTERN",
                f"WITHIN is a length of time, and {self.bound.source.name} has no time to order its rows by.",
                "Give the stream an ORDER BY column of type TIMESTAMP, or leave WITHIN out.",
            )
        return order[0]

    # -- conditions over New and Prev -----------------------------------------------------------------------------

    def begins(self) -> str:
        """Whether the new row begins a run."""
        return self._holds(self.machine.edge(0, 1))

    def moves(self) -> list[tuple[int, str]]:
        """States and the condition on which the new row takes a run there; the first that holds is meant.

        A state's self-edge stands before its edge to the next state, because states are in order.
        """
        found: list[tuple[int, str]] = []
        for target in range(1, self.machine.accepting + 1):
            edges = [self.machine.edge(source, target) for source in (target - 1, target) if source > 0]
            sources: dict[str, list[str]] = {}
            for edge in edges:
                if edge is not None:
                    sources.setdefault(self._holds(edge), []).append(str(edge.source))
            ways = [self._way(states, condition) for condition, states in sources.items()]
            if len(ways) > 1:
                ways = [f"({' OR '.join(f'({way})' for way in ways)})"]
            if ways:
                found.append((target, ways[0] + self._in_time()))
        return found

    def _way(self, states: list[str], condition: str) -> str:
        state = f"{PREV}.{self.state}"
        before = f"{state} = {states[0]}" if len(states) == 1 else f"{state} IN ({', '.join(states)})"
        return before if condition == "TRUE" else f"{before} AND {condition}"

    def _in_time(self) -> str:
        if self.machine.within is None:
            return ""
        return f" AND {self._moment(f'{NEW}.{quote_name(self.time())}')} <= {self.deadline()}"

    def deadline(self) -> str:
        """The last moment at which WITHIN lets the run before go on."""
        first = self.kept.keep("first", _column(self.time())).name
        seconds = format_seconds(self.machine.within or 0)
        return f"{self._moment(f'{PREV}.{first}')} + INTERVAL '{seconds}' SECOND"

    def still_open(self) -> str | None:
        """Whether a run can go on in part j, which begins one length after the helper's part j-1."""
        if self.machine.within is None:
            return None
        return f"{self.deadline()} >= {PREV}.PART_TIMESTAMP + INTERVAL '{self.length}' SECOND"

    def _moment(self, value: str) -> str:
        """The value of the time column as a TIMESTAMP; a number is seconds since the epoch."""
        return value if self.bound.types[self.time()] == "TIMESTAMP" else f"CAST({value} AS TIMESTAMP)"

    def _holds(self, edge: Edge | None) -> str:
        if edge is None or not edge.predicates:
            return "TRUE"

        def column(node: exp.Expr) -> exp.Expr | None:
            if not isinstance(node, exp.Column):
                return None
            if node.table == PREV:
                return JOINED.prev(self.kept.keep("last", _column(node.name)).name)
            return JOINED.new(node.name)

        predicates = [Scalar(rewrite(predicate.tree, column)) for predicate in edge.predicates]
        return Edge(edge.source, edge.target, tuple(predicates)).condition()

    # -- the input ------------------------------------------------------------------------------------------------

    def parts(self, index: str) -> str:
        """The parts of the input that part `index` of the helper covers."""
        many = self.length // self.bound.source.length
        span = index if many == 1 else f"{index} * {many} .. {index} * {many} + {many - 1}"
        return f"{quote_name(self.bound.source.name)}[{span}]"

    def filters(self) -> str:
        """What chooses the rows that the machine sees, over columns without a qualifier; empty if nothing does."""
        return Edge(0, 0, self.bound.described.filters).condition() if self.bound.described.filters else ""

    def columns_read(self) -> list[str]:
        """The input columns that the machine reads of a new row, those that order rows first."""
        found = dict.fromkeys(self.bound.order_by())
        for edge in self.machine.edges:
            for predicate in edge.predicates:
                found |= dict.fromkeys(it.name for it in predicate.tree.find_all(exp.Column) if it.table == NEW)
        found |= dict.fromkeys(self.arguments())
        return list(found)

    def arguments(self) -> list[str]:
        """The input columns that accumulators read."""
        columns = (
            it.name for kept in self.kept if kept.argument is not None for it in kept.argument.tree.find_all(exp.Column)
        )
        return list(dict.fromkeys(columns))

    def previous(self, index: str) -> str:
        """The part of the helper before part `index`."""
        return f"{quote_name(self.helper)}[{index} - 1] AS {PREV}"

    def same_group(self) -> str:
        """Whether the new rows and the run before are of one group; NULL is a group too."""
        plain = {quote_name(name) for name in self.bound.source.not_null}
        return " AND ".join(f"{NEW}.{it} {'=' if it in plain else '<=>'} {PREV}.{it}" for it in self.groups) or "1 = 1"

    def either_group(self) -> list[str]:
        return [f"COALESCE({NEW}.{it}, {PREV}.{it}) AS {it}" for it in self.groups]


def bind_runs(bound: Bound, helper: str, length: int) -> Runs:
    """The runs of a bound query; the helper's columns are unique among them and the groups."""
    machine = state_machine(bound.described)
    kept = Accumulators(machine, bound)
    return Runs(bound, machine, helper, length, kept.unique("state"), kept)


def unlike(base: str, names: list[str]) -> str:
    """A name, or beginning of names, with which none of `names` begins."""
    while any(name.strip("`").lower().startswith(base) for name in names):
        base = f"_{base}"
    return base


def _column(name: str) -> Scalar:
    return Scalar(exp.Column(this=identifier(name)))
