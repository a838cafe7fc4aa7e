"""Where a rubric is read from: a path, or an open file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from autorubric.errors import InputError
from autorubric.files.text import decode, read_text


def read_source(source: Any) -> tuple[str, str, str]:
    """The name, the extension and the text of a path or an open file.

    Raises:
        MissingFileError: there is no such file.
        InputError: it is neither, has another extension, or is not UTF-8.

    Example:
        >>> read_source(3)
        Traceback (most recent call last):
        autorubric.errors.InputError: Invalid source 3; expected a path, or an open file that has a name
    """
    if isinstance(source, (str, Path)):
        return str(source), extension_of(str(source)), read_text(source)
    name = getattr(source, "name", None)
    if not hasattr(source, "read") or not isinstance(name, (str, Path)):
        raise InputError(f"Invalid source {source!r}; expected a path, or an open file that has a name")
    content = source.read()
    return (
        str(name),
        extension_of(str(name)),
        content if isinstance(content, str) else decode(content, str(name)),
    )


def extension_of(name: str) -> str:
    """The extension of a rubric file in lower case.

    Raises:
        InputError: no rubric is kept in such files.

    Example:
        >>> extension_of("rubric.YAML")
        '.yaml'
    """
    extension = Path(name).suffix.lower()
    if extension not in (".json", ".yaml", ".yml"):
        formats = "Supported formats: .yaml, .yml, .json"
        raise InputError(f"{name}: Unsupported file format {extension!r}. {formats}")
    return extension
