"""The table of commands, and the message and exit status of each kind of error."""

import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from importlib import import_module
from typing import Annotated, Any

import typer
import typer.core
import typer.main

from autorubric import __version__
from autorubric.cli import EXIT_INPUT, EXIT_INTERRUPTED, EXIT_UNFINISHED
from autorubric.errors import AutorubricError, InputError, Note, find_first_cause, shorten
from autorubric.expectations import describe_expectation
from autorubric.files.descriptors import TOO_MANY_FILES, is_out_of_files
from autorubric.files.printable import to_utf8

COMMANDS = {
    "synthesize": ("Rubrics", "Turn queries into rubrics."),
    "improve": ("Rubrics", "Improve wordings and weights; accept only what held-out labels support."),
    "evolve": ("Rubrics", "Add criteria that discriminate between rollouts; retire those that do not."),
    "gates": ("Rubrics", "Run the gates on recorded replies; compare their decisions with human labels."),
    "lint": ("Rubrics", "Find weak or faulty criteria in rubrics, without a model."),
    "review": ("Rubrics", "Review a rubric with a model, which quotes it and proposes wordings."),
    "convert": ("Rubrics", "Convert rubric data between formats."),
    "grade": ("Grading", "Grade submissions criterion by criterion, with LLM judges, checks or both."),
    "agree": ("Grading", "Report judge-human agreement per criterion, with confidence intervals."),
    "labels": ("Grading", "Show, import or export the labels of a run."),
    "select": ("Training", "Select answers to train on by their rubric scores."),
    "serve": ("Training", "Serve rewards to trainers over HTTP."),
    "drift": ("Training", "Report how rewards and verdicts changed during training."),
    "merge": ("Runs", "Merge the shards of a run into one run directory."),
    "show": ("Runs", "Show one item of a run: verdicts, votes, prompts, raw replies."),
    "view": ("Runs", "Browse and label runs in a browser."),
    "report": ("Runs", "Write a run as one HTML, Markdown or JSON file."),
    "verify": ("Runs", "Recompute the numbers of a report from its run."),
    "status": ("Runs", "Report the state of a run: done, failed, spent, time left."),
    "doctor": ("Runs", "Check the installation, API keys and endpoints."),
}
"""Each command with its panel and summary; its module is loaded on use."""

_MODULES = {"doctor": "status", "verify": "report"}
"""The module of each command that is not in its own."""

SUMMARY = "Rubrics for language models: from queries to rubrics, grades and training data."


class _PlainHelp:
    """Help without colours, because control characters on standard output are escaped, and without types of flags."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        import typer.rich_utils  # lazy: a fifth of the start time of most commands

        typer.rich_utils.COLOR_SYSTEM = None
        for parameter in self.get_params(ctx):  # type: ignore[attr-defined]
            if getattr(parameter, "is_flag", False):
                parameter.metavar = ""  # a flag takes no value
        super().format_help(ctx, formatter)  # type: ignore[misc]


class _Group(_PlainHelp, typer.core.TyperGroup): ...


class _Command(_PlainHelp, typer.core.TyperCommand): ...


@cache
def _build(loaded: frozenset[str]) -> Callable[..., Any]:
    """Build the command line with these commands; cached, because building it takes longer than most commands."""
    app = typer.Typer(
        name="autorubric",
        cls=_Group,
        help=SUMMARY,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["--help", "-h"]},
    )
    app.callback()(read_options)
    for name, (panel, summary) in COMMANDS.items():
        function = load_command(name) if name in loaded else _refuse_unloaded
        epilog = getattr(function, "epilog", None)
        app.command(name, cls=_Command, short_help=summary, epilog=epilog, rich_help_panel=panel)(function)
    return typer.main.get_command(app)


def load_command(name: str) -> Callable[..., int]:
    """Return the function of a command."""
    from autorubric.background import no_collections

    with no_collections():  # loading leaves no garbage; collecting takes a sixth of the time
        function: Callable[..., int] = getattr(import_module(f"autorubric.cli.{_MODULES.get(name, name)}"), name)
    return function


def _refuse_unloaded() -> int:
    raise AssertionError("this command was called, but the arguments did not name it, so it was not loaded")


def read_options(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Rubrics for language models: from queries to rubrics, grades and training data."""
    if version:
        typer.echo(__version__)
        raise typer.Exit


