"""What a target is: a reader, texts to begin with, and what it may raise."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from autorubric.errors import AutorubricError
from autorubric.files import dump_json
from autorubric.llm.request import Answer, Reply, Unreadable
from fuzz.mutation import text_of


@dataclass(frozen=True, slots=True)
class Target:
    """One reader under search.

    Attributes:
        read: takes any bytes. An error of `autorubric.errors` refuses them; whatever else is raised is a finding.
        seeds: what the search begins with.
    """

    read: Callable[[bytes], object]
    seeds: tuple[bytes, ...]

    def attempt(self, data: bytes) -> None:
        """Read once; a refusal without a message is a finding too."""
        try:
            self.read(data)
        except AutorubricError as error:
            if not str(error).strip():
                raise AssertionError(f"{type(error).__name__} without a message") from error


class RefusedReplyError(Exception):
    """A reader of replies raised where it has to say that a reply is unreadable."""


def of_reply(
    *readers: Callable[[Reply], Answer[Any] | Unreadable], seeds: Iterable[str], plain: Callable[..., object]
) -> Target:
    """A target of readers of one reply: they never raise, and what they make of it can be written to a file.

    Args:
        readers: each gets the same reply.
        seeds: texts of replies.
        plain: from what was read to JSON values.
    """

    def read(data: bytes) -> None:
        reply = Reply(text_of(data))
        for one in readers:
            try:
                found = one(reply)
                told = [found.message] if isinstance(found, Unreadable) else [plain(found.value), *found.notes]
                dump_json(told)
            except AutorubricError as error:
                raise RefusedReplyError(str(error)) from error

    return of_bytes(read, seeds)


def of_bytes(read: Callable[[bytes], object], seeds: Iterable[str]) -> Target:
    """A target that reads bytes."""
    return Target(read, tuple(seed.encode() for seed in seeds))


def of_file(name: str, read: Callable[[Path], object], seeds: Iterable[str]) -> Target:
    """A target that reads a file of this name."""

    def through_disk(data: bytes) -> None:
        path = Path(_folder(name).name) / name
        path.write_bytes(data)
        read(path)

    return of_bytes(through_disk, seeds)


@cache
def _folder(name: str) -> tempfile.TemporaryDirectory[str]:
    """A folder of its own for each file, so that readers of whole folders see that file only."""
    return tempfile.TemporaryDirectory(prefix="autorubric-fuzz-")
