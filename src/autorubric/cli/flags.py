"""Values of flags that several commands read alike."""

from __future__ import annotations

from pathlib import Path


def folder_named(text: str | Path) -> Path:
    """The path of a directory to work in.

    Raises:
        typer.BadParameter: the name is blank, or no text that a file can hold.

    Example:
        >>> folder_named("out").name
        'out'
    """
    from typer import BadParameter

    text = str(text)  # a default comes as a path
    if not text.strip():
        raise BadParameter("expected the path of a directory, got a blank text")
    if not text.isprintable():
        raise BadParameter(f"{text!a} holds characters that no message or file can show; choose another name")
    return Path(text)
