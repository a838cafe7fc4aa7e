"""Settings models: one model defines a function's parameters, flags, config keys and manifest record.

A public function such as `autorubric.grade` has a subclass of `Settings`, with fields declared by `setting`. The name
of a field is the Python parameter and the key of the config file; with dashes, it is the flag.
"""

import re
import types
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from threading import RLock
from typing import Annotated, Any, ClassVar, Literal, Self, Union, cast, get_args, get_origin

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo

from autorubric.errors import ConfigError, InputError, shorten
from autorubric.expectations import describe_expectation
from autorubric.files import find_nearest_key, suggest_name
from autorubric.files.printable import to_utf8
from autorubric.files.remote import find_address, make_path, redact_credentials


@dataclass(frozen=True, slots=True)
class Flag:
    """How a setting appears on the command line.

    Attributes:
        name: the flag with its dashes, or the placeholder of a positional argument.
        short: a one-letter form.
        group: the panel of `--help` that lists it.
        metavar: the placeholder of its value.
        argument: whether it is a positional argument instead of a flag.
        many: whether it is an argument that takes several values.
        shown: whether the command line has it.
        hidden: whether `--help` omits it.
        recorded: whether manifests record it.
        reads: whether it names a file or directory that is read, which a run never overwrites.
        secret: whether messages must not repeat its value.
    """

    name: str = ""
    short: str | None = None
    group: str = "Options"
    metavar: str | None = None
    argument: bool = False
    many: bool = False
    shown: bool = True
    hidden: bool = False
    recorded: bool = True
    reads: bool = False
    secret: bool = False


def setting(  # noqa: PLR0913 (one call declares everything about a setting)
    default: Any,
    help: str,
    *,
    flag: str = "",
    cli: bool = True,
    record: bool = True,
    ge: float | None = None,
    gt: float | None = None,
    le: float | None = None,
    lt: float | None = None,
    **shown: Any,
) -> Any:
    """Return a field of a settings model.

    Args:
        default: the default value; `...` if it is required.
        help: one line for `--help` and the reference.
        flag: the flag, if it is not the field's name with dashes.
        cli: False if only Python can pass it, such as a callback.
        record: False omits it from manifests.
        ge: the minimum.
        gt: an exclusive lower bound.
        le: the maximum.
        lt: an exclusive upper bound.
        shown: further attributes of its `Flag`.

    Example:
        >>> class Speed(Settings):
        ...     concurrency: int = setting(256, "Maximum concurrent requests.", short="-j", ge=1)
        >>> Speed(concurrency=8).to_manifest()
        {'concurrency': 8}
        >>> Speed.from_values({"concurency": 8})
        Traceback (most recent call last):
        autorubric.errors.ConfigError: unknown setting 'concurency'; did you mean 'concurrency'?
    """
    extra: Any = {"flag": Flag(flag, shown=cli, recorded=record and cli, **shown)}
    # A switch takes true and false only: pydantic would read "no" and 1 as well.
    strict = isinstance(default, bool) or None
    return Field(default, description=help, ge=ge, gt=gt, le=le, lt=lt, strict=strict, json_schema_extra=extra)


_BUILDING = RLock()


_Checked: Any = type("_Checked", (type(BaseModel),), {"__call__": lambda cls, **values: cls.from_values(values)})
"""Makes constructors raise the errors of `Settings.from_values`."""


