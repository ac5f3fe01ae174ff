"""The documentation runs: SQL and Python blocks are executed, printed outputs compared, and what is named exists.

Each page gets one fresh home on Sail, and its blocks run in order. The word after the language says what a block is:

- ```` ```sql ```` is a script that must run; ```` ```sql error CONDITION ````: each of its statements must fail so;
- ```` ```python ```` runs in one namespace a page, in which `connect` opens homes on Sail;
- ```` ```text ```` right after one of those is what it prints, compared line by line;
- ```` ```sql skip ```` cannot run here. Blocks without a language are grammar, `sh` blocks are for the shell.

Port 5501 in a page stands for a free port.
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import headrace
from headrace.cli.results import Format, Printer
from headrace.engine import CAPABILITIES, LACKS, Engine
from headrace.language import Statement, parse
from headrace.runtime.execute import EXECUTED
from headrace.runtime.home import DEFAULTS
from headrace.runtime.options import OPTIONS
from headrace.session import Session
from headrace.storage import schema

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
ALL_TEXTS = [*PAGES, ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"]

_FENCE = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_CONDITION = re.compile(r"[A-Z]+(?:_[A-Z]+)+")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the words after it, its text, its line, and the output printed below it."""

    language: str
    words: tuple[str, ...]
    text: str
    line: int
    output: str | None = None


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    found: list[Block] = []
    end = 0
    for fence in _FENCE.finditer(text):
        language, *words = fence.group(1).split() or [""]
        follows = found and not text[end : fence.start()].strip()
        if language == "text" and follows and found[-1].language in ("sql", "python"):
            before = found.pop()
            found.append(Block(before.language, before.words, before.text, before.line, fence.group(2)))
        else:
            found.append(Block(language, tuple(words), fence.group(2), text.count("\n", 0, fence.start()) + 1))
        end = fence.end()
    return found


