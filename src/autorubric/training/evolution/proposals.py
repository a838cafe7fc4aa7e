"""The rule of evolution, criteria proposed by a model, and criteria split by their demands."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

from autorubric.core.criterion import Criterion, name_criteria
from autorubric.core.rubric import Rubric
from autorubric.errors import ConfigError, clip
from autorubric.graders.demands import is_compound
from autorubric.graders.judge import Query
from autorubric.improvement.changed_wording import IMPROVED, Wording
from autorubric.linting.rules.compound_demands import find_second_demand
from autorubric.llm.limits import estimate_room
from autorubric.llm.request import Answer, Reply, Request, Unreadable
from autorubric.llm.structured import read_json
from autorubric.prompts.template import Template
from autorubric.synthesis.candidate import Candidate, Origin, Pool, Relevance
from autorubric.synthesis.drafts import find_criterion_fault
from autorubric.synthesis.gate_rules import GateContext, GateDecision, decide, find_final_decisions
from autorubric.synthesis.items import parse_weight
from autorubric.synthesis.templates import build_request
from autorubric.synthesis.thresholds import Filters, GateName, GateSettings
from autorubric.training.evolution.rollouts import Rollout
from autorubric.training.rewards import GATE_TAG

EVOLUTION_GATES = GateSettings(
    order=("answerable", "licensed", "surface", "separates", "redundant"), licence_draws=3, least_error=0.0
)
"""Unlike in synthesis, a simple majority of relevance judgments rejects, because nobody reviews the criteria."""


@dataclass(frozen=True, slots=True)
class EvolutionRule:
    """The rule for what an evolution may change.

    Attributes:
        most_added: maximum criteria that one evolution adds or returns.
        retire_after: a criterion retires when this many of its latest verdicts are equal.
        most_rollouts: the maximum number of rollouts per query that the model sees and that candidates are graded on.
        retire_original: whether criteria of the first version may retire too.
        persistent: names of criteria that never retire; those tagged `persistent` or `gate` never do.
        gates: the gates that a proposal must pass.
        split: whether to split criteria of the first version that have several demands, before anything else.

    Raises:
        ConfigError: a number is out of range.
    """

    most_added: int = 3
    retire_after: int = 8
    most_rollouts: int = 8
    retire_original: bool = False
    persistent: tuple[str, ...] = ()
    gates: GateSettings = field(default=EVOLUTION_GATES)
    split: bool = False

    def __post_init__(self) -> None:
        least = {"most_added": 1, "retire_after": 2, "most_rollouts": self.gates.separates.least_responses}
        problems = [
            f"{name}={getattr(self, name)!r}; expected at least {low}"
            for name, low in least.items()
            if getattr(self, name) < low
        ]
        if problems:
            raise ConfigError(problems)


ROLE = "evolve"
_LONGEST_SHOWN = 6000
"""Maximum characters of a rollout in the prompt."""


class CriterionProposal(NamedTuple):
    """A criterion that a model proposes; `weight` is 1 to 10, or -10 to -1 for a pitfall."""

    title: str
    description: str
    weight: int


@cache
def load_evolve_prompt() -> Template:
    """Return the prompt that requests criteria."""
    return Template.from_package("evolve")


def build_proposal_request(query: Query | None, rubric: Rubric, rollouts: Sequence[Rollout], count: int) -> Request:
    """Build the request for at most `count` criteria that discriminate between these rollouts."""
    names = name_criteria(list(rubric))
    inputs = {
        "query": "" if query is None else query,
        "rubrics": [
            {"title": name, "description": criterion.requirement, "weight": criterion.weight}
            for name, criterion in zip(names, rubric, strict=True)
        ],
        "responses": [clip(rollout.submission, _LONGEST_SHOWN) for rollout in rollouts],
        "verdicts": [_describe(number, rollout, names, list(rubric)) for number, rollout in enumerate(rollouts, 1)],
        "count": count,
    }
    return build_request(load_evolve_prompt(), ROLE, inputs, "evolve", room=estimate_room(entries=count))


def _describe(number: int, rollout: Rollout, names: Sequence[str], criteria: Sequence[Criterion]) -> dict[str, Any]:
    reward = None if rollout.reward is None else round(rollout.reward, 3)
    met = {name: rollout.verdicts.get(criterion.requirement) for name, criterion in zip(names, criteria, strict=True)}
    return {"answer": number, "reward": reward, "criteria": met}


def read_proposals(reply: Reply, count: int) -> Answer[list[CriterionProposal]] | Unreadable:
    """Read at most `count` proposals in a reply, with a note for each unusable entry.

    An empty list is a valid answer; a list without a usable entry is not.

    Example:
        >>> text = '{"criteria": [{"title": "Doubt", "description": "Says how sure it is.", "weight": 12}]}'
        >>> read_proposals(Reply(text), 3).value
        [CriterionProposal(title='Doubt', description='Says how sure it is.', weight=10)]
        >>> read_proposals(Reply('{"criteria": [{"title": "Doubt"}]}'), 3).message
        'the reply has no criterion that can be used; entry 1: it has no description'
    """
    found = read_json(reply, "array", ("criteria",), named="description")
    if isinstance(found, Unreadable):
        return found
    proposals, notes = list[CriterionProposal](), list[str]()
    for number, entry in enumerate(found.value, 1):
        read = _read_entry(entry)
        if isinstance(read, str):
            notes.append(f"entry {number}: {read}")
        else:
            proposals.append(read)
    if found.value and not proposals:
        return Unreadable("unreadable", f"the reply has no criterion that can be used; {notes[0]}")
    return Answer(proposals[:count], reply, (*found.notes, *notes))


def _read_entry(entry: Any) -> CriterionProposal | str:
    if not isinstance(entry, Mapping):
        return "it is not an object"
    fields = {str(key).strip().lower(): value for key, value in entry.items()}
    title, description = (fields.get(name) for name in ("title", "description"))
    if not isinstance(description, str) or not description.strip():
        return "it has no description"
    weight, pitfall = parse_weight(fields.get("weight")), fields.get("pitfall", False)
    if weight is None or not isinstance(pitfall, bool):
        return "weight has to be a number, and pitfall true or false"
    size = min(10, max(1, round(abs(weight)))) if weight else 0
    fault = find_criterion_fault(description, size, Filters())
    name = title.strip() if isinstance(title, str) else ""
    return fault or CriterionProposal(name, description.strip(), -size if pitfall or weight < 0 else size)


PERSISTENT_TAG = "persistent"
"""A criterion with this tag never changes."""

_GATES: tuple[GateName, ...] = ("answerable", "licensed", "surface", "redundant")
"""Without the gate `separates`, because a demand that all rollouts meet was already in the rubric."""


@dataclass(frozen=True, slots=True)
class CriterionSplit:
    """A criterion split by its demands.

    Attributes:
        place: its index in the rubric.
        name: the criterion's name in rewards.
        parts: the criteria that replace it; they share its weight and keep all else.
        ids: the ids of the parts for the gates.
    """

    place: int
    name: str
    parts: tuple[Criterion, ...]
    ids: tuple[str, ...]


def find_divisible(rubric: Rubric, persistent: Sequence[str] = ()) -> list[int]:
    """Return the indices of criteria with several demands, except those that never change.

    Example:
        >>> both = {"requirement": "States the dose and warns about liver damage."}
        >>> rubric = Rubric.from_dict([both, {**both, "name": "Fixed"}, {"requirement": "Is brief."}])
        >>> find_divisible(rubric, ["Fixed"])
        [0]
    """
    names = name_criteria(list(rubric))
    return [
        place
        for place, (name, criterion) in enumerate(zip(names, rubric, strict=True))
        if is_compound(criterion) and not is_fixed(criterion, name, persistent)
    ]


def is_fixed(criterion: Criterion, name: str, persistent: Sequence[str]) -> bool:
    """Return whether a criterion, named `name` in rewards, is persistent or a gate."""
    fixed = {PERSISTENT_TAG, GATE_TAG} & set(criterion.tags or ())
    return bool(fixed or {name, criterion.id} & {*persistent})


def make_split(rubric: Rubric, place: int, demands: Sequence[str], author: str) -> CriterionSplit:
    """Split a criterion into parts that share its weight, each with the provenance that `improve` records.

    Example:
        >>> rubric = Rubric.from_dict([{"name": "Dose", "weight": 6, "requirement": "States A and warns of B."}])
        >>> [(one.name, one.weight) for one in make_split(rubric, 0, ["States A.", "Warns of B."], "m").parts]
        [('Dose (1)', 3.0), ('Dose (2)', 3.0)]
    """
    old, name = rubric[place], name_criteria(list(rubric))[place]
    second = find_second_demand(old.requirement)
    record = {
        "was": old.model_dump(mode="json", exclude_defaults=True),
        "kind": "split",
        "author": author,
        "reason": f"it has several demands (the second at {second!r})",
        "against": "gates",
    }
    made = Wording(name, place, tuple(demands), "split").to_criteria(rubric)
    parts = tuple(
        criterion.model_copy(update={"metadata": {**criterion.metadata, IMPROVED: record}}) for criterion in made
    )
    return CriterionSplit(place, name, parts, tuple(f"e{place + 1}.{number}" for number in range(1, len(parts) + 1)))


def build_gate_rows(rubric: Rubric, splits: Sequence[CriterionSplit]) -> list[Candidate]:
    """Build the rows for the gates: the criteria that stay, and the parts of the others."""
    by_place = {split.place: split for split in splits}
    rows = list[Candidate]()
    for place, criterion in enumerate(rubric):
        split = by_place.get(place)
        if split is None:
            rows.append(build_gate_row(f"m{place + 1}", criterion, rubric))
        else:
            rows += [build_gate_row(name, part, rubric) for name, part in zip(split.ids, split.parts, strict=True)]
    return rows


def build_gate_row(name: str, criterion: Criterion, rubric: Rubric, origin: Origin = "merged") -> Candidate:
    """Convert a criterion to a row for the gates, scaled so that the rubric's largest weight is 10."""
    largest = max(abs(other.weight) for other in rubric) or 1.0
    size = min(10, max(1, round(abs(criterion.weight) / largest * 10)))
    signed = -size if criterion.weight < 0 else size
    return Candidate(name, criterion.name or "", criterion.requirement, signed, origin, int(origin != "merged"))


