"""The columns of a result table that hold what each judge said."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_UNSAFE = re.compile(r"[^\w.:/@-]+")
_LONGEST = 100


@dataclass(frozen=True, slots=True)
class VoteColumns:
    """Which column holds the verdict of which judge, and which one its repeats.

    Attributes:
        verdicts: the name of the column, by judge id.
        repeats: likewise, for judges that are asked several times.
    """

    verdicts: Mapping[str, str]
    repeats: Mapping[str, str]

    @classmethod
    def of(cls, judges: Mapping[str, int]) -> VoteColumns:
        """The columns of judges.

        Runs of characters that column names should not hold become `_`. Names that are then equal, in upper or lower
        case, are numbered in the order of the judges.

        Args:
            judges: how often each judge is asked, by its id.

        Example:
            >>> columns = VoteColumns.of({"openai/gpt-5.1": 1, "a b": 1, "A,B": 3})
            >>> columns.names()
            ['verdict_openai/gpt-5.1', 'verdict_a_b', 'verdict_A_B_2', 'repeats_A_B_2']
        """
        names: dict[str, str] = {}
        taken: set[str] = set()
        for judge in judges:
            plain = _UNSAFE.sub("_", judge)[:_LONGEST]
            name, number = plain, 2
            while name.casefold() in taken:
                name, number = f"{plain}_{number}", number + 1
            taken.add(name.casefold())
            names[judge] = name
        return cls(
            {judge: f"verdict_{name}" for judge, name in names.items()},
            {judge: f"repeats_{names[judge]}" for judge, count in judges.items() if count > 1},
        )

    def names(self) -> list[str]:
        """All of them, in order."""
        return [*self.verdicts.values(), *self.repeats.values()]

    def row(self, criterion: Mapping[str, Any]) -> dict[str, str | None]:
        """What each judge said on a criterion, from its report as JSON values.

        The cell of a judge that failed or was not asked is empty. Repeats are in the order they were asked; one that
        failed is `-`.
        """
        row: dict[str, str | None] = dict.fromkeys(self.names())
        votes = [*(criterion.get("votes") or ()), *(criterion.get("multi_choice_votes") or ())]
        for vote in votes:
            judge = vote["judge_id"]
            if judge in self.verdicts:
                row[self.verdicts[judge]] = said(vote)
            if judge in self.repeats:
                row[self.repeats[judge]] = _listed(vote.get("repeats") or ())
        return row


NO_VOTES = VoteColumns({}, {})


def said(vote: Mapping[str, Any]) -> str | None:
    """The verdict or option label of a vote; None where it failed.

    Example:
        >>> said({"judge_id": "a", "verdict": "MET"}), said({"judge_id": "a", "selected_label": None, "na": True})
        ('MET', 'CANNOT_ASSESS')
    """
    if vote.get("error") is not None:
        return None
    if "selected_label" not in vote and "selected_index" not in vote:
        return vote.get("verdict")
    label: str | None = vote.get("selected_label")
    return "CANNOT_ASSESS" if label is None and vote.get("na") else label


def _listed(repeats: Iterable[Mapping[str, Any]]) -> str | None:
    found: Sequence[str] = [said(repeat) or "-" for repeat in repeats]
    return "; ".join(found) or None
