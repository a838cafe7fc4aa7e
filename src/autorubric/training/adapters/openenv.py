"""Conversion of rubrics to OpenEnv's `openenv.core.rubrics.Rubric`, with a named child per criterion, and back.

OpenEnv calls `env.rubric(action, observation)` in each step and takes one number. A missing reward raises an error,
because OpenEnv has no value for it. So does a gap found by an audit that should stop the training.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from autorubric.core.criterion import Criterion, name_criteria
from autorubric.core.rubric import Rubric
from autorubric.core.rubric_from import rubric_from
from autorubric.errors import InputError
from autorubric.training.adapters import require_value
from autorubric.training.rewarder import RewardSource, Sample
from autorubric.training.rewards import GATE_TAG, RewardFailed

Reading: TypeAlias = Callable[[Any, Any], Any]
"""A function of action and observation."""

_SCORE_LINE = re.compile(r"^\W*(?:(?:final|overall)\s+)?(?:score|rating)\b[^:]*:\s*$", re.IGNORECASE)
_PLACEHOLDER = re.compile(r"\{(action|observation)[^{}]*\}")
_NAMED = {"action": "the submission", "observation": "the query"}


def environment_rubric(
    source: RewardSource, rubric: Any, *, submission: Reading | None = None, query: Reading | None = None
) -> Any:
    """Return an OpenEnv rubric that grades an action by a rubric of this package.

    Pass it to `Environment(rubric=…)`. `forward` is a coroutine function, so use `_apply_rubric_async` in
    `step_async`. After each call, the child of each criterion has the value in `last_score` (None if the criterion
    was dropped or its judgment failed) and has run its hooks. A child that is called directly grades only its own
    criterion. `state_dict` contains the rubric, and `load_state_dict` replaces it.

    Args:
        source: gives the rewards.
        rubric: the rubric, in any form that `rubric_from` reads.
        submission: the text to grade, from action and observation; by default the action's only text field.
        query: the query that the action answers, from action and observation; by default there is none.

    Raises:
        InputError: the rubric has no criterion, or one is wrong.
    """
    from openenv.core.rubrics import Rubric as EnvironmentRubric

    grading = _ActionGrader(source, submission or (lambda action, _: _find_text(action)), query or (lambda *_: None))

    class GradedRubric(EnvironmentRubric):  # type: ignore[misc]
        """The reward by a rubric, with one child per criterion."""

        def __init__(self) -> None:
            super().__init__()
            self.load_state_dict({"rubric": rubric})

        async def forward(self, action: Any, observation: Any) -> float:
            """Return the reward; all criteria are judged at the same time."""
            return await grading.grade_with_children(self, action, observation)

        def state_dict(self) -> dict[str, Any]:
            """Return the rubric, as JSON values."""
            return {"rubric": self.rubric.to_dict()}

        def load_state_dict(self, state: Mapping[str, Any]) -> None:
            """Load the rubric of a checkpoint, or a newer version of it."""
            self.rubric = rubric_from(state["rubric"], "the rubric")
            self._rubric_children.clear()
            for name, criterion in _name_criteria(self.rubric):
                alone = Rubric([criterion], guidelines=self.rubric.guidelines)
                self._rubric_children[_choose_name(name, self._rubric_children)] = _make_child(name, alone, grading)

    return GradedRubric()


def _make_child(name: str, alone: Rubric, grading: _ActionGrader) -> Any:
    from openenv.core.rubrics import Rubric as EnvironmentRubric

    class CriterionRubric(EnvironmentRubric):  # type: ignore[misc]
        """The value of one criterion."""

        def __init__(self) -> None:
            super().__init__()
            self.name = name

        async def forward(self, action: Any, observation: Any) -> float:
            """1 for a criterion that is met, 0 for one that is not, or the value of its option."""
            values = grading.values.get({})
            if name not in values:
                _, values = await grading.grade(alone, action, observation)
            if name not in values:
                raise RewardFailed(f"no value of {name!r}")
            return values[name]

    return CriterionRubric()


@dataclass(frozen=True)
class _ActionGrader:
    """Grades actions, and keeps the values of the criteria while the children read them."""

    source: RewardSource
    submission: Reading
    query: Reading
    values: ContextVar[Mapping[str, float]] = field(default_factory=lambda: ContextVar("values"))

    async def grade(self, rubric: Rubric, action: Any, observation: Any) -> tuple[float, Mapping[str, float]]:
        sample = Sample(self.submission(action, observation), rubric, self.query(action, observation))
        [reward] = await self.source.rewards([sample])
        value = require_value(reward)
        return value, {name: criterion for name, criterion in reward.criteria.items() if criterion is not None}

    async def grade_with_children(self, whole: Any, action: Any, observation: Any) -> float:
        """Return the reward of an OpenEnv rubric, and set the value of each of its children."""
        for child in whole.children():
            child.last_score = None
        value, values = await self.grade(whole.rubric, action, observation)
        token = self.values.set(values)
        try:
            for child in whole.children():
                if child.name in values:
                    await child(action, observation)
        finally:
            self.values.reset(token)
        return value


def read_environment_rubric(rubric: Any) -> Rubric:
    """Convert an OpenEnv rubric to the equivalent rubric of this package.

    Each `LLMJudge` becomes a criterion: its prompt without placeholders is the requirement, and its settings stay
    in `metadata["openenv"]`. A `WeightedSum` gives the weights, and nested ones multiply; all but the last child of a
    `Sequential` become gates. An `LLMJudge` returns a number, while a criterion is only met or not met, also within a
    `Gate`.

    Args:
        rubric: an `LLMJudge`, or a `WeightedSum`, `Gate` or `Sequential` of them.

    Raises:
        InputError: parts compute their reward in code, or gate only some terms of a sum; all of them are named.
    """
    problems: list[str] = []
    criteria = list(_read_part(rubric, "", 1.0, problems))
    if problems:
        raise InputError(problems)
    return Rubric(criteria)


def _read_part(part: Any, path: str, weight: float, problems: list[str], gate: bool = False) -> Iterator[Criterion]:
    from openenv.core.rubrics import Gate, LLMJudge, Sequential, WeightedSum

    where = path or "the rubric"
    children = [(f"{path}.{name}" if path else name, child) for name, child in part.named_children()]
    if isinstance(part, LLMJudge):
        text = _read_requirement(part.prompt_template)
        if text:
            yield _build_criterion(part, path, text, weight, gate)
        else:
            problems.append(f"{where}: the prompt of its LLMJudge contains nothing but placeholders")
    elif isinstance(part, Gate):
        yield from _read_part(part.rubric, path, weight, problems, gate)
    elif isinstance(part, WeightedSum) and not gate:
        for (inside, child), share in zip(children, part.weights, strict=True):
            yield from _read_part(child, inside, weight * share, problems)
    elif isinstance(part, Sequential) and not path and children:
        for inside, child in children[:-1]:
            yield from _read_part(child, inside, 0.0, problems, gate=True)
        yield from _read_part(children[-1][1], children[-1][0], weight, problems)
    else:
        problems.append(f"{where}: {_explain_refusal(part, gate)}")


def _explain_refusal(part: Any, gate: bool) -> str:
    from openenv.core.rubrics import Sequential, WeightedSum

    kind = type(part).__name__
    if isinstance(part, Sequential):
        return f"a {kind} without children, or inside another rubric; a gate of this package closes the whole reward"
    if isinstance(part, WeightedSum) and gate:
        return f"a {kind} comes before the last child of a Sequential; a gate is one criterion"
    return f"{kind} computes its reward in code; write a criterion with a check instead, or leave it out"


def _build_criterion(judge: Any, path: str, text: str, weight: float, gate: bool) -> Criterion:
    return Criterion(
        name=path or None,
        requirement=text,
        weight=weight,
        tags=[GATE_TAG] if gate else [],
        metadata={"openenv": judge.state_dict()},
    )


def _read_requirement(template: str) -> str:
    r"""Return the requirement in a prompt: placeholders become names; the line that requests a number is left out.

    Example:
        >>> _read_requirement("Rate the tone of {action}.\n\n{observation}\n\nScore (0-1):")
        'Rate the tone of the submission.'
    """
    lines = []
    for line in template.splitlines():
        if not _SCORE_LINE.match(line) and _PLACEHOLDER.sub("", line).strip(" \t`<>\"'"):
            lines.append(_PLACEHOLDER.sub(lambda found: _NAMED[found[1]], line))
    return "\n".join(lines).replace("{{", "{").replace("}}", "}").strip()


def _name_criteria(rubric: Rubric) -> list[tuple[str, Criterion]]:
    names = name_criteria(list(rubric))
    return [
        (name, criterion.model_copy(update={"name": name})) for name, criterion in zip(names, rubric, strict=True)
    ]


def _choose_name(name: str, taken: Mapping[str, Any]) -> str:
    """Return a distinct name for a child, without the dots that `get_rubric` would read as a path.

    Example:
        >>> _choose_name("a.b", {}), _choose_name("a_b", {"a_b": "the first"})
        ('a_b', 'a_b_')
    """
    plain = name.replace(".", "_")
    while plain in taken:
        plain += "_"
    return plain


def _find_text(action: Any) -> str:
    if isinstance(action, str):
        return action
    fields = {name: value for name, value in dict(action).items() if name != "metadata" and isinstance(value, str)}
    if len(fields) != 1:
        names = ", ".join(fields) or "none"
        raise InputError(
            f"{type(action).__name__} has {len(fields)} fields of text ({names}); expected one: "
            "pass submission=lambda action, observation: ..."
        )
    return next(iter(fields.values()))
