"""Headrace keeps SQL views fresh on Apache Spark: declare streams and views in SQL, feed rows, refresh."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.algebra.user_aggregates.declared import aggregate
    from headrace.errors import HeadraceError
    from headrace.runtime.info import Info
    from headrace.session import Session, connect

__all__ = ["HeadraceError", "Info", "Session", "aggregate", "connect"]
__version__ = "0.1.0"

# Imported when asked for: an engine's tasks import this package too, and need little of it.
_HOMES = {
    "HeadraceError": "headrace.errors",
    "Info": "headrace.runtime.info",
    "Session": "headrace.session",
    "aggregate": "headrace.algebra.user_aggregates.declared",
    "connect": "headrace.session",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
