"""From a pattern query or a window aggregate to the view delta functions that maintain it (ViewDF 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.algebra.part_wise.patterns.pattern_columns import PatternSource
from headrace.algebra.part_wise.patterns.pattern_functions import pattern_functions, sequence_of
from headrace.algebra.part_wise.patterns.pattern_query import describe_pattern, is_pattern_query
from headrace.algebra.part_wise.patterns.state_machine import describe_machine, state_machine
from headrace.algebra.part_wise.windows.window_functions import possible_strategies, window_functions
from headrace.algebra.part_wise.windows.window_query import (
    WindowQuery,
    WindowSource,
    slides_by_parts,
    window_query,
    windowed_relation,
)
from headrace.algebra.typed import Describe
from headrace.errors import DefinitionError
from headrace.language import CreateView, CreateViewDelta, parse_one
from headrace.maintenance.logs import TS, relation_fields
from headrace.maintenance.relations import Relations
from headrace.maintenance.user_aggregates.evaluating import calls_aggregates
from headrace.planner.window_costs import WindowShape, WindowSizes, choose, window_costs, window_words
from headrace.runtime.home import Home
from headrace.runtime.plans import types_of
from headrace.runtime.window_sizes import measured_sizes
from headrace.storage.records import HELPER_SUFFIX, Object

#: Strategies by which a window view can be made, as the option `strategy` names them.
WINDOW_STRATEGIES = ("recompute", "distributive", "subtractable", "differential")
PATTERN = "state machine"


@dataclass(frozen=True)
class Translation:
    """The statements that make a view, helpers first; by which strategy; and what EXPLAIN tells of it.

    `plain` is the helper's function for parts in which every group has one row at most, if there is one; `groups` are
    the columns that tell groups apart, and `sequence` those that put the rows of a group in order. `guessed`:
    the strategy was chosen by sizes that nobody has measured. `panes`: so many parts of the helper are a window.
    """

    statements: tuple[CreateViewDelta, ...]
    strategy: str
    words: tuple[str, ...]
    plain: str | None = None
    groups: tuple[str, ...] = ()
    sequence: tuple[str, ...] = ()
    guessed: bool = False
    panes: int | None = None


def is_translated(relations: Relations, statement: CreateView) -> bool:
    """Whether a view is maintained by functions that follow from its query."""
    if is_pattern_query(statement.query):
        return True
    if statement.partition_length is None or not slides_by_parts(statement.query):
        return False
    if calls_aggregates(relations.source, statement.query):
        return False
    item = relations.source.find(windowed_relation(statement.query).name)
    return item.partition_length is not None and item.log != "state"


def translate(home: Home, relations: Relations, statement: CreateView, sizes: WindowSizes | None = None) -> Translation:
    """The functions of a view; `sizes` where they are known better than what lies in storage tells."""
    if is_pattern_query(statement.query):
        return _pattern(home, relations, statement)
    return _window(home, relations, statement, sizes)


def _pattern(home: Home, relations: Relations, statement: CreateView) -> Translation:
    _check_strategy(statement, ("auto", "incremental"))
    described = describe_pattern(statement.query)
    item = relations.source.find(described.source)
    if item.partition_length is None or item.log == "state":
        raise DefinitionError(
            "NO_PARTS",
            f"A pattern is looked for part by part, and {item.name} has no temporal parts.",
            hint="Declare it with PARTITION LENGTH n, the seconds that a part spans.",
            place=statement.query.place,
        )
    order = described.order_by[0] if described.order_by else _order(item)
    if order is None and not item.part_wise:
        raise DefinitionError(
            "NO_ORDER",
            f"A pattern is a sequence in time, and the rows of {item.name} have no time to be ordered by.",
            hint="Declare the stream with ORDER BY a column, or write ORDER BY in MATCH_RECOGNIZE.",
            place=statement.query.place,
        )
    length = statement.partition_length or item.partition_length
    columns = [(field.name, field.type) for field in relation_fields(item)]
    known = [field.name for field in item.columns if field.not_null]
    if item.time_kind == "external" and item.time_column is not None:
        known.append(item.time_column)  # a row without a time is not taken in
    source = PatternSource(item.name, columns, order, item.partition_length, tuple(known))
    helper = statement.name + HELPER_SUFFIX

    def functions(*, one_row: bool) -> tuple[str, str]:
        return pattern_functions(
            statement.query, statement.name, helper, source, length, one_row=one_row, describe=_describe(home)
        )

    texts = functions(one_row=False)
    plain = functions(one_row=True)[0]
    sequence = sequence_of(statement.query, statement.name, helper, source, length, _describe(home))
    words = ["It is kept by a state machine for each group, in which a failed row is tried again as the first:"]
    words += describe_machine(state_machine(described))
    return Translation(_parsed(texts), PATTERN, tuple(words), plain, described.groups, tuple(sequence))


def _order(item: Object) -> str | None:
    if item.time_column is not None:
        return item.time_column
    return TS.name if item.option("exposes_ts") else None


def _window(home: Home, relations: Relations, statement: CreateView, sizes: WindowSizes | None) -> Translation:
    asked = _check_strategy(statement, ("auto", "incremental", *WINDOW_STRATEGIES))
    item = relations.source.find(windowed_relation(statement.query).name)
    columns = [(field.name, field.type) for field in relation_fields(item)]
    source = WindowSource(item.name, columns, item.partition_length or 1, _describe(home))
    assert statement.partition_length is not None
    query = window_query(statement.query, statement.partition_length, source, statement.columns)
    reasons = possible_strategies(query)
    possible = [name for name, reason in reasons.items() if reason is None]
    if asked in ("incremental",) and len(possible) > 1:
        possible.remove("recompute")
    helper = statement.name + HELPER_SUFFIX
    if asked in WINDOW_STRATEGIES:
        texts = window_functions(query, asked, statement.name, helper=helper)
        told = (f"The {asked} strategy was asked for.",)
        return Translation(_parsed(texts), asked, told, panes=_panes(query, asked))
    found = sizes or measured_sizes(home, relations, query, item)
    guessed = found is None
    costs = window_costs(found or _GUESS, _shape(query), possible)
    best = choose(costs).strategy
    words = window_words(costs, reasons)
    if guessed:
        words.insert(0, "Nothing could be measured yet, so sizes are guessed until some parts are there.")
    texts = window_functions(query, best, statement.name, helper=helper)
    return Translation(_parsed(texts), best, tuple(words), guessed=guessed, panes=_panes(query, best))


def _panes(query: WindowQuery, strategy: str) -> int | None:
    return query.window // query.pane if strategy in ("distributive", "subtractable") else None


#: Sizes of a stream that nobody has seen yet.
_GUESS = WindowSizes(rows_a_part=10_000, groups_a_pane=1_000, groups_in_window=1_000)


def _shape(query: WindowQuery) -> WindowShape:
    return WindowShape.of(query.window, query.slide, query.pane, query.source.length)


def _check_strategy(statement: CreateView, known: Sequence[str]) -> str:
    policy = None if statement.refresh is None else statement.refresh.mode
    if statement.refresh is not None and statement.refresh.triggers:
        raise DefinitionError(
            "MISPLACED_CLAUSE",
            f"{statement.name} is made part by part, each as soon as all it needs is there.",
            hint="Leave out REFRESH, and choose how often by PARTITION LENGTH.",
            place=statement.place,
        )
    asked = str(statement.options.get("strategy", "auto")).lower()
    by_policy = {"FULL": "recompute", "INCREMENTAL": "incremental", "INCREMENTAL STRICT": "incremental"}
    if policy is not None and policy != "AUTO":
        asked = by_policy[policy]
    if asked not in known:
        raise DefinitionError(
            "BAD_OPTION",
            f"{statement.name} cannot be made by the strategy {asked}.",
            hint=f"It can by: {', '.join(known)}.",
            place=statement.place,
        )
    return asked


def _parsed(texts: Sequence[str]) -> tuple[CreateViewDelta, ...]:
    found = [parse_one(text) for text in texts]
    assert all(isinstance(statement, CreateViewDelta) for statement in found)
    return tuple(statement for statement in found if isinstance(statement, CreateViewDelta))


def _describe(home: Home) -> Describe:
    return lambda text: types_of(home, text)
