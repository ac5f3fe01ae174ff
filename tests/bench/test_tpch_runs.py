"""What a rival's runs come to: by the same rule as our own, or ratios lean to one side."""

from __future__ import annotations

import pytest
from bench.tpch_runs import best


def test_of_an_even_number_of_runs_the_median_is_between_the_middle_two() -> None:
    way, seconds = best({"Parquet": [4.0, 6.0], "cached": [5.5, 9.0]})
    assert way == "Parquet"
    assert seconds == pytest.approx(5.0)
