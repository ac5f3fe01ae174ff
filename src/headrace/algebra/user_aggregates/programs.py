"""A whole program for a call: a function that takes the new rows of all groups and what the groups keep.

Groups stand one after another, each group's rows in the order of the stream. For each, what it keeps is taken into
variables, its rows are gone through once, and what it keeps now is put down again. The same text runs as plain Python
over lists and as machine code over arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from sqlglot import exp

from headrace.algebra.user_aggregates.definition import INWINDOW, Definition, Versions
from headrace.algebra.user_aggregates.forms import Form, Way
from headrace.algebra.user_aggregates.selects import ARRAYS
from headrace.algebra.user_aggregates.statements import Body, Lookup, parameters_of, with_types
from headrace.algebra.user_aggregates.tables import Known, Table
from headrace.algebra.user_aggregates.values import NATIVE, WORDS, Code, Kind, Writer, kind_of
from headrace.language.aggregates import AggregateTable
from headrace.language.statement import Column


@dataclass(frozen=True)
class Section:
    """Something each group keeps a list of rows of: a table, the window, results that wait."""

    name: str
    prefix: str
    numbers: tuple[int, ...]
    types: tuple[str, ...]
    single: bool = False
    #: The window's rows also have a key: their number or their time.
    keyed: bool = False
    #: Each row also stands for one of the rows that came, whose other columns may still be shown.
    referring: bool = False


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
    columns = tuple(Column(f"w{number}", column.type) for number, column in enumerate(base.parameters))
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
        made = _Assembly(versions, form, way, lookup, types, known, nulls, ends).program()
        if before == (known.nullable, known.read):
            return made


@dataclass
class _Assembly:
    versions: Versions
    form: Form
    way: Way
    lookup: Lookup
    types: Sequence[str]
    known: Known
    nulls: bool
    ends: bool
    writer: Writer = field(default_factory=Writer)

    def __post_init__(self) -> None:
        base, window = self.versions.base, self.versions.window
        self.base: Body | None = None
        self.over: Body | None = None
        way = self.way
        if way in ("base", "tumble", "panes") or (way == "cumulative" and base is not None):
            assert base is not None
            self.base = self._body(base, "b")
        if way in ("window", "panes", "active", "naive") or (way == "cumulative" and base is None):
            found = window if way != "naive" and window is not None else naive_window(self._typed(base))
            self.over = self._body(found, "x")
        main = self.over if way == "active" or self.base is None else self.base
        assert main is not None
        self.main = main
        self.parameters = main.definition.parameters
        last = self.over or main
        self.returns = last.definition.returns
        self.naive_active = way == "active" and window is None

    def _typed(self, definition: Definition | None) -> Definition:
        assert definition is not None
        return with_types(definition, self.types)

    def _body(self, definition: Definition, prefix: str) -> Body:
        calling = () if not definition.window else ()
        return Body(self.writer, self.known, self._typed(definition), prefix, self._look, calling)

    def _look(self, name: str, types: Sequence[str]) -> Versions | None:
        # Inside its own versions an aggregate's name means its base version, built in or not.
        if name.lower() == self.versions.name.lower():
            return self.versions if self.versions.base is not None else None
        return self.lookup(name, types)

    # --- The whole -----------------------------------------------------------------------------------------------

    def program(self) -> Program:
        writer = self.writer
        for body in (self.base, self.over):
            if body is not None:
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
            with writer.block("for r in range(starts[g], starts[g + 1]):"):
                writer.emit("t = times[r]")
                writer.emit("seq += 1")
                writer.emit("ref = fresh + r")
                codes = self._arguments()
                self._ways[self.way](parameters_of(self.parameters, codes), codes)
            self._end()
            for name, value in _SCALARS:
                writer.emit(f"{name}[g] = {value}")
            due = "9223372036854775807"
            if self.way == "active":
                window = self._window
                due = f"({window.prefix}_k[{window.first}] + length if {window.first} < {window.count} else {due})"
            writer.emit(f"dues[g] = {due}")
            for section in self.sections:
                self._save(section)
        writer.depth = 1
        outputs = ["o_n", "o_p", "o_t", "o_g"]
        for number in range(len(self.returns)):
            outputs += [f"o_{number}", f"o_{number}_z"]
        for section in self.sections:
            outputs += [f"{section.prefix}_rn", f"{section.prefix}_ro", *_arrays(section, "r")]
        writer.emit(f"return ({', '.join(outputs)},)")
        return Program(
            self._text(), self.parameters, self.returns, tuple(self.sections), self._refers, self._slow(),
            frozenset(self.known.nullable),
        )  # fmt: skip

    def _slow(self) -> tuple[str, ...]:
        found = []
        for column in (*self.parameters, *self.returns):
            if kind_of(column.type) not in NATIVE:
                found.append(f"{column.name} is {WORDS[kind_of(column.type)]}")
        for section in self.sections:
            for type_ in section.types:
                if kind_of(type_) not in NATIVE:
                    found.append(f"{section.name} holds {WORDS[kind_of(type_)]}")
        return tuple(dict.fromkeys((*found, *self.known.slow)))

    def _text(self) -> str:
        names = ["starts", "times", "fresh", "upto", "length", "slide", "pane", "began", "began2", "seen", "slots"]
        names += ["slots2", "lasts", "helds", "dues"]
        for number in range(len(self.parameters)):
            names += [f"a_{number}_i", *([f"a_{number}_iz"] if self.nulls else [])]
        for section in self.sections:
            names += [f"{section.prefix}_io", *_arrays(section, "i")]
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

    # --- What is kept --------------------------------------------------------------------------------------------

    @cached_property
    def _window(self) -> Table:
        """The window's rows, whether the definition speaks of them or not."""
        assert self.over is not None
        if self.over.window is not None:
            return self.over.window
        return Table(INWINDOW, self.over.definition.parameters, "xw", window=True)

    @cached_property
    def _keeps_window(self) -> bool:
        if self.over is None or (self.form.length is None and self.way == "cumulative"):
            return self.over is not None and self._asks_window
        return self.way == "active" or self.over.has("EXPIRE") or self._asks_window

    @property
    def _asks_window(self) -> bool:
        assert self.over is not None
        return self.over.mentions(
            lambda node: (
                (isinstance(node, exp.Table) and node.name.lower() == INWINDOW)
                or (isinstance(node, exp.Anonymous) and str(node.this).lower() == "oldest")
            )
        )

    @property
    def _kept_numbers(self) -> tuple[int, ...]:
        window = self._window
        return tuple(number for number in range(len(window.columns)) if (window.prefix, number) in self.known.read)

    @property
    def _window_arrays(self) -> list[str]:
        window = self._window
        found = [f"{window.prefix}_k", *([f"{window.prefix}_f"] if self.way == "active" else [])]
        for number in self._kept_numbers:
            found.append(f"{window.prefix}_{number}")
            if (window.prefix, number) in self.known.nullable:
                found.append(f"{window.prefix}_{number}_z")
        return found

    @property
    def _holds(self) -> bool:
        """Whether results wait for the end of their slot."""
        return self.form.kind == "range" and self.form.slide is not None

    @property
    def _refers(self) -> bool:
        return self._holds

    @property
    def sections(self) -> list[Section]:
        found = []
        for body in (self.base, self.over):
            for table in body.stored if body is not None and not self._restarts(body) else ():
                types = tuple(column.type for column in table.columns)
                found.append(Section(table.name, table.prefix, tuple(range(len(types))), types, table.single))
        if self.over is not None and self._keeps_window:
            window = self._window
            types = tuple(window.columns[number].type for number in self._kept_numbers)
            found.append(
                Section(INWINDOW, window.prefix, self._kept_numbers, types, keyed=True, referring=self.way == "active")
            )
        if self._holds:
            types = tuple(column.type for column in self.returns)
            found.append(Section("results", "p", tuple(range(len(types))), types))
        if self.way == "panes":
            found.append(self._pane)
        return found

    def _restarts(self, _body: Body) -> bool:
        return False

    @property
    def _pane(self) -> Section:
        assert self.base is not None
        types = tuple(column.type for column in self.base.definition.returns)
        return Section("pane", "q", tuple(range(len(types))), types)

    def _nullable(self, section: Section, number: int) -> bool:
        if section.prefix in ("p", "q"):
            return True
        return (section.prefix, number) in self.known.nullable

    def _load(self, section: Section) -> None:
        writer, p = self.writer, section.prefix
        writer.emit(f"{p}_n = {p}_io[g + 1] - {p}_io[g]")
        if section.single:
            with writer.block(f"if {p}_n > 0:"):
                for number in section.numbers:
                    writer.emit(f"{p}_{number} = {p}_{number}_i[{p}_io[g]]")
                    if self._nullable(section, number):
                        writer.emit(f"{p}_{number}_z = {p}_{number}_iz[{p}_io[g]]")
            return
        pairs = []
        if section.keyed:
            writer.emit(f"{p}_h = 0")
            writer.emit(f"{p}_new = False")
            writer.declare(f"{p}_k = _ints(8)")
            pairs.append((f"{p}_k", f"{p}_ki"))
        if section.referring:
            writer.declare(f"{p}_f = _ints(8)")
            pairs.append((f"{p}_f", f"{p}_fi"))
        for number, type_ in zip(section.numbers, section.types, strict=True):
            writer.declare(f"{p}_{number} = {ARRAYS[kind_of(type_)]}(8)")
            writer.declare(f"{p}_{number}_z = _bools(8)")
            pairs.append((f"{p}_{number}", f"{p}_{number}_i"))
            if self._nullable(section, number):
                pairs.append((f"{p}_{number}_z", f"{p}_{number}_iz"))
        for array, source in pairs:
            writer.emit(f"{array} = _loaded({array}, {source}, {p}_io[g], {p}_n)")

    def _save(self, section: Section) -> None:
        writer, p = self.writer, section.prefix
        first = f"{p}_h" if section.keyed else "0"
        pairs = []
        if section.keyed:
            pairs.append((f"{p}_k", f"{p}_kr"))
        if section.referring:
            pairs.append((f"{p}_f", f"{p}_fr"))
        writer.declare(f"{p}_rn = 0")
        writer.declare(f"{p}_ro = _zeros(len(starts))")
        for array, to in pairs:
            writer.declare(f"{to} = _ints(8)")
            writer.emit(f"{to} = _saved({to}, {p}_rn, {array}, {first}, {p}_n)")
        for number, type_ in zip(section.numbers, section.types, strict=True):
            writer.declare(f"{p}_{number}_r = {ARRAYS[kind_of(type_)]}(8)")
            writer.declare(f"{p}_{number}_rz = _bools(8)")
            if section.single:
                with writer.block(f"if {p}_n > 0:"):
                    writer.emit(f"{p}_{number}_r = _fit({p}_{number}_r, {p}_rn)")
                    writer.emit(f"{p}_{number}_r[{p}_rn] = {p}_{number}")
                    writer.emit(f"{p}_{number}_rz = _fit({p}_{number}_rz, {p}_rn)")
                    null = f"{p}_{number}_z" if self._nullable(section, number) else "False"
                    writer.emit(f"{p}_{number}_rz[{p}_rn] = {null}")
                continue
            writer.emit(f"{p}_{number}_r = _saved({p}_{number}_r, {p}_rn, {p}_{number}, {first}, {p}_n)")
            if self._nullable(section, number):
                writer.emit(f"{p}_{number}_rz = _saved({p}_{number}_rz, {p}_rn, {p}_{number}_z, {first}, {p}_n)")
        writer.emit(f"{p}_rn += {p}_n - {first}")
        writer.emit(f"{p}_ro[g + 1] = {p}_rn")

    # --- Rows in, results out ------------------------------------------------------------------------------------

    def _arguments(self) -> list[Code]:
        found = []
        for number, column in enumerate(self.parameters):
            self.writer.emit(f"a_{number} = a_{number}_i[r]")
            if self.nulls:
                self.writer.emit(f"a_{number}_z = a_{number}_iz[r]")
            found.append(Code(f"a_{number}", kind_of(column.type), f"a_{number}_z" if self.nulls else "False"))
        return found

    def _declare_outputs(self) -> None:
        declare = self.writer.declare
        for name in ("o_p", "o_t", "o_g"):
            declare(f"{name} = _ints(16)")
        declare("o_n = 0")
        for number, column in enumerate(self.returns):
            declare(f"o_{number} = {ARRAYS[kind_of(column.type)]}(16)")
            declare(f"o_{number}_z = _bools(16)")

    def _out(self, codes: Sequence[Code], place: str = "ref", time: str = "t") -> None:
        emit = self.writer.emit
        # What is told speaks of variables that change below.
        codes = [self.writer.kept(code) for code in codes]
        for array, value in (("o_p", place), ("o_t", time), ("o_g", "g")):
            emit(f"{array} = _fit({array}, o_n)")
            emit(f"{array}[o_n] = {value}")
        for number, code in enumerate(codes):
            for array, value in ((f"o_{number}", code.value), (f"o_{number}_z", code.null)):
                emit(f"{array} = _fit({array}, o_n)")
                emit(f"{array}[o_n] = {value}")
        emit("o_n += 1")

    def _hold(self, prefix: str, codes: Sequence[Code]) -> None:
        """Put results down until they can be told."""
        emit = self.writer.emit
        codes = [self.writer.kept(code) for code in codes]
        for number, code in enumerate(codes):
            for array, value in ((f"{prefix}_{number}", code.value), (f"{prefix}_{number}_z", code.null)):
                emit(f"{array} = _fit({array}, {prefix}_n)")
                emit(f"{array}[{prefix}_n] = {value}")
        emit(f"{prefix}_n += 1")

    def _held(self, prefix: str, row: str, columns: Sequence[Column]) -> list[Code]:
        kinds: list[Kind] = [kind_of(column.type) for column in columns]
        return [Code(f"{prefix}_{n}[{row}]", kind, f"{prefix}_{n}_z[{row}]") for n, kind in enumerate(kinds)]

    def _tell_held(self, place: str, time: str) -> None:
        row = self.writer.fresh("i")
        with self.writer.block(f"for {row} in range(p_n):"):
            self._out(self._held("p", row, self.returns), place, time)
        self.writer.emit("p_n = 0")

    def _quietly(self, codes: Sequence[Code]) -> None:
        """Results that nobody hears of."""

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
            self.base.run("TERMINATE", parameters, tell)
        else:
            self.base.first_or_next("on", parameters, tell)

    def _choosing(self, body: Body):  # type: ignore[no-untyped-def]
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
            self.base.run("TERMINATE", parameters, tell)
        else:
            self.base.first_or_next("on", parameters, tell)

    def _step(
        self, parameters: dict[str, Code], codes: list[Code], key: str, past: str | None, tell, on: str = "on"
    ) -> None:  # type: ignore[no-untyped-def]
        assert self.over is not None
        if self._keeps_window:
            if past is not None:
                self._expire(f"{self._window.prefix}_k[{self._window.first}] {past}", self._quietly)
            self._append(codes, key)
        self.over.first_or_next(on, parameters, tell)

    def _expire(self, due: str, tell, after=None) -> None:  # type: ignore[no-untyped-def]
        """All rows of the window that are due leave, the oldest first."""
        assert self.over is not None
        window, writer = self._window, self.writer
        with writer.block(f"while {window.first} < {window.count} and {due}:"):
            writer.emit(f"{window.prefix}_new = False")
            telling, self.over.telling = self.over.telling, None
            self.over.run("EXPIRE", self._leaving(), tell)
            writer.emit(f"{window.first} += 1")
            if after is not None:
                after()
            self.over.telling = telling

    def _leaving(self) -> dict[str, Code]:
        """The parameters as the row that leaves has them."""
        assert self.over is not None
        window = self._window
        spoken = {
            column.name
            for column in self.over.definition.parameters
            if self.over.mentions(
                lambda node, name=column.name.lower(): isinstance(node, exp.Column) and node.name.lower() == name,
                "EXPIRE",
            )
        }
        found = {}
        for number, column in enumerate(self.over.definition.parameters):
            kind = kind_of(column.type)
            found[column.name] = (
                self.known.cell(window, number, window.first) if column.name in spoken else Code("0", kind)
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
        with writer.block(f"if {p}_n >= len({p}_k) and {p}_h * 2 > {p}_n:"):
            for array in arrays:
                writer.emit(f"_shift({array}, {p}_h, {p}_n)")
            writer.emit(f"{p}_n -= {p}_h")
            writer.emit(f"{p}_h = 0")
        values = {f"{p}_k": key, f"{p}_f": "ref"}
        for number in self._kept_numbers:
            values[f"{p}_{number}"] = codes[number].value
            values[f"{p}_{number}_z"] = codes[number].null
        for array in arrays:
            writer.emit(f"{array} = _fit({array}, {p}_n)")
            writer.emit(f"{array}[{p}_n] = {values[array]}")
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
            if self.naive_active:
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
                        self.base.run("TERMINATE", parameters, self._out)
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
        assert self.base is not None and self.over is not None
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
        if self.way == "base" and self.ends and self.base is not None and self.base.has("TERMINATE"):
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


def _arrays(section: Section, end: str) -> list[str]:
    """The arrays of a section, as they come in (`i`) or go out (`r`)."""
    p = section.prefix
    found = [f"{p}_k{end}"] if section.keyed else []
    found += [f"{p}_f{end}"] if section.referring else []
    for number in section.numbers:
        found += [f"{p}_{number}_{end}", f"{p}_{number}_{end}z"]
    return found
