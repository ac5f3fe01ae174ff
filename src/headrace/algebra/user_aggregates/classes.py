"""Aggregates written in Python: the class that a reference `module:Class` means, and what its methods say of it.

A class takes rows one at a time (`iterate`, beside it `initialize`, `terminate`, `expire`), or many in one Arrow batch
(`step`, or `step_window` for windows). It is looked up when it is needed and not before, so a home whose modules are
missing can still be opened.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

from headrace.errors import DefinitionError, Place

#: Which method does the work: one row a call, a batch of rows, a batch of windows.
Takes = Literal["iterate", "step", "step_window"]

_METHODS = {"INITIALIZE": "initialize", "ITERATE": "iterate", "TERMINATE": "terminate", "EXPIRE": "expire"}

_HINT = "It needs iterate(self, ...), or step(self, batch), or step_window(self, batch, first, last) for windows."

#: Classes that were declared in this process, by their references: those need not be importable.
_declared: dict[str, type] = {}


@dataclass(frozen=True)
class Written:
    """A class as one version of an aggregate. `blocks` has the methods that serve as blocks of statements do."""

    reference: str
    kind: type
    takes: Takes
    blocks: Mapping[str, tuple[str, ...]]
    #: Whether it asks for the rows of the window.
    needs_window: bool


def reference_of(kind: type) -> str:
    """How a class is referred to."""
    return f"{kind.__module__}:{kind.__qualname__}"


def remember(kind: type) -> None:
    """Let a class be found in this process, wherever it was defined."""
    _declared[reference_of(kind)] = kind


def load(reference: str, place: Place | None = None) -> type:
    """The class of a reference; refused by name, with the cause, where there is none."""
    if reference in _declared:
        return _declared[reference]
    module, colon, name = reference.partition(":")
    if not (module and colon and name):
        raise DefinitionError(
            "AGGREGATE_NOT_IMPORTED",
            f"'{reference}' does not name a class in Python.",
            hint="Write EXTERNAL 'package.module:Class'.",
            place=place,
        )
    try:
        found: Any = import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except Exception as error:  # what a module does when it is imported can fail in any way
        raise DefinitionError(
            "AGGREGATE_NOT_IMPORTED",
            f"The class {name} of the module {module} cannot be imported.",
            detail=f"{type(error).__name__}: {error}",
            hint="The module must be importable where the session runs, or declare the class with @headrace.aggregate.",
            place=place,
        ) from error
    if not isinstance(found, type):
        raise _unfit(reference, "is no class", "Name a class: its objects keep the state of a group.", place)
    return found


def speaks_of_windows(reference: str) -> bool:
    """Whether a class can only be a window version: it has `expire`, asks for the window, or has no other method."""
    kind = load(reference)
    if _has(kind, "expire") or getattr(kind, "needs_window", False):
        return True
    return _has(kind, "step_window") and not (_has(kind, "step") or _has(kind, "iterate"))


def written(reference: str, *, window: bool, place: Place | None = None) -> Written:
    """A class as the window version or as the base version, refused where it lacks the methods for that."""
    kind = load(reference, place)
    found: list[Takes] = ["step_window" if window else "step", "iterate"]
    takes = next((name for name in found if _has(kind, name)), None)
    if takes is None:
        wrong = "step" if window else "step_window"
        lacks = f"has {wrong}, which cannot compute {'windows' if window else 'what is called without a window'}"
        raise _unfit(reference, lacks if _has(kind, wrong) else "has none of the methods of an aggregate", _HINT, place)
    names = _METHODS if takes == "iterate" else {"ITERATE": takes, "TERMINATE": "terminate"}
    blocks = {block: (name,) for block, name in names.items() if _has(kind, name)}
    if window and "TERMINATE" in blocks:
        raise DefinitionError(
            "MISPLACED_BLOCK",
            f"{reference} is a window aggregate, whose input does not end: terminate has no meaning there.",
            hint="Give results in iterate, and for rows that leave in expire.",
            place=place,
        )
    needs = takes == "step_window" or bool(getattr(kind, "needs_window", False))
    if needs and not window:
        raise _unfit(reference, "needs the window's rows, and is no window version", "CREATE WINDOW AGGREGATE.", place)
    return Written(reference, kind, takes, blocks, needs)


def check_class(reference: str, parameters: int, *, window: bool, place: Place | None = None) -> None:
    """Refuse a class whose methods cannot be called as they will be."""
    one = written(reference, window=window, place=place)
    try:
        inspect.signature(one.kind).bind()
    except TypeError as error:
        hint = "An object is made for each group without arguments; initialize(self, ...) gets those of the first row."
        raise _unfit(reference, f"cannot be made without arguments ({error})", hint, place) from error
    except ValueError:
        return  # nothing is told of classes that are not written in Python
    told = {"step": 1, "step_window": 3, "terminate": 0}
    for (name,) in one.blocks.values():
        count = told.get(name, parameters)
        try:
            inspect.signature(getattr(one.kind, name)).bind(*[None] * (count + 1))
        except TypeError as error:
            raise _unfit(
                reference, f"has a method {name} that cannot be called with {count} arguments ({error})",
                "The arguments are those of the aggregate, beside self.", place,
            ) from error  # fmt: skip
        except ValueError:
            continue


def _has(kind: type, name: str) -> bool:
    return callable(getattr(kind, name, None))


def _unfit(reference: str, why: str, hint: str, place: Place | None) -> DefinitionError:
    return DefinitionError("BAD_AGGREGATE_CLASS", f"{reference} {why}.", hint=hint, place=place)