_ANY_SIZE = "auto"


def run(arguments: list[str]) -> int:
    """Carry out a command line and return its exit status."""
    if "--version" in arguments[:1]:
        typer.echo(__version__)
        return 0
    debug = "--debug" in arguments
    try:
        # Only the named command is loaded, or all of them for shell completion. Later words may be values of flags,
        # such as a model called "merge".
        named = next(([word] for word in arguments if word in COMMANDS), [])
        loaded = COMMANDS.keys() if "_AUTORUBRIC_COMPLETE" in os.environ else named
        with warnings.catch_warnings():
            warnings.simplefilter("always", Note)
            warnings.showwarning = partial(_print_note, set())
            words = [word for word in arguments if word != "--debug"]
            status = _build(frozenset(loaded))(
                list(_add_batch_sizes(words)) if "--batch" in words else words,
                prog_name="autorubric",
                standalone_mode=False,
                obj=arguments,
            )
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except Exception as error:
        if debug:
            _print_error("".join(traceback.format_exception(error)).rstrip())
        return _report_error(find_first_cause(error))
    return int(status or 0)


def _add_batch_sizes(arguments: Iterable[str]) -> Iterator[str]:
    """Yield the words of a command line; `--batch` without a number gets the value for the provider's own limit."""
    bare = False
    for word in arguments:
        if bare and word != _ANY_SIZE and not word.isdecimal():
            yield _ANY_SIZE
        yield word
        bare = word == "--batch"
    if bare:
        yield _ANY_SIZE


def _print_note(
    told: set[str], message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: Any
) -> None:
    """Print a warning of the package as a note on standard error, once; print other warnings as Python does."""
    if category is not Note:
        print(warnings.formatwarning(message, category, filename, lineno), end="", file=sys.stderr)
    elif str(message) not in told:
        told.add(str(message))
        print(f"note: {message}", file=sys.stderr)


def _report_error(error: BaseException) -> int:
    if hasattr(error, "format_message") and hasattr(error, "exit_code"):
        read_by: Any = error.__cause__
        if hasattr(read_by, "errors"):  # of pydantic
            [problem, *_] = read_by.errors(include_url=False)
            error.message = f"{describe_expectation(problem)}, got {problem['input']!r}"  # type: ignore[attr-defined]
        message = shorten(error.format_message())  # empty if no command is named and the help was printed
        if message:
            _print_error(message if message.startswith("Usage:") else f"autorubric: {message}")
        return EXIT_INPUT
    if isinstance(error, AutorubricError):
        _print_error(f"autorubric: {error}")
        return EXIT_INPUT if isinstance(error, InputError) else EXIT_UNFINISHED
    if isinstance(error, OSError | MemoryError):
        _print_error(f"autorubric: {_describe_lack(error)}")
        return EXIT_UNFINISHED
    kind = type(error).__name__
    _print_error(f"autorubric: internal error, please report this bug: {kind}: {error}")
    _print_error("progress is saved; --debug shows where it happened")
    return EXIT_UNFINISHED


def _describe_lack(error: OSError | MemoryError) -> str:
    if isinstance(error, MemoryError):
        return "out of memory; progress is saved; free memory and run the same command again"
    where = f"{error.filename}: " if error.filename else ""
    if is_out_of_files(error):
        return f"{where}{TOO_MANY_FILES}; progress is saved"
    return f"{where}{error.strerror or error}; progress is saved; fix this and run the same command again"


def _print_error(text: str) -> None:
    """Print a message to standard error; bytes that are not UTF-8 are escaped."""
    print(to_utf8(text), file=sys.stderr)
