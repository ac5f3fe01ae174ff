"""The statements of an aggregate's blocks, as program text over its tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from headrace.algebra.user_aggregates.bodies import RETURN, parsed, target_of
from headrace.algebra.user_aggregates.builtins import builtin
from headrace.algebra.user_aggregates.definition import INWINDOW, Definition, Versions
from headrace.algebra.user_aggregates.faults import Fault
from headrace.algebra.user_aggregates.functions import converted
from headrace.algebra.user_aggregates.selects import ARRAYS, Nested, OnRow, Selects
from headrace.algebra.user_aggregates.tables import Known, Row, Scope, Table
from headrace.algebra.user_aggregates.values import DEFAULTS, Code, Kind, Writer, kind_of
from headrace.language.statement import Column

Lookup = Callable[[str, Sequence[str]], Versions | None]

_TYPES: dict[Kind, str] = {
    "int": "BIGINT", "float": "DOUBLE", "bool": "BOOLEAN", "time": "TIMESTAMP", "date": "DATE", "text": "STRING",
    "span": "INTERVAL DAY TO SECOND", "decimal": "DECIMAL(38,18)", "bytes": "BINARY", "null": "BIGINT",
}  # fmt: skip

_AGAIN = (
    "Go through the rows of a table instead: INSERT, UPDATE and DELETE over its rows, once for each row that comes."
)

_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Between)


def with_types(definition: Definition, types: Sequence[str]) -> Definition:
    """A definition whose types the arguments of a call tell: those of its parameters, its inwindow, its results."""
    given = {column.name.lower(): type_ for column, type_ in zip(definition.parameters, types, strict=True)}
    parameters = tuple(
        replace(column, type=column.type or given[column.name.lower()]) for column in definition.parameters
    )
    tables = []
    for table in definition.tables:
        known = {column.name.lower(): column.type for column in parameters}
        if table.name.lower() == INWINDOW:
            known = {one.name.lower(): other.type for one, other in zip(table.columns, parameters, strict=False)}
        columns = tuple(
            replace(column, type=column.type or known.get(column.name.lower(), "")) for column in table.columns
        )
        tables.append(replace(table, columns=columns))
    known = {column.name.lower(): column.type for column in parameters}
    returns = tuple(
        replace(column, type=column.type or known.get(column.name.lower(), "")) for column in definition.returns
    )
    return replace(definition, parameters=parameters, tables=tuple(tables), returns=returns)


class Body:
    """The blocks of one aggregate in a program. All variables begin with `prefix`, which no other body has."""

    def __init__(
        self, writer: Writer, known: Known, definition: Definition, prefix: str, lookup: Lookup,
        calling: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        self._writer, self._known, self.definition, self._prefix = writer, known, definition, prefix
        self._lookup, self._calling = lookup, (*calling, _named(definition))
        self._statements = {
            block: [_checked(definition, block, text) for text in texts] for block, texts in definition.blocks.items()
        }
        self.tables: dict[str, Table] = {}
        self.window: Table | None = None
        for number, table in enumerate(definition.tables):
            name = table.name.lower()
            if name == INWINDOW:
                self.window = Table(name, table.columns, f"{prefix}w", window=True)
                self.tables[name] = self.window
            else:
                self.tables[name] = Table(name, table.columns, f"{prefix}t{number}", self._is_single(name))
        self._selects = Selects(writer, known, self.tables, self.window, self._nested)
        #: Text that is true where results are told at all; None: always.
        self.telling: str | None = None

    def _is_single(self, table: str) -> bool:
        """Whether a table gets one row when the aggregate begins, and no other."""
        found = [
            (block, tree)
            for block, trees in self._statements.items()
            for _text, tree in trees
            if isinstance(tree, exp.Insert) and target_of(tree) == table
        ]
        if len(found) != 1 or found[0][0] != "INITIALIZE" or "ITERATE" not in self.definition.blocks:
            return False
        source = found[0][1].expression
        rows = len(source.expressions) if isinstance(source, exp.Values) else 1 + bool(source.args.get("from_"))
        return rows == 1

    @property
    def stored(self) -> list[Table]:
        """The tables that it keeps of its own, without the window."""
        return [table for table in self.tables.values() if not table.window]

    def declare(self) -> None:
        """What has to be there before the first row."""
        for table in self.stored:
            self._writer.declare(f"{table.count} = 0")
            for number in range(len(table.columns)):
                kind = table.kind(number)
                if table.single:
                    self._writer.declare(f"{table.value(number, '')} = {DEFAULTS[kind]}")
                    self._writer.declare(f"{table.null(number, '')} = False")
                else:
                    self._writer.declare(f"{table.prefix}_{number} = {ARRAYS[kind]}(8)")
                    self._writer.declare(f"{table.prefix}_{number}_z = _bools(8)")

    def opened(self) -> None:
        """What is done when all that a group keeps has been taken into variables."""

    def closed(self) -> None:
        """What is done before the variables are put down again."""

    def clear(self) -> None:
        for table in self.stored:
            self._writer.emit(f"{table.count} = 0")

    def has(self, block: str) -> bool:
        return bool(self._statements.get(block))

    def mentions(self, what: Callable[[exp.Expr], bool], *blocks: str) -> bool:
        """Whether any statement of the blocks, or of all, has such a node."""
        return any(
            what(node)
            for block, trees in self._statements.items()
            if not blocks or block in blocks
            for _text, tree in trees
            for node in tree.walk()
        )

    def spoken(self, *blocks: str) -> set[str]:
        """The names of columns and parameters that statements of the blocks speak of, in lower case."""
        return {
            node.name.lower()
            for block in blocks
            for _text, tree in self._statements.get(block, ())
            for node in tree.find_all(exp.Column)
        }

    # --- Blocks --------------------------------------------------------------------------------------------------

    def first_or_next(self, started: str, parameters: Mapping[str, Code], on_return: OnRow) -> None:
        """INITIALIZE for the first row, ITERATE for all others; one of them alone serves for both."""
        blocks = self.definition.blocks
        if "INITIALIZE" not in blocks or blocks.get("INITIALIZE") == blocks.get("ITERATE"):
            self._writer.emit(f"{started} = True")
            self.run("ITERATE", parameters, on_return)
            return
        with self._writer.block(f"if not {started}:"):
            self._writer.emit(f"{started} = True")
            self.run("INITIALIZE", parameters, on_return)
        with self._writer.block("else:"):
            self.run("ITERATE", parameters, on_return)

    def run(self, block: str, parameters: Mapping[str, Code], on_return: OnRow) -> None:
        """All statements of a block."""
        scope = Scope(self._known, {name.lower(): code for name, code in parameters.items()})
        for text, tree in self._statements.get(block, ()):
            try:
                self._statement(tree, scope, on_return, block)
            except Fault as fault:
                raise fault.placed(self.definition.name, block, text) from fault

    def _statement(self, tree: exp.Expr, scope: Scope, on_return: OnRow, block: str) -> None:
        if isinstance(tree, exp.Select):
            self._selects.rows(tree, scope, lambda _codes: None)
            return
        assert isinstance(tree, exp.Insert | exp.Update | exp.Delete)
        if isinstance(tree, exp.Insert) and target_of(tree) == RETURN:
            if self.telling is None:
                self._returned(tree, scope, on_return)
                return
            with self._writer.block(f"if {self.telling}:"):
                self._returned(tree, scope, on_return)
            return
        table = self.tables.get(target_of(tree))
        if table is None:
            known = ", ".join(self.tables) or "none"
            raise Fault(
                "UNKNOWN_TABLE", f"the aggregate has no table {target_of(tree)}", tree.this,
                f"Its tables: {known}. Declare it: TABLE {target_of(tree)}(...).",
            )  # fmt: skip
        if isinstance(tree, exp.Delete):
            self._delete(tree, table, scope, block)
        elif table.window:
            word = "inserted into" if isinstance(tree, exp.Insert) else "updated in"
            raise Fault(
                "WINDOW_IS_KEPT", f"nothing can be {word} inwindow: the system puts every row there", tree.this,
                "Query it or delete from it; keep what else is needed in a table of another name.",
            )  # fmt: skip
        elif isinstance(tree, exp.Insert):
            self._insert(tree, table, scope)
        else:
            self._update(tree, table, scope)

    # --- Inserts -------------------------------------------------------------------------------------------------

    def _each(self, tree: exp.Insert, scope: Scope, width: int, on_row: OnRow) -> None:
        """The rows that are inserted."""
        source = tree.expression

        def check(codes: list[Code]) -> None:
            if len(codes) != width:
                raise Fault("WRONG_COLUMN_COUNT", f"{len(codes)} values are given for {width} columns", source)
            on_row(codes)

        if isinstance(source, exp.Values):
            for row in source.expressions:
                values = row.expressions if isinstance(row, exp.Tuple) else [row]
                check([self._selects.expressions.compile(value, scope) for value in values])
        elif isinstance(source, exp.Select):
            self._selects.rows(source, scope, check)
        else:
            raise Fault("BAD_STATEMENT", "INSERT takes VALUES or a SELECT", tree)

    def _returned(self, tree: exp.Insert, scope: Scope, on_return: OnRow) -> None:
        returns = self.definition.returns

        def give(codes: list[Code]) -> None:
            stored = self._selects.expressions.stored
            on_return([stored(code, column.type, tree) for code, column in zip(codes, returns, strict=True)])

        self._each(tree, scope, len(returns), give)

    def _insert(self, tree: exp.Insert, table: Table, scope: Scope) -> None:
        writer = self._writer
        named = [one.name for one in tree.this.expressions] if isinstance(tree.this, exp.Schema) else []
        numbers = [self._column(table, name, tree) for name in named] or list(range(len(table.columns)))
        before = writer.fresh("n")
        writer.emit(f"{before} = {table.count}")
        self._selects.bounds[table.name] = before

        def put(codes: list[Code]) -> None:
            given = dict(zip(numbers, codes, strict=True))
            kept = []
            for number, column in enumerate(table.columns):
                code = given.get(number, Code(DEFAULTS[table.kind(number)], table.kind(number), "True"))
                kept.append(writer.kept(self._selects.expressions.stored(code, column.type, tree)))
            if table.single:
                for number, code in enumerate(kept):
                    self._store(table, number, table.count, code)
                writer.emit(f"{table.count} = 1")
                return
            values = []
            for number, code in enumerate(kept):
                values.append((f"{table.prefix}_{number}", code.value))
                if self._is_nullable(table, number, code):
                    values.append((f"{table.prefix}_{number}_z", code.null))
            writer.put(values, table.count)
            writer.emit(f"{table.count} += 1")

        self._each(tree, scope, len(numbers), put)
        del self._selects.bounds[table.name]

    def _column(self, table: Table, name: str, node: exp.Expr) -> int:
        number = table.number_of(name)
        if number is None:
            known = ", ".join(column.name for column in table.columns)
            raise Fault("UNKNOWN_COLUMN", f"{table.name} has no column {name}", node, f"It has: {known}.")
        return number

    def _is_nullable(self, table: Table, number: int, code: Code) -> bool:
        if code.null != "False":
            self._known.nullable.add((table.prefix, number))
        return (table.prefix, number) in self._known.nullable

    def _store(self, table: Table, number: int, row: str, code: Code) -> None:
        self._writer.emit(f"{table.value(number, row)} = {code.value}")
        if self._is_nullable(table, number, code):
            self._writer.emit(f"{table.null(number, row)} = {code.null}")

    # --- Updates and deletes -------------------------------------------------------------------------------------

    def _update(self, tree: exp.Update, table: Table, scope: Scope) -> None:
        """All new values are computed from the old row, then stored."""
        writer = self._writer
        row = "0" if table.single else writer.fresh("i")
        inner = scope.inside([Row((tree.this.alias or table.name).lower(), table, row)])
        settings = [(self._column(table, one.this.name, one), one.expression) for one in tree.expressions]
        where = tree.args.get("where")
        # A subquery that reads the table sees it as it was: then the rows are counted, but not changed, first.
        later: list[tuple[int, str, str]] | None = None
        if _reads(tree, table.name) and not table.single:
            later = [(number, writer.fresh("u"), writer.fresh("uz")) for number, _value in settings]
            chosen = writer.fresh("f")
            writer.emit(f"{chosen} = _sized(_bools({table.count}), {table.count})")
            for number, name, null in later:
                writer.emit(f"{name} = _sized({ARRAYS[table.kind(number)]}({table.count}), {table.count})")
                writer.emit(f"{null} = _sized(_bools({table.count}), {table.count})")

        def change() -> None:
            found = []
            for number, value in settings:
                code = self._selects.expressions.compile(value, inner)
                found.append(writer.kept(self._selects.expressions.stored(code, table.columns[number].type, value)))
            # Even a short text may speak of the row, which changes.
            found = [self._named(code) for code in found]
            if later is None:
                for (number, _value), code in zip(settings, found, strict=True):
                    self._store(table, number, row, code)
                return
            for (number, name, null), code in zip(later, found, strict=True):
                self._is_nullable(table, number, code)
                writer.emit(f"{name}[{row}] = {code.value}")
                writer.emit(f"{null}[{row}] = {code.null}")
            writer.emit(f"{chosen}[{row}] = True")

        head = f"if {table.count} > 0:" if table.single else f"for {row} in range({table.count}):"
        with writer.block(head):
            if later is not None:
                writer.emit(f"{chosen}[{row}] = False")
            if where is None:
                change()
            else:
                condition = self._selects.expressions.condition(where.this, inner)
                with writer.block(f"if {condition}:"):
                    change()
        if later is not None:
            with writer.block(f"for {row} in range({table.count}):"), writer.block(f"if {chosen}[{row}]:"):
                for number, name, null in later:
                    self._store(table, number, row, Code(f"{name}[{row}]", table.kind(number), f"{null}[{row}]"))

    def _named(self, code: Code) -> Code:
        value = self._writer.fresh()
        self._writer.emit(f"{value} = {code.value}")
        null = code.null
        if null not in ("False", "True"):
            null = self._writer.fresh("z")
            self._writer.emit(f"{null} = {code.null}")
        return Code(value, code.kind, null)

    def _delete(self, tree: exp.Delete, table: Table, scope: Scope, block: str) -> None:
        writer = self._writer
        where = tree.args.get("where")
        if where is None:
            # The row that leaves goes by itself.
            leaving = table.window and block == "EXPIRE"
            left = f"min({table.count}, {table.first} + 1)" if leaving else table.first
            writer.emit(f"{table.count} = {left}")
            if table.window:
                writer.emit(f"{table.prefix}_new = False")
            return
        if table.single:
            inner = scope.inside([Row((tree.this.alias or table.name).lower(), table, "0")])
            with writer.block(f"if {table.count} > 0:"):
                condition = self._selects.expressions.condition(where.this, inner)
                with writer.block(f"if {condition}:"):
                    writer.emit(f"{table.count} = 0")
            return
        row, to = writer.fresh("i"), writer.fresh("j")
        inner = scope.inside([Row((tree.this.alias or table.name).lower(), table, row)])
        spared = table.window and block != "EXPIRE" and self._compares(where.this, table, scope)
        gone = writer.fresh("d")
        marks = writer.fresh("f") if _reads(tree, table.name) else None

        def judge() -> None:
            condition = self._selects.expressions.condition(where.this, inner)
            last = f"not ({table.prefix}_new and {row} == {table.count} - 1) and " if spared else ""
            if table.window and block == "EXPIRE":  # the row that leaves goes by itself
                last = f"{row} != {table.first} and "
            writer.emit(f"{gone} = {last}{condition}")

        if marks is not None:
            writer.emit(f"{marks} = _sized(_bools({table.count}), {table.count})")
            with writer.block(f"for {row} in range({table.first}, {table.count}):"):
                judge()
                writer.emit(f"{marks}[{row}] = {gone}")
        writer.emit(f"{to} = {table.first}")
        with writer.block(f"for {row} in range({table.first}, {table.count}):"):
            if marks is None:
                judge()
            else:
                writer.emit(f"{gone} = {marks}[{row}]")
            with writer.block(f"if not {gone}:"):
                with writer.block(f"if {to} != {row}:"):
                    self._move(table, row, to)
                writer.emit(f"{to} += 1")
            if table.window:
                with writer.block(f"elif {row} == {table.count} - 1:"):
                    writer.emit(f"{table.prefix}_new = False")
        writer.emit(f"{table.count} = {to}")

    def _move(self, table: Table, row: str, to: str) -> None:
        arrays = [f"{table.prefix}_{number}" for number in range(len(table.columns))]
        if table.window:
            # Which of the window's columns are kept at all is settled when everything is compiled.
            self._writer.emit(f"#move {table.prefix} {row} {to}")
            return
        for number, array in enumerate(arrays):
            self._writer.emit(f"{array}[{to}] = {array}[{row}]")
            if (table.prefix, number) in self._known.nullable:
                self._writer.emit(f"{array}_z[{to}] = {array}_z[{row}]")

    def _compares(self, condition: exp.Expr, table: Table, scope: Scope) -> bool:
        """Whether the window's rows are compared with the row that arrives, which is not meant itself then."""

        def is_window(node: exp.Expr) -> bool:
            return any(
                isinstance(one, exp.Column)
                and table.number_of(one.name) is not None
                and one.table.lower() in ("", table.name)
                for one in node.walk()
            )

        def is_parameter(node: exp.Expr) -> bool:
            return any(
                isinstance(one, exp.Column)
                and not one.table
                and table.number_of(one.name) is None
                and one.name.lower() in scope.parameters
                for one in node.walk()
            )

        return any(
            isinstance(node, _COMPARISONS)
            and is_window(node)
            and is_parameter(node)
            and node.find_ancestor(exp.Select) is None
            for node in condition.walk()
        )

    # --- Calls of other aggregates -------------------------------------------------------------------------------

    def _nested(self, name: str, node: exp.Expr, arguments: list[Code]) -> Nested | None:
        versions = self._lookup(name, [_TYPES.get(code.kind, "") for code in arguments])
        # SQL's own count is the only one that needs no argument to be found; it is counted without a call.
        if versions is None or versions.base is None or versions is builtin(name, ()):
            return None
        base = versions.base
        if _named(base) in self._calling:
            chain = " calls ".join([*(one.split()[0] for one in self._calling), base.name])
            raise Fault("RECURSIVE_AGGREGATE", f"an aggregate cannot call itself: {chain}", node, _AGAIN)
        return _NestedCall(self, base, arguments)

    def nested_body(self, definition: Definition) -> tuple[Body, str]:
        # A class in Python is a body too: a kind of this one, so its module imports this one.
        from headrace.algebra.user_aggregates.external_bodies import ExternalBody

        prefix = self._writer.fresh("m") + "_"
        kind = Body if definition.external is None else ExternalBody
        return kind(self._writer, self._known, definition, prefix, self._lookup, self._calling), prefix


