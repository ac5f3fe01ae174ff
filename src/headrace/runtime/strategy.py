"""Which way a view is refreshed: by its changes or as a whole, and why. Nothing falls back in silence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.errors import DefinitionError, EngineError
from headrace.language import Query
from headrace.runtime.call_steps import Steps, steps_of
from headrace.runtime.home import Home
from headrace.runtime.plans import Plan, plan_of
from headrace.runtime.scans import NoPlan
from headrace.storage.catalog import Snapshot
from headrace.storage.records import Object, RefreshRecord

DIFFERENTIAL = "differential"
RECOMPUTE = "recompute"

#: The reason of a view's first refresh, which is no change of its strategy.
FIRST_TIME = "it was computed for the first time"

#: Below so many rows in all, the engine reads everything faster than it starts a stage of ours.
FEW_ROWS = {"spark": 200_000, "connect": 200_000, "sail": 50_000}


@dataclass(frozen=True)
class Mode:
    """What the user asked for: `policy` in the words of REFRESH POLICY."""

    policy: str

    @property
    def never(self) -> bool:
        return self.policy == "full"

    @property
    def always(self) -> bool:
        """By changes whenever that can be done, whatever it costs."""
        return self.policy in ("incremental", "incremental strict")

    @property
    def strict(self) -> bool:
        return self.policy == "incremental strict"


def mode_of(view: Object) -> Mode:
    asked = view.option("strategy")
    if asked in ("recompute", "incremental", "differential"):
        return Mode({"recompute": "full", "incremental": "incremental strict", "differential": "incremental"}[asked])
    return Mode(str(view.option("policy") or "auto"))


def find_plan(home: Home, snapshot: Snapshot, view: Object, query: Query) -> Plan | str:
    """The view's plan, or why there is none."""
    try:
        return plan_of(
            home,
            snapshot,
            query,
            timed=view.log == "signed",
            rates=view.option("rates"),
            spans=view.option("spans"),
            tuples=view.option("tuples") or "auto",
            rewriting=view.option("rewriting") or "auto",
        )
    except NoPlan as reason:
        return str(reason)


def strategy_note(previous: RefreshRecord | None, now: str) -> str:
    """What a refresh adds to its reason when it went another way than the one before it."""
    if previous is None or previous.strategy == now or previous.reason.startswith(FIRST_TIME):
        return ""
    return f" (before: {previous.strategy}, until snapshot {previous.snapshot_id})"


def strategy_changed(newest_first: Sequence[RefreshRecord]) -> str | None:
    """Whether the last refresh of a view went another way than the one before it, and why."""
    if len(newest_first) < 2 or not strategy_note(newest_first[1], newest_first[0].strategy):
        return None
    last, before = newest_first[:2]
    reason = last.reason.removesuffix(strategy_note(before, last.strategy))
    return f"was {before.strategy} until snapshot {before.snapshot_id}: {reason}"


def check_strict(home: Home, snapshot: Snapshot, view: Object, query: Query) -> None:
    """Refuse INCREMENTAL STRICT for a view that has no plan."""
    if not mode_of(view).strict:
        return
    steps = steps_of(home, home.relations(), view, query)
    if isinstance(steps, Steps):
        return
    plan = steps or find_plan(home, snapshot, view, query)
    if isinstance(plan, str):
        raise refuse(view, plan)


def refuse(view: Object, reason: str) -> DefinitionError:
    return DefinitionError(
        "NOT_INCREMENTAL",
        f"{view.name} cannot be refreshed by its changes alone: {reason}.",
        hint="REFRESH POLICY AUTO lets it be computed as a whole where it must be, and says so in its status.",
    )


def cannot_follow(view: Object, reason: str) -> EngineError:
    """A strict view that could be made, but meets a change it cannot follow: it stays as it was."""
    return EngineError(
        "NOT_INCREMENTAL",
        f"it may only be refreshed by its changes, and {reason}",
        hint=f"ALTER VIEW {view.name} SET REFRESH POLICY AUTO lets it be computed as a whole this time.",
    )
