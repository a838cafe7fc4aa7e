"""Criteria with several demands, graded demand by demand: a criterion is met only if all demands are.

A judge that decides two demands with one verdict often gives full points to a half-met criterion. Here, a model first
lists the demands of each such criterion (lint finds these criteria), and the judge decides each demand alone.
"""

import asyncio
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import starmap
from typing import Any, Literal, TypeAlias

from autorubric.core.criterion import Criterion
from autorubric.core.judgment import CriterionVerdict, Judgment, JudgmentFailure
from autorubric.core.usage import aggregate_completion_cost, aggregate_token_usage
from autorubric.graders.judge import Answered, Ask, Judge, JudgeInput, Read, request_again
from autorubric.graders.judge_replies import failed
from autorubric.linting.rules.compound_demands import find_second_demand
from autorubric.llm.executor import FollowUp
from autorubric.llm.limits import estimate_room
from autorubric.llm.request import Answer, Failure, Message, Model, Reply, ReplySchema, Request, Unreadable
from autorubric.llm.structured import read_json
from autorubric.prompts.library import load_schema
from autorubric.prompts.template import Template

Compound: TypeAlias = Literal["as_is", "all"]
"""How criteria with several demands are graded: with one verdict, or with one per demand (all must be met)."""

JUDGED_WHOLE = "judged_whole"
"""The flag of a judgment on a criterion that was judged as a whole because the list of demands did not match it."""

ROLE = "demands"
_MOST = 8
_MET, _UNMET, _NONE = CriterionVerdict.MET, CriterionVerdict.UNMET, CriterionVerdict.CANNOT_ASSESS


def is_compound(criterion: Criterion) -> bool:
    """Return whether a criterion has several demands under one verdict; see the lint rule `several-demands`.

    Example:
        >>> is_compound(Criterion(requirement="States the dose and warns about liver damage."))
        True
        >>> is_compound(Criterion(requirement="States the dose."))
        False
    """
    if criterion.options is not None or criterion.check is not None:
        return False
    return bool(find_second_demand(criterion.requirement))


@cache
def load_demands_prompt() -> Template:
    """Return the prompt that requests the demands of a criterion."""
    return Template.from_package("demands")


@cache
def _load_schema() -> ReplySchema:
    return ReplySchema("demands", load_schema("demands"))


def build_demands_request(criterion: Criterion) -> Request:
    """Build the request for a criterion's demands. It does not depend on the submission, so it is sent once."""
    turns = load_demands_prompt().render(requirement=criterion.requirement, pitfall=criterion.weight < 0, most=_MOST)
    return Request(tuple(starmap(Message, turns)), ROLE, _load_schema(), room=estimate_room(entries=_MOST))


@dataclass(frozen=True, slots=True)
class ListedDemands:
    """The demands that a model listed for a criterion; `fault` says why the list does not match it, or is empty."""

    texts: tuple[str, ...]
    fault: str = ""


def read_demands(requirement: str, reply: Reply) -> Answer[ListedDemands] | Unreadable:
    """Read the demands of a criterion in a reply, from one to eight.

    Example:
        >>> both = "States the dose and warns about liver damage."
        >>> read_demands(both, Reply('{"demands": ["States the dose.", "Warns about liver damage."]}')).value.texts
        ('States the dose.', 'Warns about liver damage.')
        >>> read_demands(both, Reply('{"demands": ["States the dose."]}')).value.fault
        "the list leaves out 'warns', 'liver', 'damage'"
        >>> read_demands(both, Reply('{"demands": []}')).message
        'the reply lists 0 demands; expected 1 to 8'
    """
    found = read_json(reply, "array", ("demands",))
    if isinstance(found, Unreadable):
        return found
    if not all(isinstance(demand, str) and demand.strip() for demand in found.value):
        return Unreadable("unreadable", "a demand is not a text")
    demands = tuple(dict.fromkeys(demand.strip() for demand in found.value))
    if not 1 <= len(demands) <= _MOST:
        return Unreadable("unreadable", f"the reply lists {len(demands)} demands; expected 1 to {_MOST}")
    return Answer(ListedDemands(demands, find_list_fault(requirement, demands)), reply, found.notes)