class _NestedCall:
    """A base aggregate called over rows of a select: what it returned last is its result."""

    def __init__(self, caller: Body, definition: Definition, arguments: Sequence[Code]) -> None:
        self._caller, self._arguments = caller, arguments
        self._definition = definition
        self._writer = caller._writer

    def begin(self) -> None:
        writer, given = self._writer, [_TYPES.get(code.kind, "") for code in self._arguments]
        if len(given) != len(self._definition.parameters):
            raise Fault(
                "WRONG_ARGUMENTS", f"{self._definition.name} takes {len(self._definition.parameters)} arguments"
            )
        definition = with_types(self._definition, given)
        self._body, prefix = self._caller.nested_body(definition)
        self._body.declare()
        self._body.clear()
        self._started, self._count = f"{prefix}on", f"{prefix}n"
        self._returns = [(f"{prefix}r{number}", f"{prefix}r{number}_z") for number in range(len(definition.returns))]
        self._kinds = [kind_of(column.type) for column in definition.returns]
        for (name, null), kind in zip(self._returns, self._kinds, strict=True):
            writer.declare(f"{name} = {ARRAYS[kind]}(8)")
            writer.declare(f"{null} = _bools(8)")
        writer.emit(f"{self._started} = False")
        writer.emit(f"{self._count} = 0")

    def _give(self, codes: list[Code]) -> None:
        values = []
        for (name, null), code in zip(self._returns, codes, strict=True):
            values += [(name, code.value), (null, code.null)]
        self._writer.put(values, self._count)
        self._writer.emit(f"{self._count} += 1")

    def step(self, arguments: Sequence[Code], node: exp.Expr) -> None:
        parameters = self._body.definition.parameters
        stored = self._body._selects.expressions.stored
        given = {
            column.name: self._caller._named(stored(code, column.type, node))
            for column, code in zip(parameters, arguments, strict=True)
        }
        self._writer.emit(f"{self._count} = 0")
        self._body.first_or_next(self._started, given, self._give)

    def _end(self) -> None:
        if self._body.has("TERMINATE"):
            with self._writer.block(f"if {self._started}:"):
                self._writer.emit(f"{self._count} = 0")
                self._body.run("TERMINATE", {}, self._give)

    def rows(self, on_row: OnRow) -> None:
        self._end()
        row = self._writer.fresh("i")
        with self._writer.block(f"for {row} in range({self._count}):"):
            on_row([Code(f"{name}[{row}]", kind, f"{null}[{row}]") for (name, null), kind in self._results()])

    def last(self) -> list[Code]:
        self._end()
        writer, found = self._writer, []
        for (name, null), kind in self._results():
            value, missing = writer.fresh(), writer.fresh("z")
            empty = converted(Code("0", "null", "True"), kind)
            with writer.block(f"if {self._count} > 0:"):
                writer.emit(f"{value} = {name}[{self._count} - 1]")
                writer.emit(f"{missing} = {null}[{self._count} - 1]")
            with writer.block("else:"):
                writer.emit(f"{value} = {empty.value}")
                writer.emit(f"{missing} = True")
            found.append(Code(value, kind, missing))
        return found

    def _results(self) -> list[tuple[tuple[str, str], Kind]]:
        return list(zip(self._returns, self._kinds, strict=True))


def _named(definition: Definition) -> str:
    return f"{definition.name.lower()} {'window' if definition.window else 'base'}"


def _checked(definition: Definition, block: str, text: str) -> tuple[str, exp.Expr]:
    try:
        return text, parsed(text)
    except Fault as fault:
        raise fault.placed(definition.name, block, text) from fault


def _reads(tree: exp.Expr, table: str) -> bool:
    """Whether a subquery of a statement reads a table."""
    return any(
        isinstance(node, exp.Table) and node.name.lower() == table
        for select in tree.find_all(exp.Select)
        for node in select.find_all(exp.Table)
    )


def parameters_of(columns: Sequence[Column], codes: Sequence[Code]) -> dict[str, Code]:
    """Values under the names of the parameters."""
    return {column.name: code for column, code in zip(columns, codes, strict=True)}
