"""A whole program for a call: a function that takes the new rows of all groups and what the groups keep.

Groups stand one after another, each group's rows in the order of the stream. For each, what it keeps is taken into
variables, its rows are gone through once, and what it keeps now is put down again. The same text runs as plain Python
over lists and as machine code over arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headrace.algebra.user_aggregates.definition import INWINDOW, Definition, Versions
from headrace.algebra.user_aggregates.external_bodies import ExternalBody
from headrace.algebra.user_aggregates.forms import Form, Way
from headrace.algebra.user_aggregates.frames import Frame, Section, arrays_of
from headrace.algebra.user_aggregates.selects import OnRow
from headrace.algebra.user_aggregates.statements import Body, Lookup, parameters_of, with_types
from headrace.algebra.user_aggregates.tables import Known
from headrace.algebra.user_aggregates.values import NATIVE, WORDS, Code, kind_of
from headrace.language.aggregates import AggregateTable
from headrace.language.statement import Column


@dataclass(frozen=True)
class Program:
    """The text of a program, and what it takes and gives besides the rows."""

    text: str
    parameters: tuple[Column, ...]
    returns: tuple[Column, ...]
    sections: tuple[Section, ...]
    #: Whether a group remembers its last row and the row whose results wait.
    referring: bool
    #: Why it cannot be machine code; nothing where it can.
    slow: tuple[str, ...]
    #: The columns (section prefix and number) that may be NULL.
    nullable: frozenset[tuple[str, int]]

    @property
    def native(self) -> bool:
        return not self.slow


def naive_window(base: Definition) -> Definition:
    """ESL Example 11: the window version that asks the base version about all rows of the window, each time."""
    columns = tuple(Column(f"__w{number}", column.type) for number, column in enumerate(base.parameters))
    names = ", ".join(column.name for column in columns)
    tell = (f"INSERT INTO RETURN SELECT {base.name}({names}) FROM {INWINDOW}",)
    return Definition(
        base.name, base.parameters, base.returns, (AggregateTable(INWINDOW, columns),),
        {"INITIALIZE": tell, "ITERATE": tell}, window=True,
    )  # fmt: skip


def program_of(
    versions: Versions, form: Form, way: Way, lookup: Lookup, types: Sequence[str], *, nulls: bool = True,
    ends: bool = False,
) -> Program:  # fmt: skip
    """The program of a call whose arguments have these types.

    `nulls`: arguments may be NULL. `ends`: all rows are there, so a base call can tell what it tells at the end.
    """
    known = Known()
    while True:
        before = (set(known.nullable), set(known.read))
        known.slow.clear()
        made = _Assembly(versions, form, way, lookup, types, known, nulls=nulls, ends=ends).program()
        if before == (known.nullable, known.read):
            return made


class _Assembly(Frame):
    """Puts a program together: the bodies it has, and what is done with each row."""

    def __init__(
        self, versions: Versions, form: Form, way: Way, lookup: Lookup, types: Sequence[str], known: Known, *,
        nulls: bool, ends: bool,
    ) -> None:  # fmt: skip
        super().__init__(form, way, known, nulls)
        self._versions, self._lookup, self._types, self._ends = versions, lookup, types, ends
        base, window = versions.base, versions.window
        if way in ("base", "tumble", "panes") or (way == "cumulative" and base is not None):
            assert base is not None
            self.base = self._body(base, "b")
        if way in ("window", "panes", "active", "naive") or (way == "cumulative" and base is None):
            found = window if way != "naive" and window is not None else naive_window(self._typed(base))
            self.over = self._body(found, "x")
        main = self.over if way == "active" or self.base is None else self.base
        last = self.over or main
        assert main is not None
        assert last is not None
        self.parameters, self.returns = main.definition.parameters, last.definition.returns
        self._naive_active = way == "active" and window is None

    def _typed(self, definition: Definition | None) -> Definition:
        assert definition is not None
        return with_types(definition, self._types)

    def _body(self, definition: Definition, prefix: str) -> Body:
        kind = Body if definition.external is None else ExternalBody
        return kind(self.writer, self.known, self._typed(definition), prefix, self._look)

    @property
    def _bodies(self) -> list[Body]:
        return [body for body in (self.base, self.over) if body is not None]

    def _look(self, name: str, types: Sequence[str]) -> Versions | None:
        # Inside its own versions an aggregate's name means its base version, built in or not.
        if name.lower() == self._versions.name.lower():
            return self._versions if self._versions.base is not None else None
        return self._lookup(name, types)

    # --- The whole -----------------------------------------------------------------------------------------------

    def program(self) -> Program:
        writer = self.writer
        for body in self._bodies:
            body.declare()
        self._declare_outputs()
        writer.depth = 1
        with writer.block("for g in range(len(starts) - 1):"):
            writer.emit("on = began[g]")
            writer.emit("on2 = began2[g]")
            writer.emit("seq = seen[g]")
            writer.emit("slot = slots[g]")
            writer.emit("slot2 = slots2[g]")
            writer.emit("last = lasts[g]")
            writer.emit("held = helds[g]")
            for section in self.sections:
                self._load(section)
            for body in self._bodies:
                body.opened()
            with writer.block("for r in range(starts[g], starts[g + 1]):"):
                writer.emit("t = times[r]")
                writer.emit("seq += 1")
                writer.emit("ref = fresh + r")
                codes = self._arguments()
                self._ways[self.way](parameters_of(self.parameters, codes), codes)
            self._end()
            for name, value in _SCALARS:
                writer.emit(f"{name}[g] = {value}")
            writer.emit(f"dues[g] = {self._due}")
            for body in self._bodies:
                body.closed()
            for section in self.sections:
                self._save(section)
        writer.depth = 1
        outputs = ["o_n", "o_p", "o_t"]
        for number in range(len(self.returns)):
            outputs += [f"o_{number}", f"o_{number}_z"]
        for section in self.sections:
            outputs += [f"{section.prefix}_rn", f"{section.prefix}_ro", *arrays_of(section, "r")]
        writer.emit(f"return ({', '.join(outputs)},)")
        return Program(
            self._text(), self.parameters, self.returns, tuple(self.sections), self._refers, self._slow(),
            frozenset(self.known.nullable),
        )  # fmt: skip

    @property
    def _due(self) -> str:
        """Text for the time at which the clock alone brings something about."""
        never = "9223372036854775807"
        if self.way == "active":
            window = self._window
            return f"({window.prefix}_k[{window.first}] + length if {window.first} < {window.count} else {never})"
        if not self._holds:
            return never
        if self.way == "panes":
            return f"min(slot if on else {never}, slot2 if p_n > 0 else {never})"
        return f"(slot if {'on' if self.way == 'tumble' else 'p_n > 0'} else {never})"

    def _slow(self) -> tuple[str, ...]:
        told = [(column.name, "is", column.type) for column in (*self.parameters, *self.returns)]
        told += [(section.name, "holds", type_) for section in self.sections for type_ in section.types]
        found = [f"{name} {verb} {WORDS[kind_of(type_)]}" for name, verb, type_ in told if kind_of(type_) not in NATIVE]
        return tuple(dict.fromkeys((*found, *self.known.slow)))

    def _text(self) -> str:
        names = ["starts", "times", "fresh", "upto", "length", "slide", "pane", "began", "began2", "seen", "slots"]
        names += ["slots2", "lasts", "helds", "dues"]
        for number in range(len(self.parameters)):
            names += [f"a_{number}_i", *([f"a_{number}_iz"] if self.nulls else [])]
        for section in self.sections:
            names += [f"{section.prefix}_io", *arrays_of(section, "i")]
        body = []
        for line in self.writer.lines:
            body += self._moved(line) if line.lstrip().startswith("#move") else [line]
        head = [f"    {line}" for line in self.writer.declared]
        return "\n".join([f"def run({', '.join(names)}):", *head, *body]) + "\n"

    def _moved(self, line: str) -> list[str]:
        """The window's row put in another place: all that is kept of it."""
        space = line[: len(line) - len(line.lstrip())]
        _word, _prefix, row, to = line.split()
        return [f"{space}{array}[{to}] = {array}[{row}]" for array in self._window_arrays]

    @property
    def _ways(self) -> dict[Way, Callable[[dict[str, Code], list[Code]], None]]:
        return {
            "base": self._base, "cumulative": self._cumulative, "window": self._over_window, "naive": self._over_window,
            "tumble": self._tumble, "panes": self._panes, "active": self._active,
        }  # fmt: skip

    # --- The ways ------------------------------------------------------------------------------------------------

    def _base(self, parameters: dict[str, Code], _codes: list[Code]) -> None:
        assert self.base is not None
        self.base.first_or_next("on", parameters, self._out)

    def _cumulative(self, parameters: dict[str, Code], codes: list[Code]) -> None:
        """Box 1: TERMINATE after every row. Slides only choose which results are told."""
        if self.form.slide is not None and self.form.kind == "range":
            self._slotted(parameters, codes)
            return
        if self.base is None:
            self._windowed(parameters, codes)
            return
        tell = self._choosing(self.base)
        if self.base.has("TERMINATE"):
            self.base.first_or_next("on", parameters, self._quietly)
            self.base.run("TERMINATE", {}, tell)
        else:
            self.base.first_or_next("on", parameters, tell)

    def _choosing(self, body: Body) -> OnRow:
        """Where results go, of a window over rows that may slide."""
        if self.form.slide is not None:
            body.telling = "seq % slide == 0"
        return self._out

    def _windowed(self, parameters: dict[str, Code], codes: list[Code]) -> None:
        """Box 2, and 5 for rows: what left is expired, the row is put into the window, then it is told."""
        assert self.over is not None
        tell = self._choosing(self.over)
        self._step(parameters, codes, self._key, self._past("t"), tell)

    @property
    def _key(self) -> str:
        return "t" if self.form.kind == "range" else "seq"

    def _past(self, time: str) -> str | None:
        """Text that is true of a window's key that has left."""
        if self.form.length is None:
            return None
        return f"< {time} - length" if self.form.kind == "range" else "<= seq - length"

    def _over_window(self, parameters: dict[str, Code], codes: list[Code]) -> None:
        if self._holds:
            self._slotted(parameters, codes)
        else:
            self._windowed(parameters, codes)

    def _slotted(self, parameters: dict[str, Code], codes: list[Code]) -> None:
        """A window that slides by time: the last row of a slot tells, when the slot is over."""
        writer = self.writer
        writer.emit("end = (t // slide + 1) * slide")
        with writer.block("if end != slot:"):
            self._tell_held("held", "slot")
            writer.emit("slot = end")
        # Where slots are longer than the window, rows before a slot's tail are in no window.
        with writer.block("if t >= end - length:" if self.form.tumbles else "if True:"):
            writer.emit("p_n = 0")
            writer.emit("held = ref")
            self._tell_at_end_of_slot(parameters, codes)

    def _tell_at_end_of_slot(self, parameters: dict[str, Code], codes: list[Code]) -> None:
        def tell(results: list[Code]) -> None:
            self._hold("p", results)

        if self.over is not None:
            self._step(parameters, codes, "t", self._past("slot"), tell)
            return
        assert self.base is not None
        if self.base.has("TERMINATE"):
            self.base.first_or_next("on", parameters, self._quietly)
            self.base.run("TERMINATE", {}, tell)
        else:
            self.base.first_or_next("on", parameters, tell)

    def _step(
        self, parameters: dict[str, Code], codes: list[Code], key: str, past: str | None, tell: OnRow, on: str = "on"
    ) -> None:
        assert self.over is not None
        if self._keeps_window:
            window = self._window
            if past is not None and self._by_count:
                self._expire(f"{window.count} - {window.first} >= length")
            elif past is not None:
                self._expire(f"{window.prefix}_k[{window.first}] {past}")
            self._append(codes, key)
        self.over.first_or_next(on, parameters, tell)

    def _expire(self, due: str) -> None:
        """All rows of the window that are due leave, the oldest first; nobody is told before the next row comes."""
        assert self.over is not None
        window, writer = self._window, self.writer
        with writer.block(f"while {window.first} < {window.count} and {due}:"):
            writer.emit(f"{window.prefix}_new = False")
            telling, self.over.telling = self.over.telling, "False"
            self.over.run("EXPIRE", self._leaving(), self._quietly)
            writer.emit(f"{window.first} += 1")
            self.over.telling = telling

    def _leaving(self) -> dict[str, Code]:
        """The parameters as the row that leaves has them."""
        assert self.over is not None
        window = self._window
        names = {column.name.lower() for column in self.over.definition.parameters}
        spoken = self.over.spoken("EXPIRE") & names
        found = {}
        for number, column in enumerate(self.over.definition.parameters):
            kind = kind_of(column.type)
            found[column.name] = (
                self.known.cell(window, number, window.first) if column.name.lower() in spoken else Code("0", kind)
            )
        return found

    def _append(self, codes: Sequence[Code], key: str) -> None:
        """Put a row into the window; where there is no room at its end, the room at its beginning is used first."""
        window, writer = self._window, self.writer
        p = window.prefix
        for number in self._kept_numbers:
            if codes[number].null != "False":
                self.known.nullable.add((p, number))
        arrays = self._window_arrays
        with writer.block(f"if {p}_n >= len({arrays[0]}) and {p}_h * 2 > {p}_n:"):
            for array in arrays:
                writer.emit(f"_shift({array}, {p}_h, {p}_n)")
            writer.emit(f"{p}_n -= {p}_h")
            writer.emit(f"{p}_h = 0")
        values = {f"{p}_k": key, f"{p}_f": "ref"}
        for number in self._kept_numbers:
            values[f"{p}_{number}"] = codes[number].value
            values[f"{p}_{number}_z"] = codes[number].null
        writer.put([(array, values[array]) for array in arrays], f"{p}_n")
        writer.emit(f"{p}_n += 1")
        writer.emit(f"{p}_new = True")

    def _active(self, parameters: dict[str, Code], codes: list[Code]) -> None:
        """Rows leave when it is time, and may be told then."""
        self._leave("t")
        assert self.over is not None
        self._append(codes, "t")
        self.over.first_or_next("on", parameters, self._out)

    def _leave(self, upto: str) -> None:
        window = self._window
        p = window.prefix
        writer = self.writer

        def tell(results: list[Code]) -> None:
            self._out(results, "gone", "left")

        due = f"{p}_k[{p}_h] + length <= {upto}"
        assert self.over is not None
        with writer.block(f"while {p}_h < {p}_n and {due}:"):
            writer.emit(f"left = {p}_k[{p}_h] + length")
            writer.emit(f"gone = {p}_f[{p}_h]")
            writer.emit(f"{p}_new = False")
            self.over.run("EXPIRE", self._leaving(), tell)
            writer.emit(f"{p}_h += 1")
            if self._naive_active:
                self.over.run("ITERATE", {}, tell)

    def _tumble(self, parameters: dict[str, Code], _codes: list[Code]) -> None:
        """Boxes 3 and 4: the base version from anew in each slot; rows before the slot's tail are never looked at."""
        writer = self.writer
        assert self.base is not None
        if self.form.kind == "rows":
            writer.emit("place = (seq - 1) % slide")
            with writer.block("if place >= slide - length:"):
                with writer.block("if place == slide - length:"):
                    self._restart()
                if self.base.has("TERMINATE"):
                    self.base.first_or_next("on", parameters, self._quietly)
                    with writer.block("if place == slide - 1:"):
                        self.base.run("TERMINATE", {}, self._out)
                else:
                    self.base.telling = "place == slide - 1"
                    self.base.first_or_next("on", parameters, self._out)
            return
        writer.emit("end = (t // slide + 1) * slide")
        with writer.block("if end != slot:"):
            self._close_slot()
            writer.emit("slot = end")
        with writer.block("if t >= end - length:"):
            writer.emit("p_n = 0")
            writer.emit("held = ref")
            self.base.first_or_next("on", parameters, lambda results: self._hold("p", results))

    def _restart(self) -> None:
        assert self.base is not None
        self.base.clear()
        self.writer.emit("on = False")

    def _close_slot(self) -> None:
        """The end of a slot by time: its results, and a new beginning."""
        assert self.base is not None
        if self.base.has("TERMINATE"):
            with self.writer.block("if on:"):
                self.writer.emit("p_n = 0")
                self.base.run("TERMINATE", {}, lambda results: self._hold("p", results))
        self._tell_held("held", "slot")
        self._restart()

    def _panes(self, parameters: dict[str, Code], _codes: list[Code]) -> None:
        """Box 4 (Ex. 15): the base version on panes, whose results are the rows of the window version."""
        writer = self.writer
        assert self.base is not None
        if self.form.kind == "rows":
            with writer.block("if (seq - 1) % pane == 0:"):
                self._restart()
            writer.emit("q_n = 0")
            self.base.first_or_next("on", parameters, lambda results: self._hold("q", results))
            with writer.block("if seq % pane == 0:"):
                self._end_pane()
                self._over_panes("seq // pane", "<= seq // pane - length // pane", "ref")
            return
        writer.emit("end = (t // pane + 1) * pane")
        with writer.block("if end != slot:"):
            self._close_pane()
            writer.emit("slot = end")
        writer.emit("q_n = 0")
        writer.emit("last = ref")
        self.base.first_or_next("on", parameters, lambda results: self._hold("q", results))

    def _end_pane(self) -> None:
        assert self.base is not None
        if self.base.has("TERMINATE"):
            self.writer.emit("q_n = 0")
            self.base.run("TERMINATE", {}, lambda results: self._hold("q", results))

    def _close_pane(self) -> None:
        """The end of a pane by time; the slot it lies in ends with it or later."""
        writer = self.writer
        with writer.block("if on:"):
            self._end_pane()
            writer.emit("end2 = -((-slot) // slide) * slide")
            with writer.block("if end2 != slot2:"):
                self._tell_held("held", "slot2")
                writer.emit("slot2 = end2")
            writer.emit("p_n = 0")
            writer.emit("held = last")
            self._over_panes("slot", "<= slot2 - length", "last")
        self._restart()

    def _over_panes(self, key: str, past: str, place: str) -> None:
        assert self.base is not None
        assert self.over is not None
        row = self.writer.fresh("i")
        held = self._held("q", row, self.base.definition.returns)
        stored = self.over._selects.expressions.stored
        with self.writer.block(f"for {row} in range(q_n):"):
            codes = [
                self.over._named(stored(code, column.type))
                for code, column in zip(held, self.over.definition.parameters, strict=True)
            ]
            if self.form.kind == "rows":
                self.over.telling = "seq % slide == 0"

            def tell(results: list[Code]) -> None:
                if self.form.kind == "rows":
                    self._out(results, place)
                else:
                    self._hold("p", results)

            self._step(parameters_of(self.over.definition.parameters, codes), codes, key, past, tell, "on2")

    def _end(self) -> None:
        """When a group's rows are through: what the clock alone brings about."""
        writer = self.writer
        if self.way == "base" and self._ends and self.base is not None and self.base.has("TERMINATE"):
            with writer.block("if on:"):
                writer.emit("ref = fresh + starts[g + 1] - 1")
                writer.emit("t = times[starts[g + 1] - 1]")
                self.base.run("TERMINATE", {}, self._out)
        elif self.way == "active":
            self._leave("upto")
        elif self._holds:
            if self.way == "panes":
                with writer.block("if slot <= upto:"):
                    self._close_pane()
                    writer.emit("slot = -9223372036854775807")
                with writer.block("if slot2 <= upto:"):
                    self._tell_held("held", "slot2")
            elif self.way == "tumble":
                with writer.block("if slot <= upto and on:"):
                    self._close_slot()
            else:
                with writer.block("if slot <= upto:"):
                    self._tell_held("held", "slot")


#: What a group keeps besides rows, and the variable it has in between.
_SCALARS = (
    ("began", "on"), ("began2", "on2"), ("seen", "seq"), ("slots", "slot"), ("slots2", "slot2"), ("lasts", "last"),
    ("helds", "held"),
)  # fmt: skip
