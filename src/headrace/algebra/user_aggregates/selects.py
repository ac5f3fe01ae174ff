"""SELECT inside a body: loops over the aggregate's tables, with what is done for each row that is found."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from sqlglot import exp

from headrace.algebra.user_aggregates.accumulators import BUILT_IN, Accumulator, Variable, accumulator
from headrace.algebra.user_aggregates.expressions import Expressions, _arguments
from headrace.algebra.user_aggregates.faults import Fault
from headrace.algebra.user_aggregates.functions import common_kind, converted
from headrace.algebra.user_aggregates.tables import Known, Row, Scope, Table
from headrace.algebra.user_aggregates.values import DEFAULTS, NULL, Code, Kind, Writer
from headrace.language.dialect import headrace_sql

#: Clauses of a SELECT that have no meaning over an aggregate's tables, or none that is compiled.
_REFUSED = ("with_", "windows", "qualify", "sample", "laterals", "pivots", "connect", "offset", "cluster", "distribute")

OnRow = Callable[[list[Code]], None]

ARRAYS: dict[Kind, str] = {
    "int": "_ints", "time": "_ints", "date": "_ints", "span": "_ints", "null": "_ints", "float": "_floats",
    "bool": "_bools", "text": "_objects", "decimal": "_objects", "bytes": "_objects", "other": "_objects",
}  # fmt: skip


class Nested(Protocol):
    """A call of another aggregate: begun, given rows, and asked for its result rows."""

    def begin(self) -> None: ...

    def step(self, arguments: Sequence[Code], node: exp.Expr) -> None: ...

    def rows(self, on_row: OnRow) -> None: ...

    def last(self) -> list[Code]: ...


class Selects:
    """Compiles the selects of one aggregate."""

    def __init__(
        self, writer: Writer, known: Known, tables: Mapping[str, Table], window: Table | None,
        nested: Callable[[str, exp.Expr, list[Code]], Nested | None],
    ) -> None:  # fmt: skip
        self._writer, self.known, self._tables, self.window = writer, known, tables, window
        self._nested = nested
        self.expressions = Expressions(writer, self)
        #: How many rows of a table a statement sees, where it adds to the table itself.
        self.bounds: dict[str, str] = {}

    # --- As values -----------------------------------------------------------------------------------------------

    def scalar(self, select: exp.Select, scope: Scope) -> Code:
        """The one value a subquery gives; NULL where it gives no row."""
        if len(select.expressions) != 1:
            raise Fault("WRONG_ARGUMENTS", "a subquery that stands for a value has one column", select)
        writer = self._writer
        value, null = writer.fresh(), writer.fresh("z")
        kind = self._kinds(select, scope)[0]
        writer.emit(f"{value} = {DEFAULTS[kind]}")
        writer.emit(f"{null} = True")

        def take(codes: list[Code]) -> None:
            code = converted(codes[0], kind)
            writer.emit(f"{value} = {code.value}")
            writer.emit(f"{null} = {code.null}")

        self.rows(select, scope, take)
        return Code(value, kind, null)

    def exists(self, select: exp.Select, scope: Scope) -> Code:
        found = self._writer.fresh("e")
        self._writer.emit(f"{found} = False")
        # What is selected does not matter.
        bare = select.copy()
        if not self._aggregates(select) and not select.args.get("group"):
            bare.set("expressions", [exp.Literal.number(1)])

        def take(_codes: list[Code]) -> None:
            self._writer.emit(f"{found} = True")

        self.rows(bare, scope, take)
        return Code(found, "bool")

    def contains(self, value: Code, select: exp.Select, scope: Scope, node: exp.Expr) -> Code:
        writer = self._writer
        found, unsure = writer.fresh("e"), writer.fresh("z")
        writer.emit(f"{found} = False")
        writer.emit(f"{unsure} = False")

        def take(codes: list[Code]) -> None:
            kind = common_kind([value, codes[0]], node)
            one, two = converted(value, kind, node), converted(codes[0], kind, node)
            unknown = [null for null in (one.null, two.null) if null != "False"]
            if unknown:
                with writer.block(f"if {' or '.join(unknown)}:"):
                    writer.emit(f"{unsure} = True")
            with writer.block(f"{'elif' if unknown else 'if'} {one.value} == {two.value}:"):
                writer.emit(f"{found} = True")

        self.rows(select, scope, take)
        return Code(found, "bool", f"({unsure} and not {found})")

    def _kinds(self, select: exp.Select, scope: Scope) -> list[Kind]:
        """What kinds of values a select gives; nothing is written."""
        writer, kinds = self._writer, []
        lines, depth = len(writer.lines), writer.depth
        self.rows(select, scope, lambda codes: kinds.append([code.kind for code in codes]))
        del writer.lines[lines:]
        writer.depth = depth
        return list(kinds[0])

    # --- As rows -------------------------------------------------------------------------------------------------

    def rows(self, select: exp.Select, scope: Scope, on_row: OnRow) -> None:
        """Do something with each row that is selected."""
        for clause in _REFUSED:
            if select.args.get(clause):
                raise Fault("NOT_IN_A_BODY", f"{clause.strip('_').upper()} cannot be said in a body", select)
        if select.args.get("distinct"):
            select = select.copy()
            select.set("distinct", None)
            # One row is distinct.
            if self._aggregates(select) and not select.args.get("group"):
                self.rows(select, scope, on_row)
                return
            if select.args.get("group"):
                raise Fault("NOT_IN_A_BODY", "DISTINCT beside GROUP BY cannot be said in a body", select)
            # In brackets, so that a number that is shown is not taken for the number of a column.
            shown = [one.unalias().copy() for one in select.expressions]
            keys = [exp.Paren(this=one) if isinstance(one, exp.Literal) else one for one in shown]
            select.set("group", exp.Group(expressions=keys))
        if select.args.get("order") is not None or select.args.get("limit") is not None:
            self._ordered(select, scope, on_row)
        elif select.args.get("group") is not None:
            self._grouped(select, scope, on_row)
        elif self._aggregates(select):
            self._aggregated(select, scope, on_row)
        else:
            if select.args.get("having") is not None:
                raise Fault("NOT_IN_A_BODY", "HAVING needs an aggregate or GROUP BY", select)
            self._loops(select, scope, lambda inner: on_row(self._items(select, inner)))

    def _items(self, select: exp.Select, scope: Scope) -> list[Code]:
        found: list[Code] = []
        for item in select.expressions:
            if isinstance(item, exp.Star):
                if not scope.rows:
                    raise Fault("NOT_IN_A_BODY", "* needs a table in FROM", item)
                found += [
                    self.known.cell(row.table, number, row.row)
                    for row in scope.rows
                    for number in range(len(row.table.columns))
                ]
            else:
                found.append(self.expressions.compile(item.unalias(), scope))
        return found

    def _loops(self, select: exp.Select, scope: Scope, inside: Callable[[Scope], None]) -> None:
        """The rows of FROM, joined, that WHERE lets through."""
        sources: list[tuple[exp.Expr, exp.Expr | None]] = []
        if select.args.get("from_") is not None:
            sources.append((select.args["from_"].this, None))
        for join in select.args.get("joins") or ():
            if join.side or join.args.get("using") or join.kind not in ("", "INNER", "CROSS"):
                raise Fault("NOT_IN_A_BODY", "tables of an aggregate are joined by inner joins with ON", join)
            sources.append((join.this, join.args.get("on")))
        inner = scope.inside(())
        self._nest(sources, inner, select.args.get("where"), inside)

    def _nest(
        self, sources: list[tuple[exp.Expr, exp.Expr | None]], scope: Scope, where: exp.Expr | None,
        inside: Callable[[Scope], None],
    ) -> None:  # fmt: skip
        writer = self._writer
        if not sources:
            if where is None:
                inside(scope)
            else:
                condition = self.expressions.condition(where.this, scope)
                with writer.block(f"if {condition}:"):
                    inside(scope)
            return
        (source, on), rest = sources[0], sources[1:]
        table = self.table(source)
        alias = (source.alias or source.name).lower()
        if table.single:
            with writer.block(f"if {table.count} > 0:"):
                self._joined(rest, scope.with_row(Row(alias, table, "0")), on, where, inside)
            return
        row = writer.fresh("i")
        upto = self.bounds.get(table.name, table.count)
        with writer.block(f"for {row} in range({table.first}, {upto}):"):
            self._joined(rest, scope.with_row(Row(alias, table, row)), on, where, inside)

    def _joined(
        self, rest: list[tuple[exp.Expr, exp.Expr | None]], scope: Scope, on: exp.Expr | None,
        where: exp.Expr | None, inside: Callable[[Scope], None],
    ) -> None:  # fmt: skip
        if on is None:
            self._nest(rest, scope, where, inside)
            return
        condition = self.expressions.condition(on, scope)
        with self._writer.block(f"if {condition}:"):
            self._nest(rest, scope, where, inside)

    def table(self, node: exp.Expr) -> Table:
        """A table of the aggregate, by its name in FROM."""
        name = node.name.lower() if isinstance(node, exp.Table) else ""
        if name not in self._tables:
            known = ", ".join(self._tables) or "none"
            told = node.name or "of that kind"
            raise Fault("UNKNOWN_TABLE", f"the aggregate has no table {told}", node, f"Its tables: {known}.")
        return self._tables[name]

    # --- Aggregates ----------------------------------------------------------------------------------------------

    def _aggregates(self, select: exp.Select) -> list[exp.Expr]:
        """The calls of aggregates in a select, those of its subqueries left out."""
        found: list[exp.Expr] = []

        def visit(node: exp.Expr) -> None:
            if isinstance(node, exp.Query):
                return
            if self.is_aggregate(node):
                found.append(node)
                return
            for child in node.iter_expressions():
                visit(child)

        order = select.args.get("order")
        having = select.args.get("having")
        for root in (*select.expressions, *((having.this,) if having else ()), *(order.expressions if order else ())):
            visit(root)
        return found

    def is_aggregate(self, node: exp.Expr) -> bool:
        if type(node) in BUILT_IN or isinstance(node, exp.AggFunc):
            return True
        return isinstance(node, exp.Anonymous) and self._nested(str(node.this), node, []) is not None

    def _aggregated(self, select: exp.Select, scope: Scope, on_row: OnRow) -> None:
        writer = self._writer
        calls = self._aggregates(select)
        whole = self._nested_alone(select, calls)
        made = [(node, self._made(node, select, scope)) for node in calls]
        for _node, one in made:
            one.begin(writer)

        def step(inner: Scope) -> None:
            for node, one in made:
                one.step(writer, [self.expressions.compile(argument, inner) for argument in _of(node)], node)

        self._loops(select, scope, step)
        if whole is not None:
            called = made[0][1]
            assert isinstance(called, _Called)
            called.nested.rows(on_row)
            return
        results = [(node, one.result(writer)) for node, one in made]
        self._tell(select, scope, results, on_row)

    def _nested_alone(self, select: exp.Select, calls: Sequence[exp.Expr]) -> exp.Expr | None:
        """The call that is all a select gives: it may give several columns and rows."""
        items = [item.unalias() for item in select.expressions]
        alone = len(calls) == 1 and len(items) == 1 and items[0] is calls[0] and not select.args.get("having")
        return calls[0] if alone and not self._is_built_in(calls[0]) else None

    def _is_built_in(self, node: exp.Expr) -> bool:
        if type(node) not in BUILT_IN:
            return False
        return self._nested(BUILT_IN[type(node)], node, []) is None

    def _made(self, node: exp.Expr, select: exp.Select, scope: Scope) -> _Built | _Called:
        arguments = self._argument_kinds(node, select, scope)
        if self._is_built_in(node):
            argument = None if _is_count_of_all(node) else arguments[0]
            return _Built(accumulator(node, argument, self._writer), argument is None)
        name = str(node.this) if isinstance(node, exp.Anonymous) else node.sql_name()
        nested = self._nested(name, node, arguments)
        if nested is None:
            raise Fault("UNKNOWN_FUNCTION", f"{name.lower()} is no aggregate that a body can call", node)
        return _Called(nested)

    def _argument_kinds(self, node: exp.Expr, select: exp.Select, scope: Scope) -> list[Code]:
        """What the arguments of a call are like inside the loops; nothing is written."""
        writer, found = self._writer, []
        lines, depth = len(writer.lines), writer.depth

        def look(inner: Scope) -> None:
            found.append([self.expressions.compile(argument, inner) for argument in _of(node)])

        self._loops(select, scope, look)
        del writer.lines[lines:]
        writer.depth = depth
        return list(found[0])

    def _tell(self, select: exp.Select, scope: Scope, results: list[tuple[exp.Expr, Code]], on_row: OnRow) -> None:
        """The items, with each aggregate's call replaced by its result."""
        writer = self._writer
        replaced, parameters = _replaced(select, results)
        inner = Scope(scope.known, {**scope.parameters, **parameters}, scope.rows, scope.outer)
        having = replaced.args.get("having")
        if having is None:
            on_row(self._items(replaced, inner))
            return
        condition = self.expressions.condition(having.this, inner)
        with writer.block(f"if {condition}:"):
            on_row(self._items(replaced, inner))

    def _grouped(self, select: exp.Select, scope: Scope, on_row: OnRow) -> None:
        """GROUP BY: an array for each key and each variable of an aggregate, searched from its beginning."""
        writer = self._writer
        keys = [_numbered(select, key) for key in select.args["group"].expressions]
        calls = self._aggregates(select)
        made: list[tuple[exp.Expr, _Built]] = []
        for node in calls:
            one = self._made(node, select, scope)
            if isinstance(one, _Called):
                raise Fault("NOT_IN_A_BODY", "with GROUP BY in a body, only SQL's own aggregates can be called", node)
            made.append((node, one))
        kinds = self._key_kinds(keys, select, scope)
        count, at = writer.fresh("g"), writer.fresh("q")
        names = [(writer.fresh("k"), writer.fresh("kz")) for _key in keys]
        writer.emit(f"{count} = 0")
        for (name, null), kind in zip(names, kinds, strict=True):
            writer.emit(f"{name} = {ARRAYS[kind]}(8)")
            writer.emit(f"{null} = _bools(8)")
        variables = [variable for _node, one in made for variable in one.made.variables]
        for variable in variables:
            writer.emit(f"{variable.name} = {ARRAYS[variable.kind]}(8)")

        def place(variable: Variable) -> str:
            return f"{variable.name}[{at}]"

        def step(inner: Scope) -> None:
            codes = [writer.kept(self.expressions.compile(key, inner)) for key in keys]
            same = " and ".join(
                f"{null}[{at}] == {code.null} and ({null}[{at}] or {name}[{at}] == {code.value})"
                for (name, null), code in zip(names, codes, strict=True)
            )
            writer.emit(f"{at} = 0")
            with writer.block(f"while {at} < {count} and not ({same}):"):
                writer.emit(f"{at} += 1")
            with writer.block(f"if {at} == {count}:"):
                for (name, null), code in zip(names, codes, strict=True):
                    for array, value in ((name, code.value), (null, code.null)):
                        writer.emit(f"{array} = _fit({array}, {at})")
                        writer.emit(f"{array}[{at}] = {value}")
                for variable in variables:
                    writer.emit(f"{variable.name} = _fit({variable.name}, {at})")
                    writer.emit(f"{place(variable)} = {variable.start}")
                writer.emit(f"{count} += 1")
            for node, one in made:
                arguments = [self.expressions.compile(argument, inner) for argument in _of(node)]
                one.made.step(writer, None if one.of_all else arguments[0], place)

        self._loops(select, scope, step)
        with writer.block(f"for {at} in range({count}):"):
            results = [(node, one.made.result(place)) for node, one in made]
            keyed = [
                (key, Code(f"{name}[{at}]", kind, f"{null}[{at}]"))
                for key, (name, null), kind in zip(keys, names, kinds, strict=True)
            ]
            self._tell(select, scope, [*results, *keyed], on_row)

    def _key_kinds(self, keys: Sequence[exp.Expr], select: exp.Select, scope: Scope) -> list[Kind]:
        writer, found = self._writer, []
        lines, depth = len(writer.lines), writer.depth
        self._loops(
            select, scope, lambda inner: found.append([self.expressions.compile(key, inner).kind for key in keys])
        )
        del writer.lines[lines:]
        writer.depth = depth
        return list(found[0])

    # --- Order ---------------------------------------------------------------------------------------------------

    def _ordered(self, select: exp.Select, scope: Scope, on_row: OnRow) -> None:
        """ORDER BY and LIMIT: the rows are gathered, sorted, and told from the first on."""
        writer = self._writer
        order = select.args.get("order")
        ordered = list(order.expressions) if order is not None else []
        bare = select.copy()
        width = len(select.expressions)
        bare.set("order", None)
        bare.set("limit", None)
        keys = [_numbered(select, one.this) for one in ordered]
        bare.set("expressions", [*bare.expressions, *(key.copy() for key in keys)])
        kinds = self._kinds(bare, scope)
        if any(isinstance(item, exp.Star) for item in select.expressions):
            width = len(kinds) - len(keys)
        arrays = [(writer.fresh("c"), writer.fresh("cz")) for _kind in kinds]
        count, places = writer.fresh("n"), writer.fresh("o")
        writer.emit(f"{count} = 0")
        for (name, null), kind in zip(arrays, kinds, strict=True):
            writer.emit(f"{name} = {ARRAYS[kind]}(8)")
            writer.emit(f"{null} = _bools(8)")

        def gather(codes: list[Code]) -> None:
            for (name, null), code, kind in zip(arrays, codes, kinds, strict=True):
                code = writer.kept(converted(code, kind))
                value = code.value if code.null == "False" else f"({DEFAULTS[kind]} if {code.null} else {code.value})"
                for array, text in ((name, value), (null, code.null)):
                    writer.emit(f"{array} = _fit({array}, {count})")
                    writer.emit(f"{array}[{count}] = {text}")
            writer.emit(f"{count} += 1")

        self.rows(bare, scope, gather)
        writer.emit(f"{places} = _range({count})")
        if keys:
            self._sort(places, count, ordered, arrays[width:])
        limit = self._limit(select, scope, count)
        at, row = writer.fresh("i"), writer.fresh("i")
        with writer.block(f"for {at} in range({limit}):"):
            writer.emit(f"{row} = {places}[{at}]")
            on_row(
                [
                    Code(f"{name}[{row}]", kind, f"{null}[{row}]")
                    for (name, null), kind in zip(arrays[:width], kinds[:width], strict=True)
                ]
            )

    def _limit(self, select: exp.Select, scope: Scope, count: str) -> str:
        limit = select.args.get("limit")
        if limit is None:
            return count
        code = self.expressions.compile(limit.expression, scope)
        if code.kind != "int":
            raise Fault("WRONG_TYPE", "LIMIT takes a whole number", limit)
        return f"max(0, min({count}, {code.value}))"

    def _sort(self, places: str, count: str, ordered: Sequence[exp.Expr], arrays: Sequence[tuple[str, str]]) -> None:
        """Shell's sort: short, and in place; equal rows keep their order."""
        writer = self._writer
        gap, one, here, moved = (writer.fresh("w") for _ in range(4))
        before = f"{moved} < {here}"
        for key, (name, null) in reversed(list(zip(ordered, arrays, strict=True))):
            sign = ">" if key.args.get("desc") else "<"
            values = f"({name}[{moved}] {sign} {name}[{here}] or ({name}[{moved}] == {name}[{here}] and ({before})))"
            first, second = (moved, here) if key.args.get("nulls_first") else (here, moved)
            nulls = f"({null}[{first}] and not {null}[{second}])"
            before = f"({nulls} or ({null}[{moved}] == {null}[{here}] and {values}))"
        writer.emit(f"{gap} = {count} // 2")
        with writer.block(f"while {gap} > 0:"):
            with writer.block(f"for {one} in range({gap}, {count}):"):
                slot = writer.fresh("w")
                writer.emit(f"{moved} = {places}[{one}]")
                writer.emit(f"{slot} = {one}")
                with writer.block(f"while {slot} >= {gap}:"):
                    writer.emit(f"{here} = {places}[{slot} - {gap}]")
                    with writer.block(f"if not ({before}):"):
                        writer.emit("break")
                    writer.emit(f"{places}[{slot}] = {here}")
                    writer.emit(f"{slot} -= {gap}")
                writer.emit(f"{places}[{slot}] = {moved}")
            writer.emit(f"{gap} = {gap} // 2")


