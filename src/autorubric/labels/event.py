"""An event of the label store: annotator, label, pair, draw, and the position of the pair in the run."""

import hashlib
import json
import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, get_args

from autorubric.core.criterion import Criterion, name_criteria
from autorubric.core.judgment import CriterionVerdict
from autorubric.core.rubric import Rubric
from autorubric.dataset import DataItem
from autorubric.dataset.ground_truth import MAJORITY, GroundTruthReader
from autorubric.errors import InputError, pluralize
from autorubric.files.printable import to_utf8

Kind: TypeAlias = Literal["draw", "label", "skip", "adjudication", "undo"]
_CANNOT_ASSESS = CriterionVerdict.CANNOT_ASSESS.value
KINDS: tuple[str, ...] = get_args(Kind)

MOST_NAME = 100
MOST_TEXT = 20_000
"""Maximum characters of a note or a quote."""

PairKey: TypeAlias = tuple[str, str]
"""The item and the digest of a pair, by which events are found."""


@dataclass(frozen=True, slots=True)
class Pair:
    """An (item, criterion) pair of a run.

    Attributes:
        index: the item's place in the dataset, from 0.
        place: the criterion's place in the item's rubric, from 0.
        item: the item's id; `#` and its place where it has none.
        criterion: the criterion's name in its rubric.
        digest: the digest of query, submission, criterion and options. A label counts only while it is unchanged.
    """

    index: int
    place: int
    item: str
    criterion: str
    digest: str

    @property
    def key(self) -> PairKey:
        """The key by which events are found."""
        return self.item, self.digest


class Items(Protocol):
    """The graded items: a `RubricDataset`, or any object that reads single items on demand."""

    def __len__(self) -> int: ...
    def __getitem__(self, idx: int, /) -> DataItem: ...
    def get_item_rubric(self, idx: int, /) -> Rubric:
        """Return the rubric that applies to an item."""
        ...

    def get_item_prompt(self, idx: int, /) -> str:
        """Return the query that an item answers."""
        ...

    def get_item_reference_submission(self, idx: int, /) -> str | None:
        """Return the reference answer of an item."""
        ...


@dataclass(frozen=True, slots=True)
class LabelDraw:
    """How a pair was drawn.

    Attributes:
        batch: the number of the draw, from 0.
        policy: `label_next`, `random`, `uncertain`, `criterion` or `disagreements`.
        scope: the criterion from which the policy `criterion` drew.
        seed: the random seed of the batch.
        probability: the probability with which this pair was drawn from the open pairs.
        open: the number of pairs that were open.
        seen: the number of the last event before the draw.
    """

    batch: int
    policy: str
    scope: str | None
    seed: int
    probability: float
    open: int
    seen: int


@dataclass(frozen=True, slots=True)
class Event:
    """A row of the store. Rows are never changed or deleted.

    Attributes:
        id: its number, from 1.
        at: when it was written, in seconds since 1970 (UTC).
        kind: `draw` (a pair was drawn), `label`, `skip`, `adjudication` or `undo`.
        item: the item's id.
        criterion: the criterion's name.
        digest: the digest of the pair's content.
        annotator: the annotator's name; empty for a draw.
        verdict: MET, UNMET, CANNOT_ASSESS or the label of an option; None for draw, skip and undo.
        note: free text.
        quote: what the annotator marked in the submission.
        seconds: time spent on the pair.
        supersedes: the earlier event that this one replaces or, for an undo, reverts.
        draw: how the pair was drawn; None if it was not drawn.
    """

    id: int
    at: float
    kind: Kind
    item: str
    criterion: str
    digest: str
    annotator: str = ""
    verdict: str | None = None
    note: str = ""
    quote: str = ""
    seconds: float | None = None
    supersedes: int | None = None
    draw: LabelDraw | None = None

    @property
    def key(self) -> PairKey:
        """The key of its pair."""
        return self.item, self.digest


def find_pair(items: Items, index: int, place: int) -> Pair:
    """Return the pair of an item and a criterion, by their places.

    Raises:
        InputError: the run has no such pair.

    Example:
        >>> from autorubric.dataset import RubricDataset
        >>> dataset = RubricDataset("Explain.", Rubric([Criterion(name="Brief", requirement="Is brief")]))
        >>> dataset.add_item("Yes.", "")
        >>> pair = find_pair(dataset, 0, 0)
        >>> pair.item, pair.criterion, len(pair.digest)
        ('#0', 'Brief', 32)
    """
    if not 0 <= index < len(items):
        raise InputError(f"item {index} does not exist; the run has {pluralize(len(items), 'item')}")
    rubric = items.get_item_rubric(index).rubric
    if not 0 <= place < len(rubric):
        raise InputError(
            f"criterion {place} does not exist; the rubric of item {index} has {pluralize(len(rubric), 'criterion')}"
        )
    digest = compute_pair_digest(items.get_item_prompt(index), items[index].submission, _list_content(rubric, place))
    return Pair(index, place, name_item(items[index], index), to_utf8(name_criteria(rubric)[place]), digest)


def _list_content(rubric: Sequence[Criterion], place: int) -> list[Any]:
    """List the parts of a criterion that annotators read; a repetition within the rubric gets a number."""
    own = _list_words(rubric[place])
    before = sum(criterion.requirement == own[0] and _list_words(criterion) == own for criterion in rubric[:place])
    return [*own, before] if before else own


def _list_words(criterion: Criterion) -> list[Any]:
    return [criterion.requirement, [[option.label, option.na] for option in criterion.options or ()]]


