"""The view maintainer (ViewDF 4.1 and 4.3): which parts of a view are due, and making them.

For each view the catalog has the next part to be made and which of the parts it needs are there. A part is made when
all are. When a part changes that others were made of (late rows, more rows for the newest part, a table that is read as
a whole), those are made again, in order; where one turns out as it was, nothing is written and nothing follows from it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush
from typing import Any

from headrace.algebra.part_wise.references import Reference, first_part
from headrace.errors import EngineError
from headrace.maintenance.relations import Relations
from headrace.runtime.delta_functions import DeltaFunction, function_of, inputs_of, plain_function_of
from headrace.runtime.extents import Extent, extent_of
from headrace.runtime.home import Home
from headrace.runtime.made_parts import Made
from headrace.runtime.many_parts import frame_of_parts
from headrace.runtime.part_rows import PartRows
from headrace.runtime.part_writing import rewrite_parts, write_part, write_part_here, write_parts, write_parts_here
from headrace.runtime.parts_here import part_here, parts_here
from headrace.runtime.pattern_rounds import part_in_rounds
from headrace.runtime.single_rows import single_rows
from headrace.runtime.starts import BEGINNING, CHANGED_FROM, changed_from
from headrace.storage.catalog import now_micros
from headrace.storage.records import Object, RefreshRecord
from headrace.storage.transactions import Transaction
from headrace.storage.writer import MICROS, SMALL, part_of

PART_WISE = "part-wise"
#: More new parts than these, none of which can be skipped, are taken for a slip in some row's time.
MOST_PARTS = 100_000
#: Parts with so many empty ones between them are not made together.
FEW_PARTS = 1_000
#: Parts are made together as long as no more rows than these go into them.
MOST_ROWS = 20_000_000


def refresh_parts(home: Home, transaction: Transaction, view: Object) -> RefreshRecord | None:
    """Make every part of a view that is due; None when there is nothing to be done."""
    work = _Maintenance(home, transaction, transaction.current(view))
    with home.engine.counting() as count:
        made = work.run()
    if made is None:
        return None
    changed = [*made.new, *made.changed]
    length = (view.partition_length or 1) * MICROS
    record = RefreshRecord(
        object_id=view.id,
        read_snapshot=transaction.version,
        point=None if work.next is None else (work.next - 1) * length,
        reaches={**work.reached, CHANGED_FROM: BEGINNING if work.last is None else _changed_from(changed, length)},
        started_at=work.started,
        seconds=time.perf_counter() - work.began,
        rows_in=made.rows_in,
        rows_out=made.rows_out,
        jobs=count.jobs,
        strategy=view.option("strategy_taken") or PART_WISE,
        reason=made.words(),
        snapshot_id=transaction.version,
    )
    transaction.record(record)
    return record


class _Maintenance:
    """One refresh of one view."""

    def __init__(self, home: Home, transaction: Transaction, view: Object) -> None:
        self.started, self.began = now_micros(), time.perf_counter()
        self.home, self.transaction, self.view = home, transaction, view
        self.relations: Relations = home.relations(transaction)
        self.last = self.relations.source.last_refresh(view)
        self.function: DeltaFunction = function_of(self.relations.source, view)
        self.plain = plain_function_of(self.relations.source, view)
        self.inputs = {item.id: item for item in inputs_of(self.function, self.relations.source)}
        progress = view.option("parts") or {}
        self.first: int | None = progress.get("first")
        self.next: int | None = progress.get("next")
        self.extents = {
            ref.relation: extent_of(home, transaction, self.relations, self.inputs[ref.relation])
            for ref in (*self.function.initialize.references, *self.function.update.references)
            if not ref.own
        }
        reaches = {
            item.id: self.relations.reach(item, self.relations.source.parts(item)) for item in self.inputs.values()
        }
        self.reached = {str(number): reach for number, reach in reaches.items() if reach is not None}
        self.own = extent_of(home, transaction, self.relations, view)
        self._part_rows: dict[int, PartRows] = {}
        self.made = Made()

    def run(self) -> Made | None:
        if self.first is None:
            self.first = self.next = self._begin()
        if self.first is None or self.next is None:
            return self._waiting()
        self._make_again(self._touched())
        self._make_new()
        if not (self.made.new or self.made.skipped or self.made.again):
            return self._waiting()
        self._note()
        return self.made

    def _waiting(self) -> Made | None:
        """Nothing could be made. That is told once, when the view is new."""
        if self.last is None:
            self._note()
            return self.made
        self._note()
        return None

    def _begin(self) -> int | None:
        """The part to begin with, as soon as it can be told."""
        references = self.function.initialize.references
        extents = {ref.relation: self.extents[ref.relation] for ref in references}
        known = {number: extent for number, extent in extents.items() if extent is not None}
        if len(known) < len(extents):
            return None
        oldest = {number: extent.kept for number, extent in known.items()}
        # A view that is made over what is there begins with the newest part (4.1). One that waited for its first part,
        # or that follows from a query, begins with the oldest: when it was made does not show in it.
        newest = {number: extent.newest for number, extent in known.items()}
        from_oldest = self.last is not None or self.view.option("function")
        panes = self.view.option("panes")
        if panes is not None:
            # What lies before the first window's end but not in it is empty: the helper begins with all there is.
            newest_read = max(references, key=lambda ref: ref.parts.last.at(0))
            references = [replace(newest_read, parts=newest_read.parts.ending(panes))]
        return first_part(references, oldest, oldest if from_oldest else newest, self.view.partition_length or 1)

    # -- what is due --------------------------------------------------------------------------------------------------

    def _all_there(self, part: int) -> bool:
        assert self.first is not None
        step = self.function.step(part, self.first)
        if not any(not ref.own for ref in step.references):
            return False  # nothing that comes would tell when it is due
        for ref in step.references:
            if ref.own:
                continue
            extent = self.extents[ref.relation]
            if extent is None or ref.needs(part)[1] > extent.newest:
                return False
        return True

    def _touched(self) -> set[int]:
        """The parts for which something they were made of has changed since."""
        assert self.first is not None
        assert self.next is not None
        found: set[int] = set()
        if self.last is None or self.next == self.first:
            return found
        made = (self._kept_from(), self.next - 1)
        for item in self.inputs.values():
            for step, between in self._steps(made):
                own = [ref for ref in step.references if ref.relation == item.id]
                for ref in own:
                    for changed in self._changed(item):
                        found.update(ref.touched(changed, between))
                if item.name in step.whole:
                    found.update(self._meeting(item, between))
        return {part for part in found if self._can_make_again(part)}

    def _steps(self, made: tuple[int, int]) -> Iterable[tuple[Any, tuple[int, int]]]:
        """Each query with the range of parts it has made."""
        assert self.first is not None
        if made[0] <= self.first:
            yield self.function.initialize, (self.first, self.first)
        yield self.function.update, (max(made[0], self.first + 1), made[1])

    def _kept_from(self) -> int:
        return (self.first or 0) if self.own is None else self.own.kept

    def _can_make_again(self, part: int) -> bool:
        """Whether all it was made of is still kept."""
        assert self.first is not None
        for ref in self.function.step(part, self.first).references:
            extent = self.own if ref.own else self.extents[ref.relation]
            if extent is not None and extent.first < extent.kept and ref.needs(part)[0] < extent.kept:
                return False
        return True

    def _changed(self, item: Object) -> list[tuple[int, int]]:
        """The runs of parts of an input that have changed since the last refresh."""
        assert self.last is not None
        stored = self.relations.source.parts(item)
        if item.maintained and not item.part_wise:
            extent = self.extents.get(item.id)
            since = changed_from(self.home, self.transaction, self.relations, item, None, self.last, {})
            if since is None or extent is None:
                return []
            return [(max(extent.first, part_of(since, item.partition_length)), extent.newest)]
        found = [(part.first, part.last) for part in stored if part.arrived_in > self.last.read_snapshot]
        reach, before = self.reached.get(str(item.id)), self.last.reaches.get(str(item.id))
        if reach is not None and before is not None and reach > before:
            # Rows that had come and were not to be seen yet.
            found.append((part_of(before + 1, item.partition_length), part_of(reach, item.partition_length)))
        return found

    def _meeting(self, item: Object, between: tuple[int, int]) -> range:
        """The parts for which a relation without parts has changed: none of the past if it is not retroactive."""
        assert self.last is not None
        since = changed_from(self.home, self.transaction, self.relations, item, None, self.last, {})
        if since is None:
            return range(0)
        first = part_of(since, self.view.partition_length) if item.option("non_retroactive") else between[0]
        return range(max(first, between[0]), between[1] + 1)

    # -- making -------------------------------------------------------------------------------------------------------

    def _make_again(self, touched: set[int]) -> None:
        assert self.next is not None
        if self.function.update.many is not None:
            self._make_many_again(touched)
            return
        waiting = list(touched)
        heapify(waiting)
        own = [ref for ref in self.function.update.references if ref.own]
        while waiting:
            part = heappop(waiting)
            self.made.again.append(part)
            if not self._make(part):
                continue
            self.made.changed.append(part)
            for later in _followers(own, part, self.next - 1):
                if later not in touched:
                    touched.add(later)
                    heappush(waiting, later)

    def _make_many_again(self, touched: set[int]) -> None:
        """Make parts again of which none follows from another, as many neighbours at a time as one query can."""
        for first, last in self._runs(touched):
            self.made.again += range(first, last + 1)
            if first == last:
                self.made.changed += [first] if self._make(first) else []
                continue
            self.made.changed += self._make_many(first, last, again=True)

    def _runs(self, touched: set[int]) -> list[tuple[int, int]]:
        """Neighbouring parts by their ends; the first part of all, which INITIALIZE makes, and large ones alone."""
        runs: list[tuple[int, int]] = []
        rows = 0
        for part in sorted(touched):
            size = self._rows_of(part)
            alone = not runs or part != runs[-1][1] + 1 or runs[-1][1] == self.first
            if alone or rows + size > SMALL:
                runs.append((part, part))
                rows = size
            else:
                runs[-1] = (runs[-1][0], part)
                rows += size
        return runs

    def _make_new(self) -> None:
        """Make the next parts, as many at a time as one query can."""
        assert self.next is not None
        while self._all_there(self.next):
            if self.function.update.many is None and len(self.made.new) > MOST_PARTS:
                raise _too_many(self.view, self.next)
            if self._skip_empty():
                continue
            last = self.next
            if self.next != self.first and self.function.update.many is not None:
                last = self._together()
            if last == self.next:
                self._make(last)
            else:
                self._make_many(self.next, last)
            self.made.new += range(self.next, last + 1)
            self.next = last + 1

    def _together(self) -> int:
        """The last of the parts that are made with the next one: a few empty ones between them do no harm."""
        assert self.next is not None
        last, rows, empty = self.next, self._rows_of(self.next), 0
        while rows < MOST_ROWS and empty < FEW_PARTS and self._all_there(last + 1):
            last += 1
            here = self._rows_of(last)
            rows += here
            empty = 0 if here else empty + 1
        return last - empty

    def _skip_empty(self) -> bool:
        """Go on to the next part that can have rows; False when that is the next one. What is skipped is empty."""
        assert self.next is not None
        if self.next == self.first or self.function.update.many is None:
            return False
        references = self.function.update.references
        there = min(
            ref.last_upto(extent.newest, self.view.partition_length or 1)
            for ref in references
            if (extent := self.extents[ref.relation]) is not None
        )
        found = [self._first_with_rows(ref, self.next, there) for ref in references]
        target = min((part for part in found if part is not None), default=there + 1)
        if target <= self.next:
            return False
        self.made.skipped.append((self.next, target - 1))
        self.next = target
        return True

    def _first_with_rows(self, ref: Reference, part: int, last: int) -> int | None:
        """The first part from `part` on for which a reference names a part with rows."""
        oldest, newest = ref.needs(part)[0], ref.needs(last)[1]
        found = self._rows_in(ref).next_after(oldest)
        if found is None or found > newest:
            return None
        touched = ref.touched((found, found), (part, last))
        return touched[0] if touched else None

    def _make_many(self, first: int, last: int, *, again: bool = False) -> list[int]:
        """Make parts by one query; which of them changed, where they are made again."""
        rows = sum(self._rows_of(part) for part in range(first, last + 1))
        found = self._make_many_here(first, last)
        if found is None:
            found = self._make_many_by_engine(first, last, rows, again=again)
        self.made.rows_in += rows
        self.made.rows_out += found[1]
        return found[0]

    def _make_many_here(self, first: int, last: int) -> tuple[list[int], int] | None:
        references = self.function.update.references
        rows = sum(self._rows_in(ref).between(ref.needs(first)[0], ref.needs(last)[1]) for ref in references)
        table = parts_here(self.home, self.relations, self.function.update, first, last, rows, self.view)
        if table is None:
            return None
        return write_parts_here(self.home, self.transaction, self.relations, self.view, (first, last), table)

    def _make_many_by_engine(self, first: int, last: int, rows: int, *, again: bool) -> tuple[list[int], int]:
        frame = frame_of_parts(self.home, self.relations, self.function.update, (first, last), self.view)
        if again:
            return rewrite_parts(self.home, self.transaction, self.relations, self.view, first, last, frame)
        return [], write_parts(self.home, self.transaction, self.view, frame, rows)

    def _rows_of(self, part: int) -> int:
        assert self.first is not None
        return sum(self._rows(ref, part) for ref in self.function.step(part, self.first).references)

    def _make(self, part: int) -> bool:
        """Make one part; whether it differs from what it was."""
        rows = self._rows_of(part)
        written = self._make_here(part, rows)
        if written is None:
            written = self._make_by_engine(part, rows)
        self.made.rows_in += rows
        self.made.rows_out += written
        return written > 0

    def _make_here(self, part: int, rows: int) -> int | None:
        """Make one part in this process; None where the engine has to be asked."""
        assert self.first is not None
        if self.plain is not None:
            table = part_in_rounds(self.home, self.relations, self.plain, part, self.first, rows, self.view)
        else:
            step = self.function.step(part, self.first)
            table = part_here(self.home, self.relations, step, part, rows, self.view)
        if table is None:
            return None
        return write_part_here(self.home, self.transaction, self.relations, self.view, part, table)

    def _make_by_engine(self, part: int, rows: int) -> int:
        assert self.first is not None
        step = self._function_for(part).step(part, self.first)
        frame = self.relations.evaluate(step.query.at_part(part))
        return write_part(self.home, self.transaction, self.relations, self.view, part, frame, rows)

    def _function_for(self, part: int) -> DeltaFunction:
        """The view's function, or the plainer one where no group has two rows in what the part is made of."""
        assert self.first is not None
        if self.plain is None:
            return self.function
        for ref in self.function.step(part, self.first).references:
            item = None if ref.own else self.inputs[ref.relation]
            if item is not None and not single_rows(
                self.home, self.relations, item, ref, part, self.view.option("groups")
            ):
                return self.function
        return self.plain

    def _rows(self, ref: Reference, part: int) -> int:
        return self._rows_in(ref).between(*ref.needs(part))

    def _rows_in(self, ref: Reference) -> PartRows:
        item = self.view if ref.own else self.inputs[ref.relation]
        stored = self.relations.source.parts(item)
        known = self._part_rows.get(item.id)
        if known is None or known.files != len(stored):
            known = self._part_rows[item.id] = PartRows(stored)
        return known

    # -- the catalog --------------------------------------------------------------------------------------------------

    def _note(self) -> None:
        """Put down which part is next, and which of the parts it needs are there."""
        awaited = [] if self.next is None else self._awaited(self.next)
        known = self.view.option("parts") or {}
        parts = {**known, "first": self.first, "next": self.next, "awaited": awaited}
        if parts == known:
            return
        self.view = replace(self.view, options={**self.view.options, "parts": parts})
        self.transaction.alter(self.view)

    def _awaited(self, part: int) -> list[list[Any]]:
        """The parts that part `part` needs: whose, from which to which, and a bit for each that is there.

        Long runs that are all there are told by one bit.
        """
        assert self.first is not None
        found: list[list[Any]] = []
        for ref in self.function.step(part, self.first).references:
            first, last = ref.needs(part)
            newest = part - 1 if ref.own else _newest(self.extents[ref.relation])
            bits = (
                "1"
                if last <= newest
                else "".join("1" if number <= newest else "0" for number in range(first, last + 1))
            )
            found.append([ref.name, first, last, bits])
        return found


def _too_many(view: Object, part: int) -> EngineError:
    return EngineError(
        "TOO_MANY_PARTS",
        f"{view.name} would have to make more than {MOST_PARTS:,} parts, the next of them {part}.",
        detail="Each part of it follows from the one before, so that empty ones have to be made too.",
        hint="Look for rows with a wrong time in what it reads, or choose a longer PARTITION LENGTH.",
    )


def _changed_from(changed: Sequence[int], length: int) -> int:
    """From which time on the view became another; from none, where it did not."""
    return min(changed) * length if changed else -BEGINNING


def _newest(extent: Extent | None) -> int:
    return -(1 << 62) if extent is None else extent.newest


def _followers(own: list[Reference], part: int, last: int) -> Iterable[int]:
    """The later parts of a view that are made of one of its own."""
    for ref in own:
        yield from ref.touched((part, part), (part + 1, last))
