"""AVG of a DECIMAL from its sum and count, to the last digit as Spark has it."""

from __future__ import annotations

from collections.abc import Callable

from headrace.algebra.part_wise.windows.argument_types import decimal_digits, sum_type
from headrace.algebra.part_wise.windows.calls import NoForm

#: Spark's division keeps 38 digits in all and gives up fraction digits first: of wider sums too few would be left.
WIDEST = 22


def decimal_average(type_: str, shown: str) -> Callable[[str, str], str]:
    """From the texts of sum and count to that of the average."""
    digits = decimal_digits(type_)
    if digits is None or digits.precision > WIDEST:
        raise NoForm(f"{shown} is over {type_}, and averages of more than {WIDEST} digits are not exact from sums")
    result = f"DECIMAL({digits.precision + 4},{digits.scale + 4})"
    return lambda total, count: (
        f"CAST(CAST({total} AS {sum_type(type_)}) / CAST(NULLIF({count}, 0) AS DECIMAL(20,0)) AS {result})"
    )
