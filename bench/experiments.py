"""The experiments there are: a decorator that registers one, and what each is given to run with."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from rich.progress import Progress

import bench
from bench.findings import Findings
from headrace.errors import DefinitionError

T = TypeVar("T")


@dataclass
class Context:
    """What an experiment runs with.

    `engine` is what the user asked for, None where the experiment should take the engines it is about. `folder` is
    empty, and removed afterwards. `options` are those of the experiment's own that were given, as text.
    """

    quick: bool
    engine: str | None
    folder: Path
    progress: Progress
    options: Mapping[str, str] = field(default_factory=dict)

    def pick(self, full: T, quick: T) -> T:
        """The one of two sizes that this run calls for."""
        return quick if self.quick else full

    def option(self, name: str, read: Callable[[str], T], default: T) -> T:
        """An option of the experiment's own, or what holds without it."""
        if name not in self.options:
            return default
        try:
            return read(self.options[name])
        except ValueError as error:
            raise DefinitionError("BAD_OPTION", f"--{name} {self.options[name]} cannot be read.") from error

    def step(self, label: str, total: int) -> Callable[[], None]:
        """A line of progress; call what it returns after each of `total` pieces of work."""
        task = self.progress.add_task(label, total=total)
        return lambda: self.progress.advance(task)


Run = Callable[[Context], Findings]


@dataclass(frozen=True)
class Experiment:
    """One experiment: its name on the command line, the figure it reproduces, what it does in a sentence.

    `options` are what it can be told besides, each with a sentence on its meaning.
    """

    name: str
    figure: str
    description: str
    run: Run
    options: Mapping[str, str] = field(default_factory=dict)

    def check(self, given: Mapping[str, str]) -> None:
        """Refuse options it does not have."""
        for name in given:
            if name not in self.options:
                known = ", ".join(f"--{option}" for option in self.options) or "none"
                raise DefinitionError(
                    "BAD_OPTION", f"{self.name} has no option --{name}.", hint=f"Its own options: {known}."
                )


_registered: dict[str, Experiment] = {}


def experiment(
    name: str, *, figure: str, description: str, options: Mapping[str, str] | None = None
) -> Callable[[Run], Run]:
    """Register a function as an experiment.

    Examples
    --------
    >>> @experiment("nothing", figure="none", description="measures nothing")      # doctest: +SKIP
    ... def nothing(context: Context) -> Findings:
    ...     return Findings(parameters={}, series=[], aims=[])
    """

    def register(run: Run) -> Run:
        _registered[name] = Experiment(name, figure, description, run, dict(options or {}))
        return run

    return register


def all_experiments() -> list[Experiment]:
    """Every experiment in this package, by name. Importing them starts no engine."""
    for module in pkgutil.iter_modules(bench.__path__):
        importlib.import_module(f"bench.{module.name}")
    return sorted(_registered.values(), key=lambda item: item.name)


def find(name: str) -> Experiment:
    """The experiment called `name`, or an error that names what was probably meant."""
    known = {item.name: item for item in all_experiments()}
    if name not in known:
        close = difflib.get_close_matches(name.lower(), known, n=3, cutoff=0.5) or list(known)
        raise DefinitionError(
            "UNKNOWN_EXPERIMENT",
            f"There is no experiment called {name}.",
            hint=f"Did you mean {', '.join(close)}? headrace bench --list lists them all.",
        )
    return known[name]
