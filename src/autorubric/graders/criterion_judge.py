"""A judge that asks one model about one criterion at a time."""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import starmap
from typing import Any, Literal

from autorubric.core.criterion import Criterion
from autorubric.core.judgment import CriterionVerdict, Judgment, Quote
from autorubric.core.wording import fold_letter
from autorubric.graders.asking import (
    ModelJudge,
    NumberType,
    Unsupported,
    collect_values,
    find_number_type,
    load_judgment_schema,
    show_options,
)
from autorubric.graders.judge import Answered, Ask, JudgeInput, Read, ShownOptions
from autorubric.graders.judge_replies import Said, build_judgment, failed, read_said
from autorubric.llm.executor import FollowUp
from autorubric.llm.request import Answer, Message, Model, Reply, ReplySchema, Request, Unreadable
from autorubric.prompts.judging import ask_for_own_numbers
from autorubric.prompts.template import Beginning


@dataclass(frozen=True, slots=True)
class CriterionJudge(ModelJudge):
    """Asks a model about each criterion in a separate call.

    Example:
        >>> from autorubric.testing import ScriptedModel
        >>> model = ScriptedModel({"judge": '{"explanation": "It names two.", "criterion_status": "MET"}'})
        >>> judge = CriterionJudge(model)
        >>> inputs = JudgeInput("Coal and canals.", (Criterion(requirement="Names two causes"),))
        >>> reply = asyncio.run(model.complete(judge.build(inputs, 0)))
        >>> judge.read(inputs, 0, reply).value.verdict
        <CriterionVerdict.MET: 'MET'>
    """

    def build(self, inputs: JudgeInput, index: int) -> Request:
        """Return the request for one criterion."""
        return _Dialogue(self, inputs).build(index)

    def read(self, inputs: JudgeInput, index: int, reply: Reply) -> Answer[Judgment] | Unreadable:
        """Read the judgment in a reply; `Unsupported` if a quote is not in the submission."""
        return _Dialogue(self, inputs).read(index, reply)

    async def judge(self, inputs: JudgeInput, wanted: Sequence[int], ask: Ask) -> list[Judgment]:
        """Return the judgment of each wanted criterion; a failed call gives a judgment with a failure."""
        dialogue = _Dialogue(self, inputs)
        if len(wanted) == 1:
            return [await dialogue.judge(wanted[0], ask)]
        return list(await asyncio.gather(*(dialogue.judge(index, ask) for index in wanted)))


class _Dialogue:
    """The requests and replies of one judge for one submission; the part that all criteria share is rendered once."""

    __slots__ = ("_flagged", "_inputs", "_judge", "_prepared", "_shown")

    def __init__(self, judge: CriterionJudge, inputs: JudgeInput) -> None:
        self._judge, self._inputs = judge, inputs
        self._prepared: dict[tuple[str, NumberType | None], tuple[Beginning, ReplySchema]] = {}
        self._shown: dict[int, ShownOptions] = {}
        self._flagged: dict[int, Answer[Judgment]] = {}

    async def judge(self, index: int, ask: Ask) -> Judgment:
        judge = self._judge
        answer = await ask(judge.model, self.build(index), partial(self.read, index), judge.options.follow_up)
        if not isinstance(answer, Answer):
            return failed(judge.judge_id, judge.weight, answer)
        judgment: Judgment = answer.value
        return judgment

    def build(self, index: int) -> Request:
        judge, inputs = self._judge, self._inputs
        criterion = inputs.criteria[index]
        kind: Literal["binary", "choice"] = "binary" if criterion.options is None else "choice"
        number_type: NumberType | None = None
        examples: list[dict[str, Any]] = []
        values = {"requirement": criterion.requirement, "pitfall": criterion.weight < 0, "examples": examples}
        if criterion.options is not None:
            values["options"] = self.show(index).text
            number_type = find_number_type([self.show(index)])
        if judge.options.few_shot is not None:
            examples.extend(self._build_examples(index, criterion))
        beginning, schema = self._prepared.get((kind, number_type)) or self._prepare(kind, number_type)
        messages = tuple(starmap(Message, beginning.finish(**values)))
        copy = inputs.find_copy((index,)) if inputs.copies else 0
        return Request(messages, "judge", schema, judge.draw, item=inputs.item, copy=copy)

    def read(self, index: int, reply: Reply) -> Answer[Judgment] | Unreadable:
        """Read the judgment; if its quotes are not found even after a re-ask, the verdict is accepted with a flag."""
        shown = None if self._inputs.criteria[index].options is None else self.show(index)
        found = read_said(reply, shown, self._inputs.submission)
        if isinstance(found, Unreadable):
            return self._flagged.get(index, found)
        judge = self._judge
        judgment = build_judgment(found.value, reply, judge.judge_id, judge.weight, shown)
        if judge.options.evidence:
            return self._check_quotes(index, judgment, found)
        return Answer(judgment, reply, found.notes)

    def show(self, index: int) -> ShownOptions:
        shown = self._shown.get(index)
        if shown is None:
            options, inputs = self._judge.options, self._inputs
            shown = self._shown[index] = show_options(inputs, index, self._judge.judge_id, options)
        return shown

    def _check_quotes(self, index: int, judgment: Judgment, found: Answer[Said]) -> Answer[Judgment] | Unreadable:
        inputs = self._inputs
        quotes = tuple(find_quote(quote, inputs.submission, len(inputs.dropped)) for quote in found.value.quotes)
        unfound = tuple(
            quote.text
            for quote in quotes
            if quote.start is None and not (inputs.thinking and find_quote(quote.text, inputs.thinking).end)
        )
        judgment = replace(judgment, quotes=quotes)
        if not unfound and (quotes or judgment.verdict is not CriterionVerdict.MET):
            return Answer(judgment, found.reply, found.notes)
        problem = f"the submission does not hold {unfound[0]!r:.120}" if unfound else "MET came without a quote"
        flagged = replace(judgment, flags=(*judgment.flags, "unsupported"))
        answer = Answer(flagged, found.reply, (*found.notes, problem))
        if index in self._flagged:
            return answer
        self._flagged[index] = answer
        return Unsupported("unreadable", problem, quotes=unfound)

    def _prepare(
        self, kind: Literal["binary", "choice"], number_type: NumberType | None
    ) -> tuple[Beginning, ReplySchema]:
        """Return the part of the prompt that criteria of a kind share, and the schema of their replies."""
        options = self._judge.options
        template = options.prompts.binary if kind == "binary" else options.prompts.choice
        own = options.binary_schema if kind == "binary" else options.choice_schema
        template = ask_for_own_numbers(template) if number_type else template
        beginning = template.begin(**collect_values(self._inputs, options.evidence))
        schema = own or load_judgment_schema(kind, options.evidence, number_type)
        prepared = self._prepared[kind, number_type] = beginning, schema
        return prepared

    def _build_examples(self, index: int, criterion: Criterion) -> list[dict[str, Any]]:
        judge, shown = self._judge, self.show(index) if criterion.options is not None else None
        assert judge.options.few_shot is not None
        found = judge.options.few_shot.choose_examples(self._inputs, index, judge.judge_id)
        if shown is not None:
            found = [replace(example, verdict=str(shown.find_number(example.verdict))) for example in found]
        return [example.values() for example in found]


