"""The sums of an index, from which pages show criteria, judges and failures without reading the items."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from dataclasses import astuple, dataclass, field, replace
from itertools import combinations
from math import isfinite

from autorubric.core.criterion import CANONICAL_NA_OPTION, Criterion
from autorubric.files.printable import to_utf8
from autorubric.llm.failure_groups import FailureGroups
from autorubric.runs.cells import ABSTENTION, FAILURE, NO_VERDICT, UNASKED, StoredCell
from autorubric.view.index.schema import ABSTAINS, DIFFERS, DISPUTED, FAILED, FINAL, HUMAN, SKIPPED, note

MOST_CRITERIA = 20_000
"""Maximum criteria with separate figures. If every item has its own rubric, later criteria share a row per place."""

_MOST_OUTCOMES = 20_000
_SHARED = "(criteria of their own)"


@dataclass(slots=True)
class CriterionSums:
    """The figures of one criterion over the items.

    Attributes:
        number: its row in the index.
        name: of the criterion.
        requirement: its words.
        scale: its options, as `Cell.scale`.
        weight: its weight.
        judged: verdicts that are scored.
        total: sum of their values.
        squares: sum of the squares of their values.
        abstained: items on which the judges abstained.
        failed: items on which the judgment failed.
        disputed: items on which judges differ.
        unasked: items on which it was not requested.
    """

    number: int
    name: str
    requirement: str
    scale: str
    weight: float
    judged: int = 0
    total: float = 0.0
    squares: float = 0.0
    abstained: int = 0
    failed: int = 0
    disputed: int = 0
    unasked: int = 0

    def add(self, cell: StoredCell, n: int) -> None:
        """Add `n` equal cells."""
        self.disputed += n * cell.disputed
        if cell.value is not None:
            self.judged += n
            self.total += n * cell.value
            self.squares += n * cell.value * cell.value
        elif cell.word == FAILURE:
            self.failed += n
        elif cell.word == UNASKED:
            self.unasked += n
        else:
            self.abstained += n


@dataclass(slots=True)
class VerdictOutcome:
    """A cell with its label, and the results that every item with both has.

    Attributes:
        cell: the verdict and the votes.
        label: the human label; None if there is none.
        sums: the figures of the criterion.
        word: the number of the verdict.
        marks: the bits that an item has for it.
        agrees: whether the verdict is the label; None if they cannot be compared.
        doubt: that of the cell without a confidence.
        is_open: whether the verdict is missing, so that the doubt is 1 for any confidence.
        n: items that had it since the sums were last updated.
    """

    cell: StoredCell
    label: str | None
    sums: CriterionSums
    word: int
    marks: int
    agrees: bool | None
    doubt: float
    is_open: bool
    n: int = 0


@dataclass(slots=True)
class Tally:
    """The sums so far; `save` writes what has changed since the last call."""

    criteria: dict[tuple[str, str, str], CriterionSums] = field(default_factory=dict)
    words: dict[str, int] = field(default_factory=dict)
    confidence: dict[int, list[float]] = field(default_factory=dict)
    failures: FailureGroups = field(default_factory=FailureGroups)
    flags: Counter[str] = field(default_factory=Counter)
    _outcomes: dict[tuple[int, StoredCell, str | None], VerdictOutcome] = field(default_factory=dict)
    _changed: dict[int, CriterionSums] = field(default_factory=dict)
    _new_pairs: Counter[tuple[int, str, str, int, int]] = field(default_factory=Counter)

    @classmethod
    def load(cls, connection: sqlite3.Connection) -> Tally:
        """Return the sums that an index holds."""
        made = cls()
        for row in connection.execute("SELECT * FROM criteria"):
            made.criteria[row[1], row[2], row[3]] = CriterionSums(*row)
        made.words = {text: word for word, text in connection.execute("SELECT word, text FROM words")}
        for tenth, *sums in connection.execute("SELECT tenth, n, agreed, total FROM confidence"):
            made.confidence[tenth] = sums
        notes = dict(
            connection.execute("SELECT name, value FROM meta WHERE name IN ('failures', 'flags')").fetchall()
        )
        made.failures = FailureGroups.from_list(json.loads(notes.get("failures") or "[]"))
        made.flags = Counter(json.loads(notes.get("flags") or "{}"))
        return made

    def find_outcome(self, cell: StoredCell, place: int, label: str | None) -> VerdictOutcome:
        """Return the outcome of a cell at a place of the rubric; many items share one."""
        key = (place, cell, label)
        found = self._outcomes.get(key)
        if found is None:
            if len(self._outcomes) >= _MOST_OUTCOMES:
                self._fold()
                self._outcomes.clear()
            found = self._outcomes[key] = self._build_outcome(cell, place, label)
        return found

    def _build_outcome(self, cell: StoredCell, place: int, label: str | None) -> VerdictOutcome:
        _check_cell(cell, label)
        agrees = None if label is None else cell.compare_with(label)
        marks = (DISPUTED if cell.disputed else 0) | (DIFFERS if agrees is False else 0)
        if cell.word in NO_VERDICT:
            marks |= FAILED if cell.word == FAILURE else SKIPPED
        elif cell.value is None:
            marks |= ABSTAINS
        is_open = cell.word == ABSTENTION or cell.word in NO_VERDICT
        sums, word = self._find_criterion(cell, place), self.number_word(cell.word)
        return VerdictOutcome(cell, label, sums, word, marks, agrees, cell.compute_doubt(), is_open)

    def _find_criterion(self, cell: StoredCell, place: int) -> CriterionSums:
        key = (cell.name, cell.requirement, _strip_added_option(cell.scale))
        found = self.criteria.get(key)
        if found is None and len(self.criteria) >= MOST_CRITERIA:
            key = (f"C{place + 1}", _SHARED, key[2])
            found = self.criteria.get(key)
        if found is None:
            build_scaled_criterion(key[2])
            found = self.criteria[key] = CriterionSums(len(self.criteria), *key, cell.weight)
        return found

    def number_word(self, text: str) -> int:
        """Return the number of a verdict or option label."""
        return self.words.setdefault(text, len(self.words))

    def count(self, outcome: VerdictOutcome, confidence: float | None) -> None:
        """Count one item that has an outcome."""
        outcome.n += 1
        if confidence is not None and outcome.agrees is not None:
            sums = self.confidence.setdefault(min(int(confidence * 10), 9), [0, 0, 0.0])
            sums[0] += 1
            sums[1] += outcome.agrees
            sums[2] += confidence

    def _fold(self) -> None:
        """Update the sums."""
        for outcome in self._outcomes.values():
            if outcome.n:
                outcome.sums.add(outcome.cell, outcome.n)
                self._changed[outcome.sums.number] = outcome.sums
                self._count_pairs(outcome)
                outcome.n = 0

    def _count_pairs(self, outcome: VerdictOutcome) -> None:
        """Count each pair of raters; options that are not applicable count as abstentions."""
        cell, label, n, counts = outcome.cell, outcome.label, outcome.n, self._new_pairs
        criterion = outcome.sums.number

        def number_resolved(text: str) -> int:
            return self.number_word(cell.resolve_word(text))

        for (one, a), (other, b) in combinations(cell.votes, 2):
            first, second = ((one, a), (other, b)) if one <= other else ((other, b), (one, a))
            counts[criterion, first[0], second[0], number_resolved(first[1]), number_resolved(second[1])] += n
        if label is None:
            return
        verdict = number_resolved(label)
        for other, b in cell.votes if len(cell.votes) > 1 else ():
            counts[criterion, HUMAN, other, verdict, number_resolved(b)] += n
        if cell.word not in NO_VERDICT:
            counts[criterion, HUMAN, FINAL, verdict, number_resolved(cell.word)] += n

    def save(self, connection: sqlite3.Connection) -> None:
        """Write the sums; the caller commits."""
        self._fold()
        rows = [
            astuple(replace(sums, name=to_utf8(sums.name), requirement=to_utf8(sums.requirement)))
            for sums in self._changed.values()
        ]
        connection.executemany(f"INSERT OR REPLACE INTO criteria VALUES (?{', ?' * 11})", rows)
        words = [(word, to_utf8(text)) for text, word in self.words.items()]
        connection.executemany("INSERT OR IGNORE INTO words VALUES (?, ?)", words)
        connection.executemany(
            "INSERT INTO pairs VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET n = n + excluded.n",
            [(c, to_utf8(one), to_utf8(other), a, b, n) for (c, one, other, a, b), n in self._new_pairs.items()],
        )
        rows = [(tenth, *sums) for tenth, sums in self.confidence.items()]
        connection.executemany("INSERT OR REPLACE INTO confidence VALUES (?, ?, ?, ?)", rows)
        note(connection, {"failures": json.dumps(self.failures.to_list()), "flags": json.dumps(self.flags)})
        self._changed.clear()
        self._new_pairs.clear()


def build_scaled_criterion(scale: str) -> Criterion:
    """Return a criterion with the options that the index holds as `scale`.

    Raises:
        ValueError: no criterion has such options.
    """
    return Criterion(requirement="-", **json.loads(scale or "{}"))


def _strip_added_option(scale: str) -> str:
    """Return the scale as in the rubric: a report adds "not applicable" at its end if a vote on the item is that."""
    if CANONICAL_NA_OPTION.label not in scale:
        return scale
    parsed = json.loads(scale)
    if len(parsed["options"]) > 2 and parsed["options"][-1]["label"] == CANONICAL_NA_OPTION.label:
        parsed["options"].pop()
    return json.dumps(parsed)


def _check_cell(cell: StoredCell, label: str | None) -> None:
    """Raise an error for values that no run writes.

    Raises:
        TypeError: a name or a verdict is not a string, or a weight or a value is not a number.
    """
    words = (cell.name, cell.requirement, cell.word, label or "", *(word for vote in cell.votes for word in vote))
    if not all(isinstance(word, str) for word in words):
        raise TypeError("a name or a verdict is not a string")
    if not all(isfinite(number) for number in (cell.weight, cell.value or 0.0)):
        raise TypeError("a weight or a value is not a number")
