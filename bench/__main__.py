"""`python -m bench tpch --quick --engine sail --sf 0.1`: one experiment, with the options of its own."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from bench import harness
from headrace.errors import HeadraceError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one experiment, or name them all."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__, allow_abbrev=False)
    parser.add_argument("name", nargs="?", help="the experiment; without it all are named")
    parser.add_argument("--quick", action="store_true", help="small data: does it run, not how fast")
    parser.add_argument("--engine", help="spark, sail or sc://host:port")
    parser.add_argument("--out", type=Path, help="the folder for the results")
    own = {name: meaning for options in harness.own_options().values() for name, meaning in options.items()}
    for name, meaning in own.items():
        parser.add_argument(f"--{name}", help=meaning)
    given = vars(parser.parse_args(arguments))
    console = Console()
    if given["name"] is None:
        for name, _figure, description in harness.main_list():
            console.print(f"{name}: {description}", highlight=False)
        return 0
    options = {name: given[name] for name in own if given[name] is not None}
    try:
        harness.run(given["name"], given["quick"], given["engine"], given["out"], options=options)
    except HeadraceError as error:
        Console(stderr=True).print(f"error [{error.condition}]: {error}", style="red", markup=False)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
