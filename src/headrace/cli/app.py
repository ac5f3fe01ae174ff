"""The `headrace` command and its options.

Commands are thin: each reads its options, opens the home, and hands over to the module that does the work. Imports of
those are inside the commands, so that help and version come at once.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from headrace.cli import consoles
from headrace.cli.failures import tell
from headrace.cli.results import Format
from headrace.cli.settings import DEFAULT_ENGINE, DEFAULT_HOME, Settings

HELP = """SQL views on Apache Spark that are kept fresh by the change, not by the table.

New here? [bold]headrace demo[/] shows the whole of it in under a minute. Then:

  headrace sql                     a prompt; help; explains it
  headrace sql -f script.sql       run a script, such as one of examples/
  headrace run                     keep sources and views going until Ctrl-C
  headrace status                  what there is, and how fresh
"""

EPILOG = (
    "Every option can be set by a variable: HEADRACE_HOME, HEADRACE_ENGINE, HEADRACE_CATALOG and HEADRACE_DEBUG, and "
    "HEADRACE_<COMMAND>_<OPTION> for those of one command, such as HEADRACE_SQL_FORMAT. The exit code is 0 when all "
    "went well, 1 when something failed, 2 when the command line could not be understood."
)

_COMMON = "Common options (before or after the command)"


def _common(flag: str, help: str, metavar: str | None = None) -> Any:
    # The variable is told in the help text: after a command, typer would show HEADRACE_SQL_HOME, which works too.
    return typer.Option(flag, metavar=metavar, help=help, rich_help_panel=_COMMON, show_envvar=False)


Home = Annotated[
    str | None,
    _common("--home", f"The home: a folder, or any path Spark can read (HEADRACE_HOME, else {DEFAULT_HOME}).", "DIR"),
]
EngineName = Annotated[
    str | None,
    _common("--engine", f"spark, sail or sc://host:port (HEADRACE_ENGINE, else {DEFAULT_ENGINE}).", "ENGINE"),
]
Catalog = Annotated[
    str | None,
    _common("--catalog", "SQLAlchemy URL of the catalog (HEADRACE_CATALOG, else SQLite in the home).", "URL"),
]
Debug = Annotated[bool, _common("--debug", "Show stack traces (HEADRACE_DEBUG).")]


class Commands(TyperGroup):
    """The group of commands; the one place where a failure becomes a message and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (typer.Abort, BrokenPipeError):
            raise
        except Exception as error:
            # Usage errors and exits carry their code; typer tells them itself. Their classes moved between versions.
            if hasattr(error, "exit_code"):
                raise
            tell(error, consoles.err(), debug=ctx.obj.debug if isinstance(ctx.obj, Settings) else False)
            raise typer.Exit(1) from None