def name_item(item: DataItem, index: int) -> str:
    """Return the name of an item in the store: its id, or `#` and its place."""
    return f"#{index}" if item.id is None else to_utf8(item.id)


def compute_pair_digest(query: str, submission: str, content: Sequence[Any]) -> str:
    """Compute the digest of the content that an annotator judges, without the criterion's weight, name and tags."""
    said = json.dumps([query, submission, content])
    return hashlib.sha256(said.encode()).hexdigest()[:32]


def check_annotator(name: str) -> str:
    r"""Return the name of an annotator without surrounding spaces, if it is valid.

    Raises:
        InputError: it is empty, too long or `majority`, or contains a slash, a backslash or control characters.

    Example:
        >>> check_annotator(" Ana "), check_annotator("../x")
        Traceback (most recent call last):
        autorubric.errors.InputError: annotator '../x': a name must not contain a slash, backslash or ...
    """
    if not isinstance(name, str) or not name.strip():
        raise InputError("the annotator has no name; enter one (annotator=, --annotator)")
    name = name.strip()
    if len(name) > MOST_NAME:
        raise InputError(f"the annotator's name has {len(name)} characters; at most {MOST_NAME} are allowed")
    if any(char in "/\\" or unicodedata.category(char).startswith("C") for char in name):
        raise InputError(f"annotator {name!r}: a name must not contain a slash, backslash or control character")
    if name.casefold() == MAJORITY or not name.strip("."):
        raise InputError(f"annotator {name!r}: this name is reserved; choose another one")
    return name


def list_choices(criterion: Criterion) -> tuple[str, ...]:
    """Return the verdicts that an annotator can give: options, and CANNOT_ASSESS if no option is "not applicable".

    Example:
        >>> options = [{"label": "a", "value": 0}, {"label": "b", "value": 1}]
        >>> list_choices(Criterion(requirement="How?", options=options))
        ('a', 'b', 'CANNOT_ASSESS')
    """
    if criterion.options is None:
        return tuple(CriterionVerdict.__members__)
    labels = tuple(option.label for option in criterion.options)
    return labels if any(option.na for option in criterion.options) else (*labels, _CANNOT_ASSESS)


def check_verdict(criterion: Criterion, verdict: str) -> str:
    """Return the verdict in the store's form: MET, UNMET, CANNOT_ASSESS, or a label in the rubric's spelling.

    Raises:
        InputError: the criterion has no such verdict.

    Example:
        >>> check_verdict(Criterion(requirement="Is brief"), "met")
        'MET'
    """
    word = verdict.strip() if isinstance(verdict, str) else str(verdict)
    if criterion.options is not None and word.upper() == _CANNOT_ASSESS in list_choices(criterion):
        return _CANNOT_ASSESS
    GroundTruthReader(Rubric([criterion])).check(word)
    if criterion.options is None:
        return CriterionVerdict(word.upper()).value
    return to_utf8(criterion.options[criterion.find_option_by_label(word)].label)


def check_text(text: str, what: str) -> str:
    """Return a note or a quote if it is valid.

    Raises:
        InputError: it is too long.
    """
    if len(text) > MOST_TEXT:
        raise InputError(f"the {what} has {len(text)} characters; at most {MOST_TEXT} are allowed")
    return to_utf8(text)


def check_seconds(seconds: float | None) -> float | None:
    """Return the time spent on a pair.

    Raises:
        InputError: it is negative or not a number.
    """
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < math.inf:
        raise InputError(f"seconds={seconds!r}; expected a number of seconds, 0 or more")
    return float(seconds)


class PairFinder:
    """Finds the pairs of a run by the keys of events.

    A pair whose query, submission, requirement or options changed since is not found.
    """

    def __init__(self, items: Items) -> None:
        self._items = items
        self._places: dict[str, int] | None = None
        self._found: dict[PairKey, Pair | None] = {}

    def find(self, event: Event) -> Pair | None:
        """Return the pair of an event; None if it has changed or is gone."""
        return self.find_key(event.key)

    def find_key(self, key: PairKey) -> Pair | None:
        """Return the pair of a key that events have."""
        if key not in self._found:
            self._found[key] = self._search(*key)
        return self._found[key]

    def find_criterion(self, key: PairKey) -> Criterion | None:
        """Return the criterion of the pair of a key."""
        pair = self.find_key(key)
        return None if pair is None else self._items.get_item_rubric(pair.index)[pair.place]

    def find_place(self, item: str) -> int | None:
        """Return the place of an item in the dataset, given its name in the store."""
        if item.startswith("#") and item[1:].isdecimal() and int(item[1:]) < len(self._items):
            place = int(item[1:])
            if name_item(self._items[place], place) == item:
                return place
        if self._places is None:
            self._places = {name_item(self._items[place], place): place for place in range(len(self._items))}
        return self._places.get(item)

    def named(self, item: str, criterion: str) -> Pair | None:
        """Return the pair of an item and a criterion by their names."""
        index = self.find_place(item)
        if index is None:
            return None
        names = [to_utf8(name) for name in name_criteria(self._items.get_item_rubric(index).rubric)]
        return find_pair(self._items, index, names.index(criterion)) if criterion in names else None

    def _search(self, item: str, digest: str) -> Pair | None:
        index = self.find_place(item)
        if index is None:
            return None
        rubric, query = self._items.get_item_rubric(index).rubric, self._items.get_item_prompt(index)
        submission = self._items[index].submission
        for place in range(len(rubric)):
            if compute_pair_digest(query, submission, _list_content(rubric, place)) == digest:
                return find_pair(self._items, index, place)
        return None