class PrefixFirst:
    """An `Ask` for one submission: calls with the same prefix wait until the first of them is answered.

    All calls for a submission are the same except for the criterion, which comes last. An endpoint with a prefix
    cache computes the common part once, but only after the first call: ten simultaneous calls compute it ten times.
    While calls wait, calls for other submissions use the free concurrency.
    """

    __slots__ = ("_ahead", "_ask")

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._ahead: dict[tuple[int, str], asyncio.Event] = {}

    async def __call__(self, model: Model, request: Request, read: Read, follow_up: FollowUp) -> Answered:
        """Send `request` after the first call with its prefix has ended; return the answer."""
        # Binary and multi-choice criteria have different first messages, and so different prefixes.
        kind = (id(model), request.messages[0].content)
        ahead = self._ahead.get(kind)
        if ahead is not None:
            await ahead.wait()
            return await self._ask(model, request, read, follow_up)
        ahead = self._ahead[kind] = asyncio.Event()
        try:
            return await self._ask(model, request, read, follow_up)
        finally:
            ahead.set()


ALIKE = 90.0
"""Minimum similarity of a quote to a passage: rapidfuzz's partial ratio, in percent."""

_DIGIT = re.compile(r"\d")
_WORD = re.compile(r"\S+")
_PLAIN = str.maketrans("“”„«»「」『』‘’‚′–—‑ʼ", '"' * 9 + "''''---'")


def find_quote(quote: str, text: str, before: int = 0) -> Quote:
    r"""Return the quote with its character offsets in `text`, or without offsets if it is not found.

    `before` is added to the offsets: the length of the text that was left out before `text`.

    The search is exact first; then it ignores case, accents, width, spacing, quotation marks and dashes; finally it
    accepts a passage with a similarity of at least `ALIKE` percent and the same digits.
    """
    start = text.find(quote)
    if start >= 0:
        return Quote(quote, before + start, before + start + len(quote))
    wanted, _ = _flatten(quote)
    flat, origins = _flatten(text)
    span = _find_span(wanted, flat)
    if span is None:
        return Quote(quote)
    end = origins[span[1] - 1] + 1
    while end < len(text) and not fold_letter(text[end]):
        end += 1  # an accent of the last letter
    return Quote(quote, before + origins[span[0]], before + end)


def _find_span(wanted: str, flat: str) -> tuple[int, int] | None:
    if not wanted or not flat:
        return None
    start = flat.find(wanted)
    if start >= 0:
        return start, start + len(wanted)
    span = _find_similar(wanted, flat)
    # A quote with another number is invented, however similar the rest is.
    if span is None or _DIGIT.findall(wanted) != _DIGIT.findall(flat[span[0] : span[1]]):
        return None
    return span


def _find_similar(wanted: str, flat: str) -> tuple[int, int] | None:
    from rapidfuzz import fuzz

    if len(wanted) > len(flat):
        return (0, len(flat)) if fuzz.ratio(wanted, flat) >= ALIKE else None
    found = fuzz.partial_ratio_alignment(wanted, flat, score_cutoff=ALIKE)
    if found is None or found.dest_end <= found.dest_start:
        return None
    passage = flat[found.dest_start : found.dest_end]
    start = found.dest_end - len(passage.lstrip(" "))
    return start, start + len(passage.strip(" "))


def _flatten(text: str) -> tuple[str, list[int]]:
    """Return a folded text on one line, and the original index of each of its characters."""
    letters: list[str] = []
    origins: list[int] = []
    for found in _WORD.finditer(text.translate(_PLAIN)):
        if letters:
            letters.append(" ")
            origins.append(found.start() - 1)
        for place, letter in enumerate(found[0], found.start()):
            folded = fold_letter(letter)  # "ß" becomes two characters, an accent none
            letters += folded
            origins += [place] * len(folded)
    return "".join(letters), origins
