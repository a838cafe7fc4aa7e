"""One shard of a run that is divided among machines: its items, and what its manifest records."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from autorubric.errors import InputError, pluralize
from autorubric.llm.thinking import split_reasoning
from autorubric.runs.manifest import ITEMS_FILE

if TYPE_CHECKING:
    from autorubric.dataset import RubricDataset
    from autorubric.llm.sharing import Amount
    from autorubric.runs.items_file import StoredLines

MOST_SHARDS = 10_000
PART = "part"
"""The key under which a manifest records that its run is one shard of another."""

WORKERS_FOLDER = "shards"
"""A subfolder of the ledger's folder with the shards that a run started itself, until they are merged."""

MACHINES_FILE = "machines"
"""A file that lists the machines and folders in which the run's Ray workers keep their ledgers."""

_FORM = re.compile(r"\s*(\d{1,6})\s*/\s*(\d{1,6})\s*")


@dataclass(frozen=True, slots=True, order=True)
class Shard:
    """Shard `index` of `of`, counted from 1.

    The content of a record decides its shard, so equal records are in one shard, and no two shards send the same
    request.

    Example:
        >>> one, two = Shard.parse("1/2"), Shard.parse("2/2")
        >>> [shard.has("Why is the sky blue?") for shard in (one, two)].count(True)
        1
        >>> str(one)
        '1/2'
    """

    index: int
    of: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Return the shard named by a text such as `2/8`.

        Raises:
            ValueError: the text does not name a shard.

        Example:
            >>> Shard.parse("9/8")
            Traceback (most recent call last):
            ValueError: shard 9 of 8 does not exist; expected I/N with I from 1 to N, such as 1/8
        """
        found = _FORM.fullmatch(text) if isinstance(text, str) else None
        if found is None:
            raise ValueError("expected I/N, such as 1/8 for the first of eight shards")
        index, of = int(found[1]), int(found[2])
        if not 1 <= of <= MOST_SHARDS:
            raise ValueError(f"expected from 1 to {MOST_SHARDS:,} shards, got {of:,}")
        if not 1 <= index <= of:
            raise ValueError(f"shard {index} of {of} does not exist; expected I/N with I from 1 to N, such as 1/{of}")
        return cls(index, of)

    def __str__(self) -> str:
        return f"{self.index}/{self.of}"

    def has(self, *content: Any) -> bool:
        """Return whether a record with this content belongs to the shard."""
        return _hash_content(content) % self.of == self.index - 1

    def find_places(self, dataset: RubricDataset, *, by_prompt: bool = False) -> list[int]:
        """Return the indices of the shard's items in the dataset.

        Items with the same prompt and answer are in one shard; with `by_prompt`, so are all items with the same
        prompt.
        """
        numbers = _hash_items(dataset, by_prompt=by_prompt)
        return [place for place, number in enumerate(numbers) if number % self.of == self.index - 1]


def _hash_content(content: Sequence[Any]) -> int:
    return int.from_bytes(blake2b(json.dumps(content).encode(), digest_size=8).digest())


def _hash_items(dataset: RubricDataset, *, by_prompt: bool) -> Iterator[int]:
    """Yield a hash for each item, which decides its shard; items that differ only in their reasoning share it."""
    for place, item in enumerate(dataset):
        answer = None if by_prompt else split_reasoning(item.submission)[1]
        yield _hash_content((dataset.get_item_prompt(place), answer))


def group_equal_items(dataset: RubricDataset) -> list[list[int]]:
    """Return the indices of items, grouped by equal prompt and answer, in the order of each group's first item."""
    found: dict[int, list[int]] = {}
    for place, number in enumerate(_hash_items(dataset, by_prompt=False)):
        found.setdefault(number, []).append(place)
    return list(found.values())


@dataclass(frozen=True, slots=True)
class ShardPart:
    """What the manifest of a shard records, so that the shards of a run can be merged.

    Attributes:
        shard: the shard.
        command: the run's command.
        whole: a digest of the input of all shards.
        rows: the number of rows in the input of all shards.
        settings: the settings that were passed.
    """

    shard: Shard
    command: str
    whole: str
    rows: int
    settings: Mapping[str, Any]

    def to_record(self) -> dict[str, Any]:
        """Return the part as JSON values."""
        return {
            "shard": str(self.shard),
            "command": self.command,
            "whole": self.whole,
            "rows": self.rows,
            "settings": dict(self.settings),
        }

    @classmethod
    def from_manifest(cls, manifest: Mapping[str, Any]) -> ShardPart | None:
        """Return the part recorded in a manifest; None if its run is not a shard."""
        found: Any = manifest.get(PART) or (manifest.get("eval_config") or {}).get(PART)
        try:
            return cls(
                Shard.parse(found["shard"]), found["command"], found["whole"], found["rows"], found["settings"]
            )
        except (TypeError, KeyError, ValueError):
            return None


