"""An operator tree in words, for EXPLAIN: each operator a phrase, its columns under the names a user knows.

Every column of a tree has a name of its own, such as `price_9`. What a stored relation gives is called by its own name,
with the relation before it where several have it; what is computed is shown as what it computes, or, where that would
be long, by its name without the number.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from sqlglot import exp

from headrace.algebra.core import Primitive, is_exact, primitive
from headrace.algebra.expressions import is_ref, substitute, text
from headrace.algebra.nodes import (
    Aggregate,
    Call,
    Constant,
    Filter,
    Generate,
    Join,
    Newest,
    Node,
    Over,
    Project,
    Scan,
    SetOperation,
    TopK,
    Union,
)

#: A computed column of more characters is called by its name.
_LONG = 48
#: So many columns are listed; of more, their number is told.
_MANY = 6

#: What a user may call the columns that a relation has beside its own.
_HIDDEN = {
    "__at": "arrival_time",
    "__seq": "arrival_number",
    "__from": "version_from",
    "__to": "version_to",
}

_JOINS = {
    "inner": "join",
    "left": "left outer join",
    "right": "right outer join",
    "full": "full outer join",
    "semi": "semi join (the rows that have a partner)",
    "anti": "anti join (the rows that have no partner)",
}


class Words:
    """The names of one tree, and phrases for its operators."""

    def __init__(self, root: Node) -> None:
        self._meanings: dict[str, exp.Expr] = {}
        self._relations: dict[int, str] = {}
        nodes = list({id(node): node for node in root.walk()}.values())
        scans = [node for node in nodes if isinstance(node, Scan)]
        given = Counter(source.lower() for scan in scans for source in scan.sources)
        self._name_relations(scans)
        for scan in scans:
            for column, source in zip(scan.columns, scan.sources, strict=True):
                table = self.relation(scan) if given[source.lower()] > 1 else None
                self._meanings[column.name] = _plain(_HIDDEN.get(source, source), table)
        self._cells = _cut_columns(nodes)
        self._meanings |= dict.fromkeys(self._cells, _plain("cell"))
        for node in nodes:  # children first, so what an expression mentions is known already
            for name, meaning in _made(node):
                self._learn(name, meaning)

    def _name_relations(self, scans: Sequence[Scan]) -> None:
        seen: Counter[str] = Counter()
        for scan in scans:
            if scan.relation not in self._relations:
                seen[scan.name.lower()] += 1
                times = seen[scan.name.lower()]
                self._relations[scan.relation] = scan.name if times == 1 else f"{scan.name}#{times}"

    def _learn(self, name: str, meaning: exp.Expr) -> None:
        if name in self._meanings:
            return
        known = substitute(meaning, self._meanings)
        self._meanings[name] = known if len(text(known)) <= _LONG else _plain(base_name(name))

    def relation(self, scan: Scan) -> str:
        """A stored relation's name, with a number where it is read more than once."""
        return self._relations.get(scan.relation, scan.name)

    def column(self, name: str) -> str:
        known = self._meanings.get(name)
        return base_name(name) if known is None else text(known)

    def columns(self, names: Sequence[str]) -> str:
        """Some columns, or how many they are."""
        if len(names) > _MANY:
            return f"{len(names)} columns"
        return ", ".join(dict.fromkeys(self.column(name) for name in names))

    def expression(self, expression: exp.Expr) -> str:
        return text(substitute(expression, self._meanings))

    def phrase(self, node: Node) -> str:
        """What an operator does."""
        match node:
            case Scan():
                return f"{self.relation(node)} ({', '.join(node.sources)})"
            case Constant():
                return f"constant rows ({', '.join(base_name(name) for name in node.names)})"
            case Filter():
                return f"filter {self.expression(node.predicate)}"
            case Project():
                return f"compute {self.computed(node)}" if self.computed(node) else f"keep {self.columns(node.names)}"
            case Generate():
                copies = node.made[0].name in self._cells
                return self.generated(node) if copies else f"generator {self.generated(node)}"
            case Join():
                return self._join(node)
            case Aggregate():
                return self._aggregate(node)
            case Union():
                return f"union of {len(node.inputs)} inputs"
            case SetOperation():
                return f"{node.kind} {'all' if node.all else 'distinct'} by {self.columns(node.names)}"
            case TopK():
                return self._top(node)
            case Newest():
                return f"newest rows{f' of each {self.columns(node.partition)}' if node.partition else ''}"
            case Over():
                calls = "; ".join(self.expression(call.expression) for call in node.calls)
                return f"window functions {calls}"
        return type(node).__name__.lower()

    def computed(self, node: Project) -> str:
        """What a projection computes; empty when it only keeps and renames columns."""
        items = [(item, name) for item, name in zip(node.items, node.names, strict=True) if not is_ref(item)]
        return "; ".join(
            f"the cell of {self.column(self._cells[name])}" if name in self._cells else self.expression(item)
            for item, name in items
        )

    def generated(self, node: Generate) -> str:
        """What a generator makes of each row."""
        name = node.made[0].name
        if name in self._cells:
            return f"copies for the cells around {self.column(self._cells[name])}"
        return f"{'outer ' if node.outer else ''}{self.expression(node.generator)}"

    def condition(self, node: Join) -> str:
        """What a join compares."""
        if len(node.equal) > _MANY:
            found = [f"{len(node.equal)} equal columns"]
        else:
            found = [
                f"{self.column(p.left)} {'<=>' if p.null_safe else '='} {self.column(p.right)}" for p in node.equal
            ]
        if node.residual is not None:
            found.append(self.expression(node.residual))
        return " AND ".join(found)

    def _join(self, node: Join) -> str:
        if node.cells is not None:
            sides = f"{self.column(node.cells.left)} and {self.column(node.cells.right)}"
            return f"band join of {sides} by cells of width {node.cells.width}"
        condition = self.condition(node)
        return f"{_JOINS[node.kind]} on {condition}" if condition else f"{_JOINS[node.kind]} of all pairs"

    def _aggregate(self, node: Aggregate) -> str:
        keys = f"by {self.columns(node.keys)}" if node.keys else "over all rows"
        if not node.calls:
            return f"distinct {keys}"
        return f"aggregate {', '.join(self.expression(call.expression) for call in node.calls)} {keys}"

    def _top(self, node: TopK) -> str:
        order = ", ".join(f"{self.column(by.column)}{' descending' if by.descending else ''}" for by in node.order)
        which = "all rows" if node.limit is None else f"the first {node.limit:,} rows"
        behind = f" behind the first {node.offset:,}" if node.offset else ""
        return f"{which}{behind}" + (f" by {order}" if order else "")