def assume_demands(request: Request) -> Answer[ListedDemands] | None:
    """Return the two demands that a dry run assumes in reply to a request for demands; None for other requests."""
    if request.role != ROLE:
        return None
    texts = tuple(f"{request.messages[-1].content} ({number})" for number in (1, 2))
    return Answer(ListedDemands(texts), Reply(""))


@dataclass(frozen=True, slots=True)
class PerDemand:
    """Judges criteria with several demands demand by demand; `combine` combines the verdicts.

    Attributes:
        inside: judges each demand, and all other criteria unchanged. A panel votes on each demand.
        model: lists the demands of a criterion, in one call for all submissions.

    Example:
        >>> import asyncio
        >>> from autorubric.graders.without_model import ScriptedJudge, no_model
        >>> from autorubric.testing import ScriptedModel
        >>> lists = ScriptedModel({"demands": '{"demands": ["States the dose.", "Warns about liver damage."]}'})
        >>> def says(inputs, index):
        ...     return "MET" if "dose" in inputs.criteria[index].requirement else "UNMET"
        >>> async def ask(model, request, read, follow_up):
        ...     return read(await model.complete(request))
        >>> both = Criterion(requirement="States the dose and warns about liver damage.")
        >>> inputs, judge = JudgeInput("Two a day.", (both,)), PerDemand(ScriptedJudge("a", says), lists)
        >>> [judgment] = asyncio.run(judge.judge(inputs, [0], ask))
        >>> judgment.verdict
        <CriterionVerdict.UNMET: 'UNMET'>
    """

    inside: Judge
    model: Model

    @property
    def judge_ids(self) -> tuple[str, ...]:
        """The ids of the judges inside."""
        return self.inside.judge_ids

    async def judge(self, inputs: JudgeInput, wanted: Sequence[int], ask: Ask) -> list[Judgment]:
        """Return the judgment on each wanted criterion."""
        listed, refused = await self._list_demands(inputs, wanted, ask)
        whole = [index for index in wanted if index not in listed]
        parts, places = list[Criterion](), dict[int, list[int]]()
        for index, demands in listed.items():
            if isinstance(demands, Failure):
                continue
            first = len(inputs.criteria) + len(parts)
            places[index] = list(range(first, first + len(demands)))
            parts += [inputs.criteria[index].model_copy(update={"requirement": text}) for text in demands]
        # Demands come last, so that other criteria keep their index, on which the order of their options depends.
        copies = inputs.copies and (*inputs.copies, *(inputs.copies[i] for i, own in places.items() for _ in own))
        asked = replace(inputs, criteria=(*inputs.criteria, *parts), copies=copies)
        ids = [*whole, *(place for own in places.values() for place in own)]
        judged = dict(zip(ids, await self.inside.judge(asked, ids, ask), strict=True)) if ids else {}
        for index, own in places.items():
            texts = [asked.criteria[place].requirement for place in own]
            judged[index] = combine(inputs.criteria[index], texts, [judged[place] for place in own])
        for index, failure in listed.items():
            if isinstance(failure, Failure):
                judged[index] = failed(self.inside.judge_ids[0], 1.0, failure)
        for index, fault in refused.items():
            judged[index] = _mark_judged_whole(judged[index], fault)
        return [judged[index] for index in wanted]

    async def _list_demands(
        self, inputs: JudgeInput, wanted: Sequence[int], ask: Ask
    ) -> tuple[Mapping[int, tuple[str, ...] | Failure], Mapping[int, str]]:
        """Return the demands of each wanted compound criterion, or the failed call; and the faults of wrong lists."""
        several = [index for index in wanted if is_compound(inputs.criteria[index])]
        answers = await asyncio.gather(*(self._ask_for_list(inputs, index, ask) for index in several))
        listed, refused = dict[int, tuple[str, ...] | Failure](), dict[int, str]()
        for index, answer in zip(several, answers, strict=True):
            if isinstance(answer, Failure):
                listed[index] = answer
            elif answer.value.fault:
                refused[index] = answer.value.fault
            elif len(answer.value.texts) > 1:
                listed[index] = answer.value.texts
        return listed, refused

    async def _ask_for_list(self, inputs: JudgeInput, index: int, ask: Ask) -> Answered:
        """Request the list of a criterion's demands, once more if it does not match the criterion."""
        request = replace(build_demands_request(inputs.criteria[index]), item=inputs.item)
        read = partial(read_demands, inputs.criteria[index].requirement)
        answer = await ask(self.model, request, read, request_again)
        if isinstance(answer, Failure) or not answer.value.fault:
            return answer
        problem = Unreadable("unreadable", f"{answer.value.fault}; keep the words of the criterion")
        return await ask(self.model, request_again(request, answer.reply, problem), read, request_again)


