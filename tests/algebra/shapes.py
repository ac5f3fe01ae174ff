"""An operator tree as a few words, for tests that look at plans."""

from __future__ import annotations

from headrace.algebra.expressions import text
from headrace.algebra.nodes import (
    Aggregate,
    Constant,
    Filter,
    Generate,
    Join,
    Node,
    Over,
    Project,
    Scan,
    SetOperation,
    TopK,
    Union,
)  # fmt: skip


def describe_node(node: Node) -> str:
    """One node without its children."""
    match node:
        case Scan():
            return f"Scan {node.name}({', '.join(node.sources)})"
        case Constant():
            return f"Constant {node.text}"
        case Filter():
            return f"Filter {text(node.predicate)}"
        case Project():
            pairs = zip(node.items, node.names, strict=True)
            return "Project " + ", ".join(name if text(i) == name else f"{text(i)} AS {name}" for i, name in pairs)
        case Generate():
            return f"Generate {text(node.generator)}"
        case Join():
            told = [f"{p.left}{'<=>' if p.null_safe else '='}{p.right}" for p in node.equal]
            residual = f" residual {text(node.residual)}" if node.residual is not None else ""
            return f"Join {node.kind} {', '.join(told)}{residual}"
        case Aggregate():
            return f"Aggregate {', '.join(node.keys)} | {', '.join(text(c.expression) for c in node.calls)}"
        case Union():
            return "Union"
        case SetOperation():
            return f"{node.kind} {'all' if node.all else 'distinct'}"
        case TopK():
            return f"TopK {[o.column for o in node.order]} {node.limit} {node.offset}"
        case Over():
            return f"Over {', '.join(node.partition)} | {', '.join(text(c.expression) for c in node.calls)}"
    raise TypeError(type(node).__name__)


def picture(root: Node) -> str:
    """The tree, one line a node, children indented; a shared node is told once."""
    seen: dict[int, int] = {}
    lines: list[str] = []

    def visit(node: Node, depth: int) -> None:
        if id(node) in seen and node.children:
            lines.append(f"{'  ' * depth}(again {seen[id(node)]})")
            return
        seen[id(node)] = len(seen)
        lines.append(f"{'  ' * depth}{describe_node(node)}")
        for child in node.children:
            visit(child, depth + 1)

    visit(root, 0)
    return "\n".join(lines)
