"""One evolution of a rubric: retire criteria that no longer discriminate, then propose, grade, gate and add."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar, cast

from autorubric.core.criterion import Criterion, name_criteria
from autorubric.core.rubric import Rubric
from autorubric.errors import InputError, pluralize
from autorubric.graders.criterion_grader import CriterionGrader
from autorubric.graders.demands import ListedDemands, build_demands_request, read_demands
from autorubric.graders.judge import Ask, Query, Read, request_again
from autorubric.improvement.changed_wording import IMPROVED
from autorubric.linting.criterion_words import detect_language
from autorubric.llm.failure_groups import parse_failure
from autorubric.llm.request import Failure, FailureKind, Model, Request
from autorubric.llm.thinking import split_reasoning
from autorubric.prompts.library import package_gate_prompts
from autorubric.rows.record import as_text
from autorubric.synthesis.accounting import build_sameness_key
from autorubric.synthesis.candidate import Candidate, Pool, Relevance
from autorubric.synthesis.gate_rules import GateContext, decide, find_final_decisions
from autorubric.synthesis.relevance import build_relevance_request, combine_relevance, read_relevance
from autorubric.training.evolution.proposals import (
    CriterionProposal,
    CriterionSplit,
    EvolutionRule,
    build_gate_row,
    build_gate_rows,
    build_proposal_request,
    collect_gate_evidence,
    find_divisible,
    find_refusal,
    is_fixed,
    judge_splits,
    make_split,
    read_proposals,
    split_rubric,
)
from autorubric.training.evolution.rollouts import Rollout, choose_rollouts, collect_verdicts
from autorubric.training.evolution.versions import EVOLVED, Change, RubricVersion
from autorubric.training.observations import digest

T = TypeVar("T")


class UndecidedError(Exception):
    """A call failed, so nothing was decided and the rubric stays as it is.

    Attributes:
        failure: the failure of the call.
    """

    def __init__(self, failure: Failure, by: str) -> None:
        self.failure = failure
        super().__init__(f"{by}: {failure}")


@dataclass(frozen=True, slots=True)
class Evolver:
    """Evolves rubrics with these models.

    Attributes:
        rule: what may change.
        writer: proposes criteria.
        grader: judges proposals on the rollouts; its models also assess their relevance.
        ask: makes all calls.
        assessor: assesses relevance if the grader has a custom judge without models.
    """

    rule: EvolutionRule
    writer: Model
    grader: CriterionGrader
    ask: Ask
    assessor: Model | None = None

    async def evolve(
        self, version: RubricVersion, first: Rubric, rollouts: Sequence[Rollout], item: str = ""
    ) -> tuple[RubricVersion | None, Change]:
        """Return the next version of a rubric, or None if it does not change, and the decisions.

        Args:
            version: the newest version.
            first: the rubric of the first version.
            rollouts: the query's rollouts, oldest first.
            item: an id for the ledger.

        Raises:
            UndecidedError: a call failed.
        """
        change = Change(digest_rollouts(rollouts))
        if self.rule.split and version.number == 0:
            divided, change = await self._split(version, change, item)
            if divided is not None:
                return divided, change
        retired = find_retired(version.rubric, first, rollouts, self.rule)
        how = self.grader.recipe.reasoning
        answers = [replace(one, submission=split_reasoning(one.submission, how)[1]) for one in rollouts]
        shown = choose_rollouts(answers, self.rule.most_rollouts)
        least = self.rule.gates.separates.least_responses
        if len(shown) < least:
            note = f"{len(shown)} different rollouts with a reward; {least} are needed to propose criteria"
            return _build_next(version, retired, [], [], replace(change, note=note))
        proposed = await self._propose(version, shown, item)
        known = {build_sameness_key(criterion.requirement) for criterion in (*version.rubric, *version.inactive)}
        fresh = [
            proposal for proposal in _deduplicate(proposed) if build_sameness_key(proposal.description) not in known
        ]
        foreign = find_foreign(fresh, version)
        change = replace(change, rejected=(*change.rejected, *foreign.values()))
        new = _build_criteria([proposal for proposal in fresh if proposal not in foreign], version, first)
        candidates = [*version.inactive, *new]
        if not candidates:
            note = "" if foreign else "no new criterion was proposed"
            return _build_next(version, retired, [], [], replace(change, note=note))
        passed, change = await self._decide(version, candidates, shown, item, change)
        kept = {id(criterion) for criterion in passed}
        added = [criterion for criterion in new if id(criterion) in kept]
        returned = [criterion for criterion in version.inactive if id(criterion) in kept]
        return _build_next(version, retired, added, returned, change)

    async def _split(self, version: RubricVersion, change: Change, item: str) -> tuple[RubricVersion | None, Change]:
        """Return the version with one criterion per demand, or None if no criterion can be split; and the change."""
        rubric = version.rubric
        places = find_divisible(rubric, self.rule.persistent)
        asked = (
            (self.writer, build_demands_request(rubric[place]), partial(read_demands, rubric[place].requirement))
            for place in places
        )
        found: list[ListedDemands] = await self._ask_all("split", item, asked)
        splits, unfit = list[CriterionSplit](), list[dict[str, str]]()
        for place, listed in zip(places, found, strict=True):
            if listed.fault:
                unfit.append({"description": rubric[place].requirement, "gate": "demands", "reason": listed.fault})
            elif len(listed.texts) > 1:
                splits.append(make_split(rubric, place, listed.texts, self.writer.name))
        change = replace(change, rejected=tuple(unfit))
        if not splits:
            return None, change
        rows = build_gate_rows(rubric, splits)
        relevance = await self._assess(version.query, rows, item)
        passed, rejected, evidence = judge_splits(version.query, rows, splits, relevance, self.rule.gates)
        names = tuple(
            {"criterion": split.name, "parts": [str(part.name) for part in split.parts]} for split in passed
        )
        change = replace(change, split=names, rejected=(*unfit, *rejected), evidence=evidence)
        if not passed:
            return None, change
        return replace(version, number=version.number + 1, rubric=split_rubric(rubric, passed)), change

    async def _propose(self, version: RubricVersion, shown: Sequence[Rollout], item: str) -> list[CriterionProposal]:
        count = 2 * self.rule.most_added
        request = build_proposal_request(version.query, version.rubric, shown, count)
        proposals: list[list[CriterionProposal]] = await self._ask_all(
            "evolve", item, [(self.writer, request, lambda reply: read_proposals(reply, count))]
        )
        return proposals[0]

    async def _decide(
        self,
        version: RubricVersion,
        candidates: Sequence[Criterion],
        shown: Sequence[Rollout],
        item: str,
        change: Change,
    ) -> tuple[list[Criterion], Change]:
        """Return the heaviest candidates that pass the gates, at most `most_added`; and the change with evidence."""
        rows = [build_gate_row(f"m{n}", criterion, version.rubric) for n, criterion in enumerate(version.rubric, 1)]
        new = [
            build_gate_row(f"e1.{n}", criterion, version.rubric, "evolved")
            for n, criterion in enumerate(candidates, 1)
        ]
        votes = {
            row.id: (_collect_votes(criterion, shown),) for row, criterion in zip(rows, version.rubric, strict=True)
        }
        # Wait for all before raising a failure, because it may end the run, which would lose replies in flight.
        judged = await asyncio.gather(*(self._judge(version, candidates, rollout, item) for rollout in shown))
        graded = _require_answers(judged, "judge")
        votes |= {
            row.id: (_collect_votes(criterion, graded),) for row, criterion in zip(new, candidates, strict=True)
        }
        relevance = await self._assess(version.query, [*rows, *new], item)
        pool = Pool(tuple(rollout.submission for rollout in shown), ("judge",), votes)
        context = GateContext("" if version.query is None else version.query, (*rows, *new), pool, relevance)
        decisions = [decision for decision in decide(context, self.rule.gates) if decision.candidate.startswith("e")]
        final = find_final_decisions(decisions)
        passed, rejected, evidence = list[Criterion](), list[dict[str, str]](), dict[str, Any]()
        ranked = sorted(zip(new, candidates, strict=True), key=lambda pair: -abs(pair[0].weight))
        for row, criterion in ranked:
            reason = find_refusal(row.id, final, relevance) or self._find_missing_verdicts(votes[row.id][0])
            if reason is None and len(passed) < self.rule.most_added:
                passed.append(criterion)
                evidence[str(criterion.name)] = collect_gate_evidence(row.id, decisions)
            else:
                gate, words = reason or ("most_added", f"{self.rule.most_added} others were added")
                rejected.append({"description": criterion.requirement, "gate": gate, "reason": words})
        return passed, replace(change, rejected=(*change.rejected, *rejected), evidence=evidence)

    def _find_missing_verdicts(self, votes: Sequence[bool | None]) -> tuple[str, str] | None:
        """Return a gate with a reason if a candidate has too few verdicts to decide; None if it has enough."""
        judged, least = len(votes) - votes.count(None), self.rule.gates.separates.least_responses
        lack = f"{pluralize(judged, 'rollout')} with a verdict; {least} are needed"
        return ("separates", lack) if judged < least else None

    async def _judge(
        self, version: RubricVersion, candidates: Sequence[Criterion], rollout: Rollout, item: str
    ) -> Rollout | Failure:
        rubric = Rubric(_name_criteria(candidates), guidelines=version.rubric.guidelines)
        inputs = self.grader.read_input(rollout.submission, rubric, version.query, None, guidelines=rubric.guidelines)
        report = await self.grader.grade_input(replace(inputs, item=item), self.ask)
        errors = [entry.error for entry in report.report or () if entry.error is not None]
        if report.error is not None and not report.report:
            errors.append(report.error)
        if errors:
            kind, message = parse_failure(errors[0])
            return Failure(cast("FailureKind", kind), message)
        return Rollout(rollout.submission, rollout.reward, collect_verdicts(report))

    async def _assess(self, query: Query | None, rows: Sequence[Candidate], item: str) -> dict[str, Relevance]:
        models = list((await self.grader.open_session()).models.values())
        models = models or ([] if self.assessor is None else [self.assessor])
        if not models:
            raise InputError("criteria without a judge cannot evolve; pass --judge MODEL (Python: judge=)")
        asked = [(models[draw % len(models)], draw) for draw in range(self.rule.gates.licence_draws)]
        prompts, read = package_gate_prompts(), partial(read_relevance, rows)
        requests = ((model, build_relevance_request(prompts, query or "", rows, draw), read) for model, draw in asked)
        answers = await self._ask_all("relevance", item, requests)
        return combine_relevance(answers, [model.name for model, _ in asked], self.rule.gates)

    async def _ask_all(self, by: str, item: str, requests: Iterable[tuple[Model, Request, Read]]) -> list[Any]:
        """Send requests concurrently, and return the values read from the replies."""
        calls = (
            self.ask(model, replace(request, item=item), read, request_again) for model, request, read in requests
        )
        return [answer.value for answer in _require_answers(await asyncio.gather(*calls), by)]


def _require_answers(answers: Sequence[T | Failure], by: str) -> list[T]:
    found = list[T]()
    for answer in answers:
        if isinstance(answer, Failure):
            raise UndecidedError(answer, by)
        found.append(answer)
    return found


def find_retired(rubric: Rubric, first: Rubric, rollouts: Sequence[Rollout], rule: EvolutionRule) -> list[Criterion]:
    """Return criteria whose last `retire_after` verdicts are equal and that may retire; one positive criterion stays.

    Example:
        >>> rubric = Rubric.from_dict([{"requirement": "Is kind."}, {"requirement": "Is brief."}])
        >>> seen = [Rollout(str(n), 0.5, {"Is kind.": True, "Is brief.": n > 1}) for n in range(4)]
        >>> [one.requirement for one in find_retired(rubric, rubric, seen, EvolutionRule(retire_after=4))]
        []
        >>> free = EvolutionRule(retire_after=4, retire_original=True)
        >>> [one.requirement for one in find_retired(rubric, rubric, seen, free)]
        ['Is kind.']
    """
    original = set() if rule.retire_original else {criterion.requirement for criterion in first}
    names = name_criteria(list(rubric))
    found = []
    for name, criterion in zip(names, rubric, strict=True):
        # The parts of an original criterion count as original.
        is_original = criterion.requirement in original or (
            IMPROVED in criterion.metadata and not rule.retire_original
        )
        if is_original or is_fixed(criterion, name, rule.persistent):
            continue
        verdicts = [row.verdicts.get(criterion.requirement) for row in rollouts]
        latest = [verdict for verdict in verdicts if verdict is not None][-rule.retire_after :]
        if len(latest) == rule.retire_after and len(set(latest)) == 1:
            found.append(criterion)
    positive = [criterion for criterion in rubric if criterion.weight > 0]
    if positive and all(any(criterion is gone for gone in found) for criterion in positive):
        heaviest = max(positive, key=lambda criterion: criterion.weight)
        found = [one for one in found if one is not heaviest]
    return found


def digest_rollouts(rollouts: Sequence[Rollout]) -> str:
    """Return the digest of the rollouts on which an evolution is decided."""
    return digest([[rollout.submission, rollout.reward, dict(rollout.verdicts)] for rollout in rollouts])


def _build_next(
    version: RubricVersion,
    retired: Sequence[Criterion],
    added: Sequence[Criterion],
    returned: Sequence[Criterion],
    change: Change,
) -> tuple[RubricVersion | None, Change]:
    name_of = dict(zip(map(id, version.rubric), name_criteria(list(version.rubric)), strict=True))
    change = replace(
        change,
        added=tuple(str(criterion.name) for criterion in added),
        returned=tuple(str(criterion.name) for criterion in returned),
        retired=tuple(name_of[id(criterion)] for criterion in retired),
    )
    if change.is_empty:
        return None, change
    gone = {id(criterion) for criterion in retired}
    # Names stay with their criteria, so that rows of two versions can be compared.
    staying = [
        criterion if criterion.name else criterion.model_copy(update={"name": name_of[id(criterion)]})
        for criterion in version.rubric
        if id(criterion) not in gone
    ]
    back = {id(criterion) for criterion in returned}
    resting = [criterion for criterion in version.inactive if id(criterion) not in back]
    resting += [criterion.model_copy(update={"name": name_of[id(criterion)]}) for criterion in retired]
    rubric = Rubric(
        [*staying, *returned, *added], guidelines=version.rubric.guidelines, metadata=version.rubric.metadata
    )
    return replace(version, number=version.number + 1, rubric=rubric, inactive=tuple(resting)), change


def _collect_votes(criterion: Criterion, rollouts: Sequence[Rollout]) -> tuple[bool | None, ...]:
    return tuple(rollout.verdicts.get(criterion.requirement) for rollout in rollouts)


def _build_criteria(proposals: Sequence[CriterionProposal], version: RubricVersion, first: Rubric) -> list[Criterion]:
    """Convert proposals to criteria on the rubric's scale: weight 10 is the largest weight of the first version."""
    largest = max(abs(criterion.weight) for criterion in first) or 1.0
    taken = {*name_criteria(list(version.rubric)), *(str(criterion.name) for criterion in version.inactive)}
    made = []
    for number, proposal in enumerate(proposals, 1):
        name = proposal.title or f"Evolved {version.number + 1}.{number}"
        while name in taken:
            name = f"{name} ({version.number + 1})"
        taken.add(name)
        made.append(
            Criterion(
                name=name,
                requirement=proposal.description,
                weight=round(proposal.weight * largest / 10, 6),
                metadata={EVOLVED: {"version": version.number + 1}},
            )
        )
    return made


def find_foreign(
    proposals: Sequence[CriterionProposal], version: RubricVersion
) -> dict[CriterionProposal, dict[str, str]]:
    """Return proposals in another language than query and rubric, if both languages are certain, with the reason."""
    texts = [as_text(version.query or ""), *(criterion.requirement for criterion in version.rubric)]
    here = detect_language("\n".join(texts))
    found = {proposal: detect_language(proposal.description) for proposal in proposals}
    return {
        proposal: {
            "description": proposal.description,
            "gate": "language",
            "reason": f"it is in {code!r}, query and rubric in {here!r}",
        }
        for proposal, code in found.items()
        if code and here and code != here
    }


def _deduplicate(proposals: Sequence[CriterionProposal]) -> list[CriterionProposal]:
    return list({build_sameness_key(proposal.description): proposal for proposal in reversed(proposals)}.values())[
        ::-1
    ]


def _name_criteria(criteria: Sequence[Criterion]) -> list[Criterion]:
    """Return criteria with distinct names and valid weights, so that they can form a rubric."""
    return [
        criterion.model_copy(update={"name": f"c{n}", "weight": 1.0 if criterion.weight > 0 else -1.0})
        for n, criterion in enumerate(criteria)
    ]
