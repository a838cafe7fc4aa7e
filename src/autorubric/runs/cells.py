"""The criteria of one item, read from its record, for the view's index, pages and cards."""

import json
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any, NamedTuple

from autorubric.llm.failure_groups import NOT_MADE, parse_failure

FAILURE, ABSTENTION, UNASKED = "FAILED", "CANNOT_ASSESS", "NOT_REQUESTED"
NO_VERDICT = frozenset({FAILURE, UNASKED})
"""The words for judgments that failed, or that were not requested because the run or its budget ended."""


def read_verdict(vote: Mapping[str, Any]) -> str | None:
    """Return the verdict or option label of a vote; None if it failed.

    Example:
        >>> read_verdict({"judge_id": "a", "verdict": "MET"}), read_verdict({"selected_label": None, "na": True})
        ('MET', 'CANNOT_ASSESS')
    """
    if vote.get("error") is not None:
        return None
    if "selected_label" not in vote and "selected_index" not in vote:
        return vote.get("verdict")
    label: str | None = vote.get("selected_label")
    return "CANNOT_ASSESS" if label is None and vote.get("na") else label


class StoredCell(NamedTuple):
    """One criterion of one item, without item-specific parts such as the reason, so that many items can share a cell.

    Attributes:
        name: the criterion's name; `C1`, `C2`, … if it has none.
        requirement: the criterion's text.
        weight: the criterion's weight.
        word: the verdict or option that counts, `CANNOT_ASSESS`, `FAILED` or `NOT_REQUESTED`.
        value: the scored value, in [0, 1]; None for an abstention or a failure.
        votes: (judge, word) for each vote that did not fail, superseded votes included.
        scale: the options and the scale type of the criterion, as JSON; empty for a binary one.
    """

    name: str
    requirement: str
    weight: float
    word: str
    value: float | None
    votes: tuple[tuple[str, str], ...]
    scale: str = ""

    @property
    def disputed(self) -> bool:
        """Whether two votes differ."""
        return len({word for _, word in self.votes}) > 1

    def resolve_word(self, word: str) -> str:
        """Return `CANNOT_ASSESS` if the word is an option that means "not applicable", else the word itself."""
        options = json.loads(self.scale)["options"] if self.scale else ()
        return ABSTENTION if any(option["label"] == word and option.get("na") for option in options) else word

    def compare_with(self, label: str) -> bool | None:
        """Return whether the verdict equals the label; None if one of them abstains or there is no verdict."""
        decided = {self.resolve_word(label), self.resolve_word(self.word)}.isdisjoint((ABSTENTION, *NO_VERDICT))
        return label == self.word if decided else None

    def compute_doubt(self) -> float:
        """Return the share of votes that differ from the verdict; 1 if there is no verdict."""
        if self.word == ABSTENTION or self.word in NO_VERDICT:
            return 1.0
        if len(self.votes) < 2:
            return 0.0
        return sum(other != self.word for _, other in self.votes) / len(self.votes)


_VALUES = {"MET": 1.0, "UNMET": 0.0}


def read_cells(report: Mapping[str, Any]) -> Iterator[StoredCell]:
    """Yield the criteria of a report as JSON values.

    Example:
        >>> votes = [{"judge_id": "a", "verdict": "MET"}, {"judge_id": "b", "verdict": "UNMET"}]
        >>> found = {"criterion": {"requirement": "Is brief"}, "final_verdict": "MET", "votes": votes}
        >>> (cell,) = read_cells({"criterion_reports": [found]})
        >>> cell.name, cell.word, cell.compute_doubt(), cell.disputed
        ('C1', 'MET', 0.5, True)
    """
    for number, found in enumerate(report.get("criterion_reports") or (), start=1):
        criterion = found.get("criterion", found)
        cast = found.get("votes") or found.get("multi_choice_votes") or ()
        word, value = _read_word(found)
        scale = {name: criterion[name] for name in ("options", "scale_type") if name in criterion}
        yield StoredCell(
            criterion.get("name") or f"C{number}",
            criterion.get("requirement") or "",
            criterion.get("weight", 10.0),
            word,
            value,
            tuple([(vote["judge_id"], verdict) for vote in cast if (verdict := read_verdict(vote)) is not None]),
            json.dumps(scale) if criterion.get("options") else "",
        )


def _read_word(found: Mapping[str, Any]) -> tuple[str, float | None]:
    error = found.get("error")
    if error is not None:
        return UNASKED if parse_failure(error)[0] in NOT_MADE else FAILURE, None
    choice = found.get("final_multi_choice_verdict") or found.get("multi_choice_verdict")
    if choice is not None:
        if choice.get("na"):
            return choice.get("selected_label") or ABSTENTION, None
        return str(choice.get("selected_label")), choice.get("aggregated_value", choice.get("value"))
    word = found.get("final_verdict", found.get("verdict")) or FAILURE
    return word, _VALUES.get(word)


_MOST_REASON = 2_000


def list_entries(record: Mapping[str, Any] | None, stored: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return each criterion of an item as pages and cards show it.

    Args:
        record: its result as JSON values; None if it has none.
        stored: the item as JSON values, with its labels.
    """
    report = (record or {}).get("report") or {}
    labels, reasons = stored.get("ground_truth") or (), stored.get("ground_truth_reasons") or ()
    made = []
    for place, (cell, found) in enumerate(
        zip(read_cells(report), report.get("criterion_reports") or (), strict=True)
    ):
        label = labels[place] if place < len(labels) else None
        made.append(
            {
                "number": place + 1,
                "criterion": None,
                "name": cell.name,
                "requirement": cell.requirement,
                "weight": cell.weight,
                "verdict": cell.word,
                "value": cell.value,
                "confidence": found.get("confidence"),
                "reason": (found.get("final_reason", found.get("reason")) or "")[:_MOST_REASON],
                "error": found.get("error"),
                "label": label,
                "label_reason": reasons[place] if place < len(reasons) else None,
                "differs": label is not None and cell.compare_with(label) is False,
                "disputed": cell.disputed,
                "flags": list(found.get("flags") or ()),
                "escalated": bool(found.get("escalated")),
                "quotes": list(found.get("quotes") or ()),
                "votes": [_describe_vote(vote) for vote in list_votes(found)],
            }
        )
    return made


def list_votes(found: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the votes on a criterion."""
    return [*(found.get("votes") or ()), *(found.get("multi_choice_votes") or ())]


def _describe_vote(vote: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "judge": vote["judge_id"],
        "verdict": read_verdict(vote),
        "reason": (vote.get("reason") or "")[:_MOST_REASON],
        "error": vote.get("error"),
        "confidence": vote.get("confidence"),
        "superseded": bool(vote.get("superseded")),
        "repeats": [read_verdict(repeat) or "failed" for repeat in vote.get("repeats") or ()],
    }


def hash_query(prompt: str) -> int:
    """Return a hash of the prompt, by which items with the same query are grouped."""
    return int.from_bytes(sha256(prompt.encode("utf-8", "replace")).digest()[:8], signed=True)
