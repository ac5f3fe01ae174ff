"""Variance and standard deviation from a count and the sum of squared distances from the mean."""

from __future__ import annotations


def finished_spread(name: str, squares: str, count: str) -> str:
    """The text of var_pop, var_samp, stddev_pop or stddev_samp; NULL where Spark's own is NULL."""
    if name.endswith("pop"):
        made = f"{squares} / NULLIF({count}, 0)"
    else:
        made = f"CASE WHEN {count} > 1 THEN {squares} / ({count} - 1) END"
    return f"SQRT({made})" if name.startswith("stddev") else made
