"""The prompt, driven through a pipe: many lines, errors that do not end it, completion, history."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

import headrace
from headrace.cli.completion import Names, SqlCompleter
from headrace.cli.prompt import Prompt, complete
from headrace.cli.results import Format, Printer
from headrace.session import Session


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.setenv("HEADRACE_HISTORY", str(tmp_path / "history"))
    with headrace.connect(str(tmp_path / "home"), engine="sail") as session:
        session.sql("CREATE STREAM temperatures (room STRING, degrees INT, at TIMESTAMP) KEY (room) ORDER BY at")
        yield session


def typed(session: Session, text: str) -> None:
    with create_pipe_input() as keys:
        keys.send_text(text)
        Prompt(session, Printer(session, Format.TABLE), input=keys, output=DummyOutput()).run()


def test_a_statement_over_lines_an_error_and_an_exit(
    session: Session, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    typed(session, "SELECT 40\r+ 2 AS answer;\rSELEC;\rhelp;\rSHOW STREAMS;\rexit\rSELECT 1/0;\r")
    told = capsys.readouterr()
    assert "answer" in told.out
    assert "42" in told.out
    assert "temperatures" in told.out
    assert "Tab completes" in told.out
    assert "error [UNKNOWN_STATEMENT]" in told.err
    assert "Traceback" not in told.err
    assert "+ 2 AS answer;" in (tmp_path / "history").read_text()


def test_control_c_drops_the_line_and_control_d_leaves(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    typed(session, "SELECT 13 AS dropped\x03SHOW CLOCK;\r\x04")
    assert "dropped" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("", True),
        ("exit", True),
        ("HELP;", True),
        ("SELECT 1", False),
        ("SELECT 1;", True),
        ("SELECT 1; -- done", True),
        ("SELECT ';", False),
        ("SELECT ';';", True),
        ("SELECT /* ;", False),
        ("CREATE AGGREGATE f(x INT) : INT { TABLE s(a INT);", False),
        ("CREATE AGGREGATE f(x INT) : INT { TABLE s(a INT); };", True),
    ],
)
def test_when_enter_runs_the_text(text: str, whole: bool) -> None:
    assert complete(text) == whole


@pytest.mark.parametrize(
    ("text", "offered"),
    [
        ("SELECT * FROM temp", "temperatures"),
        ("SELECT deg", "degrees"),
        ("SELECT temperatures.ro", "room"),
        ("sel", "select"),
        ("SEL", "SELECT"),
        ("SHOW VI", "VIEWS"),
        ("hel", "help"),
    ],
)
def test_completion(session: Session, text: str, offered: str) -> None:
    completer = SqlCompleter(Names(session))
    found = [item.text for item in completer.get_completions(Document(text), CompleteEvent())]
    assert offered in found


def test_completion_after_a_dot_offers_columns_only(session: Session) -> None:
    completer = SqlCompleter(Names(session))
    found = completer.get_completions(Document("SELECT temperatures."), CompleteEvent())
    assert [item.text for item in found] == ["room", "degrees", "at"]