@dataclass(frozen=True)
class _Built:
    """An aggregate that SQL has."""

    made: Accumulator
    of_all: bool

    def begin(self, writer: Writer) -> None:
        for variable in self.made.variables:
            writer.emit(f"{variable.name} = {variable.start}")

    def step(self, writer: Writer, arguments: list[Code], _node: exp.Expr) -> None:
        self.made.step(writer, None if self.of_all else arguments[0], lambda variable: variable.name)

    def result(self, _writer: Writer) -> Code:
        return self.made.result(lambda variable: variable.name)


@dataclass(frozen=True)
class _Called:
    """Another aggregate that a user has defined."""

    nested: Nested

    def begin(self, _writer: Writer) -> None:
        self.nested.begin()

    def step(self, _writer: Writer, arguments: list[Code], node: exp.Expr) -> None:
        self.nested.step(arguments, node)

    def result(self, _writer: Writer) -> Code:
        codes = self.nested.last()
        return codes[0] if codes else NULL


def _of(node: exp.Expr) -> list[exp.Expr]:
    """The arguments of an aggregate's call; none of count(*)."""
    if _is_count_of_all(node):
        return []
    assert isinstance(node, exp.Func)
    found = _arguments(node)
    if any(isinstance(one, exp.Distinct) for one in found):
        raise Fault("NOT_IN_A_BODY", "DISTINCT inside an aggregate's call cannot be said in a body", node)
    return found


