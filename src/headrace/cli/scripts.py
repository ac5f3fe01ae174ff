"""A script, statement by statement: each answer is printed as it comes, and a failure says which statement it was."""

from __future__ import annotations

from headrace.cli.results import Printer
from headrace.errors import HeadraceError
from headrace.language import Statement, parse
from headrace.session import Session


def run_script(session: Session, text: str, printer: Printer, origin: str | None = None) -> None:
    """Run all statements. The whole text is read first: a script that cannot be understood changes nothing."""
    statements = parse(text)
    for statement in statements:
        try:
            printer.print(session.execute(statement))
        except HeadraceError as error:
            if error.place is None and len(statements) > 1:
                error.add_note(_where(statement, origin))
            raise


def _where(statement: Statement, origin: str | None) -> str:
    line = statement.place.line if statement.place is not None else 0
    at = f"line {line}" if origin is None else f"{origin}, line {line}"
    first = statement.sql().splitlines()[0]
    return f"At {at}: {first if len(first) <= 100 else first[:97] + '...'}\nThe statements before it stand."
