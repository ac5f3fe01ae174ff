"""What a program has for each group: its tables, its window, results that wait; and how results are told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from sqlglot import exp

from headrace.algebra.user_aggregates.definition import INWINDOW
from headrace.algebra.user_aggregates.forms import Form, Way
from headrace.algebra.user_aggregates.selects import ARRAYS
from headrace.algebra.user_aggregates.statements import Body
from headrace.algebra.user_aggregates.tables import Known, Table
from headrace.algebra.user_aggregates.values import Code, Kind, Writer, kind_of
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
    #: It is the window, whose rows do not begin at 0.
    moving: bool = False
    #: Each row also stands for one of the rows that came, whose other columns may still be shown.
    referring: bool = False


@dataclass
class Frame:
    """The variables of a program: `base` and `over` are the bodies of the base and the window version it has."""

    form: Form
    way: Way
    known: Known
    nulls: bool
    writer: Writer = field(default_factory=Writer)
    base: Body | None = None
    over: Body | None = None
    parameters: tuple[Column, ...] = ()
    returns: tuple[Column, ...] = ()

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
    def _by_count(self) -> bool:
        """Whether how many rows the window has tells which leave: then they need no numbers."""
        assert self.over is not None
        plain = self.way in ("window", "naive") and self.form.kind == "rows" and self.over.definition.external is None
        deletes = self.over.mentions(
            lambda node: isinstance(node, exp.Delete) and str(node.this.name).lower() == INWINDOW
        )
        return plain and not deletes and bool(self._kept_numbers)

    @property
    def _window_arrays(self) -> list[str]:
        window = self._window
        found = [] if self._by_count else [f"{window.prefix}_k"]
        found += [f"{window.prefix}_f"] if self.way == "active" else []
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
            for table in body.stored if body is not None else ():
                types = tuple(column.type for column in table.columns)
                found.append(Section(table.name, table.prefix, tuple(range(len(types))), types, table.single))
        if self.over is not None and self._keeps_window:
            window = self._window
            types = tuple(window.columns[number].type for number in self._kept_numbers)
            found.append(
                Section(
                    INWINDOW, window.prefix, self._kept_numbers, types, keyed=not self._by_count,
                    referring=self.way == "active", moving=True,
                )
            )  # fmt: skip
        if self._holds:
            types = tuple(column.type for column in self.returns)
            found.append(Section("results", "p", tuple(range(len(types))), types))
        if self.way == "panes":
            found.append(self._pane)
        return found

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
        if section.moving:
            writer.emit(f"{p}_h = 0")
            writer.emit(f"{p}_new = False")
        if section.keyed:
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
        first = f"{p}_h" if section.moving else "0"
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
        # Most calls tell something of each row.
        declare("room = max(16, starts[len(starts) - 1])")
        for name in ("o_p", "o_t"):
            declare(f"{name} = _ints(room)")
        declare("o_n = 0")
        for number, column in enumerate(self.returns):
            declare(f"o_{number} = {ARRAYS[kind_of(column.type)]}(room)")
            declare(f"o_{number}_z = _bools(room)")

    def _out(self, codes: Sequence[Code], place: str = "ref", time: str = "t") -> None:
        # What is told speaks of variables that change below.
        codes = [self.writer.kept(code) for code in codes]
        values = [("o_p", place), ("o_t", time)]
        for number, code in enumerate(codes):
            values += [(f"o_{number}", code.value), (f"o_{number}_z", code.null)]
        self.writer.put(values, "o_n")
        self.writer.emit("o_n += 1")

    def _hold(self, prefix: str, codes: Sequence[Code]) -> None:
        """Put results down until they can be told."""
        codes = [self.writer.kept(code) for code in codes]
        values = []
        for number, code in enumerate(codes):
            values += [(f"{prefix}_{number}", code.value), (f"{prefix}_{number}_z", code.null)]
        self.writer.put(values, f"{prefix}_n")
        self.writer.emit(f"{prefix}_n += 1")

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


def arrays_of(section: Section, end: str) -> list[str]:
    """The arrays of a section, as they come in (`i`) or go out (`r`)."""
    p = section.prefix
    found = [f"{p}_k{end}"] if section.keyed else []
    found += [f"{p}_f{end}"] if section.referring else []
    for number in section.numbers:
        found += [f"{p}_{number}_{end}", f"{p}_{number}_{end}z"]
    return found
