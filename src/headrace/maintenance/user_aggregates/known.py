"""The aggregates of a home: objects of the catalog that have a definition and no rows.

They have names of their own beside those of relations: a table and an aggregate may both be called `latest`. The two
versions of one aggregate are two objects.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol

from headrace.algebra.user_aggregates.definition import Definition, Versions, definition_of
from headrace.language import CreateAggregate, parse_one
from headrace.storage.records import Object

KIND = "aggregate"


class Objects(Protocol):
    """A snapshot or a transaction."""

    def objects(self, *kinds: str) -> list[Object]: ...


def stored_name(name: str, *, window: bool) -> str:
    """What the catalog calls a version of an aggregate: a name that no relation can have."""
    return f"__{'window_' if window else ''}{KIND}_{name.lower()}"


@lru_cache(maxsize=512)
def _parsed(text: str) -> Definition:
    statement = parse_one(text)
    assert isinstance(statement, CreateAggregate)
    return definition_of(statement)


def definition_in(item: Object) -> Definition:
    """What an object of the catalog defines."""
    return _parsed(item.definition)


def known_aggregates(source: Objects) -> dict[str, Versions]:
    """All aggregates, by their names in small letters."""
    found: dict[str, Versions] = {}
    for item in source.objects(KIND):
        definition = definition_in(item)
        name = definition.name.lower()
        found[name] = found.get(name, Versions(definition.name)).with_version(definition)
    return found
