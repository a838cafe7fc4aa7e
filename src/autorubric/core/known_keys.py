"""The base of the public models: a misspelt key is an error, a key of the user's own is kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic.functional_validators import ModelWrapValidatorHandler
from pydantic_core import InitErrorDetails, PydanticCustomError

from autorubric.core.display import set_fields
from autorubric.files.keys import nearest

_MOST_UNKNOWN = 500
"""Each unknown key is held against all known ones, which would keep a service busy for seconds."""


class KeepingModel(BaseModel):
    """A frozen model that keeps keys it does not know in its field `metadata`, misspelt known ones excepted.

    Example:
        >>> class Note(KeepingModel):
        ...     text: str
        ...     metadata: dict[str, str] = {}
        >>> Note(text="a", color="red").metadata
        {'color': 'red'}
    """

    model_config = ConfigDict(frozen=True)

    known_keys: ClassVar[frozenset[str]] = frozenset()
    _depends: ClassVar[dict[str, frozenset[str]]] = {}
    """Fields that can only be judged where these others can be read."""

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Note the fields once: looking them up each time would be a tenth of the time a load takes."""
        cls.known_keys = frozenset(cls.__pydantic_fields__)

    @classmethod
    def _misread(cls, unknown: Mapping[str, Any], known: Mapping[str, Any]) -> Iterable[str]:
        """A sentence for each unknown key that cannot be the user's own."""
        return ()

    def problems(self) -> Sequence[str]:
        """What is wrong with the fields taken together: one sentence each, none when all is well."""
        return ()

    @model_validator(mode="wrap")
    @classmethod
    def _checked(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if type(data) is dict and not cls.known_keys.issuperset(data):
            data, strangers = _sorted_out(data, cls)
            if strangers:
                raise _all_errors(cls, strangers, data, handler)
        try:
            made = handler(data)
        except ValidationError as error:
            if type(data) is dict and _problems_besides(cls, error, data, handler):
                raise _all_errors(cls, [], data, handler) from None
            raise
        problems = made.problems()
        if problems:
            # The message goes through a placeholder, so that braces in it stay braces.
            raise PydanticCustomError("value_error", "{problems}", {"problems": "; ".join(problems)})
        return made

    def __repr_args__(self) -> Any:
        """Only what was set apart from the defaults: eleven fields of which eight are None hide the three."""
        return set_fields(self)


def _sorted_out(data: dict[str, Any], cls: type[KeepingModel]) -> tuple[dict[str, Any], list[InitErrorDetails]]:
    """The data with unknown keys moved to its metadata, and an error for each key that is a misspelling."""
    known = cls.known_keys
    kept = {key: value for key, value in data.items() if key in known}
    metadata = kept.get("metadata")
    own = dict(metadata) if isinstance(metadata, dict) else {}
    unknown = len(data) - len(kept)
    if unknown > _MOST_UNKNOWN:
        message = f"{unknown} keys are not known; the most is {_MOST_UNKNOWN}, put what is yours under 'metadata'"
        return kept, [_error((), message, None)]
    strangers: list[InitErrorDetails] = []
    for key, value in data.items():
        if key in known:
            continue
        right = nearest(key, known) if isinstance(key, str) else None
        if right is not None:
            message = f"unknown key {key!r}; did you mean {right!r}?"
        elif key in own:
            message = f"{key!r} is given twice, here and in 'metadata'"
        else:
            own[key] = value
            continue
        strangers.append(_error((key,), message, value))
    unread = {key: own[key] for key in data if key not in known and key in own}
    strangers += (_error((), problem, data) for problem in cls._misread(unread, kept))
    if metadata is None or isinstance(metadata, dict):
        kept["metadata"] = own
    return kept, strangers


def _all_errors(
    cls: type[KeepingModel], found: list[InitErrorDetails], data: dict[str, Any], handler: Any
) -> ValidationError:
    """The errors found so far together with those of the fields, each by itself and taken together."""
    try:
        besides = handler(data).problems()
    except ValidationError as error:
        named = {str(detail["loc"][0]) for detail in found if detail.get("loc")}
        for detail, line in zip(error.errors(include_url=False), _messages(error), strict=True):
            # A field is only missing because its name was misspelt: that was said already.
            place = [str(part) for part in detail["loc"]]
            if not (detail["type"] == "missing" and any(nearest(key, place) for key in named)):
                found.append(_error(detail["loc"], line, detail["input"]))
        besides = _problems_besides(cls, error, data, handler)
    found += (_error((), problem, data) for problem in besides)
    return ValidationError.from_exception_data(cls.__name__, found)


def _problems_besides(
    cls: type[KeepingModel], error: ValidationError, data: dict[str, Any], handler: Any
) -> Sequence[str]:
    """What is wrong with the fields that can be read, taken together."""
    broken = {detail["loc"][0] for detail in error.errors(include_url=False) if detail["loc"]}
    broken |= {field for field, others in cls._depends.items() if not broken.isdisjoint(others)}
    sound = {key: value for key, value in data.items() if key not in broken}
    for name, field in cls.__pydantic_fields__.items():
        if field.is_required() and name not in sound:
            sound[name] = "-" if field.annotation is str else 0.0
    try:
        return list(handler(sound).problems())
    except ValidationError:
        return ()


def _error(place: tuple[int | str, ...], message: str, value: Any) -> InitErrorDetails:
    kind = PydanticCustomError("value_error", "{message}", {"message": message})
    return InitErrorDetails(type=kind, loc=place, input=value)


def error_lines(error: ValidationError) -> list[str]:
    """The errors of a model as lines `field: what is wrong`, the value included.

    Example:
        >>> class Note(KeepingModel):
        ...     text: str
        >>> try:
        ...     Note(text=3)
        ... except ValidationError as error:
        ...     error_lines(error)
        ['text: Input should be a valid string, got 3']
    """
    places = (".".join(map(str, detail["loc"])) for detail in error.errors(include_url=False))
    return [f"{place}: {line}" if place else line for place, line in zip(places, _messages(error), strict=True)]


def _messages(error: ValidationError) -> list[str]:
    """The error at each place, with the value there."""
    found = []
    for detail in error.errors(include_url=False):
        message = detail["msg"].removeprefix("Value error, ")
        if detail["type"] == "missing":
            message += _keys_there(detail["input"])
        elif detail["type"] not in {"missing", "value_error"}:
            message += f", got {_shown(detail['input'])}"
        found.append(message)
    return found


def _keys_there(data: Mapping[str, Any]) -> str:
    """The keys of a model's data before those that it does not know became its metadata."""
    metadata = data.get("metadata")
    names = [key for key in (*data, *(metadata if isinstance(metadata, dict) else ())) if key != "metadata"]
    return f"; the keys are {', '.join(map(repr, names)):.200}" if names else ""


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:
        text = type(value).__name__
    return text if len(text) <= 60 else text[:57] + "..."
