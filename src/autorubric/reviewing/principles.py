"""The principles against which a rubric is reviewed, and the meta-rubric built from them."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

import yaml

from autorubric.core.criterion import Criterion
from autorubric.core.rubric import Rubric

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True, slots=True)
class Principle:
    """One principle.

    Attributes:
        id: its name in findings.
        of: whether the fault belongs to a `criterion` or to the `rubric` as a whole.
        severity: the usual severity; each finding has its own.
        fault: the fault that a reviewer looks for.
        after: the published work with the idea.
        in_context: whether it needs the query.
        quote: whether a finding quotes the rubric; False if the fault is that something is missing.
        name: the name of the meta-criterion.
        weight: the weight of the meta-criterion; negative if it describes the fault.
        requirement: the text of the meta-criterion.
    """

    id: str
    of: Literal["criterion", "rubric"]
    severity: Severity
    fault: str
    after: tuple[str, ...]
    name: str
    weight: float
    requirement: str
    in_context: bool = False
    quote: bool = True


@cache
def _load_principles() -> tuple[Principle, ...]:
    text = files("autorubric.reviewing").joinpath("principles.yaml").read_text(encoding="utf-8")
    return tuple(Principle(**{**entry, "after": tuple(entry["after"])}) for entry in yaml.safe_load(text))


def list_principles(*, in_context: bool, of: str = "") -> tuple[Principle, ...]:
    """Return the principles for a rubric, with those that need the query if it is known.

    Args:
        in_context: whether the query is known.
        of: `criterion` or `rubric` for those of one kind; empty for both.

    Example:
        >>> [one.id for one in list_principles(in_context=False, of="rubric")]
        ['independent', 'weights', 'pitfalls', 'number', 'language']
    """
    return tuple(
        principle
        for principle in _load_principles()
        if (in_context or not principle.in_context) and of in ("", principle.of)
    )


def build_meta_rubric(chosen: Iterable[Principle]) -> Rubric:
    """Return the principles as a rubric whose submissions are rubrics.

    Example:
        >>> build_meta_rubric(list_principles(in_context=False, of="rubric"))[0].name
        'Independent criteria'
    """
    return Rubric(
        [
            Criterion(name=principle.name, weight=principle.weight, requirement=principle.requirement)
            for principle in chosen
        ]
    )


def show_criteria(rubric: Rubric) -> list[dict[str, Any]]:
    """Return the criteria as reviewers see them, numbered from 1; those decided by a check are marked."""
    found = []
    for number, criterion in enumerate(rubric, start=1):
        shown: dict[str, Any] = {"criterion": number, "name": criterion.name or ""}
        shown |= {"weight": criterion.weight, "requirement": criterion.requirement}
        if criterion.options:
            shown["options"] = [{"label": option.label, "value": option.value} for option in criterion.options]
        if criterion.check:
            shown["check"] = dict(criterion.check)
        found.append(shown)
    return found


def as_submission(rubric: Rubric, task_prompt: str | None = None) -> str:
    """Return a rubric as the text that is graded with the meta-rubric.

    Example:
        >>> print(as_submission(Rubric([Criterion(name="Tone", weight=2, requirement="Is kind")])))
        {"rubric": [{"criterion": 1, "name": "Tone", "weight": 2.0, "requirement": "Is kind"}]}
    """
    value: dict[str, Any] = {} if task_prompt is None else {"task_prompt": task_prompt}
    if rubric.guidelines:
        value["guidelines"] = rubric.guidelines
    return json.dumps({**value, "rubric": show_criteria(rubric)}, ensure_ascii=False)
