"""A view's delta program in words: its steps one by one, and which of them run when one relation changes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from headrace.algebra.nodes import Filter, Generate, Node, Project
from headrace.algebra.words import only_keeps
from headrace.maintenance.here import asks_engine
from headrace.maintenance.operators.join import JoinOperator
from headrace.maintenance.program import ROOT, Edge, Placed, Program, schedule
from headrace.runtime.info import counted
from headrace.runtime.plan_text import PlanWords, is_keyed, states_by_name, way_of_placed, window_words
from headrace.storage.records import Object


@dataclass(frozen=True)
class Effort:
    """What a refresh runs: jobs of the engine, and stages of ours in them."""

    jobs: int
    stages: int

    def __str__(self) -> str:
        return f"{counted(self.jobs, 'job')}, {counted(self.stages, 'stage')}"


def effort(program: Program, changed: Iterable[int], most: int, ticking: Iterable[int] = ()) -> Effort:
    """What a refresh runs when these relations have changed, and these operators are told that the clock has moved.

    `most` levels fit into one job.
    """
    active = program.active(changed, ticking)
    segments = schedule(program, active, most).segments
    # What the engine finishes after an operator of the last job is a job of its own when nothing else follows.
    ending = {number for level in (segments[-1] if segments else ()) for number in level}
    follows = any(
        edge.source in ending and program.operators[edge.source].after is not None
        for edge in program.into(ROOT)
        if edge.source is not None
    )
    return Effort(max(1, len(segments)) + follows, sum(len(levels) for levels in segments))


@dataclass
class _Steps:
    """Numbered lines, and which operators and scans each is for."""

    lines: list[str] = field(default_factory=list)
    numbers: dict[tuple[str, int], int] = field(default_factory=dict)

    def add(self, what: tuple[str, int], text: str, more: Sequence[str] = ()) -> None:
        number = len(self.numbers) + 1
        self.numbers[what] = number
        self.lines.append(f"  {number}. {text}")
        self.lines += [f"     {line}" for line in more]


def program_lines(told: PlanWords, view: Object, buckets: int | None) -> list[str]:
    """The steps of a view's program, then what runs for each relation it reads."""
    plan = told.plan
    every = range(len(plan.inputs))
    whole = effort(plan.program, every, told.home.engine.levels_a_job)
    lines = [
        f"{view.name} is maintained by its changes: {counted(len(plan.program.operators), 'operator')}, at most {whole}"
        + ("." if buckets is None else f"; states are cut into {counted(buckets, 'bucket')}.")
    ]
    lines += _here(told)
    keyed = list(dict.fromkeys(item.name for item in plan.inputs if is_keyed(item)))
    if keyed:
        lines.append(
            f"Before any view, changes are made of the new rows of {', '.join(keyed)}: a key's new row takes back the "
            "one before it. All views share that."
        )
    steps = _Steps()
    _jobs(told, view, steps)
    lines += [*steps.lines, ""]
    for number, item in enumerate(plan.inputs):
        lines.append(_when(told, steps, number, item))
    return [*lines, *_clock(told)]


def _here(told: PlanWords) -> list[str]:
    """Where it runs: in this process as long as changes are small."""
    most = told.home.rows_here
    if not most:
        return []
    program = told.plan.program
    kind = told.home.engine.kind
    asked = any(asks_engine(edge, kind) for edge in program.edges) or any(it.after for it in program.operators)
    engine = "the engine is asked only for what it alone can compute" if asked else "and the engine is not asked"
    return [f"Up to {most:,} changed rows run in this process, {engine}; more run in these jobs."]


def _jobs(told: PlanWords, view: Object, steps: _Steps) -> None:
    program = told.plan.program
    active = program.active(range(len(told.plan.inputs)))
    segments = schedule(program, active, told.home.engine.levels_a_job).segments or ((),)
    stage_of: dict[int, int] = {}
    for levels in segments:
        for level in levels:
            number = 1 + len(set(stage_of.values()))
            stage_of.update(dict.fromkeys(level, number))
    for job, levels in enumerate(segments):
        steps.lines.append(f"Job {job + 1}:")
        for level in levels:
            for edge in (edge for number in level for edge in program.into(number) if edge.scan is not None):
                _read(told, edge, stage_of, view, steps)
            for number in level:
                _operator(told, program.operators[number], stage_of, view, steps)
        if job == len(segments) - 1:
            for edge in program.into(ROOT):
                if edge.scan is not None:
                    _read(told, edge, stage_of, view, steps)
    steps.add(("result", 0), f"The changes are netted and added to {view.name}, in one commit with all new states.")


