"""Grading the pool: what each judge finds of each criterion in each response."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from autorubric.core.criterion import Criterion
from autorubric.core.judgment import Judgment, Opinion
from autorubric.core.verdict import CriterionVerdict
from autorubric.graders.asking import JudgeOptions
from autorubric.graders.case import Case
from autorubric.graders.criterion_judge import CriterionJudge
from autorubric.graders.judge import Ask
from autorubric.graders.rubric_judge import RubricJudge
from autorubric.llm.executor import FollowUp
from autorubric.llm.model import Model
from autorubric.llm.request import Answer, Failure, Request
from autorubric.synthesis.candidate import Candidate
from autorubric.synthesis.full.rows import criteria_in, responses_in
from autorubric.synthesis.plan import Fields, Inquiry, ModelAccess, Settled
from autorubric.synthesis.stages.asking import missing, query_in

_MOST_QUOTED = 400  # characters of a judge's reason that are kept where judges split
_TRUTH = {CriterionVerdict.MET: True, CriterionVerdict.UNMET: False}


@dataclass(frozen=True, slots=True)
class Bench:
    """The judges of a run.

    Attributes:
        slots: who judges; two slots on one model take different draws of its replies.
        judging: one call for a whole `rubric`, or for each `criterion`.
        options: how they ask.
    """

    slots: tuple[str, ...]
    judging: Literal["rubric", "criterion"]
    options: JudgeOptions

    def judge(self, slot: str, model: Model) -> RubricJudge | CriterionJudge:
        """The judge of a slot."""
        kind = RubricJudge if self.judging == "rubric" else CriterionJudge
        return kind(model, judge_id=slot, draw=self.slots.index(slot), options=self.options)


def verdict_stage(
    name: str, bench: Bench, criteria: Sequence[str], texts: Sequence[str], *, step: int, only_if: str = ""
) -> Inquiry:
    """The stage that writes verdicts on the criteria in some fields: `votes` by criterion, a row a judge.

    Where judges split on a response, `reasons` holds what each said. A failed judgment is no vote: it is null,
    and the stage counts as unfinished.

    Args:
        name: the field it writes.
        bench: the judges.
        criteria: the fields that hold the criteria.
        texts: the fields that hold responses.
        step: the step it belongs to.
        only_if: under which condition there is anything to grade.
    """

    async def work(fields: Fields, access: ModelAccess) -> Settled | Failure:
        if not fields.get("pool"):
            return missing("pool")
        found = criteria_in(fields, criteria)
        if not found:
            return Settled({"votes": {}, "reasons": {}}, "skipped(nothing to judge)")
        cases = _cases(fields, found, access.item)
        judged = await asyncio.gather(
            *(
                _judged(bench.judge(slot, access.models[slot]), case, access.ask_as(slot))
                for slot in bench.slots
                for case in cases
            )
        )
        if all(opinion.judgment.mistake for opinions, _ in judged for opinion in opinions):
            return judged[0][1][0]
        rows = [[one[0] for one in judged[i : i + len(cases)]] for i in range(0, len(judged), len(cases))]
        lost = tuple(failure for _, failures in judged for failure in failures)
        models = ", ".join(dict.fromkeys(access.models[slot].name for slot in bench.slots))
        return Settled(_as_value(found, rows), models, lost=lost)

    def requests(fields: Fields, models: Mapping[str, Model]) -> list[tuple[str, Request]]:
        cases = _cases(fields, criteria_in(fields, criteria), "")
        return [
            (slot, request)
            for slot in bench.slots
            for case in cases
            for request in _requests(bench.judge(slot, models[slot]), case)
        ]

    reads = ("question", "pool", *texts, *criteria)
    return Inquiry(name, step, reads, bench.slots, work, requests, _has_votes, only_if=only_if)


def _cases(fields: Fields, criteria: Sequence[Candidate], item: str) -> list[Case]:
    if not criteria:
        return []
    asked = tuple(Criterion(weight=one.weight, requirement=one.description) for one in criteria)
    return [Case(text, asked, query_in(fields), item=item) for text in responses_in(fields).values()]


def _requests(judge: RubricJudge | CriterionJudge, case: Case) -> list[Request]:
    wanted = range(len(case.criteria))
    if isinstance(judge, RubricJudge):
        return [judge.build(case, tuple(wanted))]
    return [judge.build(case, index) for index in wanted]


async def _judged(
    judge: RubricJudge | CriterionJudge, case: Case, ask: Ask
) -> tuple[list[Opinion], tuple[Failure, ...]]:
    """The opinions of one judge on one response, and why some are none."""
    failures: list[Failure] = []

    async def noting(model: Model, request: Request, read: Any, follow_up: FollowUp) -> Answer[Any] | Failure:
        answer = await ask(model, request, read, follow_up)
        if isinstance(answer, Failure):
            failures.append(answer)
        return answer

    opinions = await judge.judge(case, range(len(case.criteria)), noting)
    unusable = [one.judgment.mistake for one in opinions if one.judgment.mistake is not None]
    if unusable and not failures:
        failures.append(Failure("unreadable", unusable[0].message))
    return opinions, tuple(failures) if unusable else ()


def _as_value(criteria: Sequence[Candidate], rows: Sequence[Sequence[Sequence[Opinion]]]) -> dict[str, Any]:
    """Votes and reasons by criterion, of judgments ordered by judge, response, criterion."""
    votes, reasons = dict[str, Any](), dict[str, Any]()
    for index, one in enumerate(criteria):
        judgments = [[opinions[index].judgment for opinions in row] for row in rows]
        votes[one.id] = [[_vote(judgment) for judgment in row] for row in judgments]
        if any({True, False} <= set(column) for column in zip(*votes[one.id], strict=True)):
            reasons[one.id] = [[(judgment.reason or "")[:_MOST_QUOTED] for judgment in row] for row in judgments]
    return {"votes": votes, "reasons": reasons}


def _vote(judgment: Judgment) -> bool | None:
    return None if judgment.verdict is None else _TRUTH.get(judgment.verdict)


def _has_votes(value: Any) -> bool:
    return isinstance(value, dict) and "votes" in value