app = typer.Typer(
    cls=Commands,
    help=HELP,
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"auto_envvar_prefix": "HEADRACE", "help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """The console script."""
    app()


def _version(wanted: bool) -> None:
    if wanted:
        from headrace import __version__

        typer.echo(f"headrace {__version__}")
        raise typer.Exit()


@app.callback()
def common(
    ctx: typer.Context,
    home: Home = None,
    engine: EngineName = None,
    catalog: Catalog = None,
    debug: Debug = False,
    version: Annotated[  # noqa: ARG001
        bool,
        typer.Option("--version", callback=_version, is_eager=True, allow_from_autoenv=False, help="Tell the version."),
    ] = False,
) -> None:
    ctx.obj = Settings(home, engine, catalog, debug)


def _settings(ctx: typer.Context, **given: Any) -> Settings:
    """The settings with what stands after the command, kept for the error message as well."""
    settings: Settings = ctx.obj.overridden(**given)
    ctx.find_root().obj = settings
    return settings


@app.command(
    help="""Run SQL: a script, a text, standard input, or at a prompt.

json prints one line for each query, {"columns": \\[...], "rows": \\[\\[...], ...]}: timestamps are ISO 8601 with Z, \
decimals, NaN and the infinities are strings, bytes are base64. With json and csv, standard output holds rows only, \
and messages go to standard error."""
)
def sql(
    ctx: typer.Context,
    file: Annotated[
        str | None, typer.Option("--file", "-f", metavar="SCRIPT", help="Run a script; - is standard input.")
    ] = None,
    execute: Annotated[str | None, typer.Option("--execute", "-e", metavar="SQL", help="Run this text.")] = None,
    format: Annotated[
        Format, typer.Option("--format", help="How rows are printed; json is one line a query.")
    ] = Format.TABLE,
    home: Home = None,
    engine: EngineName = None,
    catalog: Catalog = None,
    debug: Debug = False,
) -> None:
    settings = _settings(ctx, home=home, engine=engine, catalog=catalog, debug=debug)
    if file is not None and execute is not None:
        raise typer.BadParameter("Give a script with -f or a text with -e, not both.")
    text = execute if execute is not None else _script(file)
    from headrace.cli.results import Printer

    with settings.open() as session:
        printer = Printer(session, format)
        if text is None:
            from headrace.cli.prompt import interact

            interact(session, printer, home=settings.home_path, engine=settings.engine_name, debug=settings.debug)
        else:
            from headrace.cli.scripts import run_script

            run_script(session, text, printer, file)


def _script(file: str | None) -> str | None:
    """The text of a script, or of standard input; None where a terminal asks for a prompt."""
    from headrace.errors import InputError

    if file is None and sys.stdin.isatty():
        return None
    try:
        return sys.stdin.read() if file in (None, "-") else Path(str(file)).read_text(encoding="utf-8")
    except OSError as error:
        raise InputError("NO_SCRIPT", f"The script {file} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        where = "Standard input" if file in (None, "-") else f"The script {file}"
        raise InputError("NO_SCRIPT", f"{where} is not UTF-8 text: {error.reason} at byte {error.start}.") from error


@app.command(
    help="""Keep all sources and views going until interrupted.

Ctrl-C and SIGTERM let the refresh in flight finish, land what was received, and exit with 0."""
)
def run(
    ctx: typer.Context,
    every: Annotated[float, typer.Option("--every", min=0.01, metavar="SECONDS", help="How often to look.")] = 0.5,
    home: Home = None,
    engine: EngineName = None,
    catalog: Catalog = None,
    debug: Debug = False,
) -> None:
    settings = _settings(ctx, home=home, engine=engine, catalog=catalog, debug=debug)
    from headrace.cli.running import run_until_stopped

    with settings.open_existing() as session:
        run_until_stopped(session, every)


@app.command(
    help="""Show every object, and how fresh it is.

Rows, parts, last refresh, strategy, and what went astray, from the catalog alone: no engine is started, and a \
running writer is not disturbed."""
)
def status(
    ctx: typer.Context,
    json: Annotated[bool, typer.Option("--json", help="One JSON array, an object each.")] = False,
    home: Home = None,
    catalog: Catalog = None,
    debug: Debug = False,
) -> None:
    settings = _settings(ctx, home=home, catalog=catalog, debug=debug)
    from headrace.cli.results import print_table
    from headrace.cli.statuses import as_json, as_rows

    with settings.open_existing() as session:
        objects = session.status()
    if json:
        typer.echo(as_json(objects))
    elif objects:
        print_table(consoles.out(), *as_rows(objects))
    else:
        typer.echo("Nothing is declared yet: headrace sql, then CREATE STREAM, TABLE or VIEW.")


@app.command(help="Tell how an object is kept, in words.")
def explain(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="A source, stream, table or view.")],
    home: Home = None,
    catalog: Catalog = None,
    debug: Debug = False,
) -> None:
    settings = _settings(ctx, home=home, catalog=catalog, debug=debug)
    with settings.open_existing() as session:
        consoles.out().print(session.explain(name), soft_wrap=True)


@app.command(
    help="""Watch views follow a minute of events, then see them checked.

Packet losses, room temperatures and a table of devices arrive and change; three views follow. At the end each view \
is compared with its query run in batch."""
)
def demo(
    ctx: typer.Context,
    keep: Annotated[
        str | None, typer.Option("--keep", metavar="DIR", help="Make the home here and leave it, to look around in.")
    ] = None,
    engine: EngineName = None,
    debug: Debug = False,
) -> None:
    settings = _settings(ctx, engine=engine, debug=debug)
    from headrace.cli.showing import show_demo

    if not show_demo(consoles.out(), settings.engine_name, keep):
        raise typer.Exit(1)


@app.command(
    help="Run one of the papers' experiments beside its baselines. Its own options follow as --option value.",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def bench(
    ctx: typer.Context,
    name: Annotated[str | None, typer.Argument(help="The experiment; --list names them.")] = None,
    list_: Annotated[bool, typer.Option("--list", help="Name all experiments.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Small data: does it run, not how fast.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Where results go. The default is bench/results.")
    ] = None,
    engine: EngineName = None,
    debug: Debug = False,
) -> None:
    settings = _settings(ctx, engine=engine, debug=debug)
    from headrace.cli.benching import ROOT, check_name, harness, own_options
    from headrace.cli.results import print_table

    if name is None and not list_:
        raise typer.BadParameter("Name an experiment, or ask for --list.")
    benches = harness()
    known = benches.main_list()
    if name is None or list_:
        print_table(consoles.out(), ("name", "figure", "what it measures"), known)
        return
    check_name(name, [entry[0] for entry in known])
    benches.run(name, quick, settings.engine, out or ROOT / "bench" / "results", options=own_options(ctx.args))
