"""The brute force itself, by the worked example of the paper (Section 2)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tests.part_wise.brute_pattern import BrutePattern, of

START = datetime(2015, 1, 1, 10, tzinfo=UTC)


def test_the_worked_example() -> None:
    def high(row, _):
        return row["loss"] > 10

    pattern = BrutePattern([high] * 4, [None, None, None, high])
    minutes = [START + timedelta(minutes=number) for number in range(7)]
    losses = [6, 12, 15, 24, 20, 16, 7]
    parts = [(ts, [{"ts": ts, "loss": loss}]) for ts, loss in zip(minutes, losses, strict=True)]
    found = pattern.accepting(parts)
    assert [[(len(run), sum(of(run, "loss"))) for run in part] for part in found] == [
        [], [], [], [], [(4, 71)], [(5, 87)], [],
    ]  # fmt: skip
