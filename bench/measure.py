"""Timing things side by side: warmed up, repeated, and in alternating order so that none always goes first."""

from __future__ import annotations

import gc
import os
import platform
import time
from collections.abc import Callable, Mapping
from importlib import metadata
from typing import Any

#: Does one piece of work and says how many seconds of it count; making ready and clearing up do not.
Timed = Callable[[], float]

_PACKAGES = ("headrace", "pyspark", "pysail", "pyarrow", "numpy", "pandas", "sqlglot", "SQLAlchemy", "duckdb")


def seconds(work: Callable[[], Any]) -> float:
    """How long `work` takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def side_by_side(
    things: Mapping[str, Timed], *, repeats: int, warm_ups: int, done: Callable[[], None] = lambda: None
) -> dict[str, list[float]]:
    """The seconds of each run of each thing, warm-ups left out. `done` is called after every run."""
    found: dict[str, list[float]] = {name: [] for name in things}
    for number in range(warm_ups + repeats):
        order = list(things) if number % 2 == 0 else list(things)[::-1]
        for name in order:
            gc.collect()
            taken = things[name]()
            if number >= warm_ups:
                found[name].append(taken)
            done()
    return found


def machine() -> dict[str, Any]:
    """What the figures were measured on, without anything that names the machine."""
    versions = {}
    for package in _PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return {
        "cores": os.cpu_count(),
        "memory_gb": round(memory, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": versions,
    }