def base_name(name: str) -> str:
    """A column's name without what makes it unique in its tree."""
    return re.sub(r"^(?:v\d+_)+", "", re.sub(r"_\d+$", "", name))


def only_keeps(node: Node) -> bool:
    """Whether the operator only keeps and renames columns, so that there is nothing to tell of it."""
    return isinstance(node, Project) and all(is_ref(item) for item in node.items)


def not_additive(node: Aggregate) -> list[str]:
    """Why an aggregate's groups cannot be moved by arithmetic: a reason for each call for which it is so."""
    types = {column.name: column.type for column in node.child.columns}
    words = Words(node)
    found = []
    for call in node.calls:
        known = primitive(call, types)
        if known is None or known.function not in ("count_rows", "count", "sum"):
            found.append(f"{words.expression(call.expression)} {_reason(call, known, types)}")
    return found


def _reason(call: Call, known: Primitive | None, types: dict[str, str]) -> str:
    expression = call.expression
    if known is not None:
        return "cannot be taken back: when its row goes, another one of the group counts"
    if expression.find(exp.Distinct) is not None:
        return "counts equal values once, so it needs the values of the group"
    if isinstance(expression, exp.Sum | exp.Avg) and isinstance(expression.this, exp.Column):
        kind = types[expression.this.name]
        if not is_exact(kind):
            return f"over {kind} cannot be taken back exactly"
    return "is known to the engine alone"


def _cut_columns(nodes: Sequence[Node]) -> dict[str, str]:
    """The numbers of cells that band joins compare, each with the column that is cut into them."""
    found: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, Join) and node.cells is not None:
            for pair in node.equal:
                found |= {pair.left: node.cells.left, pair.right: node.cells.right}
    return found


def _made(node: Node) -> list[tuple[str, exp.Expr]]:
    """The columns an operator makes, each with the expression that gives it."""
    if isinstance(node, Project):
        pairs = zip(node.names, node.items, strict=True)
        return [(name, item) for name, item in pairs if not (is_ref(item) and item.name == name)]
    if isinstance(node, Aggregate | Over):
        return [(call.column.name, call.expression) for call in node.calls]
    return []


def _plain(name: str, table: str | None = None) -> exp.Expr:
    """A name as a user writes it; quoted only where it has to be."""
    quoted = re.fullmatch(r"[A-Za-z_]\w*", name) is None
    found = exp.Column(this=exp.Identifier(this=name, quoted=quoted))
    if table is not None:
        plain = re.fullmatch(r"[A-Za-z_][\w#]*", table) is not None
        found.set("table", exp.Identifier(this=table, quoted=not plain))
    return found
