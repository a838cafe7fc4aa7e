"""The base of the public models: a misspelt key is an error, a user-defined key is kept."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic.functional_validators import ModelWrapValidatorHandler
from pydantic_core import InitErrorDetails, PydanticCustomError

from autorubric.core.display import iter_set_fields
from autorubric.expectations import describe_expectation, format_place
from autorubric.files.keys import find_nearest_key

_MOST_UNKNOWN = 500
"""Each unknown key is compared with all known ones; more would keep a service busy for seconds."""


class PlainModel(BaseModel):
    """A frozen model whose errors are in plain English.

    Example:
        >>> class Span(PlainModel):
        ...     words: int
        >>> Span(words="many")
        Traceback (most recent call last):
        pydantic_core._pydantic_core.ValidationError: 1 validation error for Span
        words
          expected a whole number, got 'many' [type=value_error]
    """

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    _expected: ClassVar[Mapping[str, str]] = {}
    """What a field accepts, if its type is too general; the empty name stands for the whole model."""

    @model_validator(mode="wrap")
    @classmethod
    def _validate_data(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return handler(data)
        except ValidationError as error:
            raise ValidationError.from_exception_data(cls.__name__, [*_explain(cls, error)]) from None


class KeepingModel(PlainModel):
    """A frozen model that keeps unknown keys in its field `metadata`, except misspellings of known ones.

    Example:
        >>> class Note(KeepingModel):
        ...     text: str
        ...     metadata: dict[str, str] = {}
        >>> Note(text="a", color="red").metadata
        {'color': 'red'}
    """

    known_keys: ClassVar[frozenset[str]] = frozenset()
    _depends: ClassVar[dict[str, frozenset[str]]] = {}
    """Fields that can be validated only if these others are valid."""

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Cache the fields, because looking them up each time would take a tenth of the loading time."""
        cls.known_keys = frozenset(cls.__pydantic_fields__)

    @classmethod
    def _find_misread(cls, unknown: Mapping[str, Any], known: Mapping[str, Any]) -> Iterable[str]:
        """Return a message for each unknown key that cannot be user-defined."""
        return ()

    def problems(self) -> Sequence[str]:
        """Problems of the fields in combination, one sentence each."""
        return ()

    @model_validator(mode="wrap")
    @classmethod
    def _validate_data(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if type(data) is dict and not cls.known_keys.issuperset(data):
            data, strangers = _move_keys(data, cls)
            if strangers:
                raise _join_errors(cls, strangers, data, handler)
        try:
            made = handler(data)
        except ValidationError:
            raise _join_errors(cls, [], data, handler) from None
        problems = made.problems()
        if problems:
            # The message goes through a placeholder, so that braces in it stay braces.
            raise PydanticCustomError("value_error", "{problems}", {"problems": "; ".join(problems)})
        return made

    def __repr_args__(self) -> Any:
        """Only what differs from the defaults: of eleven fields, eight that are None would hide the other three."""
        return iter_set_fields(self)


def _move_keys(data: dict[str, Any], cls: type[KeepingModel]) -> tuple[dict[str, Any], list[InitErrorDetails]]:
    """Return the data with unknown keys moved to its metadata, and an error for each key that is a misspelling."""
    known = cls.known_keys
    kept = {key: value for key, value in data.items() if key in known}
    metadata = kept.get("metadata")
    own = dict(metadata) if isinstance(metadata, dict) else {}
    unknown = len(data) - len(kept)
    if unknown > _MOST_UNKNOWN:
        message = f"{unknown} unknown keys; at most {_MOST_UNKNOWN} are kept, put your own under 'metadata'"
        return kept, [_build_error((), message, None)]
    strangers: list[InitErrorDetails] = []
    for key, value in data.items():
        if key in known:
            continue
        right = find_nearest_key(key, known) if isinstance(key, str) else None
        if right is not None:
            message = f"unknown key {key!r}; did you mean {right!r}?"
        elif key in own:
            message = f"{key!r} is given twice, here and in 'metadata'"
        else:
            own[key] = value
            continue
        strangers.append(_build_error((key,), message, value))
    unread = {key: own[key] for key in data if key not in known and key in own}
    strangers += (_build_error((), problem, data) for problem in cls._find_misread(unread, kept))
    if metadata is None or isinstance(metadata, dict):
        kept["metadata"] = own
    return kept, strangers


def _join_errors(cls: type[KeepingModel], found: list[InitErrorDetails], data: Any, handler: Any) -> ValidationError:
    """Return the errors found so far, those of single fields, and those of fields in combination."""
    try:
        besides = handler(data).problems()
    except ValidationError as error:
        named = {str(detail["loc"][0]) for detail in found if detail.get("loc")}
        found += _explain(cls, error, named)
        besides = _find_further_problems(cls, error, data, handler) if type(data) is dict else ()
    found += (_build_error((), problem, data) for problem in besides)
    return ValidationError.from_exception_data(cls.__name__, found)


def _find_further_problems(
    cls: type[KeepingModel], error: ValidationError, data: dict[str, Any], handler: Any
) -> Sequence[str]:
    """Return the problems of the valid fields in combination."""
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


def _build_error(place: tuple[int | str, ...], message: str, value: Any) -> InitErrorDetails:
    kind = PydanticCustomError("value_error", "{message}", {"message": message})
    return InitErrorDetails(type=kind, loc=place, input=value)


def _explain(
    cls: type[PlainModel], error: ValidationError, misspelt: Iterable[str] = ()
) -> Iterator[InitErrorDetails]:
    """Yield the errors in plain English, without missing fields whose misspelling is reported already."""
    for detail in error.errors(include_url=False):
        place = detail["loc"]
        if detail["type"] == "missing" and any(
            find_nearest_key(key, [str(part) for part in place]) for key in misspelt
        ):
            continue
        shape = cls._expected.get(str(place[0]) if place else "", "") if len(place) < _DEEP else ""
        yield _build_error(place, _format_message(detail, shape), detail["input"])


_DEEP = 2


def format_errors(error: ValidationError, inside: int = 0) -> list[str]:
    """Return the errors of a model as lines `field: what is wrong`, the value included.

    Args:
        error: the error of the model.
        inside: how many leading parts of each place to leave out.

    Example:
        >>> class Note(KeepingModel):
        ...     text: str
        >>> try:
        ...     Note(text=3)
        ... except ValidationError as error:
        ...     format_errors(error)
        ['text: expected a string, got 3']
    """
    details = error.errors(include_url=False)
    return [": ".join(filter(None, (format_place(one["loc"][inside:]), _format_message(one)))) for one in details]


def _format_message(detail: Mapping[str, Any], shape: str = "") -> str:
    """Return the message of an error, with the value unless the message comes from a validator."""
    message = describe_expectation(detail, shape)
    if detail["type"] == "missing":
        return message + _list_keys(detail["input"])
    return message if detail["type"] == "value_error" else f"{message}, got {_render_value(detail['input'])}"


def _list_keys(data: Mapping[str, Any]) -> str:
    """Return the keys of a model's data before unknown ones were moved to its metadata."""
    metadata = data.get("metadata")
    names = [key for key in (*data, *(metadata if isinstance(metadata, dict) else ())) if key != "metadata"]
    return f"; the keys are {', '.join(map(repr, names)):.200}" if names else ""


def _render_value(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:
        text = type(value).__name__
    return text if len(text) <= 60 else text[:57] + "..."
