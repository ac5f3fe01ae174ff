"""What a refresh costs, in seconds: by the changes, and by the whole query again.

The constants are what an engine takes on a small machine; what counts is their proportion. What a view's refreshes have
taken before corrects both.
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
    "spark": Speed(job=0.25, stage=0.25, changed_row=2e-5, read_row=1.5e-7),
    "connect": Speed(job=0.25, stage=0.25, changed_row=2e-5, read_row=1.5e-7),
    "sail": Speed(job=0.05, stage=0.03, changed_row=6e-6, read_row=2e-8),
}
#: Following a change in this process: of the engine's there is at most a job that evaluates expressions.
HERE = Speed(job=0.04, stage=0.01, changed_row=3e-7, read_row=0)


@dataclass(frozen=True)
class Costs:
    """Both ways, in seconds; and of following the changes what does not depend on its rows, and what does.

    These two are as the constants tell, and `changes` as refreshes before correct them.
    """

    changes: float
    whole: float
    fixed: float = 0.0
    by_rows: float = 0.0

    @property
    def by_changes(self) -> bool:
        return self.changes <= self.whole


def estimate(
    engine: str,
    *,
    levels: int,
    jobs: int,
    changed: int,
    total: int,
    operators: int,
    measured: float | None,
    here: bool = False,
    pace: float = 1.0,
    extra: float = 0.0,
) -> Costs:
    """`changed` of `total` rows of the inputs, through `levels` of stages in `jobs` jobs, or `here`.

    `measured` is what the whole took. Following took `extra` seconds, and `pace` times what was estimated by rows.
    """
    speed = HERE if here else SPEEDS[engine]
    fixed = jobs * speed.job + levels * speed.stage
    by_rows = changed * (1 + levels) * speed.changed_row
    asked = SPEEDS[engine]
    whole = asked.job + total * (1 + operators) * asked.read_row if measured is None else measured
    return Costs(fixed + extra + pace * by_rows, whole, fixed, by_rows)
