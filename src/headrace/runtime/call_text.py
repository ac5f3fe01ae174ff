"""In words: how calls of aggregates over a stream are computed, what they keep, and what they were compiled to."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.algebra.user_aggregates.block_of_calls import column_texts
from headrace.algebra.user_aggregates.checking import check
from headrace.algebra.user_aggregates.definition import Versions
from headrace.algebra.user_aggregates.forms import Form, Way, way_of
from headrace.language import format_duration
from headrace.maintenance.user_aggregates.blocks import Call
from headrace.maintenance.user_aggregates.compiled import has_numba
from headrace.maintenance.user_aggregates.machine import ROWS_WORTH_COMPILING, Machine
from headrace.runtime.call_steps import Steps
from headrace.runtime.info import counted

_WAYS: dict[Way, str] = {
    "base": "its base version tells with each row what it has to tell",
    "cumulative": "no row ever leaves, so its base version tells after each row what it would tell at the end",
    "window": "its window version expires the rows that leave, and takes in the one that comes",
    "naive": "no window version is written, so its base version is asked about all rows of the window, each time",
    "tumble": "its base version begins anew in each slot; rows before the slot's tail are never looked at",
    "panes": "it is ALGEBRAIC, so its base version sums up panes, and these are the rows of its window version",
    "active": "its window version is told when a row leaves by the clock",
}
#: The box of ESL's Figure 2 that a way is; windows that slide without panes are its box 5.
_BOXES: dict[Way, str] = {"cumulative": "1", "window": "2", "naive": "2", "tumble": "3", "panes": "4"}


def call_lines(steps: Steps, *, kept: bool, programs: bool = False) -> list[str]:
    """How a view is followed row by row; `programs`: with the text of each program."""
    verb = "is" if kept else "would be"
    lines = [f"Each new row of {steps.item.name} {verb} looked at once, in the order of the stream:"]
    for call, machine in zip(steps.block.calls, steps.machines, strict=True):
        lines += _call(steps, call, machine)
        if programs:
            lines += ["", *(f"    {line}" for line in machine.program.text.rstrip().splitlines()), ""]
    return lines


def aggregate_lines(versions: Versions, known: Mapping[str, Versions]) -> list[str]:
    """What there is under the name of an aggregate, and what each version was compiled to."""
    lines = []
    for definition in (versions.base, versions.window):
        if definition is None:
            continue
        kind = "window version" if definition.window else "base version"
        takes = ", ".join(f"{one.name} {one.type or 'of any type'}" for one in definition.parameters)
        lines.append(f"The {kind} of {versions.name} takes ({takes}).")
        if definition.blocking:
            lines.append("It is blocking: it tells its result when its input has ended, so a stream needs a window.")
        program = check(definition, known)
        if definition.external is not None:
            lines.append(f"It is the class {definition.external}, and is called as it is.")
        elif program is None:
            lines.append("It is compiled for the types that it is called with.")
        else:
            slow = "; ".join(program.slow)
            lines.append(
                f"It is compiled to Python, because {slow}:" if slow else "It is compiled to machine code, from:"
            )
            lines += ["", *(f"    {line}" for line in program.text.rstrip().splitlines()), ""]
    return lines


def _call(steps: Steps, call: Call, machine: Machine) -> list[str]:
    texts = column_texts(steps.inner)
    way = way_of(call.versions, call.form, streaming=steps.block.streaming)
    arguments = ", ".join(texts.get(name, name) for name in call.arguments) or "*"
    partition = ", ".join(texts.get(name, name) for name in call.partition)
    number = "5" if way in ("window", "naive") and call.form.slide is not None else _BOXES.get(way)
    box = "" if number is None else f" (Figure 2 of ESL, box {number})"
    keeps = [f"{section.name} ({counted(len(section.types), 'column')})" for section in machine.program.sections]
    group = f"Each group by {partition}" if partition else "It"
    return [
        f"- {call.versions.name}({arguments}){_window(call.form, partition)}: {_WAYS[way]}{box}.",
        f"  {group} keeps {', '.join(keeps) or 'how many rows it has seen'}.",
        f"  {_compiled(machine)}",
    ]


def _compiled(machine: Machine) -> str:
    if machine.program.slow:
        return f"It is compiled to Python, not to machine code, because {'; '.join(machine.program.slow)}."
    if not has_numba():
        return "It is compiled to Python: numba, which makes machine code, is not installed."
    used = f"used from {ROWS_WORTH_COMPILING:,} rows at a time on"
    return f"It is compiled to machine code, {used}, and to Python for fewer."


def _window(form: Form, partition: str) -> str:
    if form.kind == "base":
        return f" GROUP BY {partition}" if partition else ""
    words = [f"PARTITION BY {partition}"] if partition else []
    if form.length is None:
        words.append(f"{form.kind.upper()} UNBOUNDED PRECEDING")
    elif form.kind == "rows":
        words.append(f"ROWS {form.length - 1} PRECEDING")
    else:
        words.append(f"RANGE {format_duration(form.length)} PRECEDING")
    if form.slide is not None:
        words.append(f"SLIDE {form.slide if form.kind == 'rows' else format_duration(form.slide)}")
    if form.active:
        words.append("ACTIVE EXPIRATION")
    return f" OVER ({' '.join(words)})"
