"""Evolution: harder criteria that discriminate between the two best responses."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from autorubric.llm.limits import MOST_CRITERIA, estimate_room
from autorubric.llm.request import Answer, Reply, Unreadable
from autorubric.prompts import Prompt
from autorubric.synthesis.accounting import build_sameness_key
from autorubric.synthesis.candidate import (
    Candidate,
    Pool,
    compute_consensus,
    dump_criterion,
    find_best_pair,
    is_criteria_list,
    make_example_criteria,
    read_responses,
)
from autorubric.synthesis.drafts import find_criterion_fault
from autorubric.synthesis.items import Item, read_additions
from autorubric.synthesis.method import FullSettings
from autorubric.synthesis.stages import (
    NO_RESPONSES,
    Call,
    Fields,
    Models,
    Stage,
    StageOutcome,
    fail_missing,
    has_items,
    has_text,
    is_list,
    query_in,
)
from autorubric.synthesis.templates import build_request

if TYPE_CHECKING:
    from autorubric.synthesis.gated import Evidence

EXAMPLE_CRITERIA = 3
"""Number of evolved criteria that an estimate assumes in each round."""

_REPLY_TOKENS = 350
_MOST_SHOWN = 60
"""Maximum number of criteria with verdicts in the prompt; rubrics have at most 25 from each model."""


def build_plain_evolution_stage(template: Prompt, names: Sequence[str]) -> Stage:
    """Return the stage that writes `augmented_rubrics` in the basic profile: new criteria only, possibly none.

    With fewer than two responses the value is an empty list, made by `skipped(no responses)`.
    """

    def build(fields: Fields, models: Models) -> list[Call] | StageOutcome:
        if not has_items(fields.get("merged_rubrics")):
            return fail_missing("merged_rubrics")
        responses = [fields[name] for name in names if has_text(fields.get(name))]
        if len(responses) < 2:
            return StageOutcome([], NO_RESPONSES)
        return [_build_call(template, fields, fields["merged_rubrics"], responses)]

    return Stage(
        "augmented_rubrics",
        4,
        ("question", "merged_rubrics", *names),
        build,
        slots=("augment",),
        role="augment",
        reply_tokens=_REPLY_TOKENS,
        finished=is_list,
        empty=[],
    )


def _build_call(
    template: Prompt,
    fields: Fields,
    rubric: Sequence[Any],
    responses: Sequence[str],
    draw: int = 0,
    verdicts: Mapping[str, Any] | None = None,
) -> Call:
    inputs = {"query": query_in(fields), "rubrics": rubric, "responses": responses, "verdicts": verdicts}
    room = estimate_room(entries=MOST_CRITERIA)
    request = build_request(template, "augment", inputs, "rubric_items", draw=draw, room=room)
    return Call("augment", request, read_additions)


@dataclass(frozen=True, slots=True)
class Round:
    """One round of evolution: its number (from 1), and the evidence before it."""

    number: int
    before: Evidence
    settings: FullSettings
    template: Prompt

    def build(self, fields: Fields, models: Models) -> list[Call] | StageOutcome:
        """Build the call for criteria that discriminate between the two best responses; else the outcome."""
        if not fields.get("pool") or any(not fields.get(name) for name in self.before.verdicts):
            return fail_missing("verdicts on the pool")
        context = self.before.build_context(fields)
        rubric = context.candidates if self.number == 1 else self.before.find_kept(context, self.settings.gates)
        if self.number > 1 and not any(candidate.round == self.number - 1 for candidate in rubric):
            return _skip("skipped(the round before added nothing that passed the gates)")
        scores = compute_consensus(rubric, context.pool).scores
        if all(score is None for score in scores):
            return fail_missing("consensus: no judge has verdicts on every response")
        slots = list(read_responses(fields))
        used = [fields[name]["pair"] for name in self.before.criteria if "pair" in fields[name]]
        compared = [(slots.index(one), slots.index(other)) for one, other in filter(None, used)]
        pair = find_best_pair(scores, context.pool.responses, compared)
        if pair is None:
            return _skip("skipped(no two responses left to compare)")
        names = ("title", "description", "weight")
        shown = [{name: getattr(candidate, name) for name in names} for candidate in rubric]
        responses = [context.pool.responses[place] for place in pair]
        # The same pair with the same rubric gets another draw in another round.
        verdicts = _show_verdicts(rubric, context.pool, scores, pair)
        call = _build_call(self.template, fields, shown, responses, self.number - 1, verdicts)
        known = {build_sameness_key(candidate.description) for candidate in context.candidates}
        model = models["augment"].name if "augment" in models else ""

        def read(reply: Reply) -> Answer[dict[str, Any]] | Unreadable:
            answer = read_additions(reply)
            if isinstance(answer, Unreadable):
                return answer
            value = {"pair": [slots[place] for place in pair], **self._collect(known, answer.value, model)}
            dropped = (f"an evolved criterion was dropped: {entry['reason']}" for entry in value["dropped"])
            return Answer(value, reply, (*answer.notes, *dropped))

        return [call._replace(read=read)]

    def _collect(self, known: Collection[str], items: Sequence[Item], model: str) -> dict[str, Any]:
        """Return the new criteria in a reply, and the dropped ones; `known` has the keys of existing criteria."""
        taken = set(known)
        criteria, dropped = list[Candidate](), list[dict[str, str]]()
        for number, item in enumerate(items, 1):
            candidate = Candidate(
                f"e{self.number}.{number}", **item, origin="evolved", round=self.number, models=(model,)
            )
            key = build_sameness_key(candidate.description)
            fault = find_criterion_fault(candidate.description, candidate.weight, self.settings.filters)
            fault = fault or ("the rubric has it already" if key in taken else None)
            if fault:
                dropped.append({"id": candidate.id, "description": candidate.description, "reason": fault})
            else:
                taken.add(key)
                criteria.append(candidate)
        return {"criteria": list(map(dump_criterion, criteria)), "dropped": dropped}


def _show_verdicts(
    rubric: Sequence[Candidate], pool: Pool, scores: Sequence[float | None], pair: Sequence[int]
) -> dict[str, Any]:
    """Return the majority verdicts on the two responses, criterion by criterion, and on the whole pool."""
    rows = list[dict[str, Any]]()
    for candidate in rubric[:_MOST_SHOWN]:
        if candidate.id in pool.votes:
            majority = pool.find_majority(candidate.id)
            both = {f"response_{number}": majority[place] for number, place in enumerate(pair, 1)}
            judged = len(majority) - majority.count(None)
            rows.append({"title": candidate.title, **both, "met": majority.count(True), "judged": judged})
    shown = {f"response_{number}": scores[place] for number, place in enumerate(pair, 1)}
    return {"criteria": rows, "scores": {name: score and round(score, 3) for name, score in shown.items()}}


def build_round_stage(turn: Round, texts: Sequence[str]) -> Stage:
    """Return the stage that writes `round_<n>`: the `pair` compared, the new `criteria`, and those `dropped`."""
    needed = turn.before.reads if turn.number > 1 else (*turn.before.criteria, *turn.before.verdicts)

    def make_example(fields: Fields, tokens: float) -> dict[str, Any]:
        criteria = make_example_criteria(f"e{turn.number}.", EXAMPLE_CRITERIA, turn.number)
        return {"pair": list(read_responses(fields))[:2], "criteria": criteria, "dropped": []}

    return Stage(
        f"round_{turn.number}",
        4,
        ("question", "pool", *texts, *needed),
        turn.build,
        slots=("augment",),
        role="augment",
        reply_tokens=_REPLY_TOKENS,
        example=make_example,
        finished=_is_round,
        only_if="" if turn.number == 1 else f"round {turn.number - 1} adds a criterion that passes the gates",
    )


def build_augmented_stage(rounds: Sequence[str]) -> Stage:
    """Return the stage that writes `augmented_rubrics`, the seed's field: the new criteria of all rounds."""

    def build(fields: Fields, models: Models) -> StageOutcome:
        absent = [name for name in rounds if not _is_round(fields.get(name))]
        if absent:
            return fail_missing(absent[0])
        new = [row for name in rounds for row in fields[name]["criteria"]]
        return StageOutcome(new, str(fields[f"{rounds[0]}_model"]) if rounds else "skipped(no rounds)")

    return Stage("augmented_rubrics", 4, tuple(rounds), build, finished=is_criteria_list, empty=[])


def _skip(model: str) -> StageOutcome:
    return StageOutcome({"pair": None, "criteria": [], "dropped": []}, model)


def _is_round(value: Any) -> bool:
    return isinstance(value, dict) and "pair" in value and is_criteria_list(value.get("criteria"))
