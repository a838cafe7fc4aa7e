"""Evidence on criteria from models: judges' verdicts on the pool, and whether the query asks for each criterion.

In step files, ledgers, settings and roles, relevance is called `licence`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, cast

from autorubric.core.criterion import Criterion
from autorubric.core.judgment import CriterionVerdict, Judgment
from autorubric.graders.asking import JudgeOptions
from autorubric.graders.criterion_judge import CriterionJudge
from autorubric.graders.judge import Ask, JudgeInput
from autorubric.graders.rubric_judge import RubricJudge
from autorubric.llm.executor import FollowUp
from autorubric.llm.limits import estimate_room
from autorubric.llm.request import Answer, Failure, Model, Reply, Request, Unreadable
from autorubric.llm.structured import fold_keys, read_json
from autorubric.prompts.library import GatePrompts
from autorubric.synthesis.candidate import (
    Candidate,
    Relevance,
    dump_relevance,
    read_criteria,
    read_responses,
    replace_rewritten,
)
from autorubric.synthesis.likelihood import EffectiveVotes, compute_refusal_chance, measure_worth
from autorubric.synthesis.stages import (
    PASSTHROUGH,
    Answers,
    Call,
    Fields,
    Models,
    Stage,
    StageOutcome,
    fail_missing,
    find_missing,
    query_in,
)
from autorubric.synthesis.templates import build_request
from autorubric.synthesis.thresholds import GateSettings

if TYPE_CHECKING:
    from autorubric.synthesis.stage_runner import RecordAccess


_MOST_QUOTED = 400  # characters of a judge's reason that are kept where judges disagree
_VOTES: dict[CriterionVerdict | None, bool] = {CriterionVerdict.MET: True, CriterionVerdict.UNMET: False}


@dataclass(frozen=True, slots=True)
class PoolJudges:
    """The slots of a run's judges, and how they judge; two slots with one model use different draws."""

    slots: tuple[str, ...]
    judging: Literal["rubric", "criterion"]
    options: JudgeOptions

    def make_judge(self, slot: str, model: Model) -> RubricJudge | CriterionJudge:
        """Return the judge of a slot."""
        kind = RubricJudge if self.judging == "rubric" else CriterionJudge
        return kind(model, judge_id=slot, draw=self.slots.index(slot), options=self.options)


