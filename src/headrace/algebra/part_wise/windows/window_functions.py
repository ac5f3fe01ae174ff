"""A window view as view delta functions, by one of four strategies (ViewDF 5.2): helpers first, the view last."""

from __future__ import annotations

from collections.abc import Callable

from headrace.algebra.part_wise.windows.calls import NoForm
from headrace.algebra.part_wise.windows.differential import differential
from headrace.algebra.part_wise.windows.distributive import distributive
from headrace.algebra.part_wise.windows.recompute import recompute
from headrace.algebra.part_wise.windows.subtractable import subtractable
from headrace.algebra.part_wise.windows.window_query import WindowQuery
from headrace.errors import DefinitionError

_WITH_HELPER: dict[str, Callable[[WindowQuery, str, str], list[str]]] = {
    "distributive": distributive,
    "subtractable": subtractable,
    "differential": differential,
}
STRATEGIES = ("recompute", *_WITH_HELPER)
#: What a strategy's helper is called, after the view's name.
_HELPERS = {"distributive": "panes", "subtractable": "sums", "differential": "window"}


def window_functions(query: WindowQuery, strategy: str, view: str, *, helper: str | None = None) -> list[str]:
    """The statements that make the view, each a CREATE VIEW with INITIALIZE and UPDATE, in the order to run them in.

    `helper` is the name of the helper view; without it, it is the view's with a word behind it.
    """
    if strategy not in STRATEGIES:
        raise ValueError(f"{strategy} is no strategy for windows; there are {', '.join(STRATEGIES)}.")
    if strategy == "recompute":
        return recompute(query, view)
    try:
        return _made(query, strategy, view, helper or helper_name(view, strategy))
    except NoForm as reason:
        raise DefinitionError(
            "STRATEGY_NOT_POSSIBLE",
            f"{view} cannot be made by the {strategy} strategy: {reason}.",
            hint="The recompute strategy makes every window query.",
            place=query.query.place,
        ) from None


def possible_strategies(query: WindowQuery) -> dict[str, str | None]:
    """Each strategy with None if it can be used, else with the reason why not, in a sentence."""
    return {strategy: _reason(query, strategy) for strategy in STRATEGIES}


def helper_name(view: str, strategy: str) -> str:
    """What the helper of a strategy is called where nobody says otherwise."""
    return f"{view}_{_HELPERS[strategy]}"


def _reason(query: WindowQuery, strategy: str) -> str | None:
    if strategy == "recompute":
        return None
    try:
        _made(query, strategy, "v", "helper")
    except NoForm as reason:
        told = str(reason)
        return f"{told[0].upper()}{told[1:]}."
    return None


def _made(query: WindowQuery, strategy: str, view: str, helper: str) -> list[str]:
    if not query.overlaps:
        raise NoForm("the windows of two parts share no rows, so recompute reads each row once already")
    return _WITH_HELPER[strategy](query, view, helper)
