"""Failures: exit code 1, one readable message on standard error, its condition, and no stack trace unless asked."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from headrace.cli import app
from headrace.errors import HeadraceError
from headrace.session import Session

runner = CliRunner()

TABLE = "CREATE TABLE t (a INT PRIMARY KEY, b INT NOT NULL)"


def failing(home: Path, text: str, *more: str) -> Result:
    result = runner.invoke(app, [*more, "sql", "--home", str(home), "--engine", "sail", "-e", text])
    assert result.exit_code == 1
    return result


@pytest.mark.parametrize(
    ("text", "condition", "said"),
    [
        ("SELEC 1", "UNKNOWN_STATEMENT", "line 1, column 1"),
        ("SELECT *\nFROM nothing_here", "UNKNOWN_OBJECT", "nothing_here"),
        ("SELECT 'open", "UNCLOSED_QUOTE", "^"),
        (f"{TABLE}; {TABLE}", None, "The statements before it stand."),
        (f"{TABLE}; INSERT INTO t VALUES (1, 1), (1, 2)", "DUPLICATE_KEY", "a = 1"),
        (f"{TABLE}; INSERT INTO t VALUES (1, NULL)", "NULL_VALUE", "t.b is NOT NULL"),
        (f"{TABLE}; UPDATE t SET c = 1", "UNKNOWN_COLUMN", "Hint: It has: a, b."),
        ("CREATE STREAM s (a INT) OVER x", "MISPLACED_CLAUSE", "Hint:"),
        (f"{TABLE}; EXPECT 5 ROWS INTO t", "NOT_YET_MAINTAINED", "SHOW FEATURES"),
        ("SHOW NOTHING", "UNKNOWN_THING_TO_SHOW", "line 1, column 6"),
    ],
)
def test_a_statement_that_fails(tmp_path: Path, text: str, condition: str | None, said: str) -> None:
    result = failing(tmp_path, text)
    assert result.stderr.startswith(f"error [{condition}]: " if condition else "error [")
    assert said in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stderr.count("error [") == 1


def test_a_script_that_cannot_be_read_changes_nothing(tmp_path: Path) -> None:
    failing(tmp_path, f"{TABLE}; SELEC 1")
    assert "Nothing is declared yet" in runner.invoke(app, ["status", "--home", str(tmp_path)]).stdout


def test_the_line_of_the_statement_that_failed(tmp_path: Path) -> None:
    script = tmp_path / "script.sql"
    script.write_text(f"{TABLE};\n\nINSERT INTO t VALUES (1, NULL);\n")
    result = runner.invoke(app, ["--engine", "sail", "sql", "--home", str(tmp_path / "home"), "-f", str(script)])
    assert result.exit_code == 1
    assert f"At {script}, line 3: INSERT INTO t" in result.stderr
    assert "Created table t." in result.stdout


def test_debug_shows_where(tmp_path: Path) -> None:
    assert "Traceback" in failing(tmp_path, "SELEC 1", "--debug").stderr
    after = runner.invoke(app, ["explain", "x", "--home", str(tmp_path), "--debug"])
    assert "Traceback" in after.stderr
    assert "[UNKNOWN_OBJECT]" in after.stderr


def test_no_such_engine(tmp_path: Path) -> None:
    result = runner.invoke(app, ["sql", "--home", str(tmp_path), "--engine", "sparc", "-e", "SELECT 1"])
    assert result.exit_code == 1
    assert "error [UNKNOWN_ENGINE]: There is no engine called 'sparc'." in result.stderr


@pytest.mark.parametrize("command", [["status"], ["run"], ["explain", "x"]])
def test_a_home_that_is_not_there_is_not_made(tmp_path: Path, command: list[str]) -> None:
    result = runner.invoke(app, [*command, "--home", str(tmp_path / "typo")])
    assert result.exit_code == 1
    assert "error [NO_HOME]" in result.stderr
    assert not (tmp_path / "typo").exists()


def test_a_catalog_that_cannot_be_opened(tmp_path: Path) -> None:
    result = runner.invoke(app, ["status", "--home", str(tmp_path), "--catalog", "nosuch://db"])
    assert result.exit_code == 1
    assert "error [CATALOG_UNUSABLE]" in result.stderr


def test_a_script_that_is_not_there(tmp_path: Path) -> None:
    result = runner.invoke(app, ["sql", "--home", str(tmp_path), "-f", str(tmp_path / "none.sql")])
    assert result.exit_code == 1
    assert "error [NO_SCRIPT]" in result.stderr
    assert "No such file" in result.stderr
    (tmp_path / "latin.sql").write_bytes(b"SELECT '\xe9'")
    result = runner.invoke(app, ["sql", "--home", str(tmp_path), "-f", str(tmp_path / "latin.sql")])
    assert "is not UTF-8 text" in result.stderr


def test_the_command_line_itself(tmp_path: Path) -> None:
    for arguments in (["sql", "-f", "x", "-e", "y"], ["sql", "--format", "xml"], ["nonsense"], ["run", "--every", "0"]):
        assert runner.invoke(app, arguments).exit_code == 2


def test_an_unexpected_error_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_session: Session, _statement: object) -> None:
        raise ZeroDivisionError("a bug\nof two lines")

    monkeypatch.setattr(Session, "execute", broken)
    result = failing(tmp_path, "SELECT 1")
    assert result.stderr == "unexpected error: ZeroDivisionError: a bug; run again with --debug to see where\n"
    assert "ZeroDivisionError" in failing(tmp_path, "SELECT 1", "--debug").stderr


def test_colours_only_on_a_terminal() -> None:
    import io

    from rich.console import Console

    from headrace.cli.failures import tell

    error = HeadraceError("CODE", "It is wrong.", hint="Do better.")
    plain, coloured = io.StringIO(), io.StringIO()
    tell(error, Console(file=plain))
    tell(error, Console(file=coloured, force_terminal=True, color_system="standard"))
    assert plain.getvalue() == "error [CODE]: It is wrong.\nHint: Do better.\n"
    assert "\x1b[" in coloured.getvalue()