class Reader:
    """Runs the blocks of one page."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._session: Session | None = None
        self._opened: list[Session] = []
        self._names: dict[str, Any] = {"__name__": "docs"}

    def connect(self, home: str, engine: str = "spark", spark: Any = None, catalog: str | None = None) -> Session:
        """`headrace.connect`, on Sail whatever the page says."""
        session = headrace.session.connect(home, engine="sail", spark=self._engine.spark, catalog=catalog)
        self._opened.append(session)
        return session

    def run(self, block: Block) -> None:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            if block.language == "python":
                exec(compile(block.text, "block", "exec"), self._names)
            else:
                self._run_sql(block)
        if block.output is not None:
            assert _lines(printed.getvalue()) == _lines(block.output)

    def _run_sql(self, block: Block) -> None:
        if self._session is None:
            self._session = self.connect("home-of-this-page")
        if block.words[:1] == ("error",):
            self._must_fail(self._session, block.text, block.words[1])
            return
        printer = Printer(self._session, Format.TABLE)
        for statement in parse(block.text):
            printer.print(self._session.execute(statement))

    def _must_fail(self, session: Session, text: str, condition: str) -> None:
        try:
            statements = parse(text)
        except headrace.HeadraceError as error:
            failures = [error]
        else:
            failures = [self._failure(session, statement) for statement in statements]
        for failure in failures:
            print(failure)  # noqa: T201
        assert [failure.condition for failure in failures] == [condition] * len(failures)

    def _failure(self, session: Session, statement: Statement) -> headrace.HeadraceError:
        with pytest.raises(headrace.HeadraceError) as raised:
            session.execute(statement)
        return raised.value

    def close(self) -> None:
        for session in self._opened:
            session.close()


def _lines(text: str) -> list[str]:
    """Lines without blanks at their ends, and without empty lines."""
    return [line.rstrip() for line in text.splitlines() if line.strip()]


@pytest.fixture
def reader(sail_engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    monkeypatch.chdir(tmp_path)
    found = Reader(sail_engine)
    monkeypatch.setattr(headrace, "connect", found.connect)
    yield found
    found.close()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_block_runs(page: Path, reader: Reader, free_port: int) -> None:
    for block in blocks(page):
        if block.language not in ("sql", "python") or "skip" in block.words:
            continue
        text = block.text.replace("5501", str(free_port))
        try:
            reader.run(Block(block.language, block.words, text, block.line, block.output))
        except (Exception, pytest.fail.Exception) as error:
            error.add_note(f"in the block at {page.relative_to(ROOT)}, line {block.line}")
            raise


def test_blocks_are_of_a_known_kind() -> None:
    for page in ALL_TEXTS:
        for block in blocks(page):
            assert block.language in ("", "sql", "python", "sh"), f"{page.name}, line {block.line}: {block.language}"
            assert block.words == () or block.words[0] in ("error", "skip"), f"{page.name}, line {block.line}"


def test_the_readme_needs_two_commands() -> None:
    page = ROOT / "README.md"
    commands = [line for block in blocks(page) if block.language == "sh" for line in block.text.split("\n") if line]
    assert [command.partition("#")[0].strip() for command in commands] == ["make demo", "make test"]
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert {"demo", "test"} <= set(targets)


def prose(page: Path) -> str:
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", ALL_TEXTS, ids=lambda page: page.stem)
def test_what_is_named_exists(page: Path) -> None:
    text = prose(page)
    named = set(re.findall(r"`((?:src|tests|docs|examples|bench|tools)/[\w./-]*|[A-Z]\w+\.md|Makefile)`", text))
    missing = sorted(path for path in named if not (ROOT / path).exists())
    for path in re.findall(r"`((?:language|sources|algebra|storage|maintenance|runtime|cli)/\w+\.py)`", text):
        missing += [] if (ROOT / "src/headrace" / path).exists() else [path]
    for module in re.findall(r"`(headrace(?:\.[a-z_]+)+)`", text):
        place = ROOT / "src" / module.replace(".", "/")
        missing += [] if place.is_dir() or place.with_suffix(".py").exists() else [module]
    assert missing == []


@pytest.mark.parametrize("page", ALL_TEXTS, ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        place = page if not path else Path(os.path.normpath(page.parent / path))
        assert place.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.+)$", prose(place), re.MULTILINE)
            assert anchor in {_anchor(heading) for heading in headings}, target


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("page", ALL_TEXTS, ids=lambda page: page.stem)
def test_no_path_of_a_machine(page: Path) -> None:
    found = re.search(r"(?<![\w.])/(?:home|root|Users|mnt)/\w+", prose(page))
    assert found is None, found


def table_below(page: Path, heading: str) -> list[list[str]]:
    """The cells of the first table below a heading, its head first."""
    _, _, below = page.read_text(encoding="utf-8").partition(f"\n## {heading}\n")
    assert below, f"{page.name} has no heading {heading}"
    lines = [line.strip() for line in below.split("\n## ")[0].splitlines()]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    return [row for row in rows if not set("".join(row)) <= set("-: ")]


def test_capabilities_of_engines() -> None:
    head, *rows = table_below(ROOT / "docs/engines.md", "What each engine lacks")
    engines = [name.strip("`") for name in head[1:-1]]
    assert engines == list(LACKS)
    told = {row[0].strip("`"): row[1:] for row in rows}
    assert set(told) == set(CAPABILITIES)
    for capability, cells in told.items():
        has = ["no" if capability in LACKS[engine] else "yes" for engine in engines]
        assert cells == [*has, CAPABILITIES[capability]], capability


def conditions_in_code() -> set[str]:
    """Codes that errors are made with: the first argument of an error, or of a tuple an error is made from."""
    found: set[str] = set()
    for path in (ROOT / "src/headrace").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and node.args:
                name = getattr(node.func, "id", getattr(node.func, "attr", ""))
                first = node.args[0]
                if name == "unknown" and isinstance(first, ast.Constant):
                    found.add("UNKNOWN_" + str(first.value).upper().replace(" ", "_"))
                elif name.endswith("Error") or name in ("error", "__init__", "Fault"):
                    found |= _conditions(first)
            elif isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple) and node.value.elts:
                found |= _conditions(node.value.elts[0])
    return found


def _conditions(node: ast.expr) -> set[str]:
    if isinstance(node, ast.BoolOp):
        return set().union(*map(_conditions, node.values))
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and _CONDITION.fullmatch(node.value):
        return {node.value}
    return set()


def test_every_condition_is_documented() -> None:
    text = (ROOT / "docs/errors.md").read_text(encoding="utf-8")
    told = set(re.findall(r"^\| `([A-Z_]+)` \|", text, re.MULTILINE))
    assert told == conditions_in_code()


def test_every_executed_statement_has_a_heading() -> None:
    headings = re.findall(r"^##+ (.+)$", (ROOT / "docs/language.md").read_text(encoding="utf-8"), re.MULTILINE)
    missing = [name for name in EXECUTED if not any(heading.startswith(name) for heading in headings)]
    assert missing == []


def test_every_option_is_documented() -> None:
    text = (ROOT / "docs/language.md").read_text(encoding="utf-8")
    wanted = {name for known in OPTIONS.values() for name in known} | set(DEFAULTS)
    assert [name for name in sorted(wanted) if f"`{name}`" not in text] == []


def test_every_catalog_table_is_documented() -> None:
    _head, *rows = table_below(ROOT / "docs/storage.md", "The catalog")
    assert {row[0].strip("`") for row in rows} == set(schema.metadata.tables)
