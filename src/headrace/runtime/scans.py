"""How a plan reads its relations: which hidden columns it needs of them, and which rows while they live.

A query is first made ready: numbers mean seconds, results over INTERNAL windows tell who made them, rows meet versions
of non-retroactive tables. When its tree is made, conditions on Now go from the tree into the scans they ask, and
windows of rows become operators over scans that show the order of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from headrace.algebra.births import births
from headrace.algebra.core import column_of
from headrace.algebra.lives import Asking, NoLife, life_of, lives_of, over_scan, without_now
from headrace.algebra.nodes import Column, Filter, Newest, Node, Project, Scan
from headrace.algebra.non_retroactive import meet_versions
from headrace.algebra.stars import spell_out_stars
from headrace.algebra.trees import with_children
from headrace.language import Query, RelationRef
from headrace.maintenance.logs import relation_fields
from headrace.maintenance.readings import BORN, FROM, NUMBER, TO, Reading
from headrace.maintenance.small_logs import PART_TIMESTAMP
from headrace.runtime.home import Home
from headrace.storage.catalog import Snapshot
from headrace.storage.records import Object

#: What queries call the hidden columns, where a change's own columns have that name.
_STORED = {"__t": BORN}
_TYPES = {PART_TIMESTAMP: "TIMESTAMP"}


class NoPlan(Exception):
    """A query cannot be maintained by its changes; the message says why."""


@dataclass(frozen=True)
class Read:
    """One relation of a plan: the object, how the query mentions it, and what is read of it."""

    item: Object
    ref: RelationRef
    reading: Reading = field(default_factory=Reading)


@dataclass(frozen=True)
class Ready:
    """A query made ready to be bound. `hidden` has for each relation the columns it asks for beside those shown.

    `grows`: results only come, each beside who made it in columns behind those of the query.
    """

    query: Query
    hidden: tuple[tuple[str, ...], ...]
    versions: frozenset[int]
    grows: bool

    def fields(self, number: int, item: Object) -> tuple[tuple[str, str], ...]:
        """The columns of a relation, as the query may name them."""
        shown = tuple((field.name, field.type) for field in relation_fields(item))
        return (*shown, *((name, _TYPES.get(name, "BIGINT")) for name in self.hidden[number]))

    def reading(self, number: int, item: Object) -> Reading:
        hidden = tuple(stored(name) for name in self.hidden[number])
        forgets = _forgets(item, self.query.relations()[number])
        return Reading(hidden, versions=number in self.versions, forgets=forgets)


def stored(name: str) -> str:
    """What a hidden column is called in the rows that a plan reads."""
    return _STORED.get(name, name)


def make_ready(home: Home, source: Snapshot, query: Query) -> Ready:
    """Rewrite a query so that every relation in it has its columns, and a change of its own. Raises `NoPlan`."""
    grows = False
    hidden: dict[int, tuple[str, ...]] = {}
    asked = home.relations(source).asked(query)
    if not query.reads_clock:
        query = asked.query  # numbers mean seconds in it too
    else:
        if asked.reads.floats:
            raise NoPlan("Now is read otherwise than by comparing it with the rows of one relation")
        if asked.lifted:
            raise NoPlan("a window over a subquery is evaluated as a whole")
        query, grows = asked.outer, asked.internal
    items = [source.find(ref.name) for ref in query.relations()]
    shown = {number: [field.name for field in relation_fields(item)] for number, item in enumerate(items)}
    if grows:
        query, hidden = _growing(query, items, shown)
    refs = query.relations()
    parted = frozenset(number for number, ref in enumerate(refs) if ref.part_timestamp)
    if parted:
        query = spell_out_stars(query, parted, shown)
        hidden |= {number: (*hidden.get(number, ()), PART_TIMESTAMP) for number in parted}
    fixed = frozenset(number for number, item in enumerate(items) if item.option("non_retroactive"))
    versions: frozenset[int] = frozenset()
    if fixed:
        met = meet_versions(query, fixed, shown)
        query, versions = met.query, met.versions
        hidden |= {number: tuple(dict.fromkeys((*hidden.get(number, ()), "__t"))) for number in met.arrivals}
        hidden |= dict.fromkeys(versions, (FROM, TO))
    listed = tuple(hidden.get(number, ()) for number in range(len(items)))
    for item, ref, names in zip(items, query.relations(), listed, strict=True):
        _check(item, ref, names)
    return Ready(query, listed, versions, grows)


def _growing(
    query: Query, items: Sequence[Object], shown: dict[int, list[str]]
) -> tuple[Query, dict[int, tuple[str, ...]]]:
    """Over INTERNAL windows: the query over external ones, each result with who made it."""
    for item, ref in zip(items, query.relations(), strict=True):
        if item.log != "append" and not item.option("non_retroactive"):
            raise NoPlan(f"results over an INTERNAL window beside {item.name}, whose rows change, are made as a whole")
        if item.option("retain") is not None:
            raise NoPlan(f"{item.name} forgets rows by RETAIN, and results over INTERNAL windows stay")
        if ref.window is not None and ref.window.length is not None and not ref.window.internal:
            raise NoPlan("results over INTERNAL and external windows together are made as a whole")
    ids = {number: () if item.option("non_retroactive") else ("__t", "__seq") for number, item in enumerate(items)}
    wanted = births(query, shown, ids)
    return wanted.query, dict(ids)


def _check(item: Object, ref: RelationRef, hidden: Sequence[str]) -> None:
    if ref.kind == "changes":
        raise NoPlan(f"CHANGES({item.name}) is worked out as a whole")
    window = ref.window
    if window is not None and window.kind == "rows" and item.log != "append":
        raise NoPlan(f"rows of {item.name} are replaced, so which rows a window of ROWS shows is told by all of them")
    if window is not None and item.log not in ("append", "upsert"):
        raise NoPlan(f"rows of {item.name} leave otherwise than by its window too")
    if hidden and (item.maintained or item.log not in ("append", "upsert")):
        raise NoPlan(f"the times at which rows of {item.name} came are worked out as a whole")
    if _forgets(item, ref) and (item.log != "append" or (window is not None and window.kind == "rows")):
        what = "its rows are replaced too" if item.log != "append" else "a window of ROWS goes by all of them"
        raise NoPlan(f"{item.name} forgets rows by RETAIN, and {what}")


def _forgets(item: Object, ref: RelationRef) -> bool:
    """Whether RETAIN can let go of rows that are shown: not where a window has let go of them before."""
    if not item.forgets_rows or item.option("retain") is None:
        return False
    window = ref.window
    short = window is not None and window.kind == "range" and window.length is not None
    return not (short and window is not None and (window.length or 0) <= int(item.option("retain")))


def with_lives(root: Node, reads: list[Read]) -> Node:
    """The tree with its conditions on Now taken out of filters and put into what is read. Raises `NoPlan`."""
    try:
        asking = lives_of(root)
    except NoLife as error:
        raise NoPlan(str(error)) from error
    done: dict[int, Node] = {}

    def visit(node: Node) -> Node:
        if id(node) in done:
            return done[id(node)]
        made = with_children(node, [visit(child) for child in node.children])
        if isinstance(node, Filter) and id(node) in asking:
            # Another filter below may already have put its own conditions into the scan.
            below = next(item for item in made.walk() if isinstance(item, Scan))
            living = _living(asking[id(node)], below, reads)
            made = over_scan(without_now(replace(node, child=made.children[0])), living)
        done[id(node)] = made
        return made

    return visit(root)


def _living(asking: Asking, below: Scan, reads: list[Read]) -> Scan:
    read = reads[asking.scan.relation]
    if reads[below.relation].reading.life is not None:
        raise NoPlan("conditions on Now stand in several places over one relation")
    window = read.ref.window
    if window is not None and window.kind == "rows":
        raise NoPlan("a comparison with Now over a window of ROWS is evaluated as a whole")
    if read.item.maintained or read.reading.versions:
        raise NoPlan(f"rows of {read.item.name} that are compared with Now are evaluated as a whole")
    times = {read.item.time_column, "TS" if read.item.option("exposes_ts") else None} - {None}
    try:
        life = life_of(asking, frozenset(name for name in times if name))
    except NoLife as error:
        raise NoPlan(str(error)) from error
    reads.append(replace(read, reading=replace(read.reading, life=life)))
    return replace(asking.scan, relation=len(reads) - 1)


def with_row_windows(root: Node, reads: list[Read]) -> Node:
    """The tree with an operator over each scan that is seen through a window of rows."""
    done: dict[int, Node] = {}

    def visit(node: Node) -> Node:
        if id(node) not in done:
            if isinstance(node, Scan):
                done[id(node)] = _newest(node, reads, len(done))
            else:
                done[id(node)] = with_children(node, [visit(child) for child in node.children])
        return done[id(node)]

    return visit(root)


def _newest(scan: Scan, reads: list[Read], number: int) -> Node:
    read = reads[scan.relation]
    window = read.ref.window
    if window is None or window.kind != "rows" or (window.length is None and window.slide is None):
        return scan
    types = {name.lower(): (name, type_) for name, type_ in ((c.name, c.type) for c in read.item.columns)}
    known = {source.lower(): column.name for source, column in zip(scan.sources, scan.columns, strict=True)}
    columns, sources = list(scan.columns), list(scan.sources)
    for source in (*window.partition, BORN, NUMBER):
        if source.lower() not in known:
            name, type_ = types.get(source.lower(), (source, "BIGINT"))
            known[source.lower()] = f"{name.strip('_')}_w{number}_"
            columns.append(Column(known[source.lower()], type_))
            sources.append(name)
    reading = replace(read.reading, hidden=tuple(dict.fromkeys((*read.reading.hidden, BORN, NUMBER))))
    reads[scan.relation] = replace(read, reading=reading)
    wider = replace(scan, columns=tuple(columns), sources=tuple(sources))
    partition = tuple(known[name.lower()] for name in window.partition)
    newest = Newest(wider, partition, known[BORN], known[NUMBER], window.length, window.slide)
    return Project(newest, scan.columns, tuple(column_of(name) for name in scan.names))
