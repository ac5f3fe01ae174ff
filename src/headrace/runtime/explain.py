"""EXPLAIN in all its forms: how an object is kept, step by step, with what state, and how a new view would be."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.errors import NotYetMaintained
from headrace.language import (
    CreateStream,
    CreateView,
    CreateViewDelta,
    CreateViews,
    Explain,
    ExplainCreate,
    Query,
    Select,
    format_duration,
    format_time,
)
from headrace.language.synchronized import BETWEEN
from headrace.maintenance.user_aggregates.evaluating import calls_aggregates
from headrace.maintenance.user_aggregates.known import known_aggregates
from headrace.runtime.books import book_of
from headrace.runtime.call_steps import Steps, steps_of
from headrace.runtime.call_text import aggregate_lines, call_lines
from headrace.runtime.declared_together import Common, common_views
from headrace.runtime.describe import LOGS, key_sentence
from headrace.runtime.estimates import plan_lines, rows_of, whole_line
from headrace.runtime.home import Home, query_of, written_query
from headrace.runtime.info import Info, counted
from headrace.runtime.options import POLICIES
from headrace.runtime.part_text import function_lines, functions_of, made_of_lines, part_lines
from headrace.runtime.part_views import declared as declared_function
from headrace.runtime.plan_text import PATTERNS, PlanWords, state_bytes
from headrace.runtime.plans import Plan
from headrace.runtime.program_text import program_lines
from headrace.runtime.shared_views import SHARED, own_inputs
from headrace.runtime.sharing_choice import shared_answer, shared_view
from headrace.runtime.sharing_text import explain_sharing, readings_in_words, shared_lines
from headrace.runtime.starts import FULL_POINT
from headrace.runtime.state_text import explain_state
from headrace.runtime.states import states_of
from headrace.runtime.strategy import FEW_ROWS, RECOMPUTE, find_plan, mode_of, strategy_changed
from headrace.runtime.translation import is_translated, translate
from headrace.runtime.views import declared, inputs_of
from headrace.storage.catalog import Snapshot
from headrace.storage.records import Object, RefreshRecord


def explain(home: Home, statement: Explain) -> Info:
    """Answer an EXPLAIN."""
    inner = statement.statement
    if statement.kind is not None and inner is not None:
        raise NotYetMaintained(f"EXPLAIN {statement.kind}", place=statement.place)
    if statement.target is not None:
        aggregates = known_aggregates(home.snapshot())
        if home.snapshot().get(statement.target) is None and statement.target.lower() in aggregates:
            return Info("EXPLAIN", "\n".join(aggregate_lines(aggregates[statement.target.lower()], aggregates)))
        item = home.snapshot().find(statement.target)
        if statement.kind == "SHARING":
            return Info("EXPLAIN", explain_sharing(home, item))
        if statement.kind == "STATE":
            return explain_state(home, item)
        return Info("EXPLAIN", explain_maintenance(home, item) if statement.kind else explain_object(home, item))
    if isinstance(inner, Select):
        shared = shared_answer(home, home.relations(), inner.query)
        told = [] if shared is None else readings_in_words(shared)
        return Info("EXPLAIN", "\n".join([_query(home.snapshot(), inner.query), *told]))
    if isinstance(inner, CreateViewDelta):
        return explain_function(home, inner)
    if isinstance(inner, CreateViews):
        return _together(home, inner)
    if isinstance(inner, CreateView | CreateStream) and inner.query is not None:
        return _create(home, inner)
    raise NotYetMaintained(f"EXPLAIN {inner.name_of_statement if inner is not None else ''}", place=statement.place)


def explain_create(home: Home, statement: ExplainCreate) -> Info:
    """Answer an EXPLAIN CREATE VIEW. Nothing is made, and no transaction begun."""
    return _create(home, statement.statement)


# -- what is there --------------------------------------------------------------------------------------------------


def explain_object(home: Home, item: Object) -> str:
    """How an object is kept, in sentences."""
    snapshot = home.snapshot()
    lines = [f"{item.name} is a {item.kind} with {key_sentence(item)}."]
    if item.kind == "source":
        fed = ", ".join(other.name for other in snapshot.dependents(item) if not other.system) or "no stream yet"
        return "\n".join([lines[0], f"Rows come from {item.option('connector')} and go into {fed}."])
    parts = snapshot.parts(item)
    size = sum(part.bytes for part in parts)
    lines.append(
        f"It is stored as {LOGS[item.log]}: {counted(sum(part.rows for part in parts), 'stored row')} in "
        f"{counted(len(parts), 'file')}, {size:,} bytes."
    )
    lines += _view(home, snapshot, item) if item.maintained else _arrivals(item)
    if item.option("retain") is not None:
        what = "Rows" if item.forgets_rows else "Changes"
        lines.append(f"{what} older than {format_duration(item.option('retain'))} are forgotten.")
    if states_of(snapshot, item) and not item.maintained:
        lines.append(f"Its current rows are kept by key for the views over it: {state_bytes(snapshot, item):,} bytes.")
    readers = ", ".join(other.name for other in snapshot.dependents(item) if not other.system)
    lines.append(f"It is read by {readers}." if readers else "Nothing reads it.")
    if item.part_wise:
        lines += ["", *functions_of(snapshot, item)]
    elif item.maintained:
        lines += _plan(home, snapshot, item)
    return "\n".join(lines)


def _view(home: Home, snapshot: Snapshot, item: Object) -> list[str]:
    last = snapshot.last_refresh(item)
    lines = []
    if last is not None:
        whole = last.strategy == RECOMPUTE and not item.part_wise
        told = f", because {last.reason}" if whole else f": {last.reason}"
        lines.append(f"Strategy: {last.strategy}{told}.")
        changed = strategy_changed(home.catalog.refreshes(item.id, 2))
        lines += [f"It {changed}."] if changed else []
    if item.part_wise:
        return [*lines, *part_lines(home, snapshot, item), *_last(last)]
    lines += [_policy(item), f"It is due {_due(item)}."]
    read = own_inputs(snapshot, item) if item.option(SHARED) else snapshot.needs(item)
    lines.append(f"It reads {', '.join(map(_read_name, read)) or 'nothing'}: {written_query(item).sql()}")
    return [*lines, *shared_lines(item), *_last(last)]


def _read_name(item: Object) -> str:
    """What a view reads, as it is written there."""
    return item.name.replace(BETWEEN, " SYNC ") if item.option("regulator") else item.name


def _last(last: RefreshRecord | None) -> list[str]:
    if last is None:
        return []
    at = "an empty home" if last.point is None else format_time(last.point)
    return [
        f"The last refresh took {last.seconds:.3f} s and {counted(last.jobs, 'job')}, "
        f"read {counted(last.rows_in, 'new row')}, "
        f"wrote {last.rows_out:,} and brought it to {at}{_fullness(last)}."
    ]


def _fullness(last: RefreshRecord) -> str:
    """Whether a view shows all of its inputs there, where they are synchronized by several streams."""
    full = last.reaches.get(FULL_POINT)
    if last.point is None or full == last.point:
        return ""
    return (
        ", a partial point; it has had no full one"
        if full is None
        else (f", a partial point; the last full one was {format_time(full)}")
    )


def _policy(item: Object) -> str:
    policy = mode_of(item).policy
    return f"Policy: {policy.upper()}: {POLICIES[policy]}."


def _due(item: Object) -> str:
    every, after, stream = item.option("every"), item.option("after_rows"), item.option("sync")
    words = [f"every {format_duration(every)} of the clock"] if every else []
    words += [f"at the points of {stream}"] if stream else []
    words += [f"after {after:,} new rows"] if after else []
    words += ["only when it is named"] if item.option("on_demand") else []
    return " or ".join(words) or "whenever something it reads has changed"


def _plan(home: Home, snapshot: Snapshot, item: Object) -> list[str]:
    """The plan of a view, or why there is none."""
    if mode_of(item).never:
        return [whole_line(home.engine, snapshot, snapshot.needs(item))]
    steps = steps_of(home, home.relations(), item, query_of(item))
    if isinstance(steps, Steps):
        return ["", *call_lines(steps, kept=bool(states_of(snapshot, item)))]
    plan = steps or find_plan(home, snapshot, item, query_of(item))
    if isinstance(plan, str):
        return [f"It has no plan by its changes: {plan}.", whole_line(home.engine, snapshot, snapshot.needs(item))]
    kept = bool(states_of(snapshot, item))
    lines = plan_lines(home, snapshot, plan, item)
    if not kept and plan.program.operators:
        lines.append(_not_kept(home, snapshot, plan))
    stands = book_of(snapshot, item).stands
    if stands is not None:
        lines.append(
            f"What it keeps stands where the view was at snapshot {stands['read_snapshot']}: following the changes "
            "since was dearer than the query. It catches up once that would have paid."
        )
    lines += [f"In its plan, {plan.rewriting}."] if plan.rewriting else []
    lines += ["", "How it is maintained by its changes:" if kept else "How it would be maintained by its changes:"]
    told = PlanWords(home, snapshot, plan, item if kept else None)
    return [*lines, *told.tree(item.names), *_legend(told)]


def _not_kept(home: Home, snapshot: Snapshot, plan: Plan) -> str:
    few, total = FEW_ROWS[home.engine.kind], rows_of(snapshot, plan.inputs)
    if total < few:
        return f"Nothing is kept to follow changes: below {few:,} rows in all AUTO computes it as a whole."
    return "Nothing is kept to follow changes yet; the next refresh begins with it."


def _legend(told: PlanWords) -> list[str]:
    used = sorted({label.pattern for label in told.patterns.values()})
    return ["", "; ".join(f"{pattern.name}: {PATTERNS[pattern]}" for pattern in used) + "."]


def _arrivals(item: Object) -> list[str]:
    if item.kind == "table":
        retroactive = not item.option("non_retroactive")
        return ["A change of it meets " + ("all rows, old and new." if retroactive else "only rows that arrive later.")]
    kinds = {
        "external": f"by {item.time_column}, which rows bring along",
        "internal": "by the time of their arrival",
        "latent": "by nothing; times are given when an operator needs them",
    }
    lines = [f"Its rows are ordered {kinds[item.time_kind]}."] if item.time_kind in kinds else []
    if item.time_kind == "external":
        policy = {
            "divert": f"diverted to {item.name}__late",
            "drop": "dropped and counted",
            "merge": "merged, and what they touch is made again",
        }[item.option("late", "divert")]
        slack = format_duration(int(item.option("slack") or 0))
        lines.append(f"Rows up to {slack} late are put in order; later ones are {policy}.")
    return lines


# -- step by step ---------------------------------------------------------------------------------------------------


def explain_maintenance(home: Home, item: Object) -> str:
    """The delta program of a view, step by step."""
    snapshot = home.snapshot()
    if not item.maintained:
        return f"{item.name} is a {item.kind}: rows are put into it, and nothing is to be maintained."
    if item.part_wise:
        return "\n".join([*part_lines(home, snapshot, item), "", *functions_of(snapshot, item)])
    if mode_of(item).never:
        return _whole(home, snapshot, item, "REFRESH POLICY FULL asks for it")
    steps = steps_of(home, home.relations(), item, query_of(item))
    if isinstance(steps, Steps):
        return "\n".join(call_lines(steps, kept=bool(states_of(snapshot, item)), programs=True))
    plan = steps or find_plan(home, snapshot, item, query_of(item))
    if isinstance(plan, str):
        return _whole(home, snapshot, item, plan)
    kept = states_of(snapshot, item)
    told = PlanWords(home, snapshot, plan, item if kept else None)
    lines = program_lines(told, item, int(kept[0].option("buckets")) if kept else None)
    if not kept and plan.program.operators:
        lines += ["", _not_kept(home, snapshot, plan)]
    return "\n".join(lines)


def _whole(home: Home, snapshot: Snapshot, item: Object, reason: str) -> str:
    inputs = snapshot.needs(item)
    goes = "The difference to what it was is added to" if item.log == "signed" else "The result replaces"
    lines = [
        f"{item.name} is computed as a whole, because {reason}.",
        f"  1. Read all of {', '.join(other.name for other in inputs) or 'nothing'}.",
        f"  2. The engine evaluates {query_of(item).sql()}",
        f"  3. {goes} {item.name}.",
        whole_line(home.engine, snapshot, inputs),
    ]
    return "\n".join(lines)


# -- what is not there yet ------------------------------------------------------------------------------------------


def explain_function(home: Home, statement: CreateViewDelta) -> Info:
    """How a view delta function would be kept."""
    view, function = declared_function(home, home.relations(), statement)
    head = f"{view.name} would be a view with {key_sentence(view)}, stored as {LOGS[view.log]}."
    return Info("EXPLAIN CREATE VIEW", "\n".join([head, *made_of_lines(view, statement, function)]))


def _translated(home: Home, statement: CreateView) -> Info:
    """How a view would be kept whose functions follow from its query."""
    found = translate(home, home.relations(), statement)
    lines = [f"{statement.name} would be made part by part, by the {found.strategy} strategy.", *found.words]
    for function in found.statements:
        lines += ["", *function_lines(function)]
    return Info("EXPLAIN CREATE VIEW", "\n".join(lines))


def _create(home: Home, statement: CreateView | CreateStream) -> Info:
    if isinstance(statement, CreateView) and is_translated(home.relations(), statement):
        return _translated(home, statement)
    snapshot = home.snapshot()
    shared = shared_view(home, statement, make=False)
    given = None if shared is None else shared.query
    view, query, inputs, _frame = declared(home, snapshot, home.relations(), statement, given)
    told = [] if shared is None else readings_in_words(shared)
    return Info("EXPLAIN CREATE VIEW", "\n".join([*told, *_would(home, snapshot, view, inputs, query)]))


def _together(home: Home, statement: CreateViews) -> Info:
    """What views that are declared together would share."""
    found = common_views(home, statement.views)
    lines = [
        f"{', '.join(common.views)} would be read from what they have in common{_points_of(common)}: "
        f"{common.statement.query.sql()}"
        for common in found
    ]
    apart = [view.name for view in statement.views if not any(view.name in common.views for common in found)]
    lines += [f"{', '.join(apart)} would be made each by itself."] if apart else []
    return Info("EXPLAIN CREATE VIEWS", "\n".join(lines))


def _points_of(common: Common) -> str:
    """When a view is shown that others are read from."""
    statement = common.statement
    if statement.sync_by is not None:
        return f", at the points of {' or '.join(common.streams or (statement.sync_by,))}"
    every = None if statement.refresh is None else statement.refresh.triggers[0].every
    return "" if every is None else f", every {format_duration(every)}"


def _would(home: Home, snapshot: Snapshot, view: Object, inputs: Sequence[Object], query: Query) -> list[str]:
    mode = mode_of(view)
    head = f"It would be a {view.kind} with {key_sentence(view)}, stored as {LOGS[view.log]}."
    lines = [head, _policy(view), _query(snapshot, query)]
    if mode.never:
        lines.insert(0, f"{view.name} would be maintained by recompute, because that is asked for.")
        return [*lines, whole_line(home.engine, snapshot, inputs)]
    steps = steps_of(home, home.relations(), view, query)
    if isinstance(steps, Steps):
        return [f"{view.name} would be maintained by its changes.", *lines, "", *call_lines(steps, kept=False)]
    plan = steps or find_plan(home, snapshot, view, query)
    if isinstance(plan, str):
        if mode.strict:
            first = (
                f"{view.name} would be refused (NOT_INCREMENTAL): it cannot be refreshed by its changes alone: {plan}."
            )
        else:
            first = f"{view.name} would be maintained by recompute, because {plan}."
        return [first, *lines, whole_line(home.engine, snapshot, inputs)]
    few, total = FEW_ROWS[home.engine.kind], rows_of(snapshot, plan.inputs)
    if mode.always or total >= few:
        lines.insert(
            0, f"{view.name} would be maintained by its changes{'' if mode.always else ' where that is cheaper'}."
        )
    else:
        lines.insert(
            0,
            f"{view.name} would be maintained by recompute as long as all it reads has fewer than {few:,} rows, "
            "and then by its changes where that is cheaper.",
        )
    lines += plan_lines(home, snapshot, plan, None)
    told = PlanWords(home, snapshot, plan, None)
    return [*lines, "", "How it would be maintained by its changes:", *told.tree(view.names), *_legend(told)]


def _query(snapshot: Snapshot, query: Query) -> str:
    names = ", ".join(f"{other.name} ({other.kind})" for other in inputs_of(snapshot, query)) or "nothing"
    if query.reads_clock:
        return f"The query reads {names}.\nAt each of its points, windows and Now are those of that time: {query.sql()}"
    if calls_aggregates(snapshot, query):
        return f"The query reads {names}.\nIts aggregates are called over rows in their order: {query.sql()}"
    sql = query.to_spark([ref.name for ref in query.relations()])
    return f"The query reads {names}.\nSpark is asked: {sql}"
