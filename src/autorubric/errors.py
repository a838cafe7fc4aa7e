"""Errors and notes: what the package says to its caller.

Exceptions that reach a user::

    AutorubricError
    ├── InputError (ValueError)        a file, row, flag or value is wrong; nothing was spent; exit status 2
    │   ├── MissingFileError (FileNotFoundError)
    │   └── ConfigError                models, keys, endpoints, roles or settings are wrong
    │       └── MissingPackageError    a package of an extra is not installed
    ├── RunLockedError                 another process works in this run directory
    ├── LedgerError                    the ledger is damaged or was written by a newer version
    ├── UploadError                    a finished run could not be uploaded; all of it is on disk
    ├── NotSavedError                  a label is not on disk: the disk is full or failed
    └── CallError                      one model call failed; carries its `Failure`

A failed model call inside a run is never an exception to its row: it becomes a `Failure`
(`autorubric.llm.request`), which is stored, counted and shown.

A `Note` is a Python warning about a result, which never costs the result.
"""

import contextlib
import re
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextvars import ContextVar
from types import FrameType

_OWN = __file__.removesuffix("errors.py"), contextlib.__file__
_shown: dict[str | tuple[str, type[Warning], int], int] = {}
"""The notes that have been shown without a line of the user."""


class AutorubricError(Exception):
    """The base class of all exceptions that this package raises on purpose.

    Example:
        >>> from autorubric import Rubric
        >>> try:
        ...     Rubric.from_file("no-such-file.json")
        ... except AutorubricError as error:
        ...     print(error)
        File not found: no-such-file.json
    """


class InputError(AutorubricError, ValueError):
    """The input is invalid.

    It has all problems that were found; `advice` says what to do about them.

    Example:
        >>> raise InputError(["row 3: no key 'question'", "row 9: not JSON"])
        Traceback (most recent call last):
        autorubric.errors.InputError: 2 problems:
          row 3: no key 'question'
          row 9: not JSON
    """

    def __init__(self, problems: str | Iterable[str], advice: str = "") -> None:
        self.problems: tuple[str, ...] = (problems,) if isinstance(problems, str) else tuple(problems)
        self.advice = advice
        super().__init__("\n".join(filter(None, (_join_problems(self.problems), advice))))


@contextlib.contextmanager
def problems_at(head: str) -> Iterator[None]:
    """Prefix each problem of an `InputError` that the block raises with its place.

    Example:
        >>> with problems_at("rows.csv:2: "):
        ...     raise InputError("has no id")
        Traceback (most recent call last):
        autorubric.errors.InputError: rows.csv:2: has no id
    """
    try:
        yield
    except InputError as error:
        raise InputError(head + problem for problem in error.problems) from None


@contextlib.contextmanager
def collected(problems: list[str], head: str = "") -> Iterator[None]:
    """End the block at an `InputError`, and add its problems to a list.

    Example:
        >>> problems = []
        >>> with collected(problems, "rows.csv:2: "):
        ...     raise InputError("has no id")
        >>> problems
        ['rows.csv:2: has no id']
    """
    try:
        yield
    except InputError as error:
        problems += (head + problem for problem in error.problems)


class MissingFileError(InputError, FileNotFoundError):
    """A file that was named does not exist."""

    def __str__(self) -> str:
        return _join_problems(self.problems)


class ConfigError(InputError):
    """A model, key, endpoint, role or setting is wrong.

    Example:
        >>> from autorubric import grade
        >>> grade(["Yes"], rubric="rubric.json", conccurrency=8)
        Traceback (most recent call last):
        autorubric.errors.ConfigError: unknown setting 'conccurrency'; did you mean 'concurrency'?
    """


class MissingPackageError(ConfigError):
    """A package that only some features need is not installed; the message names the extra that installs it."""


class RunLockedError(AutorubricError):
    """Another process holds the run directory."""


class LedgerError(AutorubricError):
    """The ledger is damaged, or was written by a newer version."""


class UploadError(AutorubricError):
    """The files of a finished run could not be uploaded; all of them are in the run directory."""


class NotSavedError(AutorubricError):
    """Nothing was stored: the disk is full or failed."""


def find_first_cause(error: BaseException) -> BaseException:
    """Return the first error in an exception group; any other error is returned unchanged.

    Example:
        >>> find_first_cause(ExceptionGroup("tasks", [ExceptionGroup("more tasks", [KeyError("a")]), OSError()]))
        KeyError('a')
    """
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


_MOST_SHOWN = 20
_LONGEST_SHOWN = 1000
_MOST_PLACES = 3


def shorten(text: str, most: int = _LONGEST_SHOWN) -> str:
    """`text`, with its middle left out if it is too long for a message.

    Example:
        >>> shorten("expected a number, got " + 50 * "9", most=40)
        'expected a number, got 99999 … 9999999999'
    """
    return text if len(text) <= most else f"{text[: most * 7 // 10]} … {text[-(most // 4) :]}"


