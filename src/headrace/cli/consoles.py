"""Where text goes: rich consoles that colour on a terminal and never cut lines anywhere else."""

from __future__ import annotations

import sys
from typing import IO

from rich.console import Console

#: Columns of a console that is no terminal: wide enough that no table is ever cut or wrapped in a file or a pipe.
UNBOUNDED = 1_000_000


def console_on(stream: IO[str]) -> Console:
    """A console on a stream; NO_COLOR and TERM are honoured by rich."""
    return Console(
        file=stream, width=None if stream.isatty() else UNBOUNDED, highlight=False, markup=False, emoji=False
    )


def out() -> Console:
    """A console on standard output, as it is now: tests and shells replace it."""
    return console_on(sys.stdout)


def err() -> Console:
    """A console on standard error, as it is now."""
    return console_on(sys.stderr)
