"""The split of labelled items into three disjoint sets by group, and the record of items used before."""

from __future__ import annotations

import json
import math
import os
import random
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, TypeAlias

from autorubric.dataset import RubricDataset
from autorubric.dataset.splitting import sample_balanced
from autorubric.errors import InputError, MissingFileError, format_first
from autorubric.files import iter_jsonl, write_atomically
from autorubric.improvement.acceptance import count_least_changed, estimate_items_needed
from autorubric.llm.thinking import split_reasoning

UseKind: TypeAlias = Literal["learn", "test"]
Splits: TypeAlias = Literal["auto", "three", "nested"]

LEAST_FOR_THREE = 400
"""Minimum number of groups for which `auto` makes three sets; fewer give a nested split."""
_TEACH, _CHOOSE, _TEACH_NESTED = 0.25, 0.3, 0.25
_FOLDS = 10


@dataclass(frozen=True)
class SampleSplit:
    """Indices of items, no group in two sets.

    Attributes:
        teach: items whose errors are shown to the writer.
        choose: items on which candidates are compared; empty in a nested split.
        test: items that decide, once.
        folds: in a nested split, the test items in parts; each part tests the choice made on the others.
    """

    teach: tuple[int, ...]
    choose: tuple[int, ...]
    test: tuple[int, ...]
    folds: tuple[tuple[int, ...], ...] = ()

    @property
    def is_nested(self) -> bool:
        """Whether the test items are also used to choose, part by part."""
        return bool(self.folds)

    @property
    def items(self) -> list[int]:
        """The items of all sets."""
        return [*self.teach, *self.choose, *self.test]

    def to_dict(self) -> dict[str, Any]:
        """JSON values."""
        return {"kind": "nested" if self.is_nested else "three", **asdict(self)}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> SampleSplit:
        """Build a split from JSON values."""
        teach, choose, test = (tuple(record[name]) for name in ("teach", "choose", "test"))
        return cls(teach, choose, test, tuple(map(tuple, record["folds"])))


def group_items(dataset: RubricDataset, by: str | None = None) -> list[int]:
    """Return the number of the group that each item belongs to; items of one group are never in two sets.

    Args:
        dataset: the items.
        by: a key of the items' metadata, or `prompt`; by default items with their own prompt are grouped by it,
            if there are several. Items whose answers differ only in white space are always in one group.

    Raises:
        InputError: an item lacks the key, or all items are in one group.

    Example:
        >>> from autorubric import Criterion, Rubric
        >>> data = RubricDataset("Why?", Rubric([Criterion(requirement="Is brief")]))
        >>> for text, paper in (("a", 1), ("b", 2), ("c", 1)):
        ...     data.add_item(text, "", metadata={"paper": paper})
        >>> group_items(data, "paper"), group_items(data)
        ([0, 1, 0], [0, 1, 2])
    """
    keys = _read_group_keys(dataset, by)
    numbers, first_few = dict[Hashable, int](), dict[Hashable, int]()  # a text in two groups joins them
    parents = list(range(len(keys)))
    for place, (key, item) in enumerate(zip(keys, dataset, strict=True)):
        for table, name in ((numbers, key), (first_few, normalize_spaces(split_reasoning(item.submission)[1]))):
            other = table.setdefault(name, place)
            parents[_find_root(parents, place)] = _find_root(parents, other)
    order = dict[int, int]()
    groups = [order.setdefault(_find_root(parents, place), len(order)) for place in range(len(keys))]
    if len(order) < 2:
        what = f"by {by!r} " if by else ""
        raise InputError(
            f"all {len(groups)} items are in one group {what}; a group is never split between sets, so at "
            "least two groups are needed; pass another --group-by (Python: group_by=)"
        )
    return groups


def _find_root(parents: list[int], place: int) -> int:
    while parents[place] != place:
        parents[place] = parents[parents[place]]
        place = parents[place]
    return place


def _read_group_keys(dataset: RubricDataset, by: str | None) -> list[Hashable]:
    if by is None:
        prompts = {item.prompt for item in dataset}
        own = None not in prompts and len(prompts) > 1
        return [item.prompt if own else place for place, item in enumerate(dataset)]
    if by == "prompt":
        return [dataset.get_item_prompt(place) for place in range(len(dataset))]
    lacking = [item.id or str(place) for place, item in enumerate(dataset) if by not in item.metadata]
    if lacking:
        raise InputError(
            f"--group-by {by!r} is not in the metadata of {format_first(lacking)}; expected a key of every "
            "item's metadata, or prompt"
        )
    return [json.dumps(item.metadata[by], sort_keys=True, default=str) for item in dataset]