def build_verdict_stage(
    name: str, judges: PoolJudges, criteria: str, texts: Sequence[str], *, step: int, only_if: str = ""
) -> Stage:
    """Return the stage that writes verdicts on the criteria of a field: `votes` by criterion, a row for each judge.

    If judges disagree on a response, `reasons` has their explanations. A failed judgment is not a vote: it is null,
    and the stage counts as unfinished.
    """

    def build(fields: Fields, models: Models) -> list[Call]:
        tasks = _make_inputs(fields, read_criteria(fields, [criteria]), "")
        asked = ((slot, judges.make_judge(slot, models[slot]), inputs) for slot in judges.slots for inputs in tasks)
        return [call for slot, judge, inputs in asked for call in _build_calls(slot, judge, inputs)]

    async def work(fields: Fields, access: RecordAccess) -> StageOutcome:
        if not fields.get("pool"):
            return fail_missing("pool")
        found = read_criteria(fields, [criteria])
        if not found:
            return StageOutcome({"votes": {}, "reasons": {}}, "skipped(nothing to judge)")
        all_inputs = _make_inputs(fields, found, access.item)
        judged = await asyncio.gather(
            *(
                _judge(judges.make_judge(slot, access.runner.models[slot]), inputs, access.bind_slot(slot))
                for slot in judges.slots
                for inputs in all_inputs
            )
        )
        if all(judgment.failure for judgments, _ in judged for judgment in judgments):
            return StageOutcome(failure=judged[0][1][0])
        rows = [[pair[0] for pair in judged[i : i + len(all_inputs)]] for i in range(0, len(judged), len(all_inputs))]
        lost = tuple(failure for _, failures in judged for failure in failures)
        return StageOutcome(_collect_votes(found, rows), lost=lost)

    def make_example(fields: Fields, tokens: float) -> dict[str, Any]:
        """Make example verdicts: judges agree, except on the first merged criterion; better responses meet more."""
        count, responses = len(judges.slots), len(read_responses(fields))
        found = [candidate.id for candidate in read_criteria(fields, [criteria])]
        votes = {key: [[place < (responses + 1) // 2 for place in range(responses)]] * count for key in found}
        if criteria == "merge" and found:
            votes[found[0]] = [[judge % 2 == 0] * responses for judge in range(count)]
        return {"votes": votes, "reasons": {}}

    return Stage(
        name,
        step,
        ("question", "pool", *texts, criteria),
        build,
        slots=judges.slots,
        role="judge",
        reply_tokens=900 if judges.judging == "rubric" else 100,
        example=make_example,
        finished=lambda value: isinstance(value, dict) and "votes" in value,
        only_if=only_if,
        work=work,
    )


def _make_inputs(fields: Fields, criteria: Sequence[Candidate], item: str) -> list[JudgeInput]:
    if not criteria:
        return []
    asked = tuple(Criterion(weight=candidate.weight, requirement=candidate.description) for candidate in criteria)
    return [JudgeInput(text, asked, query_in(fields), item=item) for text in read_responses(fields).values()]


def _build_calls(slot: str, judge: RubricJudge | CriterionJudge, inputs: JudgeInput) -> list[Call]:
    wanted = tuple(range(len(inputs.criteria)))
    if isinstance(judge, RubricJudge):
        return [Call(slot, judge.build(inputs, wanted), partial(judge.read, inputs, wanted))]
    return [Call(slot, judge.build(inputs, index), partial(judge.read, inputs, index)) for index in wanted]


async def _judge(
    judge: RubricJudge | CriterionJudge, inputs: JudgeInput, ask: Ask
) -> tuple[list[Judgment], tuple[Failure, ...]]:
    """Return one judge's verdicts on one response, and the failures behind missing verdicts."""
    failures: list[Failure] = []

    async def ask_noting(model: Model, request: Any, read: Any, follow_up: FollowUp) -> Answer[Any] | Failure:
        answer = await ask(model, request, read, follow_up)
        if isinstance(answer, Failure):
            failures.append(answer)
        return answer

    judgments = await judge.judge(inputs, range(len(inputs.criteria)), ask_noting)
    unusable = [judgment.failure for judgment in judgments if judgment.failure is not None]
    if unusable and not failures:
        failures.append(Failure("unreadable", unusable[0].message))
    return judgments, tuple(failures) if unusable else ()


def _collect_votes(criteria: Sequence[Candidate], rows: Sequence[Sequence[Sequence[Judgment]]]) -> dict[str, Any]:
    """Collect votes and reasons by criterion, from judgments ordered by judge, response and criterion."""
    votes, reasons = dict[str, Any](), dict[str, Any]()
    for index, candidate in enumerate(criteria):
        judgments = [[found[index] for found in row] for row in rows]
        votes[candidate.id] = [[_VOTES.get(judgment.verdict) for judgment in row] for row in judgments]
        if any({True, False} <= set(column) for column in zip(*votes[candidate.id], strict=True)):
            reasons[candidate.id] = [
                [(judgment.reason or "")[:_MOST_QUOTED] for judgment in row] for row in judgments
            ]
    return {"votes": votes, "reasons": reasons}


_NEEDS = ("explicit", "implicit", "none")
_SURFACES = ("phrase", "heading", "count", "layout", "none", "")
_TRUTHS: dict[object, bool] = {True: True, False: False, "true": True, "false": False, "yes": True, "no": False}


@dataclass(frozen=True, slots=True)
class NewCriteria:
    """The field of criteria that may be added (`only_if`) after an assessment, and the field of the assessment."""

    field: str
    before: str
    only_if: str


@dataclass(frozen=True, slots=True)
class RelevanceJudges:
    """The judges of relevance: prompts, the model of each slot, settings."""

    prompts: GatePrompts
    slots: Mapping[str, str]
    settings: GateSettings

    @property
    def turns(self) -> list[str]:
        """The slot of each draw."""
        slots = list(self.slots)
        return [slots[draw % len(slots)] for draw in range(self.settings.licence_draws)]


def build_relevance_stage(
    name: str, judges: RelevanceJudges, criteria: Sequence[str], *, step: int, new: NewCriteria | None = None
) -> Stage:
    """Return the stage that writes relevance by criterion id.

    All criteria are assessed together, because a new one may make the same demand as an old one. Without any reply
    the stage fails; a failed call is never an assessment.
    """

    def build(fields: Fields, models: Models) -> list[Call] | StageOutcome:
        if lost := find_missing(fields, criteria):
            return lost
        if new and not read_criteria(fields, [new.field]):
            return find_missing(fields, [new.before]) or StageOutcome(fields[new.before], PASSTHROUGH)
        found = replace_rewritten(read_criteria(fields, criteria))
        read, query = partial(read_relevance, found), query_in(fields)
        return [
            Call(slot, build_relevance_request(judges.prompts, query, found, draw), read)
            for draw, slot in enumerate(judges.turns)
        ]

    def fold(fields: Fields, answers: Answers) -> StageOutcome:
        asked = zip(judges.turns, answers, strict=True)
        said = [(judges.slots[slot], answer) for slot, answer in asked if isinstance(answer, Answer)]
        lost = tuple(answer for answer in answers if isinstance(answer, Failure))
        if not said:
            return StageOutcome(failure=lost[0])
        models = [model for model, _ in said]
        combined = combine_relevance([answer.value for _, answer in said], models, judges.settings)
        notes = tuple(note for _, answer in said for note in answer.notes)
        return StageOutcome({key: dump_relevance(found) for key, found in combined.items()}, notes=notes, lost=lost)

    return Stage(
        name,
        step,
        ("question", *criteria, *([new.before] if new else [])),
        build,
        fold,
        slots=tuple(dict.fromkeys(judges.turns)),
        role="licence",
        reply_tokens=900,
        example=lambda fields, tokens: {
            candidate.id: dump_relevance(Relevance("implicit")) for candidate in read_criteria(fields, criteria)
        },
        finished=lambda value: (
            isinstance(value, dict) and all(isinstance(v, dict) and "need" in v for v in value.values())
        ),
        only_if=new.only_if if new else "",
    )


def build_relevance_request(
    prompts: GatePrompts, query: str | Sequence[Mapping[str, Any]], candidates: Sequence[Candidate], draw: int = 0
) -> Request:
    """Return the request for the relevance of all criteria; no response is shown."""
    criteria = [
        {"id": candidate.id, "requirement": candidate.description, "pitfall": candidate.pitfall}
        for candidate in candidates
    ]
    room = estimate_room(entries=len(candidates))
    return build_request(
        prompts.licence, "licence", {"query": query, "criteria": criteria}, "licences", draw=draw, room=room
    )


def read_relevance(candidates: Sequence[Candidate], reply: Reply) -> Answer[dict[str, Relevance]] | Unreadable:
    """Read the relevance in a reply by criterion id, with a note for each criterion without one.

    A criterion whose entry is missing, ambiguous or unusable has no relevance and stays undecided.
    """
    found = read_json(reply, "array", ("licences",), named="criterion_id")
    if isinstance(found, Unreadable):
        return found
    ids = [candidate.id for candidate in candidates]
    said: dict[str, list[Relevance | str]] = {}
    for entry in found.value:
        if isinstance(entry, Mapping):
            fields = fold_keys(entry)
            said.setdefault(str(fields.get("criterion_id", "")).strip(), []).append(_read_entry(fields, ids))
    read, problems = dict[str, Relevance](), list[str]()
    for key in ids:
        entries = said.get(key, ["has no entry"])
        first = entries[0]
        if isinstance(first, str):
            problems.append(f"{key}: {first}")
        elif any(entry != first for entry in entries[1:]):
            problems.append(f"{key}: has two entries that differ")
        else:
            read[key] = first
    if ids and not read:
        return Unreadable("unreadable", f"the reply has no usable entry; {problems[0]}")
    return Answer(read, reply, (*found.notes, *problems))


def combine_relevance(
    draws: Sequence[Mapping[str, Relevance]], models: Sequence[str] = (), settings: GateSettings | None = None
) -> dict[str, Relevance]:
    """Combine several assessments into one relevance for each criterion, each point by majority.

    A tie favours the criterion: more than half of the assessments are needed to make it irrelevant, unanswerable or
    the same as another, or its surface form unrequested. A majority against it that is worth too few independent
    votes makes the point unsure (see `measure_worth`).

    Args:
        draws: the assessments.
        models: the model behind each; by default one model for all.
        settings: of the gates.
    """
    settings = settings or GateSettings()
    ids = dict.fromkeys(key for draw in draws for key in draw)
    if not settings.least_error:
        return {key: _combine([draw[key] for draw in draws if key in draw]) for key in ids}
    points = [[_is_against(draw.get(key), point) for draw in draws] for key in ids for point in POINTS]
    worth = measure_worth(points, models or [""] * len(draws), settings.least_error)
    combined = {key: [draw[key] for draw in draws if key in draw] for key in ids}
    return {key: _weigh(_combine(answers), answers, worth, settings.least_sure) for key, answers in combined.items()}


POINTS = ("need", "surface", "answerable")
"""The points of an assessment that can count against a criterion."""

_PRIOR_AGAINST = 0.2
"""The prior chance that one of these points counts against a criterion."""


def _is_against(relevance: Relevance | None, point: str) -> bool | None:
    if relevance is None:
        return None
    if point == "need":
        return relevance.need == "none"
    return bool(relevance.surface) and not relevance.surface_asked if point == "surface" else not relevance.answerable


def _weigh(combined: Relevance, answers: Sequence[Relevance], worth: EffectiveVotes, least_sure: float) -> Relevance:
    """Return a combined assessment with the worth of its votes, and the points on which that is too low."""
    unsure = []
    for point in POINTS:
        against = sum(bool(_is_against(relevance, point)) for relevance in answers)
        chance = compute_refusal_chance(against, len(answers), worth, _PRIOR_AGAINST)
        if against > len(answers) / 2 and chance < least_sure:
            unsure.append(point)
    return replace(combined, votes=worth.compute_worth(len(answers)), unsure=tuple(unsure))


def _combine(answers: Sequence[Relevance]) -> Relevance:
    half = len(answers) / 2
    refused = [relevance for relevance in answers if relevance.need == "none"]
    granted = [relevance for relevance in answers if relevance.need != "none"]
    deciding = refused if len(refused) > half else granted
    need = Counter(relevance.need for relevance in deciding).most_common(1)[0][0]
    unasked = [relevance for relevance in answers if relevance.surface and not relevance.surface_asked]
    forms = (
        unasked
        if len(unasked) > half
        else [relevance for relevance in answers if not (relevance.surface and not relevance.surface_asked)]
    )
    same = Counter(relevance.same_as for relevance in answers if relevance.same_as).most_common(1)
    return Relevance(
        need=need,
        quote=next((relevance.quote for relevance in deciding if relevance.need == need and relevance.quote), ""),
        surface=Counter(relevance.surface for relevance in forms).most_common(1)[0][0],
        surface_asked=len(unasked) <= half,
        answerable=sum(not relevance.answerable for relevance in answers) <= half,
        reason=next(relevance.reason for relevance in deciding if relevance.need == need),
        same_as=same[0][0] if same and same[0][1] > half else "",
        draws=sum(relevance.draws for relevance in answers),
    )


def _read_entry(fields: Mapping[str, Any], ids: Sequence[str]) -> Relevance | str:
    """Return the relevance in an entry, or why the entry is unusable."""
    # A null must not be converted to text, where it would read as "none".
    need, surface = (str(fields.get(name) or "").strip().lower() for name in ("need", "surface"))
    asked, answerable = (_read_truth(fields.get(name)) for name in ("surface_asked", "answerable"))
    if need not in _NEEDS:
        return f"need is {fields.get('need')!r:.60}; expected {', '.join(_NEEDS)}"
    if surface not in _SURFACES:
        return f"surface is {fields.get('surface')!r:.60}; expected {', '.join(_SURFACES[:-1])}"
    if asked is None or answerable is None:
        return "surface_asked and answerable have to be true or false"
    same_as = str(fields.get("same_as") or "").strip()
    return Relevance(
        need=cast("Literal['explicit', 'implicit', 'none']", need),
        quote=str(fields.get("quote") or "").strip(),
        surface=cast("Literal['', 'phrase', 'heading', 'count', 'layout']", "" if surface == "none" else surface),
        surface_asked=asked,
        answerable=answerable,
        reason=str(fields.get("reason") or "").strip(),
        same_as=same_as if same_as in ids and same_as != str(fields.get("criterion_id")).strip() else "",
    )


def _read_truth(value: object) -> bool | None:
    if isinstance(value, str):
        value = value.strip().lower()
    return _TRUTHS.get(value) if isinstance(value, bool | str) else None