class Settings(BaseModel, metaclass=_Checked):  # type: ignore[metaclass]
    """Frozen settings that refuse unknown names. `model_fields_set` holds the names that were passed."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        arbitrary_types_allowed=True,
        protected_namespaces=(),
        allow_inf_nan=False,
        defer_build=True,  # a command does not use all models that it imports
    )

    needs: ClassVar[Mapping[str, Collection[str]]] = {}
    """The settings of this class that have no effect without a flag, by flag: `--audit MODEL` or `--keep=pairs`."""

    @classmethod
    def model_rebuild(cls, *, _parent_namespace_depth: int = 2, **options: Any) -> bool | None:
        """Build the model in one thread at a time, which pydantic 2.12 does not ensure."""
        with _BUILDING:
            return super().model_rebuild(_parent_namespace_depth=_parent_namespace_depth + 1, **options)

    @classmethod
    def from_values(cls, values: Mapping[str, Any], named: Callable[[str], str] = str) -> Self:
        """Return the settings with these values.

        Args:
            values: by field name.
            named: the name of a field in messages, such as its flag.

        Raises:
            ConfigError: unknown names, values of the wrong type or range, and contradictory settings, all together.
        """
        try:
            return cls.model_validate(dict(values))
        except ValidationError as error:
            raise ConfigError(_collect_messages(cls, error, named)) from None

    @classmethod
    def _locate_problem(
        cls, problem: Mapping[str, Any], named: Callable[[str], str]
    ) -> tuple[tuple[str, ...], list[str]]:
        """Return the place of a problem and what is wrong there; only the first problem of a place is reported."""
        return tuple(map(str, problem["loc"][:1])), _describe(cls, problem, named)

    def collect_given(self) -> dict[str, Any]:
        """Return the values that were passed; `from_values` builds equal settings from them."""
        return {name: getattr(self, name) for name in self.model_fields_set}

    @classmethod
    def list_flags(cls) -> dict[str, Flag]:
        """Return how each field appears on the command line, by field name."""
        return dict(_collect_flags(cls))

    def list_given_flags(self, names: Iterable[str]) -> list[str]:
        """Return the flags that were passed for these settings, as on the command line, without switches set off."""
        flags, fields = _collect_flags(type(self)), type(self).model_fields
        off = {name for name, one in fields.items() if isinstance(one.default, bool | None)}
        off -= {name for name in off if getattr(self, name) is not fields[name].default}
        return [
            f"--no-{flags[name].name[2:]}" if fields[name].default is True else flags[name].name
            for name in names
            if name in self.model_fields_set and name not in off
        ]

    def refuse_unused(self, names: Iterable[str], needed: str) -> None:
        """Raise a `ConfigError` if any of these settings was passed; they have no effect without `needed`."""
        if unused := self.list_given_flags(names):
            verb, them = ("has", "it") if len(unused) == 1 else ("have", "them")
            flags = ", ".join(unused)
            raise ConfigError(f"{flags} {verb} no effect without {needed}; leave {them} out, or pass {needed}")

    def to_manifest(self) -> dict[str, Any]:
        """Return the settings as JSON values for a manifest, without callbacks and Python objects."""
        flags = _collect_flags(type(self))
        return {
            name: plain
            for name, value in self
            if flags[name].recorded and (plain := _to_plain(value)) is not _NOT_RECORDED
        }

    def dump_passed(self, without: Collection[str] = ()) -> dict[str, Any]:
        """Return the values that were passed, as JSON values; `from_values` builds equal settings from them.

        Args:
            without: names to omit.

        Raises:
            ConfigError: a setting is a Python object, which a file cannot contain.
        """
        values = {
            name: _to_plain(value) for name, value in sorted(self.collect_given().items()) if name not in without
        }
        if objects := [name for name, value in values.items() if value is _NOT_RECORDED]:
            raise ConfigError(f"{', '.join(objects)}: expected the path of a file or a string, got a Python object")
        return values

    def list_sources(self) -> tuple[Path, ...]:
        """Return the files and directories that are read."""
        flags = _collect_flags(type(self))
        named = [value for name, value in self if flags[name].reads]
        return tuple(
            path
            for value in named
            for path in (value if isinstance(value, list | tuple) else [value])
            if isinstance(path, Path)
        )

    @model_validator(mode="after")
    def _check_needs(self) -> Self:
        fields = {flag.name: name for name, flag in _collect_flags(type(self)).items()}
        for needed, names in [pair for one in type(self).__mro__ for pair in vars(one).get("needs", {}).items()]:
            flag, _, value = needed.partition(" ")[0].partition("=")
            found, default = getattr(self, fields[flag]), type(self).model_fields[fields[flag]].default
            if found != value if value else found == default:
                self.refuse_unused(names, needed)
        return self

    @field_validator("*", mode="before")
    @classmethod
    def _refuse_boolean(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse `concurrency: true`, which pydantic would read as 1."""
        kind = cls.model_fields[info.field_name or ""].annotation
        if isinstance(value, bool) and {kind, *get_args(kind)} & {int, float} and kind is not bool:
            raise ValueError("expected a number, not true or false")
        return value


