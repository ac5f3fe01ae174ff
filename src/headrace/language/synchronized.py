"""Relations that a query reads through a synchronization stream: `S SYNC y`, in the papers `R[y](S)`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from headrace.errors import LanguageError, Place
from headrace.language import nodes

#: Between the names of a relation and a stream, in that of the regulator.
BETWEEN = "__sync__"
#: Between the names of streams, in that of the stream of the points that all of them have.
_AND, _OR = "__and__", "__or__"


def sync_of(suffixes: Sequence[exp.Expr], place: Place | None = None) -> str | None:
    """The synchronization stream among what stands behind a relation, if there is one."""
    found = [suffix.this.name for suffix in suffixes if isinstance(suffix, nodes.Sync)]
    if len(found) > 1:
        raise LanguageError(
            "DUPLICATE_CLAUSE",
            "A relation in FROM has one synchronization stream, and here are two.",
            hint="Make one of both: CREATE STREAMED VIEW y AS SELECT * FROM a INTERSECT SELECT * FROM b.",
            place=place,
        )
    return found[0] if found else None


def regulator_name(relation: str, stream: str) -> str:
    """What the regulator of a relation by a synchronization stream is called."""
    return f"{relation}{BETWEEN}{stream}"


def joint_name(streams: Sequence[str]) -> str:
    """What the stream of the points that some streams have in common is called."""
    return _AND.join(streams)


def union_name(streams: Sequence[str]) -> str:
    """What the stream of the points that any of some streams has is called."""
    return _OR.join(streams)


def with_sync(tree: exp.Expr, relation: str, stream: str) -> exp.Expr:
    """The tree with a relation read through a synchronization stream wherever it is named."""
    copy = tree.copy()
    for table in list(copy.find_all(exp.Table)):
        if table.name.lower() == relation.lower():
            suffix = nodes.Sync(this=exp.to_identifier(stream))
            args = {**{key: value for key, value in table.args.items() if value}, "suffixes": [suffix]}
            table.replace(nodes.Relation(**args))
    return copy


def through_regulators(tree: exp.Expr, made: Callable[[str], bool] | None = None) -> exp.Expr:
    """The tree with every `S SYNC y` read from its regulator, which is known by the same name as S.

    With `made`, which tells whether there is a regulator of a name, S itself stands for those that are not there.
    """
    copy = tree.copy()
    for table in list(copy.find_all(exp.Table)):
        suffixes = table.args.get("suffixes") or []
        stream = sync_of(suffixes)
        if stream is None:
            continue
        name, regulator = table.name, regulator_name(table.name, stream)
        table.set("suffixes", [suffix for suffix in suffixes if not isinstance(suffix, nodes.Sync)] or None)
        if made is not None and not made(regulator):
            continue
        table.set("this", exp.to_identifier(regulator, quoted=True))
        if not table.args.get("alias"):
            table.set("alias", exp.TableAlias(this=exp.to_identifier(name, quoted=True)))
        elif table.args["alias"].this is None:
            table.args["alias"].set("this", exp.to_identifier(name, quoted=True))
    return copy
