"""From an OVER to the window of a call: its kind, its length and its slide, or why it is none."""

from __future__ import annotations

from sqlglot import exp

from headrace.algebra.user_aggregates.forms import Form
from headrace.errors import DefinitionError, Place
from headrace.language import Query, nodes, parse_duration
from headrace.language.dialect import headrace_sql

_HINT = "OVER ([PARTITION BY k] ROWS 9 PRECEDING), or RANGE 5 MINUTES PRECEDING, or ROWS UNBOUNDED PRECEDING."


def resolved(window: exp.Window, select: exp.Select, place: Place | None) -> exp.Window:
    """The window itself, where OVER only names one of the WINDOW clause."""
    name = window.args.get("alias")
    if name is None:
        return window
    for known in select.args.get("windows") or ():
        if known.this.name.lower() == name.name.lower():
            return known
    raise DefinitionError("BAD_WINDOW", f"There is no window called {name.name} here.", hint=_HINT, place=place)


def is_preceding(window: exp.Window) -> bool:
    """Whether it is a frame as ESL has them: some rows before the row, and that row."""
    spec = window.args.get("spec")
    return (
        isinstance(spec, exp.WindowSpec)
        and str(spec.args.get("start_side")).upper() == "PRECEDING"
        and str(spec.args.get("end") or "CURRENT ROW").upper() == "CURRENT ROW"
        and spec.args.get("exclude") is None
    )


def form_of(window: exp.Window | None, place: Place | None) -> Form:
    """The window of a call; of one without OVER, that of a base call."""
    if window is None:
        return Form("base")
    spec = window.args.get("spec")
    if not is_preceding(window):
        why = "it says no frame" if spec is None else "its frame is another"
        raise DefinitionError(
            "BAD_WINDOW",
            "A window of an aggregate over a stream is the row and some rows before it, and "
            f"{why}: {headrace_sql(window)}.",
            hint=_HINT,
            place=place,
        )
    assert spec is not None
    kind = "rows" if str(spec.args.get("kind")).upper() == "ROWS" else "range"
    start, slide = spec.args["start"], window.args.get("slide")
    unbounded = isinstance(start, str) and start.upper() == "UNBOUNDED"
    length = None if unbounded else _count(start, place, least=0) + 1 if kind == "rows" else _duration(start, place)
    active = bool(window.args.get("active"))
    if active and (kind == "rows" or unbounded):
        raise DefinitionError(
            "BAD_WINDOW",
            "Rows leave a window by the clock only where it has a length of time, and here is none.",
            hint="OVER (RANGE 5 MINUTES PRECEDING ACTIVE EXPIRATION).",
            place=place,
        )
    if slide is None:
        return Form("rows" if kind == "rows" else "range", length, None, active)
    if kind == "rows":
        return Form("rows", length, _count(slide, place, least=1))
    return Form("range", length, _duration(slide, place))


def clock_forms(query: Query) -> tuple[Form, ...]:
    """The windows of a query that have results when it is time, though nothing arrives."""
    found = [window for window in query.tree.find_all(nodes.SlidingWindow) if nodes.goes_by_clock(window)]
    return tuple(dict.fromkeys(form_of(window, query.place) for window in found))


def _count(length: exp.Expr, place: Place | None, *, least: int) -> int:
    text = _shown(length)
    if not text.isdigit() or int(text) < least:
        raise DefinitionError(
            "BAD_WINDOW",
            f"A window of ROWS is measured in whole numbers of rows, {least} or more, not {text}.",
            hint="ROWS 9 PRECEDING SLIDE 10; or RANGE 5 MINUTES PRECEDING SLIDE 1 MINUTE for lengths of time.",
            place=place,
        )
    return int(text)


def _duration(length: exp.Expr, place: Place | None) -> int:
    micros = parse_duration(_shown(length))
    if micros < 1:
        raise DefinitionError(
            "BAD_WINDOW",
            f"A window has a length above 0, not {_shown(length)}.",
            hint="RANGE 5 MINUTES PRECEDING.",
            place=place,
        )
    return micros


def _shown(length: exp.Expr) -> str:
    inner = length.this if isinstance(length, nodes.Length | exp.Interval) else length
    unit = length.args.get("unit") if isinstance(length, nodes.Length | exp.Interval) else None
    number = inner.name if isinstance(inner, exp.Literal) else headrace_sql(inner)
    return number + (f" {unit.name}" if unit is not None else "")