@cache
def _collect_flags(model: type[Settings]) -> Mapping[str, Flag]:
    """Return the flags of a model; cached, because a command needs them several times."""
    return {name: build_flag(name, field) for name, field in model.model_fields.items()}


def build_flag(name: str, field: FieldInfo) -> Flag:
    """Return how a field appears on the command line."""
    extra = field.json_schema_extra
    found = extra.get("flag") if isinstance(extra, dict) else None
    flag = found if isinstance(found, Flag) else Flag()
    return replace(flag, name=flag.name or (name.upper() if flag.argument else f"--{name.replace('_', '-')}"))


def list_kinds(annotation: Any) -> list[Any]:
    """Return the plain types in an annotation: members of unions and sequences, without `None` and metadata.

    Example:
        >>> list_kinds(Sequence[Path | str] | None)
        [<class 'pathlib...Path'>, <class 'str'>]
    """
    origin = get_origin(annotation)
    if origin is Annotated:
        return list_kinds(get_args(annotation)[0])
    if origin is Literal or origin is None:
        return [] if annotation is type(None) else [annotation]
    if origin in (Union, types.UnionType):
        return [kind for member in get_args(annotation) for kind in list_kinds(member)]
    if isinstance(origin, type) and issubclass(origin, Sequence) and origin is not str:
        return list_kinds(get_args(annotation)[0])
    return [origin]


def _check_path(value: Any) -> Path:
    if not isinstance(value, str | Path):
        raise ValueError("expected the path of a file or directory")
    if isinstance(value, str) and not value.strip():
        raise ValueError("expected the path of a file or directory, got a blank string")
    if "\0" in str(value):
        raise ValueError("a path cannot contain a null byte")
    return make_path(value)


def _check_local_path(value: Any) -> Path:
    path = _check_path(value)
    if find_address(path):
        raise ValueError("expected a path on this machine")
    return path


def _check_new_path(value: Any) -> Path:
    path = _check_path(value)
    if address := find_address(path):
        raise ValueError(f"a run and its ledger are local; pass a local directory, and --upload {address}")
    if not str(path).isprintable():
        raise ValueError("it contains characters that cannot be displayed; choose another name")
    return path


def _check_paths(value: Any) -> list[Path]:
    if not isinstance(value, str | Path | list | tuple):
        raise ValueError("expected paths of files")
    return [_check_path(path) for path in ([value] if isinstance(value, str | Path) else value)]


def _check_names(value: Any) -> Any:
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, Sequence) or not all(isinstance(name, str) for name in listed):
        raise ValueError("expected a string or a list of strings")
    return listed


FileName = Annotated[Path | str, PlainValidator(_check_path)]
"""A file or directory; `-` is standard input where that can be read. Always a `Path` after validation."""

LocalName = Annotated[Path | str, PlainValidator(_check_local_path)]
"""A file or directory that must be on this machine. Always a `Path` after validation."""

NewDirectory = Annotated[Path | str, PlainValidator(_check_new_path)]
"""A directory to write to, whose name files and messages can show. Always a `Path` after validation."""

FileNames = Annotated[Path | Sequence[Path | str], PlainValidator(_check_paths)]
"""One or more files. Always a list of `Path` after validation."""

