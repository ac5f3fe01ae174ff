"""Finding the benchmarks: they live in the source checkout beside the package, not in it."""

from __future__ import annotations

import difflib
import importlib
import sys
from pathlib import Path
from typing import Any

import headrace
from headrace.errors import DefinitionError, EngineError

#: Where the package lies in a checkout: <root>/src/headrace.
ROOT = Path(headrace.__file__).resolve().parents[2]


def harness() -> Any:
    """The module `bench.harness`, from wherever it is importable, else from the checkout this package runs from."""
    try:
        return _imported()
    except ModuleNotFoundError as missing:
        if missing.name not in ("bench", "bench.harness"):
            raise _lacking(missing) from missing
    if not (ROOT / "bench" / "harness.py").exists():
        raise DefinitionError(
            "NO_BENCHMARKS",
            "The benchmarks are not part of the installed package.",
            hint="Run headrace bench from a source checkout: git clone, make setup, .venv/bin/headrace bench --list.",
        )
    sys.path.insert(0, str(ROOT))
    sys.modules.pop("bench", None)  # another folder called bench may have been found first
    try:
        return _imported()
    except ModuleNotFoundError as missing:
        raise _lacking(missing) from missing


def _imported() -> Any:
    return importlib.import_module("bench.harness")


def _lacking(missing: ModuleNotFoundError) -> EngineError:
    return EngineError(
        "BENCH_NOT_INSTALLED",
        f"The benchmarks need the module {missing.name}.",
        hint="pip install 'headrace[bench]'",
    )


def check_name(name: str, known: list[str]) -> None:
    """Refuse a name no experiment has, with those that come near."""
    if name in known:
        return
    close = difflib.get_close_matches(name, known, n=3)
    raise DefinitionError(
        "UNKNOWN_BENCHMARK",
        f"There is no benchmark called {name}.",
        hint=f"Did you mean {', '.join(close)}?" if close else "headrace bench --list names them all.",
    )


def own_options(words: list[str]) -> dict[str, str]:
    """An experiment's own options, from what stands behind its name: --sf 10 --queries 1,3."""
    if len(words) % 2 or not all(word.startswith("--") for word in words[::2]):
        raise DefinitionError(
            "BAD_OPTION",
            f"An experiment's own options are given as --option value, not as {' '.join(words)}.",
            hint="headrace bench tpch --sf 10 --queries 1,3",
        )
    return {word.removeprefix("--"): value for word, value in zip(words[::2], words[1::2], strict=True)}