def _is_count_of_all(node: exp.Expr) -> bool:
    return isinstance(node, exp.Count) and (isinstance(node.this, exp.Star) or node.this is None)


def _numbered(select: exp.Select, key: exp.Expr) -> exp.Expr:
    """A key of GROUP BY or ORDER BY, which may be the number or the alias of an item."""
    if isinstance(key, exp.Literal) and not key.is_string:
        if not 1 <= int(key.name) <= len(select.expressions):
            raise Fault("NOT_IN_A_BODY", f"there is no column number {key.name} in the SELECT", key)
        return select.expressions[int(key.name) - 1].unalias()
    if isinstance(key, exp.Column) and not key.table:
        named = next(
            (item for item in select.expressions if item.alias.lower() == key.name.lower() and item.alias), None
        )
        if named is not None:
            return named.unalias()
    return key


def _replaced(select: exp.Select, results: list[tuple[exp.Expr, Code]]) -> tuple[exp.Select, dict[str, Code]]:
    """The select with what is known already standing there under a name."""
    parameters: dict[str, Code] = {}
    by_text = {}
    for number, (node, code) in enumerate(results):
        name = f"__result_{number}"
        parameters[name] = code
        by_text[headrace_sql(node)] = name

    def put(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Query):
            return node  # what is inside a subquery is of its own rows
        name = by_text.get(headrace_sql(node))
        if name is not None:
            return exp.column(name)
        for key, value in list(node.args.items()):
            if isinstance(value, exp.Expr):
                node.set(key, put(value))
            elif isinstance(value, list):
                node.set(key, [put(one) if isinstance(one, exp.Expr) else one for one in value])
        return node

    copy = select.copy()
    copy.set("expressions", [put(item.unalias().copy()) for item in copy.expressions])
    having = copy.args.get("having")
    if having is not None:
        copy.set("having", exp.Having(this=put(having.this.copy())))
    return copy, parameters
