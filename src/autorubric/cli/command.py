"""Commands built from settings models, whose fields are the flags, and the event loop that they run on."""

import asyncio
import errno
import inspect
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, redirect_stdout, suppress
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import typer
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from autorubric.background import new_event_loop, on_shutdown, wait_for
from autorubric.errors import ConfigError, pluralize
from autorubric.files import read_document
from autorubric.files.descriptors import can_open_more, raise_open_file_limit
from autorubric.files.remote import find_address, make_path
from autorubric.runs.progress import ProgressDisplay
from autorubric.runs.stopping import TERMINATED_WITHIN, Stop, StoppableRun
from autorubric.settings import Flag, Settings, build_flag, list_kinds

S = TypeVar("S", bound=Settings)

_GROUPS = (
    *("Input", "Models", "Full profile", "Mode", "Search", "Statistics", "Selection", "Sampling", "Judges", "Panel"),
    *("Prompt cache", "Scoring", "Reward", "Service", "Audit", "Evolution", "Rules", "Endpoint", "Budget", "Run"),
    *("Output", "Options"),
)
_CONFIG = Annotated[
    Path | None,
    typer.Option(
        "--config", "-c", metavar="FILE", help="YAML, TOML or JSON file of settings; flags override it.",
        rich_help_panel="Options",
    ),
]  # fmt: skip
_ONCE = ("--start-over", "--export-only", "--replace", "--batch-cancel")
"""Flags that the command to resume omits."""

_ONCE_WITH_VALUE = ("--refresh",)
"""Likewise, with their values."""


def command(model: type[S], examples: str) -> Callable[[Callable[[S], int]], Callable[..., int]]:
    """Turn a function of settings into a command with a flag for each setting.

    The command line overrides the file of `--config`, which overrides the defaults.

    Args:
        model: the settings.
        examples: command lines for the end of `--help`, one per line.
    """

    def build(carry_out: Callable[[S], int]) -> Callable[..., int]:
        def call(context: typer.Context, config: Path | None = None, **values: Any) -> int:
            source = context.get_parameter_source
            typed = {name: values[name] for name in values if getattr(source(name), "name", "") == "COMMANDLINE"}
            configured = read_config(config, model) if config is not None else {}

            def name_setting(name: str) -> str:
                return f"{config}: {name}" if name in configured and name not in typed else flags.get(name, name)

            if "again" in model.model_fields:
                configured.setdefault("again", format_command(context.obj or sys.argv[1:]))
            try:
                settings = model.from_values({**configured, **typed}, name_setting)
            except ConfigError as error:
                if config is None:
                    raise
                # A problem that names neither the file nor a typed flag belongs to the file.
                places = {str(config), *(flags[name] for name in typed)}
                problems = (p if any(place in p for place in places) else f"{config}: {p}" for p in error.problems)
                raise ConfigError(problems) from None
            to_stdout = str(getattr(settings, "log_json", None)) == "-"
            with redirect_stdout(sys.stderr if to_stdout else sys.stdout):  # only lines of the log are on it
                return carry_out(settings)

        flags = {name: flag.name for name, flag in model.list_flags().items()}
        paragraphs = inspect.cleandoc(carry_out.__doc__ or "").split("\n\n")
        call.__doc__ = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
        call.epilog = "\n\n".join(("Examples:", *examples.strip().splitlines()))  # type: ignore[attr-defined]
        context = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
        config = inspect.Parameter("config", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_CONFIG)
        call.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [context, *_build_parameters(model), config], return_annotation=int
        )
        call.__annotations__ = {p.name: p.annotation for p in call.__signature__.parameters.values()}  # type: ignore[attr-defined]
        return call

    return build


def read_config(path: Path, model: type[Settings]) -> dict[str, Any]:
    """Return the settings in a YAML, TOML or JSON file; relative paths are relative to the file.

    Raises:
        ConfigError: the file is not a mapping or is empty, or a key is not a string.
    """
    values = read_document(path)
    if not isinstance(values, dict):
        found = "nothing" if values is None else type(values).__name__
        raise ConfigError(f"{path}: expected a mapping of settings, got {found}")
    if not values:
        raise ConfigError(f"{path}: it has no settings")
    if wrong := [name for name in values if not isinstance(name, str)]:
        raise ConfigError(f"{path}: the key {name!r} is not a string, so not a setting" for name in wrong)
    for name, field in model.model_fields.items():
        value = values.get(name)
        # Lists of queries or submissions contain texts, not paths.
        if isinstance(value, list) and any(Path in list_kinds(kind) for kind in _find_collections(field.annotation)):
            values[name] = [_resolve_path(path, item) for item in value]
        elif isinstance(value, str) and Path in list_kinds(field.annotation):
            values[name] = _resolve_path(path, value)
    return values


def _find_collections(annotation: Any) -> Iterator[Any]:
    """Yield the collection types in an annotation."""
    origin, members = get_origin(annotation), get_args(annotation)
    if origin in (Annotated, Union, UnionType):
        for member in members[:1] if origin is Annotated else members:
            yield from _find_collections(member)
    elif isinstance(origin, type) and issubclass(origin, Sequence | Mapping):
        yield annotation


def _resolve_path(path: Path, value: Any) -> Any:
    if not isinstance(value, str) or value.strip() in ("", "-") or find_address(value):
        return value
    return str(path.parent / make_path(value))


def _build_parameters(model: type[Settings]) -> list[inspect.Parameter]:
    shown = [
        (name, field, flag) for name, field in model.model_fields.items() if (flag := build_flag(name, field)).shown
    ]
    shown.sort(key=lambda parameter: (not parameter[2].argument, _GROUPS.index(parameter[2].group)))
    return [_build_parameter(name, field, flag) for name, field, flag in shown]


