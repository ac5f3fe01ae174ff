"""What an experiment finds: series of measured values, and the aims they are held against."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

#: Printed under every table and kept in every file of results.
READING = (
    "Ratios between things measured side by side in one process are what counts; "
    "absolute seconds depend on the machine and on what else it is doing."
)


@dataclass(frozen=True)
class Series:
    """Values of one thing, such as one engine or one baseline, along an axis.

    Series of the same `panel` are drawn in one chart: bars when `x` are words, lines when they are numbers. `runs` are
    the single measurements behind each value, where it is a median.
    """

    panel: str
    name: str
    unit: str
    x: Sequence[str | float]
    y: Sequence[float]
    x_label: str = ""
    runs: Sequence[Sequence[float]] = ()

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y) or (self.runs and len(self.runs) != len(self.y)):
            raise ValueError(f"{self.name}: {len(self.x)} x, {len(self.y)} y, {len(self.runs)} runs")

    @classmethod
    def of_runs(
        cls, panel: str, name: str, unit: str, runs: Mapping[str, Sequence[float]] | Mapping[float, Sequence[float]]
    ) -> Series:
        """The medians of repeated measurements, by x."""
        return cls(
            panel,
            name,
            unit,
            list(runs),
            [statistics.median(values) for values in runs.values()],
            runs=[list(values) for values in runs.values()],
        )

    @classmethod
    def of_ratios(cls, panel: str, name: str, pairs: Mapping[str, tuple[Sequence[float], Sequence[float]]]) -> Series:
        """By x, one thing's median over another's; the runs are the ratios of what was measured in the same round."""
        return cls(
            panel,
            name,
            "ratio",
            list(pairs),
            [statistics.median(over) / statistics.median(under) for over, under in pairs.values()],
            runs=[[a / b for a, b in zip(over, under, strict=True)] for over, under in pairs.values()],
        )


@dataclass(frozen=True)
class Aim:
    """A target and the value that was measured; None stands for one that could not be measured here."""

    name: str
    target: str
    value: float | None
    met: bool
    unit: str

    @classmethod
    def at_least(cls, name: str, bound: float, value: float | None, unit: str = "ratio") -> Aim:
        return cls(name, f">= {bound:g}", value, value is not None and value >= bound, unit)

    @classmethod
    def under(cls, name: str, bound: float, value: float | None, unit: str = "ratio") -> Aim:
        return cls(name, f"< {bound:g}", value, value is not None and value < bound, unit)


@dataclass(frozen=True)
class Findings:
    """What an experiment hands back: what it varied, what it measured, and how that stands to the aims.

    `details` are kept with the rest, and neither printed nor drawn.
    """

    parameters: Mapping[str, Any]
    series: Sequence[Series]
    aims: Sequence[Aim]
    notes: Sequence[str] = field(default_factory=tuple)
    details: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return {
            "reading": READING,
            "parameters": dict(self.parameters),
            "series": [asdict(series) for series in self.series],
            "aims": [asdict(aim) for aim in self.aims],
            "notes": list(self.notes),
            **({"details": dict(self.details)} if self.details else {}),
        }