class Workers(Protocol):
    """Processes that run the shards of a run."""

    stopped: str | None
    interrupted: bool
    advice: str
    needed: Amount

    def expect(self, digest: Callable[[], str]) -> None:
        """Set the function that computes the digest of the input."""
        ...

    async def run(self, directory: Path) -> Mapping[Shard, Path]:
        """Run all shards once; return their directories. The caller holds the lock of the run directory."""
        ...

    def clear(self) -> None:
        """Remove the directories of the shards after they are merged."""
        ...


@dataclass(slots=True)
class ShardParts:
    """The run directories of the shards that a run merges.

    Attributes:
        folders: the directory of each shard.
        whole: a digest of the input of all shards; None if this run itself assigns it to them.
        rows: rows of that input.
        by_prompt: whether prompts alone decide which shard an item belongs to.
        is_partial: whether shards may be missing or unfinished.
        workers: run the shards if this run starts them itself; else None.
        started: when the workers started, on the monotonic clock.
        negotiated: parameters that endpoints did not accept from the merged shards.
    """

    folders: Mapping[Shard, Path]
    whole: str | None = None
    rows: int = 0
    by_prompt: bool = False
    is_partial: bool = False
    workers: Workers | None = None
    started: float | None = None
    negotiated: list[str] = field(default_factory=list)

    def find_places(self, dataset: RubricDataset) -> Iterator[tuple[Shard, list[int]]]:
        """Return each shard, with the indices of its items in the dataset of all shards."""
        found: dict[int, list[int]] = {}
        of = next(iter(self.folders)).of
        for place, number in enumerate(_hash_items(dataset, by_prompt=self.by_prompt)):
            found.setdefault(number % of + 1, []).append(place)
        return ((shard, found.get(shard.index, [])) for shard in self.folders)

    def read_lines(self, dataset: RubricDataset) -> list[tuple[StoredLines, Sequence[int]]]:
        """Return the lines of each shard, with the indices of its items in the dataset of all shards.

        Raises:
            InputError: an items file is damaged or lacks items.
        """
        from autorubric.runs.items_file import StoredLines

        found: list[tuple[StoredLines, Sequence[int]]] = []
        for shard, places in self.find_places(dataset):
            path = self.folders[shard] / ITEMS_FILE
            lines = StoredLines(path)
            advice = "run the shard again: saved replies are not paid for twice"
            if self.workers is None:  # otherwise the run's own workers have just written it
                lines.refuse_damaged()
                if lines.is_changed:
                    raise InputError(f"{path} has changed since the shard wrote it; {advice}")
            if max(lines, default=-1) >= len(places) or (len(lines) < len(places) and not self.is_partial):
                raise InputError(
                    f"{path}: it has {pluralize(len(lines), 'item')}, and the shard has {len(places):,}; {advice}"
                )
            found.append((lines, places))
        return found


def measure_seconds(parts: ShardParts | None) -> float:
    """Seconds since a run started its workers; 0 without workers."""
    return 0.0 if parts is None or parts.started is None else time.monotonic() - parts.started


expected_input: ContextVar[str | None] = ContextVar("expected_input", default=None)
"""In a worker process, the digest of the input that the main process has read."""


def _digest(whole: Callable[[], bytes]) -> str:
    return blake2b(whole(), digest_size=8).hexdigest()


@dataclass(frozen=True, slots=True)
class Division:
    """How a run is divided: it is a shard of another run, it merges shards, or neither.

    Attributes:
        command: the run's command.
        shard: the shard that it is, if any.
        settings: the settings passed to a shard.
        parts: the shards that it merges.
    """

    command: str
    shard: Shard | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    parts: ShardParts | None = None

    def build_part(self, whole: Callable[[], bytes], rows: int) -> ShardPart | None:
        """Return what the manifest of a shard records; None if the run is not a shard.

        Args:
            whole: returns the input of all shards, or something that identifies it.
            rows: the number of rows in that input.

        Raises:
            InputError: the input differs from that of the shards to merge.
        """
        workers = None if self.parts is None else self.parts.workers
        if workers is not None:
            workers.expect(cache(lambda: _digest(whole)))
        if self.shard is None and (self.parts is None or self.parts.whole is None):
            return None
        digest = _digest(whole)
        if expected_input.get() not in (None, digest):
            raise InputError(
                f"a process on {socket.gethostname()} read another input ({rows:,} rows) than the run started with: "
                "the file has changed since, or differs between machines; restore it, and run the same command again"
            )
        if self.shard is not None:
            return ShardPart(self.shard, self.command, digest, rows, self.settings)
        if self.parts is not None and self.parts.whole != digest:
            raise InputError(
                f"the input has changed since the shards ran: it had {self.parts.rows:,} rows, and now has {rows:,}; "
                "restore it, or run the shards again"
            )
        return None
