"""Decorators that build public functions from settings models, and the settings that several functions share."""

from __future__ import annotations

import functools
import inspect
import logging
import operator
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    ParamSpec,
    Protocol,
    TypeAlias,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
)

from pydantic import AfterValidator, BeforeValidator, PlainValidator
from pydantic.fields import FieldInfo

from autorubric.background import wait_for
from autorubric.core.rubric import Rubric
from autorubric.dataset import RubricDataset
from autorubric.errors import ConfigError, InputError, show_again, warn
from autorubric.files.remote import find_address, make_path
from autorubric.llm.batches.setting import POLL, Batching, use_batches
from autorubric.llm.http.providers import keys_missing
from autorubric.llm.records.ledger_view import session
from autorubric.runs.progress import Progress, RunState
from autorubric.runs.stopping import Stop
from autorubric.settings import LocalName, Names, NewDirectory, Settings, build_flag, setting

if TYPE_CHECKING:
    from autorubric.jobs.selection_run import SelectionResult
    from autorubric.runs.result import EvalResult
    from autorubric.synthesis.run_summary import SynthesisResult

P = ParamSpec("P")
D = TypeVar("D")
R = TypeVar("R")
S = TypeVar("S", bound=Settings)
Data_contra = TypeVar("Data_contra", contravariant=True)
Model_contra = TypeVar("Model_contra", contravariant=True)
Returned_co = TypeVar("Returned_co", covariant=True)


class Job(Protocol[Data_contra, Model_contra, P, Returned_co]):
    """A public function whose keyword parameters are the fields of its settings model.

    The first argument may also be a settings object; keyword arguments then replace its fields.
    """

    __name__: str

    def __call__(
        self, data: Data_contra | Model_contra | None = None, /, *args: P.args, **kwargs: P.kwargs
    ) -> Returned_co:
        """Call the function."""
        ...


def job(model: Callable[P, S]) -> Callable[[Callable[[D, S], R]], Job[D, S, P, R]]:
    """Decorate a function of `(data, settings)` to take the fields of `model` as keyword arguments.

    The model's positional argument becomes the function's first argument.

    Example:
        >>> from autorubric.settings import setting
        >>> class GreetSettings(Settings):
        ...     name: str | None = setting(None, "Who is greeted.", argument=True)
        ...     word: str = setting("hello", "The greeting.")
        >>> @job(GreetSettings)
        ... def greet(name: str, settings: GreetSettings) -> str:
        ...     return f"{settings.word}, {name}"
        >>> greet("Ann", word="good morning"), greet(GreetSettings(name="Bo")), greet(name="Cy")
        ('good morning, Ann', 'hello, Bo', 'hello, Cy')
        >>> greet("Ann", wrod="hi")
        Traceback (most recent call last):
        autorubric.errors.ConfigError: unknown setting 'wrod'; did you mean 'word'?
    """

    def decorate(function: Callable[[D, S], R]) -> Job[D, S, P, R]:
        fields = _order_fields(model)
        first = next((name for name, field in fields.items() if build_flag(name, field).argument), None)

        def read(data: Any, given: dict[str, Any]) -> tuple[Any, Any]:
            given_whole = not given and isinstance(data, cast(Any, model))
            settings: Any = data if given_whole else _build_settings(model, first, data, given)
            return None if first is None else getattr(settings, first), settings

        def call(data: Any = None, /, **given: Any) -> Any:
            return function(*read(data, given))

        async def call_async(data: Any = None, /, **given: Any) -> Any:
            show_again()
            value, settings = read(data, given)
            with session(), ExitStack() as stack:
                if (size := getattr(settings, "batch", None)) is not None:
                    stack.enter_context(_use_batches(settings, size))
                if getattr(settings, "dry_run", False):
                    stack.enter_context(_allow_missing_keys())
                return await cast("Any", function)(value, settings)

        wrapped: Any = functools.wraps(function)(call_async if inspect.iscoroutinefunction(function) else call)
        wrapped.__signature__ = _build_signature(fields, first, function)
        lines = (
            f"    {name}: {field.description}" for name, field in fields.items() if not build_flag(name, field).hidden
        )
        wrapped.__doc__ = "\n".join([inspect.cleandoc(function.__doc__ or ""), "", "Keyword arguments:", *lines])
        public: Job[D, S, P, R] = wrapped
        return public

    return decorate


@contextmanager
def _use_batches(settings: BatchSettings, size: int) -> Iterator[None]:
    """Within the `with` block, models send batches as configured; a dry run ends with an estimate of the duration."""
    # A stronger judge waits for the verdicts of the others, and judges wait for sampled answers.
    stages = 1 + sum(bool(getattr(settings, name, ())) for name in ("escalate_to", "sample"))
    tell = getattr(getattr(settings, "progress", None), "tell", None) or _LOG.info
    detach, cancel = settings.batch_detach and not settings.batch_cancel, settings.batch_cancel
    how = Batching(size, detach, settings.batch_poll, tell, stages, cancel=cancel)
    with use_batches(how):
        yield
    if getattr(settings, "dry_run", False):
        how.notice(how.outlook)


