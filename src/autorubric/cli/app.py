"""The table of commands, and how each way of failing is told."""

from __future__ import annotations

import sys
import traceback
from typing import Annotated

import typer

from autorubric import __version__
from autorubric.cli import EXIT_INPUT, EXIT_INTERRUPTED, EXIT_UNFINISHED
from autorubric.cli.agree import agree
from autorubric.cli.convert import convert
from autorubric.cli.doctor import doctor
from autorubric.cli.drift import drift
from autorubric.cli.grade import grade
from autorubric.cli.lint import lint
from autorubric.cli.select import select
from autorubric.cli.serve import serve
from autorubric.cli.status import status
from autorubric.cli.synthesize import synthesize
from autorubric.errors import AutorubricError, InputError, shortened
from autorubric.files.descriptors import TOO_MANY_FILES, is_out_of_files

app = typer.Typer(
    name="autorubric",
    help="Rubrics for language models: from queries to rubrics, grades and training data.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("synthesize")(synthesize)
app.command("grade")(grade)
app.command("agree")(agree)
app.command("serve")(serve)
app.command("drift")(drift)
app.command("status")(status)
app.command("doctor")(doctor)
app.command("select")(select)
app.command("lint")(lint)
app.command("convert")(convert)


@app.callback()
def options(
    version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False,
) -> None:
    """Rubrics for language models: from queries to rubrics, grades and training data."""
    if version:
        typer.echo(__version__)
        raise typer.Exit


# Flags of earlier releases.
_RENAMED = {"--no-resume": "--start-over"}
_DROPPED = {"--resume"}


def run(arguments: list[str]) -> int:
    """Carry out a command line and return its exit status."""
    if "--version" in arguments[:1]:
        typer.echo(__version__)
        return 0
    debug = "--debug" in arguments
    arguments = [_RENAMED.get(argument, argument) for argument in arguments if argument not in _DROPPED]
    try:
        status = app(
            [a for a in arguments if a != "--debug"], prog_name="autorubric", standalone_mode=False, obj=arguments
        )
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except Exception as error:
        if debug:
            _say("".join(traceback.format_exception(error)).rstrip())
        return _told(_first(error))
    return int(status or 0)


def _first(error: Exception) -> Exception:
    """The first cause in what several tasks raised together."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


def _told(error: Exception) -> int:
    if hasattr(error, "format_message") and hasattr(error, "exit_code"):
        told = shortened(error.format_message())
        _say(told if told.startswith("Usage:") else f"autorubric: {told}")
        return EXIT_INPUT
    if isinstance(error, InputError):
        _say(f"autorubric: {error}")
        return EXIT_INPUT
    if isinstance(error, AutorubricError):
        _say(f"autorubric: {error}")
        return EXIT_UNFINISHED
    if isinstance(error, OSError) and is_out_of_files(error):
        where = f"{error.filename}: " if error.filename else ""
        _say(f"autorubric: {where}{TOO_MANY_FILES}; progress is saved")
        return EXIT_UNFINISHED
    if isinstance(error, OSError):
        _say(f"autorubric: {error}; progress is saved; fix this and run the same command again")
        return EXIT_UNFINISHED
    kind = type(error).__name__
    _say(f"autorubric: internal error, please report this bug: {kind}: {error}")
    _say("progress is saved; --debug shows where it happened")
    return EXIT_UNFINISHED


def _say(text: str) -> None:
    """Print a message; bytes of a name that are no text are spelt out."""
    print(text.encode("utf-8", "backslashreplace").decode(), file=sys.stderr)
