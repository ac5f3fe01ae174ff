"""Every failure as one readable message on standard error and exit code 1; stack traces only with --debug."""

from __future__ import annotations

import traceback

from rich.console import Console
from rich.text import Text

from headrace.errors import HeadraceError


def tell(error: BaseException, console: Console, *, debug: bool = False) -> None:
    """Print what went wrong, then the error's notes (`BaseException.add_note`), such as where in a script it was."""
    if debug:
        console.print("".join(traceback.format_exception(error)), style="dim", soft_wrap=True, end="")
    console.print(_told(error) if isinstance(error, HeadraceError) else _unexpected(error), soft_wrap=True)
    for note in getattr(error, "__notes__", []):
        console.print(note, style="dim", soft_wrap=True)


def _told(error: HeadraceError) -> Text:
    text = Text(f"error [{error.condition}]: ", style="bold red")
    for number, line in enumerate(error.render().splitlines()):
        if number:
            text.append("\n")
        text.append(line, style=_style(number, line))
    return text


def _style(number: int, line: str) -> str:
    if number == 0:
        return "not bold default"
    if line.strip() and not line.strip("^ "):
        return "bold red"
    return "not bold cyan" if line.startswith("Hint: ") else "not bold default"


def _unexpected(error: BaseException) -> Text:
    first = (str(error).strip().splitlines() or ["no message"])[0]
    text = Text("unexpected error: ", style="bold red")
    text.append(f"{type(error).__name__}: {first}; run again with --debug to see where", style="not bold default")
    return text