def clip(text: str, most: int) -> str:
    """Return the text, or its beginning with an ellipsis where it is longer than `most` characters.

    Example:
        >>> clip("What is longer", 8)
        'What is…'
    """
    return text if len(text) <= most else text[: most - 1] + "…"


def pluralize(count: int, noun: str) -> str:
    """Return a count and its noun, in the plural if needed.

    Example:
        >>> pluralize(2, "list item"), pluralize(0, "query"), pluralize(2, "batch"), pluralize(1_000, "criterion")
        ('2 list items', '0 queries', '2 batches', '1,000 criteria')
    """
    if count == 1:
        named = noun
    elif noun.endswith("criterion"):
        named = f"{noun[:-2]}a"
    elif noun.endswith("y") and noun[-2] not in "aeiou":
        named = f"{noun[:-1]}ies"
    else:
        named = f"{noun}{'es' if noun.endswith(('s', 'x', 'ch', 'sh')) else 's'}"
    return f"{count:,} {named}"


def format_first(names: Sequence[object], most: int = 5) -> str:
    """Return the first of some names or numbers, and how many more there are.

    Example:
        >>> format_first([1, 2, 3], most=2), format_first(["a", "b"])
        ('1, 2 and 1 more', 'a, b')
    """
    shown = ", ".join(map(str, names[:most]))
    return f"{shown} and {len(names) - most:,} more" if len(names) > most else shown


def _join_problems(problems: tuple[str, ...]) -> str:
    if len(problems) == 1:
        return shorten(problems[0])
    found = list(_group_problems(dict.fromkeys(problems)))
    found = [problem.replace("\n", "\n  ") for problem in found]
    most = max(_LONGEST_SHOWN // 4, min(_LONGEST_SHOWN, 5 * _LONGEST_SHOWN // len(found)))
    lines = [f"{len(problems)} problems:", *(f"  {shorten(problem, most)}" for problem in found[:_MOST_SHOWN])]
    if len(found) > _MOST_SHOWN:
        lines.append(f"  and {len(found) - _MOST_SHOWN} more")
    return "\n".join(lines)


def _group_problems(problems: Iterable[str]) -> Iterator[str]:
    """Problems of the form `place: sentence`; a sentence with more than three places comes once, with the first.

    Example:
        >>> list(_group_problems(f"a.json: row {number}: is blank" for number in range(1, 6)))
        ['a.json: row 1, a.json: row 2, a.json: row 3 and 2 more: is blank']
    """
    places: dict[str, list[str]] = {}
    for problem in problems:
        place, _, sentence = problem.partition(": ")
        row, _, rest = sentence.partition(": ")  # in a document, the place is `rows.json: row 3`
        if rest and re.fullmatch(r"(row|item) \d+", row):
            place, sentence = f"{place}: {row}", rest
        if place.count("(") > place.count(")"):  # the colon is not a separator
            place, sentence = problem, ""
        places.setdefault(sentence or problem, []).append(place)
    for sentence, where in places.items():
        if len(where) > _MOST_PLACES:
            yield f"{format_first(where, _MOST_PLACES)}: {sentence}"
        else:
            yield from (sentence if place == sentence else f"{place}: {sentence}" for place in where)


class Note(UserWarning):
    """Something a caller should know: a guessed column, labels that are not counted, files that were moved.

    A note never interrupts a call: even with `-W error` it is shown and the call returns. To hide notes, use
    `warnings.simplefilter("ignore", autorubric.Note)`; to raise them,
    `warnings.simplefilter("error", autorubric.Note)`.

    Example:
        >>> import warnings
        >>> with warnings.catch_warnings(record=True) as notes:
        ...     warnings.simplefilter("always", Note)
        ...     warn("column 'Reply' is read as the submission")
        >>> [str(note.message) for note in notes]
        ["column 'Reply' is read as the submission"]
    """


called_at: ContextVar[tuple[str, int]] = ContextVar("called_at", default=("autorubric", 1))
"""Where the user's code made the synchronous call that runs on another thread."""


def find_caller() -> FrameType:
    """Return the innermost frame outside the package."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename.startswith(_OWN) and frame.f_back is not None:
        frame = frame.f_back
    return frame


def warn(note: str) -> None:
    """Warn with a `Note` that names the line where the user's code calls the package."""
    frame = find_caller()
    # A task, or the thread behind a synchronous function, has no frame of the user.
    if frame.f_globals.get("__name__", "").partition(".")[0] in ("asyncio", "threading", "concurrent"):
        place, shown = called_at.get(), _shown
    else:
        place, shown = (
            (frame.f_code.co_filename, frame.f_lineno),
            frame.f_globals.setdefault("__warningregistry__", {}),
        )
    try:
        warnings.warn_explicit(note, Note, *place, registry=shown)
    except Note as raised:
        if any(action == "error" and category is Note for action, _, category, *_ in warnings.filters):
            raise
        warnings.showwarning(raised, Note, *place)


def show_again() -> None:
    """Let a new call show notes that an earlier one has shown: they are about other data."""
    _shown.clear()