Names = Annotated[Sequence[str], BeforeValidator(_check_names)]
"""One or more strings. Always a sequence of strings after validation."""

_NOT_RECORDED = object()


def _to_plain(value: Any) -> Any:
    if isinstance(value, Path):
        return to_utf8(find_address(value) or str(value))  # a name may hold bytes that are not text
    if isinstance(value, dict):
        return {str(key): plain for key, item in value.items() if (plain := _to_plain(item)) is not _NOT_RECORDED}
    if isinstance(value, list | tuple):
        items = [_to_plain(item) for item in value]
        return _NOT_RECORDED if any(item is _NOT_RECORDED for item in items) else items
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json") if isinstance(value, Settings) else _NOT_RECORDED
    return value if value is None or isinstance(value, str | int | float) else _NOT_RECORDED


def _collect_messages(model: type[Settings], error: ValidationError, named: Callable[[str], str]) -> list[str]:
    """Return one message for each field, a validator's own if there is one; unknown names first."""
    found: dict[tuple[str, ...], list[str]] = {}
    for problem in sorted(error.errors(include_url=False), key=lambda detail: detail["type"] != "extra_forbidden"):
        place, message = model._locate_problem(cast("Any", problem), named)
        found[place] = message if problem["type"] == "value_error" else found.get(place, message)
    return [_rename_flags(message, model, named) for messages in found.values() for message in messages]


_FLAG = re.compile(r"--(no-)?([a-z][a-z-]*)(?: ([A-Z]+|[\d.]*\d)\b)?")


def _rename_flags(message: str, model: type[Settings], named: Callable[[str], str]) -> str:
    """Replace flags in a validator's message by the names that the user wrote: config keys, or Python names."""
    names = {flag.name: name for name, flag in _collect_flags(model).items()}

    def rename(match: re.Match[str]) -> str:
        name = names.get(f"--{match[2]}", "")
        called = named(name)
        if not name or called.startswith("-"):
            return match[0]
        value = "false" if match[1] else match[3]
        return name + (f"={value.replace('false', 'False')}" if called == name else f": {value}") if value else name

    return _FLAG.sub(rename, message)


def _describe(model: type[Settings], problem: Mapping[str, Any], named: Callable[[str], str]) -> list[str]:
    raised = problem.get("ctx", {}).get("error")
    if isinstance(raised, InputError) or not problem["loc"]:
        texts = raised.problems if isinstance(raised, InputError) else [str(raised or problem["msg"])]
        return [f"{named(str(place))}: {text}" for text in texts for place in problem["loc"][:1]] or list(texts)
    field, value, kind = str(problem["loc"][0]), problem["input"], problem["type"]
    if kind in ("extra_forbidden", "invalid_key"):
        where = named(field).removesuffix(field)  # the config file, where it comes from one
        noun, known = "key" if where else "setting", suggest_name(field, model.model_fields)
        if where and find_nearest_key(field, model.model_fields) is None:
            known = "the keys are the flags of --help, as in base_url for --base-url"
        if f"{field}_env" in model.model_fields:
            known = f"put the API key into an environment variable, and its name into {field}_env"
        return [f"{where}unknown {noun} {field!r}; {known}"]
    if kind == "missing":
        help_text = (model.model_fields[field].description or "").rstrip(".")
        advice = f": {help_text}; pass it, or set {field!r} in the file of --config" if named(field) != field else ""
        return [f"{named(field)} is missing{advice}"]
    shown = redact_credentials(shorten(repr(value) if str(value).isprintable() else ascii(value), 200))
    if build_flag(field, model.model_fields[field]).secret:
        return [f"{named(field)} {describe_expectation(problem)}"]
    if kind == "literal_error":
        words = [
            str(word) for literal in list_kinds(model.model_fields[field].annotation) for word in get_args(literal)
        ]
        return [f"{named(field)} is {shown}; {suggest_name(str(value), words)}"]
    return [f"{named(field)} is {shown}; {describe_expectation(problem)}"]
