"""A judge that asks one model about one criterion at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from autorubric.core.criterion import Criterion
from autorubric.core.judgment import CriterionVerdict, Judgment
from autorubric.graders.asking import (
    JudgeOptions,
    build_judgment,
    failed,
    follow_up,
    judgment_schema,
    shared_values,
    show_options,
    to_messages,
)
from autorubric.graders.evidence import Unsupported, find_quote
from autorubric.graders.judge import Ask, Case
from autorubric.graders.options import ShownOptions
from autorubric.graders.reading import NO_VERDICT, Said, read_binary, read_choice
from autorubric.llm.model import Model
from autorubric.llm.request import Answer, Reply, ReplySchema, Request, Unreadable
from autorubric.prompts.template import Beginning

__all__ = ["CriterionJudge", "JudgeOptions"]


@dataclass(frozen=True, slots=True)
class CriterionJudge:
    """Asks a model about each criterion in a call of its own.

    Attributes:
        model: who is asked.
        judge_id: what its judgments are called.
        weight: how much it counts in a panel.
        draw: which independent sample of its replies it takes.
        options: how it asks.

    Example:
        >>> from autorubric.testing import ScriptedModel
        >>> model = ScriptedModel({"judge": '{"explanation": "It names two.", "criterion_status": "MET"}'})
        >>> judge = CriterionJudge(model)
        >>> case = Case("Coal and canals.", (Criterion(requirement="Names two causes"),))
        >>> reply = asyncio.run(model.complete(judge.build(case, 0)))
        >>> judge.read(case, 0, reply).value.verdict
        <CriterionVerdict.MET: 'MET'>
    """

    model: Model
    judge_id: str = "default"
    weight: float = 1.0
    draw: int = 0
    options: JudgeOptions = field(default_factory=JudgeOptions)

    @property
    def judge_ids(self) -> tuple[str, ...]:
        """Its own id."""
        return (self.judge_id,)

    def build(self, case: Case, index: int) -> Request:
        """The request for one criterion."""
        return _Sheet(self, case).build(index)

    def read(self, case: Case, index: int, reply: Reply) -> Answer[Judgment] | Unreadable:
        """The judgment in a reply; `Unsupported` where it cites what the submission does not hold."""
        return _Sheet(self, case).read(index, reply)

    async def judge(self, case: Case, wanted: Sequence[int], ask: Ask) -> list[Judgment]:
        """The judgment on each wanted criterion; a call that failed is a judgment with a failure."""
        sheet = _Sheet(self, case)
        if len(wanted) == 1:
            return [await self._judge_criterion(sheet, wanted[0], ask)]
        return list(await asyncio.gather(*(self._judge_criterion(sheet, index, ask) for index in wanted)))

    async def _judge_criterion(self, sheet: _Sheet, index: int, ask: Ask) -> Judgment:
        held: Unsupported | None = None

        def read(reply: Reply) -> Answer[Judgment] | Unreadable:
            nonlocal held
            found = sheet.read(index, reply)
            if not isinstance(found, Unsupported):
                return found
            asked_before, held = held is not None, found
            return found.answer if asked_before and found.answer else found

        answer = await ask(self.model, sheet.build(index), read, sheet.follow_up)
        if isinstance(answer, Answer):
            judgment: Judgment = answer.value
        elif held is not None and held.answer is not None and answer.kind in NO_VERDICT:
            judgment = held.answer.value
        else:
            judgment = failed(self.judge_id, self.weight, answer)
        return judgment


class _Sheet:
    """One case in front of one judge: what its criteria share is written once."""

    __slots__ = ("_begun", "_case", "_judge", "_shown")

    def __init__(self, judge: CriterionJudge, case: Case) -> None:
        self._judge, self._case = judge, case
        self._begun: dict[str, Beginning] = {}
        self._shown: dict[int, ShownOptions] = {}

    def build(self, index: int) -> Request:
        judge, case = self._judge, self._case
        criterion = case.criteria[index]
        kind: Literal["binary", "choice"] = "binary" if criterion.options is None else "choice"
        examples: list[dict[str, Any]] = []
        values = {"requirement": criterion.requirement, "pitfall": criterion.weight < 0, "examples": examples}
        if criterion.options is not None:
            values["options"] = self.shown(index).text
        if judge.options.few_shot is not None:
            examples.extend(self._examples(index, criterion))
        turns = self._beginning(kind).finish(**values)
        return Request(
            to_messages(turns),
            "judge",
            self._schema(kind),
            judge.draw,
            item=case.item,
            copy=case.copy_of((index,)),
        )

    def read(self, index: int, reply: Reply) -> Answer[Judgment] | Unreadable:
        multi_choice = self._case.criteria[index].options is not None
        shown = self.shown(index) if multi_choice else None
        found = read_binary(reply) if shown is None else read_choice(reply, shown)
        if isinstance(found, Unreadable):
            return found
        judge = self._judge
        judgment = build_judgment(found.value, reply, judge.judge_id, judge.weight, shown)
        if judge.options.evidence:
            return self._supported(judgment, found)
        return Answer(judgment, reply, found.notes)

    def shown(self, index: int) -> ShownOptions:
        shown = self._shown.get(index)
        if shown is None:
            options, case = self._judge.options, self._case
            shown = self._shown[index] = show_options(case, index, self._judge.judge_id, options)
        return shown

    def follow_up(self, request: Request, reply: Reply, problem: Unreadable) -> Request:
        return follow_up(self._judge.options.prompts, request, reply, problem)

    def _supported(self, judgment: Judgment, found: Answer[Said]) -> Answer[Judgment] | Unreadable:
        case = self._case
        quotes = tuple(find_quote(quote, case.submission) for quote in found.value.quotes)
        unfound = tuple(
            quote.text
            for quote in quotes
            if quote.start is None and not (case.thinking and find_quote(quote.text, case.thinking).end)
        )
        judgment = replace(judgment, quotes=quotes)
        if not unfound and (quotes or judgment.verdict is not CriterionVerdict.MET):
            return Answer(judgment, found.reply, found.notes)
        problem = f"the submission does not hold {unfound[0]!r:.120}" if unfound else "MET came without a quote"
        flagged = replace(judgment, flags=(*judgment.flags, "unsupported"))
        answer = Answer(flagged, found.reply, (*found.notes, problem))
        return Unsupported("unreadable", problem, quotes=unfound, answer=answer)

    def _beginning(self, kind: Literal["binary", "choice"]) -> Beginning:
        begun = self._begun.get(kind)
        if begun is None:
            options = self._judge.options
            template = options.prompts.binary if kind == "binary" else options.prompts.choice
            begun = self._begun[kind] = template.begin(**shared_values(self._case, options.evidence))
        return begun

    def _schema(self, kind: Literal["binary", "choice"]) -> ReplySchema:
        options = self._judge.options
        own = options.binary_schema if kind == "binary" else options.choice_schema
        return own or judgment_schema(kind, options.evidence)

    def _examples(self, index: int, criterion: Criterion) -> list[dict[str, Any]]:
        judge, shown = self._judge, self.shown(index) if criterion.options is not None else None
        assert judge.options.few_shot is not None
        found = judge.options.few_shot.examples_for(self._case, index, judge.judge_id)
        return [
            {
                "query": example.query,
                "submission": example.submission,
                "reason": example.reason,
                "verdict": str(shown.number_of(example.verdict)) if shown else example.verdict,
            }
            for example in found
        ]
