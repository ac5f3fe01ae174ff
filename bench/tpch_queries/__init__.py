"""The 22 queries of TPC-H with the parameters of the standard's validation run, one SQL file each.

They are the standard's own, written as the body of a view: every column has a name, and ORDER BY stands only where the
standard has a LIMIT. There the order is made complete, so that equal rows do not make the answer a matter of chance.
"""

from __future__ import annotations

from importlib import resources

NUMBERS = tuple(range(1, 23))


def query(number: int, scale: float = 1) -> str:
    """The text of one query. Only Q11 depends on the scale factor: its fraction is 0.0001 over the scale."""
    text = (resources.files(__name__) / f"q{number:02}.sql").read_text(encoding="utf-8").strip()
    return text.replace(" * 0.0001", f" * {0.0001 / scale:.10f}".rstrip("0")) if number == 11 else text


def queries(scale: float = 1) -> dict[str, str]:
    """All of them by the name of their view, `q01` to `q22`."""
    return {name_of(number): query(number, scale) for number in NUMBERS}


def name_of(number: int) -> str:
    """What the view of a query is called."""
    return f"q{number:02}"
