"""The roles that models play, each with a good reply, its reader, and what the reader has to find."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from autorubric.core.criterion import Criterion
from autorubric.core.judgment import CriterionVerdict
from autorubric.graders.judge import JudgeInput, ShownOptions
from autorubric.graders.judge_replies import read_said
from autorubric.graders.rubric_judge import Entries, RubricJudge
from autorubric.llm.request import Reply
from autorubric.synthesis.candidate import Candidate
from autorubric.synthesis.drafts import read_answer, read_pitfalls
from autorubric.synthesis.gated import read_rewrites
from autorubric.synthesis.items import read_additions, read_rubric
from autorubric.synthesis.relevance import read_relevance
from autorubric.synthesis.rubric_merge import MergeReply, read_merge
from autorubric.testing import ScriptedModel

LABELS = [{"label": label, "value": value} for label, value in (("None", 0), ("Some", 0.5), ("All", 1))]
# Shown as: 1. All, 2. None, 3. Some.
SHOWN = ShownOptions(Criterion(requirement="How many?", options=LABELS), (2, 0, 1))


@dataclass(frozen=True)
class Role:
    """A role.

    Attributes:
        read: the reader of its replies; also given how many criteria it was asked about.
        entry: a good entry of its reply, from a number and a text; a role without a list has one entry.
        value: what a reader has to find in entries.
        shown: what it found, in the form of `value`.
        key: what the list of its reply is under; empty for a role without a list.
        name: the field that an entry is known by.
    """

    read: Callable[[Reply, int], Any]
    entry: Callable[[int, str], dict[str, Any]]
    value: Callable[[Sequence[dict[str, Any]]], Any]
    shown: Callable[[Any], Any] = lambda found: found
    key: str = ""
    name: str = ""


def _criterion(sign: int, **more: str) -> Callable[[int, str], dict[str, Any]]:
    def entry(number: int, text: str) -> dict[str, Any]:
        sources = {name: [f"{letter}{number}"] for name, letter in more.items()}
        return {**sources, "title": f"Title {number}", "description": text, "weight": sign * (9 - number % 5)}

    return entry


def _whole(reply: Reply, count: int) -> Any:
    case = JudgeInput("Coal.", tuple(Criterion(requirement=f"Names cause {number}") for number in range(count)))
    return RubricJudge(ScriptedModel({})).read(case, range(count), reply)


def _judged(number: int, text: str) -> dict[str, Any]:
    return {
        "criterion_id": f"c{number}",
        "explanation": text,
        "criterion_status": "UNMET" if number % 2 else "MET",
        "selected_option": None,
    }


def _licence(number: int, text: str) -> dict[str, Any]:
    need = {"need": "none" if number % 2 else "implicit", "quote": "", "surface": "none", "surface_asked": True}
    return {"criterion_id": f"m{number}", "reason": text, **need, "answerable": True, "same_as": ""}


def _rewrite(number: int, text: str) -> dict[str, Any]:
    return {"criterion_id": f"m{number}", "split": "a or b", "title": f"Title {number}", "description": text}


def _candidates(count: int) -> list[Candidate]:
    return [Candidate(f"m{number}", "Old", f"Old wording {number}.", 5) for number in range(count)]


def _verdicts(found: Entries) -> dict[str, str]:
    return {f"c{index}": one.verdict.value for index, one in found.items() if one.verdict is not None}


def _merged(found: MergeReply) -> list[Any]:
    return [(list(one.sources), one.title, one.description) for one in found.merged]


def _list_of_criteria(read: Callable[[Reply], Any]) -> Role:
    return Role(lambda reply, count: read(reply), _criterion(1), list, key="criteria", name="title")


TEXTS = ("reference", "response_a")
"""Roles that write for a reader: whatever they write after their thinking is the text."""

ROLES: dict[str, Role] = {
    "reference": _list_of_criteria(read_answer),
    "response_a": _list_of_criteria(read_answer),
    "rubrics_a": _list_of_criteria(read_rubric),
    "merged_rubrics": _list_of_criteria(read_rubric),
    "augmented_rubrics": _list_of_criteria(read_additions),
    "pitfalls": Role(lambda reply, count: read_pitfalls(reply), _criterion(-1), list, key="criteria", name="title"),
    "merge of sets": Role(
        lambda reply, count: read_merge(reply),
        _criterion(1, sources="a"),
        lambda entries: [(one["sources"], one["title"], one["description"]) for one in entries],
        _merged,
        "criteria",
        "title",
    ),
    "judge of one": Role(
        lambda reply, count: read_said(reply),
        lambda number, text: {"explanation": text, "criterion_status": "UNMET" if number % 2 else "MET"},
        lambda entries: CriterionVerdict(entries[0]["criterion_status"]),
        lambda found: found.verdict,
    ),
    "judge of options": Role(
        lambda reply, count: read_said(reply, SHOWN),
        lambda number, text: {"explanation": text, "selected_option": 1 + number % 2},
        lambda entries: {1: 2, 2: 0}[entries[0]["selected_option"]],
        lambda found: found.option,
    ),
    "judge of all": Role(
        _whole,
        _judged,
        lambda entries: {one["criterion_id"]: one["criterion_status"] for one in entries},
        _verdicts,
        "judgments",
        "criterion_id",
    ),
    "licence": Role(
        lambda reply, count: read_relevance(_candidates(count), reply),
        _licence,
        lambda entries: {one["criterion_id"]: (one["need"], one["reason"]) for one in entries},
        lambda found: {name: (one.need, one.reason) for name, one in found.items()},
        "licences",
        "criterion_id",
    ),
    "rewrite": Role(
        lambda reply, count: read_rewrites(_candidates(count), reply),
        _rewrite,
        lambda entries: {one["criterion_id"]: (one["title"], one["description"]) for one in entries},
        lambda found: {name: (one.title, one.description) for name, one in found.items()},
        "rewrites",
        "criterion_id",
    ),
}
