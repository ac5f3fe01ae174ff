"""Answers of statements, printed: as tables for people, as JSON lines or CSV for programs.

In JSON and CSV, standard output holds rows and nothing else; messages go to standard error. JSON is one line a query:
``{"columns": [...], "rows": [[...], ...]}``. CSV has a header line; NULL is an empty field, an empty string is ``""``;
an empty line stands between two results.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import pyarrow as pa
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from headrace.cli import consoles
from headrace.cli.values import json_columns, json_value, text_of
from headrace.runtime.info import Info
from headrace.session import Session

#: Rows of a query shown as a table; programs ask for JSON or CSV and get all.
SHOWN_ROWS = 200


class Format(StrEnum):
    """How rows are written."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


class Printer:
    """Prints the answers of one session, each as it comes."""

    def __init__(self, session: Session, format: Format) -> None:
        self._session = session
        self._format = format
        self._printed = 0

    def print(self, answer: Any) -> None:
        """Print what `Session.execute` gave: a DataFrame or an `Info`."""
        if not isinstance(answer, Info):
            self._query(answer)
        elif answer.columns:
            rows = [tuple(json_value(value) for value in row) for row in answer.rows]
            self._rows(answer.columns, rows)
        elif answer.message:
            self._message(answer.message)
        sys.stdout.flush()

    def _query(self, frame: Any) -> None:
        shown = self._session.arrow(frame.limit(SHOWN_ROWS + 1) if self._format is Format.TABLE else frame)
        more = self._format is Format.TABLE and shown.num_rows > SHOWN_ROWS
        columns = json_columns(shown.slice(0, SHOWN_ROWS) if more else shown)
        decimals = [number for number, item in enumerate(shown.schema) if pa.types.is_decimal(item.type)]
        self._rows(shown.column_names, list(zip(*columns, strict=True)), decimals, more=more)

    def _rows(
        self, names: Sequence[str], rows: Sequence[Sequence[Any]], decimals: Sequence[int] = (), *, more: bool = False
    ) -> None:
        if self._format is Format.JSON:
            sys.stdout.write(json.dumps({"columns": list(names), "rows": rows}, ensure_ascii=False) + "\n")
        elif self._format is Format.CSV:
            lines = [",".join(map(_field, names)), *(",".join(map(_field, row)) for row in rows)]
            sys.stdout.write(("\n" if self._printed else "") + "\n".join(lines) + "\n")
        else:
            consoles.out().print(table_of(names, rows, right=decimals))
            consoles.out().print(_count(len(rows), more), style="dim")
        self._printed += 1

    def _message(self, message: str) -> None:
        console = consoles.out() if self._format is Format.TABLE else consoles.err()
        console.print(message, soft_wrap=True)


def print_table(console: Console, names: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print rows of JSON values as a table."""
    console.print(table_of(names, rows))


def table_of(
    names: Sequence[str],
    rows: Sequence[Sequence[Any]],
    *,
    right: Sequence[int] = (),
    styles: Sequence[str] = (),
    title: str | None = None,
) -> Table:
    """A rich table of JSON values; numbers and the columns in `right` stand to the right, `styles` has one a row."""
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", title_style="bold", pad_edge=False)
    for number, name in enumerate(names):
        numeric = number in right or any(_is_number(row[number]) for row in rows)
        table.add_column(Text(name), justify="right" if numeric else "left", overflow="fold")
    for number, row in enumerate(rows):
        table.add_row(*map(_cell, row), style=styles[number] if styles else None)
    return table


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _cell(value: Any) -> Text:
    return Text("NULL", style="dim italic") if value is None else Text(text_of(value))


def _field(value: Any) -> str:
    if value is None:
        return ""
    text = text_of(value)
    plain = text and text.strip() == text and not any(sign in text for sign in ',"\n\r')
    return text if plain else '"' + text.replace('"', '""') + '"'


def _count(rows: int, more: bool) -> str:
    if more:
        return f"the first {rows:,} rows; --format json or csv prints all, LIMIT fewer"
    return f"{rows:,} row{'' if rows == 1 else 's'}"
