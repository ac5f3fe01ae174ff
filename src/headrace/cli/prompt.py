"""The interactive prompt: history, completion, many lines to a statement, and an engine that starts while one types."""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from typing import Any

from prompt_toolkit import PromptSession
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import PygmentsLexer
from prompt_toolkit.output import Output
from pygments.lexers.sql import SqlLexer  # type: ignore[import-untyped]

from headrace.cli import consoles
from headrace.cli.completion import COMMANDS, Names, SqlCompleter
from headrace.cli.failures import tell
from headrace.cli.results import Printer
from headrace.language import Alter, Describe, Drop, Explain, RegisterSource, Show, Statement, parse
from headrace.session import Session

HELP = """\
End a statement with ; and press Enter. Tab completes, Up and Down walk the history, Ctrl-C drops what is typed,
Ctrl-D (or exit) leaves.

  SHOW OBJECTS;                      what is declared          DESCRIBE name;     its columns
  CREATE STREAM / TABLE / VIEW ...   declare more              EXPLAIN name;      how it is kept
  INSERT INTO name VALUES (...);     rows by hand              REFRESH;           land and bring views up to date
  SELECT ... FROM name;              look                      SELECT * FROM CHANGES(name);   its tagged stream
  SHOW FEATURES;                     what this version executes
"""

#: Statements that read or write the catalog alone, and so need not wait for the engine.
_CATALOG_ONLY = (Show, Describe, Explain, Drop, Alter, RegisterSource)

_SKIPPED = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|`[^`]*`|--[^\n]*|/\*.*?\*/""", re.DOTALL)


def complete(text: str) -> bool:
    """Whether Enter runs the text: it is empty, a word of the prompt, or ends with ; outside quotes and braces."""
    bare = _SKIPPED.sub(" ", text).strip()
    if not bare or bare.rstrip(";").lower() in COMMANDS:
        return True
    unclosed = any(sign in bare for sign in "'\"`") or "/*" in bare
    return bare.endswith(";") and not unclosed and bare.count("{") <= bare.count("}")


class WarmUp:
    """The engine, starting in a thread of its own."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._thread = threading.Thread(target=self._start, name="headrace-warm-up", daemon=True)
        self._thread.start()

    def _start(self) -> None:
        # A failure to start is told by the first statement that needs the engine, which tries again.
        with contextlib.suppress(Exception):
            self._session.arrow(self._session.spark.sql("SELECT 1"))

    def wait(self) -> None:
        """Return when the engine is up, or has failed to come up."""
        if self._thread.is_alive():
            with consoles.err().status("starting the engine"):
                while self._thread.is_alive():
                    self._thread.join(0.1)


class Prompt:
    """Reads statements from a terminal and runs them until the user leaves."""

    def __init__(
        self,
        session: Session,
        printer: Printer,
        *,
        debug: bool = False,
        input: Input | None = None,
        output: Output | None = None,
    ) -> None:
        self._session = session
        self._printer = printer
        self._debug = debug
        self._warm_up = WarmUp(session)
        self._names = Names(session)
        self._prompt: PromptSession[str] = PromptSession(
            history=_history(),
            completer=SqlCompleter(self._names),
            complete_while_typing=False,
            auto_suggest=AutoSuggestFromHistory(),
            lexer=PygmentsLexer(SqlLexer),
            multiline=True,
            prompt_continuation=lambda width, _line, _soft: " " * (width - 2) + "| ",
            key_bindings=_keys(),
            input=input,
            output=output,
        )

    def run(self) -> None:
        """Read, run, print, until Ctrl-D or exit."""
        while True:
            try:
                text = self._prompt.prompt("headrace> ")
            except KeyboardInterrupt:
                continue
            except EOFError:
                return
            word = text.strip().rstrip(";").lower()
            if word in ("exit", "quit"):
                return
            if word == "help":
                consoles.out().print(HELP, end="")
            else:
                self._run_text(text)

    def _run_text(self, text: str) -> None:
        try:
            for statement in parse(text):
                self._run(statement)
        except KeyboardInterrupt:
            self._interrupt()
            consoles.err().print("interrupted", style="bold")
        except Exception as error:  # the prompt outlives whatever a statement brings about
            tell(error, consoles.err(), debug=self._debug)
        self._names.look_up()

    def _run(self, statement: Statement) -> None:
        if not isinstance(statement, _CATALOG_ONLY):
            self._warm_up.wait()
        began = time.perf_counter()
        self._printer.print(self._session.execute(statement))
        consoles.err().print(f"{time.perf_counter() - began:.2f} s", style="dim")

    def _interrupt(self) -> None:
        """Ask the engine to drop what nobody waits for any more; not every engine can."""
        with contextlib.suppress(Exception):
            self._session.spark.interruptAll()


def interact(session: Session, printer: Printer, *, home: str, engine: str, debug: bool) -> None:
    """The prompt on this terminal."""
    from headrace import __version__

    console = consoles.out()
    console.print(f"Headrace {__version__} on {engine}, home {home}. Type help; for help, Ctrl-D to leave.")
    Prompt(session, printer, debug=debug).run()


def _history() -> History:
    path = os.environ.get("HEADRACE_HISTORY", os.path.expanduser("~/.headrace_history"))
    try:
        with open(path, "a", encoding="utf-8"):
            return FileHistory(path)
    except OSError:
        return InMemoryHistory()


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @Condition
    def is_complete() -> bool:
        from prompt_toolkit.application import get_app

        return complete(get_app().current_buffer.text)

    @keys.add("enter", filter=is_complete)
    def _accept(event: KeyPressEvent) -> Any:
        event.current_buffer.validate_and_handle()

    return keys