def collect_gate_evidence(name: str, decisions: Iterable[GateDecision]) -> dict[str, Any]:
    """Collect each gate's decision on a row, with its evidence."""
    return {
        decision.gate: {"outcome": decision.outcome, **decision.figures}
        for decision in decisions
        if decision.candidate == name
    }


def judge_splits(
    query: Any, rows: Sequence[Candidate], splits: Sequence[CriterionSplit], relevance: Mapping[str, Relevance],
    settings: GateSettings,
) -> tuple[list[CriterionSplit], list[dict[str, str]], dict[str, Any]]:  # fmt: skip
    """Return the splits whose parts all pass, the reasons why others fail, and the gates' evidence by part."""
    context = GateContext("" if query is None else query, tuple(rows), Pool((), ("judge",), {}), relevance)
    decisions = decide(context, settings.model_copy(update={"order": _GATES}))
    final = find_final_decisions(decisions)
    passed, rejected, evidence = list[CriterionSplit](), list[dict[str, str]](), dict[str, Any]()
    for split in splits:
        refused = [
            {"criterion": split.name, "description": part.requirement, "gate": reason[0], "reason": reason[1]}
            for name, part in zip(split.ids, split.parts, strict=True)
            if (reason := _find_second_part(part) or find_refusal(name, final, relevance)) is not None
        ]
        rejected += refused
        if refused:
            continue
        passed.append(split)
        for name, part in zip(split.ids, split.parts, strict=True):
            evidence[str(part.name)] = collect_gate_evidence(name, decisions)
    return passed, rejected, evidence


def _find_second_part(part: Criterion) -> tuple[str, str] | None:
    second = find_second_demand(part.requirement)
    return ("several-demands", f"it still has several demands (the second at {second!r})") if second else None


def find_refusal(
    name: str, final: Mapping[str, GateDecision], relevance: Mapping[str, Relevance]
) -> tuple[str, str] | None:
    """Return the gate that a criterion fails, and why; None if it passes. Without relevance judgments, it fails."""
    last = final.get(name)
    if last is not None and last.outcome in ("rejected", "rewrite"):
        return last.gate, last.reason
    return None if name in relevance else ("licensed", "no relevance judgment can be read")


def split_rubric(rubric: Rubric, splits: Sequence[CriterionSplit]) -> Rubric:
    """Return the rubric with split criteria replaced by their parts; the others keep their names in rewards."""
    by_place, criteria = {split.place: split for split in splits}, list[Criterion]()
    for place, (name, criterion) in enumerate(zip(name_criteria(list(rubric)), rubric, strict=True)):
        split = by_place.get(place)
        criteria += (
            split.parts if split else [criterion if criterion.name else criterion.model_copy(update={"name": name})]
        )
    return Rubric(criteria, guidelines=rubric.guidelines, metadata=rubric.metadata)
