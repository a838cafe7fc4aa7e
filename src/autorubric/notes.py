"""Notes: what a caller should know about a result, given as Python warnings that never cost the result."""

from __future__ import annotations

import contextlib
import sys
import warnings

_OWN = __file__.removesuffix("notes.py"), contextlib.__file__
_shown: dict[str | tuple[str, type[Warning], int], int] = {}
"""The notes that have been shown without a line of the user."""


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


def warn(note: str) -> None:
    """Warn with a `Note` that names the line where the user's code calls the package."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename.startswith(_OWN) and frame.f_back is not None:
        frame = frame.f_back
    # A task, or the thread behind a synchronous function, has no frame of the user.
    if frame.f_globals.get("__name__", "").partition(".")[0] in ("asyncio", "threading", "concurrent"):
        place, shown = ("autorubric", 1), _shown
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


__all__ = ["Note", "show_again", "warn"]