@contextmanager
def _allow_missing_keys() -> Iterator[None]:
    """Let a dry run continue without API keys; a warning names those that the run needs."""
    noted: dict[str, None] = {}
    token = keys_missing.set(noted)
    try:
        yield
    finally:
        keys_missing.reset(token)
    for problem in noted:
        warn(f"{problem}; the dry run continues without it")


def blocking(function: Job[D, S, P, Coroutine[Any, Any, R]]) -> Job[D, S, P, R]:
    """Return the synchronous version of an async function; also works inside a running event loop (a notebook)."""

    def call_and_wait(data: Any = None, /, **given: Any) -> R:
        returned: R = wait_for(called(data, **given))
        return returned

    called: Any = function
    wrapped: Any = functools.wraps(called)(call_and_wait)
    wrapped.__name__ = wrapped.__qualname__ = called.__name__.removesuffix("_async")
    wrapped.__signature__ = inspect.signature(called)
    del wrapped.__wrapped__
    public: Job[D, S, P, R] = wrapped
    return public


def _order_fields(model: Any) -> dict[str, FieldInfo]:
    """Return the fields of a model, positional arguments first."""
    fields = model.model_fields
    return dict(sorted(fields.items(), key=lambda item: not build_flag(*item).argument))


def _build_settings(model: Any, first: str | None, data: Any, given: dict[str, Any]) -> Any:
    if isinstance(data, model):
        return model.from_values({**data.collect_given(), **given})
    if data is not None:
        if first is None:
            raise ConfigError(f"expected keyword arguments or {model.__name__}, got {type(data).__name__}")
        if first in given:
            raise ConfigError(f"{first} is given twice, as the first argument and by name")
        given = {first: data, **given}
    return model.from_values(given)


def _build_signature(fields: dict[str, FieldInfo], first: str | None, function: Any) -> inspect.Signature:
    parameters = [
        inspect.Parameter(
            name,
            inspect.Parameter.POSITIONAL_OR_KEYWORD if name == first else inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.is_required() else field.default,
            annotation=_strip_validators(field.annotation),
        )
        for name, field in fields.items()
    ]
    returned = inspect.signature(function).return_annotation
    return inspect.Signature(parameters, return_annotation=returned)


def _strip_validators(annotation: Any) -> Any:
    """Return a type without the validators that pydantic attaches to it."""
    origin, members = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _strip_validators(members[0])
    if origin in (Union, UnionType):
        return functools.reduce(operator.or_, map(_strip_validators, members))
    return annotation


def _accept_path(kind: type, make: Callable[[Any], Any] | None = None) -> PlainValidator:
    def check(value: Any) -> Any:
        if isinstance(value, str | Path | kind):
            return make_path(value) if isinstance(value, str) else value
        if make is not None and isinstance(value, list | tuple | dict):
            return make(list(value) if isinstance(value, tuple) else value)
        raise ValueError(f"expected a {kind.__name__}{', its criteria,' if make else ''} or the path of one")

    return PlainValidator(check)


DatasetSource: TypeAlias = Annotated[RubricDataset | Path | str, _accept_path(RubricDataset)]
"""A dataset or its file."""

RubricSource: TypeAlias = Annotated[Rubric | Path | Any, _accept_path(Rubric, Rubric.from_dict)]
"""A rubric, its criteria as a list or mapping, or its file. Always a `Rubric` or a `Path` after validation."""


Columns: TypeAlias = Mapping[str, str] | Names
"""Columns of rows by role, or a list of `ROLE=NAME`."""


def column_setting(help: str) -> Any:
    """Return a setting that names columns of rows."""
    return setting((), help, metavar="ROLE=NAME", group="Input")


def _read_directory(value: Any) -> Any:
    names = ("experiment_dir", "out", "directory")
    found = next((path for name in names if (path := getattr(value, name, None))), value)
    if isinstance(found, str | Path) and str(found).strip():
        if find_address(found):
            raise ValueError("a run directory has to be on this machine")
        if "\0" in str(found):
            raise ValueError("a path cannot contain a null byte")
        return make_path(found)
    raise ValueError("expected a run directory, or the result of a run that has one")


RunSource: TypeAlias = Annotated[Path | Any, BeforeValidator(_read_directory)]
"""A run directory, or the result of a run that has one. Always a `Path` after validation."""


def run_job(
    model: Callable[P, S],
) -> Callable[[Callable[[Path, S], R]], Job[EvalResult | SelectionResult | SynthesisResult | Path | str, S, P, R]]:
    """Return the decorator `job` for a function that takes a run directory."""
    decorate: Callable[[Callable[[Path, S], R]], Any] = job(model)
    return decorate


