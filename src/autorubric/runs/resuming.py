"""The command line that resumes a run."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Collection, Sequence
from pathlib import Path


def command_again(
    arguments: Sequence[str], *, without: Collection[str] = (), without_values: Collection[str] = ()
) -> str:
    r"""The command line that resumes a run, as a shell takes it; it works where this process was started.

    A script that starts the command names its own line in `AUTORUBRIC_AGAIN`.

    Args:
        arguments: of the command that ran.
        without: switches that hold for one run only.
        without_values: flags that hold for one run only, each with a value.

    Example:
        >>> again = command_again(["grade", "my essays.json", "--start-over"], without=["--start-over"])
        >>> again.endswith("grade 'my essays.json'")
        True
        >>> command_again(["grade", "essays\udcff.json"]).endswith(r"grade $'essays\xff.json'")
        True
    """
    if script := os.environ.get("AUTORUBRIC_AGAIN"):
        return script
    words, kept = iter(arguments), []
    for word in words:
        if word in without_values:
            next(words, None)
        elif word not in without and word.partition("=")[0] not in without_values:
            kept.append(word)
    return " ".join(map(_quoted, [*_program(), *kept]))


def _program() -> list[str]:
    """How the command was started, where `autorubric` alone would not start this installation."""
    started = Path(sys.argv[0])
    if started.parts[-2:] == ("autorubric", "__main__.py"):
        return [sys.executable, "-m", "autorubric"]
    found = shutil.which("autorubric")
    if started.stem != "autorubric" or (found and Path(found).resolve() == started.resolve()):
        return ["autorubric"]
    return [sys.argv[0]]


def _quoted(word: str) -> str:
    """A word as a shell takes it; bytes of a file's name that are no text are spelt out."""
    try:
        word.encode()
    except UnicodeEncodeError:
        data = os.fsencode(word)
        return "$'" + "".join(chr(b) if 32 <= b < 127 and chr(b) not in "'\\" else f"\\x{b:02x}" for b in data) + "'"
    return shlex.quote(word)
