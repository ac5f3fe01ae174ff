"""What a refresh costs, in seconds: by the changes, and by the whole query again.

The constants are what an engine takes on a small machine; what counts is their proportion. Where a view has been
computed as a whole before, that measurement takes the place of the estimate.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Speed:
    """One engine: a job, a stage of ours in it, a changed row through one stage, a row read by a query."""

    job: float
    stage: float
    changed_row: float
    read_row: float


SPEEDS = {
    "spark": Speed(job=0.08, stage=0.2, changed_row=4e-6, read_row=1.5e-7),
    "connect": Speed(job=0.08, stage=0.2, changed_row=4e-6, read_row=1.5e-7),
    "sail": Speed(job=0.01, stage=0.015, changed_row=3e-6, read_row=2e-8),
}


@dataclass(frozen=True)
class Costs:
    """Both ways, in seconds."""

    changes: float
    whole: float

    @property
    def by_changes(self) -> bool:
        return self.changes <= self.whole


def estimate(
    engine: str, *, levels: int, jobs: int, changed: int, total: int, operators: int, measured: float | None
) -> Costs:
    """`changed` of `total` rows of the inputs, through `levels` of stages in `jobs` jobs."""
    speed = SPEEDS[engine]
    changes = jobs * speed.job + levels * speed.stage + changed * max(1, levels) * speed.changed_row
    whole = speed.job + total * (1 + operators) * speed.read_row if measured is None else measured
    return Costs(changes, whole)