def split_items(
    groups: Sequence[int],
    strata: Sequence[Collection[Hashable] | None],
    *,
    kind: Splits = "auto",
    used: Collection[int] = (),
    seed: int = 0,
) -> SampleSplit:
    """Split the labelled items by group so that every label keeps its share in each set.

    Args:
        groups: the group of each item.
        strata: the labels of each item, for the balance; None for an item that is in no set.
        kind: `three` sets, `nested` (all but the teaching items test, in parts), or `auto` (by the number of groups).
        used: items that an earlier run used; their groups can teach and choose, but not test.
        seed: the seed of the draw.

    Raises:
        InputError: too few groups are left for a test that could accept any change; says how many are needed.

    Example:
        >>> split = split_items(range(400), [["MET"], ["UNMET"]] * 200)
        >>> len(split.teach), len(split.choose), len(split.test), split.is_nested
        (100, 120, 180, False)
    """
    members = dict[int, list[int]]()
    for item, own in enumerate(strata):
        if own is not None:
            members.setdefault(groups[item], []).append(item)
    closed = members.keys() & {groups[item] for item in used}
    free = sorted(members.keys() - closed)
    rng = random.Random(seed)
    nested = kind == "nested" or (kind == "auto" and len(free) + len(closed) < LEAST_FOR_THREE)
    shares = (_TEACH_NESTED,) if nested else (_TEACH, _CHOOSE)
    labels = {group: {label for item in own for label in strata[item] or ()} for group, own in members.items()}
    drawn, rest = list[list[int]](), free
    total = len(free) + len(closed)
    # Groups that were used earlier fill the teaching set, then the choosing set.
    given = sorted(closed)
    for share in shares:
        size = max(round(share * total), 1)
        own = given if share == shares[-1] else given[:size]
        given = given[len(own) :]
        size = max(min(size - len(own), len(rest) - 1), 0)
        chosen = (
            set(sample_balanced([sorted(labels[group], key=str) for group in rest], size, rng)) if size else set()
        )
        drawn.append([*own, *(group for place, group in enumerate(rest) if place in chosen)])
        rest = [group for place, group in enumerate(rest) if place not in chosen]
    check_enough(len(rest), total, shares, len(closed))
    sets = [tuple(sorted(item for group in part for item in members[group])) for part in (*drawn, rest)]
    if not nested:
        return SampleSplit(sets[0], sets[1], sets[2])
    rng.shuffle(rest)
    rest.sort(key=lambda group: sorted(map(str, labels[group])))  # neighbours are alike, and go to different folds
    count = min(_FOLDS, len(rest))
    folds = tuple(
        tuple(sorted(item for group in rest[place::count] for item in members[group])) for place in range(count)
    )
    return SampleSplit(sets[0], (), sets[1], folds)


def check_enough(test: int, total: int, shares: Sequence[float], closed: int = 0) -> None:
    """Refuse a test set on which no change can be accepted.

    Raises:
        InputError: with so few groups the permutation test cannot reach its level.
    """
    least = count_least_changed()
    if test >= least and total - test >= 1:
        return
    share = 1.0 - sum(shares)
    before = f"; {closed} of {total} groups were used by an earlier run and cannot decide" if closed else ""
    raise InputError(
        f"{test} independent items or groups are left for the test{before}; no result on fewer than {least} can be "
        f"significant. Label at least {max(math.ceil((least - test) / share), 1)} more; "
        f"{math.ceil(estimate_items_needed(0.15, 0.25) / share)} in all show a gain of 15 points four times in five"
    )


def normalize_spaces(text: str) -> str:
    r"""Return a text with single spaces for all white space, to find copies.

    Example:
        >>> normalize_spaces(" Because\r\nit rains. ")
        'Because it rains.'
    """
    return " ".join(text.split())


def hash_item(prompt: str, submission: str) -> str:
    """Return the digest of an item, independent of its id and file.

    Example:
        >>> hash_item("Why?", "Because.") == hash_item("Why?", "Because. ")
        False
    """
    return sha256(json.dumps([prompt, submission]).encode()).hexdigest()[:32]


@dataclass(frozen=True)
class UsedItems:
    """The record of items that runs have used for learning or testing, one JSON line each, next to the labels.

    Items that a run has used can teach and choose in another run, but never decide again.

    Attributes:
        path: the file.
    """

    path: Path

    def check(self) -> None:
        """Refuse a file that cannot be written, before anything is spent.

        Raises:
            InputError: it cannot be written.
        """
        try:
            usable = os.access(self.path.parent, os.W_OK | os.X_OK) and not self.path.is_dir()
        except (OSError, ValueError):
            usable = False
        if not usable:
            raise InputError(
                f"{self.path}: cannot be written, and improve records there which items it used; pass --used FILE "
                "(Python: used=) in another directory"
            )

    def read(self) -> set[str]:
        """Return the digests of all items in the file.

        Raises:
            InputError: the file is damaged.
        """
        return {row["item"] for row in self._read_rows()}

    def add(self, items: Sequence[str], use: UseKind, run: str, directory: Path, rubric: str) -> None:
        """Record items durably, before any request about them; items that this run recorded are not added twice.

        Args:
            items: their digests.
            use: `learn` or `test`.
            run: the id of the run.
            directory: of the run.
            rubric: a digest of the rubric.

        Raises:
            InputError: the file cannot be written.
        """
        rows = self._read_rows()
        if any(row.get("run_id") == run and row.get("use") == use for row in rows):
            return
        now = datetime.now(UTC).isoformat(timespec="seconds")
        common = {"use": use, "run_id": run, "run": str(directory), "rubric": rubric, "at": now}
        rows += ({"item": item, **common} for item in items)
        try:
            write_atomically(self.path, (json.dumps(row) + "\n" for row in rows))
        except OSError as error:
            raise InputError(
                f"{self.path}: cannot be written: {error.strerror}; pass --used FILE (Python: used=) elsewhere"
            ) from error

    def _read_rows(self) -> list[dict[str, Any]]:
        try:
            rows = [row for _, row in iter_jsonl(self.path)]
        except MissingFileError:
            return []
        if not all(isinstance(row.get("item"), str) for row in rows):
            raise InputError(f"{self.path}: a line has no 'item'; restore the file, which records used items")
        return rows