def _read(told: PlanWords, edge: Edge, stage_of: dict[int, int], view: Object, steps: _Steps) -> None:
    assert edge.scan is not None
    window = told.plan.refs[edge.scan.relation].window
    name = told.words.relation(edge.scan) + ("" if window is None else f" {window_words(window)}")
    name += ", each with its death" if edge.direct else ""
    steps.add(("edge", edge.number), f"Read the changes of {name}; {_onward(told, edge, stage_of, view)}.")


def _onward(told: PlanWords, edge: Edge, stage_of: dict[int, int], view: Object) -> str:
    """What the engine does on an edge, and where it leads."""
    done = _evaluated(told, edge.steps)
    if edge.target == ROOT:
        goes = f"they go to {view.name}"
    else:
        by = f" by {told.words.columns(edge.key)}" if edge.key else ""
        goes = f"they go to stage {stage_of[edge.target]}{by}"
    return f"{done}; {goes}" if done else goes


def _evaluated(told: PlanWords, nodes: Sequence[Node]) -> str:
    words = []
    for node in nodes:
        if only_keeps(node):
            continue
        if isinstance(node, Filter):
            words.append(f"filters {told.words.expression(node.predicate)}")
        elif isinstance(node, Project):
            words.append(f"computes {told.words.computed(node)}")
        elif isinstance(node, Generate):
            words.append(f"generates {told.words.generated(node)}")
    return (
        f"the engine {', '.join(words[:-1])} and {words[-1]}"
        if len(words) > 1
        else "".join(f"the engine {word}" for word in words)
    )


def _operator(told: PlanWords, placed: Placed, stage_of: dict[int, int], view: Object, steps: _Steps) -> None:
    way = way_of_placed(placed)
    what = told.phrase(placed.node)
    if way is not None and "Expire" in way.classes:
        what = f"{way.name} of {what}"
    if "emitted" in {state.name for state in placed.operator.states}:
        doing = "what was given out for these groups is taken back, and the new results are given out and kept"
    else:
        doing = way.step if way is not None else "its changes are worked out from its states"
    if isinstance(placed.operator, JoinOperator) and placed.operator.verdict is not None:
        doing += "; of the left rows, only those are paired again that a change of the right side decides anew"
    more = []
    states = states_by_name(placed)
    if states:
        kept = "; ".join(f"{state.name} ({state.purpose})" for state in states)
        more.append(f"States: {kept}.")
    if placed.after is not None:
        more.append("This ends the job: the engine evaluates it over these rows, and its results go on.")
    leaving = told.plan.program.out_of(placed.number)
    more += [f"Of its changes: {_onward(told, edge, stage_of, view)}." for edge in leaving]
    steps.add(("operator", placed.number), f"Stage {stage_of[placed.number]}: {what}: {doing}.", more)


def _clock(told: PlanWords) -> list[str]:
    """What runs when nothing has come and only the clock has moved."""
    program = told.plan.program
    ticking = {edge.target for edge in program.edges if edge.is_tick}
    by_time = [
        number
        for number, read in enumerate(told.plan.reads)
        if read.reading.life is not None or (read.ref.window is not None and read.ref.window.kind == "range")
    ]
    if not ticking and not by_time:
        return []
    run = effort(program, by_time, told.home.engine.levels_a_job, ticking)
    return [f"When only the clock moves on: {run}, if rows have died."]


def _when(told: PlanWords, steps: _Steps, number: int, item: Object) -> str:
    program = told.plan.program
    active = program.active([number])
    running = {edge.target for edge in program.edges if edge.number in active}
    found = [steps.numbers["edge", edge.number] for edge in program.edges if edge.number in active and edge.scan]
    found += [steps.numbers["operator", target] for target in running if target != ROOT]
    found.append(steps.numbers["result", 0])
    same = [other for other in told.plan.inputs[:number] if other.id == item.id]
    name = f"{item.name}#{len(same) + 1}" if same else item.name
    run = effort(program, [number], told.home.engine.levels_a_job)
    return f"When only {name} changes: {run} (steps {', '.join(str(step) for step in sorted(set(found)))})."