def refuse_existing(target: Path, *, force: bool) -> None:
    """Raise an error if a file exists and `force` is not set.

    Raises:
        InputError: the file exists, or cannot be written.
    """
    try:
        exists = not force and bool(target.lstat())
    except FileNotFoundError:
        return
    except OSError as error:
        raise InputError(f"{target}: cannot be written: {error.strerror}") from None
    if exists:
        raise InputError(f"{target} exists; pass another file, or --force to replace it (Python: force=True)")


_LOG = logging.getLogger("autorubric.batches")
_SIZES = {"": 0, "auto": 0, "true": 0, "none": None, "false": None}


def _read_size(value: Any) -> int | None:
    """Return the maximum number of requests in a batch, 0 for the provider's limit; None without batches."""
    text = str(value).strip().lower()
    if text in _SIZES:
        return _SIZES[text]
    if isinstance(value, float) or not text.isdecimal() or int(text) > 1_000_000:
        raise ValueError("expected the maximum number of requests in one batch, up to 1,000,000")
    return int(text)


class BatchSettings(Settings):
    """Whether requests are sent in batches."""

    batch: Annotated[Any, PlainValidator(_read_size)] = setting(
        None,
        "Send batches (of SIZE): half price, within a day.",
        metavar="[SIZE]",
        group="Endpoint",
    )
    batch_detach: bool = setting(False, "Exit with status 3 once sent; run again to collect.", group="Endpoint")
    batch_cancel: bool = setting(
        False,
        "Cancel open batches and save the replies they have.",
        group="Endpoint",
    )
    batch_poll: float = setting(
        POLL, "Seconds before a batch is first checked.", group="Endpoint", hidden=True, gt=0, le=3600
    )

    needs: ClassVar = {"--batch": ("batch_detach", "batch_cancel")}


def _refuse_coroutines(progress: Any) -> Any:
    if inspect.iscoroutinefunction(progress):
        raise ValueError("it is a coroutine function, which would never be awaited; pass a plain function")
    return progress


class RunSettings(Settings):
    """The directory of a run, how it resumes, and what it logs."""

    out: NewDirectory = setting("run", "Run directory; the same command resumes it.", short="-o", group="Run")
    wait: bool = setting(False, "Wait if another process is using the run directory.", group="Run")
    log_json: LocalName | None = setting(
        None, "Append a JSON line per request attempt; - for standard output.", metavar="FILE", group="Run"
    )
    log_prompts: bool = setting(False, "Include prompts and replies in --log-json.", group="Run")
    progress: Annotated[Progress | None, AfterValidator(_refuse_coroutines)] = setting(
        None, "Called with the state of the run several times a second.", cli=False
    )
    stop: Stop | None = setting(
        None, "Call it, from any thread, to stop the run; calls in flight finish first.", cli=False
    )
    again: str | None = setting(None, "The command that resumes the run, for its manifest.", cli=False)

    needs: ClassVar = {"--log-json FILE": ("log_prompts",)}

    def dump_for_processes(self, what: str, without: Collection[str], kept: Collection[str] = ()) -> dict[str, Any]:
        """Return the settings that worker processes of this run need, as JSON values.

        Args:
            what: names the run in messages.
            without: names to leave out, in addition to settings that only Python or a config file can pass.
            kept: names of such settings to keep.

        Raises:
            ConfigError: the value of a setting is a Python object.
        """
        unshown = {name for name, flag in type(self).list_flags().items() if not flag.shown}.difference(kept)
        try:
            return self.dump_passed(unshown.union(without))
        except ConfigError as error:
            raise ConfigError(f"{what} needs each setting as plain text; {error}") from None

    def attempts_logged(self) -> AbstractContextManager[None]:
        """Within the `with` block, log each request attempt to the file of `log_json`."""
        from autorubric.llm.attempts import attempt_log

        log = None if self.log_json is None else Path(self.log_json)
        return attempt_log(log, str(self.out), prompts=self.log_prompts)

    def show_stand_ins(self, rows: int, names: Iterable[str]) -> None:
        """Before any request, let `progress` show which of these models are stand-ins for real ones."""
        if self.progress is not None:
            from autorubric.llm.models import find_stand_in_note

            self.progress(RunState(rows, 0, [], 0, 0, 0, 0.0, stand_ins=find_stand_in_note(names)))


class ReplaceableSettings(RunSettings):
    """A run with its own directory."""

    replace: bool = setting(False, "Replace another run; its files move to replaced-N.", group="Run")


class ResumableSettings(ReplaceableSettings):
    """A run that can be started over or estimated without a request."""

    start_over: bool = setting(False, "Ignore saved replies; earlier spending still counts.", group="Run")
    dry_run: bool = setting(False, "Estimate requests, tokens and cost; send nothing.", group="Budget")


class UploadedSettings(ResumableSettings):
    """A run whose finished files can be uploaded."""

    upload: str | None = setting(
        None,
        "Upload the complete run, without ledger, to s3:// or gs://.",
        metavar="URL",
        group="Run",
        record=False,
    )
