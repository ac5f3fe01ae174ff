"""Text of part references and of view delta functions."""

from __future__ import annotations

from collections.abc import Callable

from headrace.language import parse_one, quote_name

INITIALIZE = "i"
UPDATE = "j"


def one_part(variable: str, offset: int = 0, *, times: int = 1) -> str:
    """``j``, ``j-1`` or ``j*5+4``."""
    scaled = variable if times == 1 else f"{variable}*{times}"
    return scaled if offset == 0 else f"{scaled}{offset:+d}"


def run_of_parts(variable: str, first: int, last: int, *, times: int = 1) -> str:
    """``j-3..j`` or ``j*5-5..j*5+4``; one part where both ends are the same."""
    start, end = one_part(variable, first, times=times), one_part(variable, last, times=times)
    return start if first == last else f"{start}..{end}"


def parts_of(relation: str, reference: str) -> str:
    """``relation[reference]``."""
    return f"{quote_name(relation)}[{reference}]"


def view_function(view: str, length: int, initialize: str, update: str) -> str:
    """A view delta function in its normal spelling, read back once, so that no text leaves that does not parse."""
    name = quote_name(view)
    return parse_one(
        f"CREATE VIEW {name} AS INITIALIZE {name}[{INITIALIZE}] AS {initialize} "
        f"UPDATE {name}[{UPDATE}] AS {update} PARTITION LENGTH {length}"
    ).sql()


def same_function(view: str, length: int, query: Callable[[str], str]) -> str:
    """A view delta function whose INITIALIZE and UPDATE differ in the part variable only."""
    return view_function(view, length, query(INITIALIZE), query(UPDATE))


def select(items: str, source: str, *, where: str | None = None, group: str = "", having: str | None = None) -> str:
    """``SELECT items FROM source WHERE ... GROUP BY ... HAVING ...``, without the clauses that are not given."""
    clauses = (("WHERE", where), ("GROUP BY", group), ("HAVING", having))
    return f"SELECT {items} FROM {source}" + "".join(f" {word} {given}" for word, given in clauses if given)