def _build_parameter(name: str, field: FieldInfo, flag: Flag) -> inspect.Parameter:
    kind, is_list = _choose_type(field.annotation, flag)
    default = None if is_list or field.default is PydanticUndefined or field.default == () else field.default
    options: dict[str, Any] = {
        "help": field.description and field.description.replace("[", r"\["),
        "metavar": flag.metavar or _choose_metavar(field, kind),
        "rich_help_panel": None if flag.argument else flag.group,
        "hidden": flag.hidden,
        "show_default": field.default not in (None, ()) and field.default is not False,
    }
    if flag.argument:
        made = typer.Argument(**{**options, "metavar": flag.name})
    else:
        names = [f"{flag.name}/--no-{flag.name[2:]}" if kind is bool and field.default else flag.name]
        made = typer.Option(*names, *filter(None, [flag.short]), **options)
    annotation = list[kind] | None if is_list else kind | None if default is None else kind  # type: ignore[valid-type]
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[annotation, made]
    )


def _choose_metavar(field: FieldInfo, kind: Any) -> str | None:
    if Path in list_kinds(field.annotation):
        return "PATH"
    return {int: "N", float: "X", str: "TEXT"}.get(kind, "")


def _choose_type(annotation: Any, flag: Flag) -> tuple[Any, bool]:
    """Return the type for the command line, and whether it takes several values."""
    kinds = list_kinds(annotation)
    for plain in (bool, int, float):
        if plain in kinds and str not in kinds and Path not in kinds:
            return plain, False
    return str, flag.many or (not flag.argument and any(_find_collections(annotation)))


def format_command(arguments: Sequence[str]) -> str:
    r"""Return the shell command that resumes a run, from the directory in which this process was started.

    A script that starts the command can set `AUTORUBRIC_AGAIN` to its own command.

    Args:
        arguments: the arguments of the command; flags that apply to one run only are omitted.

    Example:
        >>> again = format_command(["grade", "my essays.json", "--start-over"])
        >>> again.endswith("grade 'my essays.json'")
        True
        >>> format_command(["grade", "essays\udcff.json"]).endswith(r"grade $'essays\xff.json'")
        True
    """
    if script := os.environ.get("AUTORUBRIC_AGAIN"):
        return script
    words, kept = iter(arguments), []
    for word in words:
        if word in _ONCE_WITH_VALUE:
            next(words, None)
        elif word not in _ONCE and word.partition("=")[0] not in _ONCE_WITH_VALUE:
            kept.append(word)
    started, found = Path(sys.argv[0]), shutil.which("autorubric")
    program = ["autorubric"]
    if started.parts[-2:] == ("autorubric", "__main__.py"):
        program = [sys.executable, "-m", "autorubric"]
    elif started.stem == "autorubric" and not (found and Path(found).resolve() == started.resolve()):
        program = [sys.argv[0]]  # `autorubric` alone would not start this installation
    return " ".join(map(_quote_word, [*program, *kept]))


def _quote_word(word: str) -> str:
    """Return a word quoted for a shell; bytes that are not UTF-8 are escaped."""
    try:
        word.encode()
    except UnicodeEncodeError:
        data = os.fsencode(word)
        return "$'" + "".join(chr(b) if 32 <= b < 127 and chr(b) not in "'\\" else f"\\x{b:02x}" for b in data) + "'"
    return shlex.quote(word)


T = TypeVar("T")

_FILES = 16
"""Files that the smallest run opens: the loop's, the ledger's, and one to read or write."""


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the fastest installed loop; return its result.

    If a loop is already running, as in a notebook, the coroutine runs on another thread.

    Raises:
        OSError: the limit of open files is so low that the loop would fail later without a reason.

    Example:
        >>> async def answer():
        ...     return 42
        >>> run(answer())
        42
    """
    raise_open_file_limit()
    if not can_open_more(_FILES):
        main.close()
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        try:
            with asyncio.Runner(loop_factory=new_event_loop) as runner:
                return runner.run(main)
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            raise
    return wait_for(main)


def run_with_display(
    function: Callable[[Any], Coroutine[Any, Any, T]],
    settings: Settings,
    announce: Callable[[str], object] = print,
    **more: Any,
) -> T:
    """Run a public function with a progress display; Ctrl-C stops it cleanly.

    Args:
        function: the async function of the settings.
        settings: the settings of the command.
        announce: prints notes, such as those on stand-in models.
        more: further settings, for commands only.
    """
    with ProgressDisplay(announce=announce) as display:
        return run(function(settings.model_copy(update={"progress": display, "stop": KeyboardStop(), **more})))


class KeyboardStop(Stop):
    """Stops a run cleanly at Ctrl-C, SIGTERM or a closed terminal, and immediately at a second Ctrl-C or SIGTERM."""

    def _listen(self, run: StoppableRun) -> AbstractContextManager[None]:
        return on_shutdown(lambda: self._announce_and_stop(run), lambda: self._stop_soon(run))

    def _stop_soon(self, run: StoppableRun) -> None:
        """Stop at SIGTERM, which a kill follows."""
        self.within = TERMINATED_WITHIN
        self._announce_and_stop(run)

    def _announce_and_stop(self, run: StoppableRun) -> None:
        if self.requested:
            abandoned = f"abandoned {pluralize(run.count_in_flight(), 'call')} in flight"
            with suppress(OSError):  # its terminal may be closed
                print(
                    f"exiting now; {abandoned}; saved replies are kept, and the same command resumes the run",
                    file=sys.stderr,
                )
            raise KeyboardInterrupt
        super()._announce_and_stop(run)