def _mark_judged_whole(judgment: Judgment, fault: str) -> Judgment:
    reason = f"Judged by one verdict: {fault}.\n{judgment.reason or ''}".strip()
    return replace(judgment, flags=(*judgment.flags, JUDGED_WHOLE), reason=reason if judgment.verdict else None)


def combine(criterion: Criterion, demands: Sequence[str], found: Sequence[Judgment]) -> Judgment:
    """Combine the judgments on all demands of a criterion into one. Pure.

    A criterion of positive weight is MET only if every demand is MET, and UNMET if any demand is. Otherwise, a failed
    judgment makes the criterion fail, or else an abstention makes it CANNOT_ASSESS. For a pitfall, one fault that is
    present decides it.

    Example:
        >>> demands = ["States the dose.", "Warns about liver damage."]
        >>> met, unmet = (Judgment("a", verdict=CriterionVerdict(word)) for word in ("MET", "UNMET"))
        >>> lost = Judgment("a", failure=JudgmentFailure("infrastructure", "timeout: no reply after 60 s"))
        >>> both = Criterion(requirement="States the dose and warns about liver damage.")
        >>> combine(both, demands, [met, unmet]).verdict.value, combine(both, demands, [lost, unmet]).verdict.value
        ('UNMET', 'UNMET')
        >>> str(combine(both, demands, [met, lost]).failure)
        "infrastructure: timeout: no reply after 60 s (demand 'Warns about liver damage.')"
    """
    first = found[0]
    decisive = _MET if criterion.weight < 0 else _UNMET
    verdicts = [judgment.verdict for judgment in found]
    lost = next((place for place, judgment in enumerate(found) if judgment.failure is not None), None)
    verdict: CriterionVerdict | None
    failure: JudgmentFailure | None = None
    if decisive in verdicts:
        verdict = decisive
    elif lost is not None:
        verdict, failure = None, _build_failure(demands[lost], found[lost])
    else:
        verdict = _NONE if _NONE in verdicts else verdicts[0]
    return Judgment(
        first.judge_id,
        verdict=verdict,
        failure=failure,
        reason=None if failure is not None else _join_reasons(demands, found),
        weight=first.weight,
        confidence=_find_least_confidence(found) if failure is None else None,
        quotes=tuple(quote for judgment in found for quote in judgment.quotes),
        superseded=first.superseded,
        flags=tuple(dict.fromkeys(flag for judgment in found for flag in judgment.flags)),
        usage=aggregate_token_usage(judgment.usage for judgment in found),
        cost=aggregate_completion_cost(judgment.cost for judgment in found),
        repeats=_combine_inside(criterion, demands, found, lambda judgment: judgment.repeats),
        votes=_combine_inside(criterion, demands, found, lambda judgment: judgment.votes),
    )


def _combine_inside(
    criterion: Criterion,
    demands: Sequence[str],
    found: Sequence[Judgment],
    inside: Callable[[Judgment], Sequence[Judgment]],
) -> tuple[Judgment, ...]:
    """Combine the inner judgments judge by judge; empty if the demands were not all judged by the same judges."""
    rows = [tuple(inside(judgment)) for judgment in found]
    seats = [tuple(judgment.judge_id for judgment in row) for row in rows]
    if len(set(seats)) > 1:
        return ()
    return tuple(combine(criterion, demands, column) for column in zip(*rows, strict=True))


def _build_failure(demand: str, judgment: Judgment) -> JudgmentFailure:
    assert judgment.failure is not None
    failure = judgment.failure
    return replace(failure, message=f"{failure.message} (demand {demand!r:.80})")


def _join_reasons(demands: Sequence[str], found: Sequence[Judgment]) -> str:
    lines = []
    for demand, judgment in zip(demands, found, strict=True):
        outcome = str(judgment.failure) if judgment.verdict is None else judgment.verdict.value
        lines.append(f"{demand} {outcome}{f': {judgment.reason}' if judgment.reason else ''}")
    return "\n".join(lines)


