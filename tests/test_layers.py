"""Each layer knows only the ones below it; only some may touch pyspark, and only some sqlglot's tree."""

from __future__ import annotations

import ast
from pathlib import Path

import headrace

ROOT = Path(headrace.__file__).parent

#: Bottom to top. A layer may import itself and anything above it in this list.
LAYERS = (
    "errors",
    "language",
    "sources",
    "algebra",
    "planner",
    "sail",
    "engine",
    "storage",
    "maintenance",
    "runtime",
    "session",
)


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
    return found


def modules() -> list[tuple[str, Path]]:
    return [(path.relative_to(ROOT).parts[0].removesuffix(".py"), path) for path in sorted(ROOT.rglob("*.py"))]


def test_no_import_against_the_grain() -> None:
    wrong = []
    for layer, path in modules():
        if layer not in LAYERS:
            continue
        allowed = set(LAYERS[: LAYERS.index(layer) + 1])
        for name in imports(path):
            parts = name.split(".")
            ours = parts[0] == "headrace" and len(parts) > 1 and parts[1] in (*LAYERS, "cli", "demo")
            if ours and parts[1] not in allowed:
                wrong.append(f"{path.relative_to(ROOT)} imports {name}")
    assert wrong == []


def test_only_the_engine_and_what_is_above_know_pyspark() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}: {name}"
        for layer, path in modules()
        for name in imports(path)
        if name.split(".")[0] in ("pyspark", "pysail") and layer != "engine"
    ]
    assert wrong == []


def test_only_language_and_algebra_touch_the_tree() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}: {name}"
        for layer, path in modules()
        for name in imports(path)
        if name.split(".")[0] == "sqlglot" and layer not in ("language", "algebra")
    ]
    assert wrong == []


def test_modules_stay_small() -> None:
    """Above 600 lines a room holds more than one idea."""
    crowded = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for _, path in modules()}
    assert {name: lines for name, lines in crowded.items() if lines > 600} == {}


def test_public_names() -> None:
    assert headrace.__all__ == ["HeadraceError", "Info", "Session", "aggregate", "connect"]
    public = {name for name in dir(headrace.Session) if not name.startswith("_")}
    known = "advance arrow changes close execute explain feed refresh run spark sql status table"
    assert public == set(known.split())
    for name in public:
        assert getattr(headrace.Session, name).__doc__, name