def _find_least_confidence(found: Sequence[Judgment]) -> float | None:
    stated = [judgment.confidence for judgment in found if judgment.confidence is not None]
    return min(stated) if len(stated) == len(found) else None


class DemandsOnce:
    """An `Ask` that caches lists of demands in `kept`, so that graders without records request each list once."""

    __slots__ = ("_ask", "_kept")

    def __init__(self, ask: Ask, kept: dict[Any, Answer[Any]]) -> None:
        self._ask, self._kept = ask, kept

    async def __call__(self, model: Model, request: Request, read: Read, follow_up: FollowUp) -> Answered:
        """Send `request`; an equal request for demands gets the earlier answer."""
        if request.role != ROLE:
            return await self._ask(model, request, read, follow_up)
        key = (model.name, request.messages)
        if key not in self._kept:
            answer = await self._ask(model, request, read, follow_up)
            if isinstance(answer, Failure):
                return answer
            self._kept[key] = answer
        return self._kept[key]


_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|(?:(?![\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af])\w)+")
_NEGATIONS = frozenset(
    """
    no not never none neither nor without cannot
    nicht kein keine ohne pas jamais sans sin nunca 不 没 無 无 未 非
    """.split()  # noqa: SIM905 - a list of words reads best as words
)
_JOINERS = frozenset(
    """
    about also then while both with that this from into their they them these those must should well does have
    response answer submission essay text assistant output reply
    sowie auch oder dass antwort ainsi aussi elle mais réponse además también pero respuesta
    并 且 和 与 及 以 同 时 还 也 的 地 得 了 是 在 其 该 应 需 要 而 又 既 回 答 它
    """.split()  # noqa: SIM905
)
_SHORT = 4
"""Minimum letters of a word that counts, and of a common prefix that makes two words forms of one."""

_OWN = 2 / 3


def find_list_fault(requirement: str, demands: Sequence[str]) -> str:
    """Return why a list of demands does not match its criterion; empty if it does.

    The words of the criterion must occur in the demands, in any form, and most words of each demand in the criterion.
    Numbers and negations must be the same. Short words, conjunctions and words for the submission do not count.

    Example:
        >>> both = "States the dose and warns about liver damage."
        >>> find_list_fault(both, ["States the dose.", "The response is warning about liver damage."])
        ''
        >>> find_list_fault(both, ["States the dose.", "Warns about damage."])
        "the list leaves out 'liver'"
        >>> find_list_fault(both, ["States the dose and warns about liver damage.", "Names a doctor."])
        "'Names a doctor.' is not a part of the criterion"
        >>> find_list_fault("Names 2 causes and 3 effects.", ["Names 2 causes.", "Names 4 effects."])
        "the list leaves out '3'"
        >>> find_list_fault(both, ["States the dose.", "Does not warn about liver damage."])
        "'Does not warn about liver damage.' adds 'not'"
    """
    own = _split_words(requirement)
    each = [_split_words(demand) for demand in demands]
    spoken = {word for words in each for word in words}
    if left := [word for word in own if _is_counted(word) and not _is_among(word, spoken)]:
        return f"the list leaves out {', '.join(map(repr, dict.fromkeys(left)))}"
    for demand, words in zip(demands, each, strict=True):
        if added := [word for word in words if _is_fixed(word) and word not in own]:
            return f"{demand!r:.80} adds {', '.join(map(repr, added))}"
        counted = [word for word in words if _is_counted(word)]
        if sum(_is_among(word, own) for word in counted) < max(1, _OWN * len(counted)):
            return f"{demand!r:.80} is not a part of the criterion"
    return ""


def _split_words(text: str) -> list[str]:
    return _WORD.findall(re.sub(r"n['’]t\b", " not", text.casefold()))


def _is_fixed(word: str) -> bool:
    """Return whether a word must occur in both the criterion and its demands."""
    return word in _NEGATIONS or any(letter.isdigit() for letter in word)


def _is_counted(word: str) -> bool:
    if word in _JOINERS:
        return False
    return len(word) >= _SHORT or _is_fixed(word) or (not word.isascii() and len(word) == 1)


def _is_among(word: str, words: Collection[str]) -> bool:
    if word in words or _is_fixed(word):
        return word in words
    return len(word) >= _SHORT and any(other.startswith(word[:_SHORT]) for other in words)
