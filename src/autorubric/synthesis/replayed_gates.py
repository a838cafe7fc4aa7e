"""The gates applied to recorded replies, of a run or of any model, compared with human labels."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

from pydantic import BeforeValidator, Field, ValidationError

from autorubric.errors import InputError
from autorubric.expectations import describe_expectation, format_place
from autorubric.llm.recorded_exchanges import Exchange
from autorubric.llm.request import Answer, Reply
from autorubric.rows import read_rows
from autorubric.runs.manifest import read_manifest
from autorubric.settings import Settings
from autorubric.synthesis.candidate import Candidate, Pool, Relevance, read_criteria
from autorubric.synthesis.gate_rules import GateContext, GateDecision, decide, find_final_decisions
from autorubric.synthesis.relevance import combine_relevance, read_relevance
from autorubric.synthesis.shown_query import show_query
from autorubric.synthesis.slots import find_shape
from autorubric.synthesis.stages import STEP_FILES, query_in
from autorubric.synthesis.steps import find_record_id
from autorubric.synthesis.steps import read_rows as read_step_rows
from autorubric.synthesis.synthesis_settings import SynthesisSettings
from autorubric.synthesis.thresholds import GateName, GateSettings

Label: TypeAlias = Literal[
    "good", "not asked", "form", "not answerable", "repeats", "ambiguous", "other", "unsure", ""
]
"""An annotator's label of a criterion: good, a fault, unsure, or none yet."""

_PEOPLE = 2
"""The number of annotators who must label a criterion."""

ORDER: tuple[GateName, ...] = ("answerable", "licensed", "surface", "agreement", "redundant")
"""The gates that can be compared with labels; whether a criterion discriminates in the pool is not a judgment."""


class _Criterion(Settings):
    id: str = Field(min_length=1)
    description: str = Field(min_length=1)
    weight: Annotated[int, Field(ge=-10, le=10)]
    title: str = ""
    origin: Literal["merged", "evolved"] = "merged"

    def to_candidate(self) -> Candidate:
        """Return the criterion as gates see it."""
        return Candidate(self.id, self.title, self.description, self.weight, self.origin)


class _RelevanceReply(Settings):
    model: str = Field(min_length=1)
    reply: str


_Labels = Annotated[dict[str, Label], BeforeValidator(lambda value: value or {})]


class RecordedQuery(Settings):
    """One line of the file: a query with its criteria, the replies of models, and human labels.

    Attributes:
        query: the text, or the turns as `{role, content}`.
        criteria: id, description, weight, and where known title and origin.
        judges: the models behind the rows of `votes`; draws of one model share its name.
        votes: by criterion id, a row for each judge with a verdict for each response: true, false, or null.
        relevance: the raw replies of the relevance draws, each with its model.
        labels: labels by annotator, then by criterion id.
    """

    query: Annotated[str, Field(min_length=1)] | list[dict[str, str]]
    criteria: list[_Criterion] = Field(min_length=1)
    judges: list[str] = Field(default_factory=list)
    votes: dict[str, list[list[bool | None]]] = Field(default_factory=dict)
    relevance: list[_RelevanceReply] = Field(default_factory=list)
    labels: dict[str, _Labels] = Field(default_factory=dict)

    def find_problems(self) -> Iterator[str]:
        """Yield problems other than wrong types."""
        ids = [criterion.id for criterion in self.criteria]
        yield from (f"criterion id {name!r} occurs twice" for name, count in Counter(ids).items() if count > 1)
        named = {*self.votes, *(label for labels in self.labels.values() for label in labels)}
        yield from (
            f"votes or labels name {name!r}, which is not a criterion of this query"
            for name in sorted(named - {*ids})
        )
        people = [name for name, labels in self.labels.items() if _count_labels(labels.values())]
        if len(people) > _PEOPLE:
            yield f"{len(people)} annotators gave labels ({', '.join(people)}); keep the labels of two"
        sizes = {len(row) for rows in self.votes.values() for row in rows}
        if any(len(rows) != len(self.judges) for rows in self.votes.values()):
            yield f"votes need one row for each of the {len(self.judges)} judges"
        elif len(sizes) > 1:
            yield f"the rows of votes have {' and '.join(map(str, sorted(sizes)))} responses; expected equal lengths"


async def record_replies(run: Path, sample: int | None, seed: int) -> list[dict[str, Any]]:
    """Return the rows of a file for the replay: a sample of the queries of a finished run, with empty labels.

    Raises:
        InputError: the run has another profile, no row with criteria, or no replies in its ledger.
    """
    manifest = read_manifest(run) or {}
    path = run / STEP_FILES[-1]
    if manifest.get("kind") != "synthesis" or not path.exists():
        raise InputError(f"{run} is not a run of `synthesize --profile full` that reached the gates")
    rows = [row for row in read_step_rows(path) if (row.get("merge") or {}).get("criteria")]
    if not rows:
        raise InputError(f"{path}: no row has criteria")
    settings = SynthesisSettings.from_manifest(manifest["settings"])
    judges = list(find_shape(settings, 0).judges.values())
    models = manifest.get("models", {})
    chosen = rows if sample is None or sample >= len(rows) else Random(seed).sample(rows, sample)
    recorded = []
    for row in chosen:
        shown = await show_query(run, manifest, find_record_id(row))
        recorded.append(
            _build_row(
                row, [str(models.get(judge, judge)) for judge in judges], list(_find_last_draws(shown.exchanges))
            )
        )
    if not any(query["relevance"] for query in recorded):
        raise InputError(f"{run}: its ledger has no relevance replies")
    return recorded


def _build_row(row: Mapping[str, Any], judges: list[str], draws: list[Exchange]) -> dict[str, Any]:
    number, fields = 1, ["merge"]
    while f"round_{number}" in row:
        fields.append(f"round_{number}")
        number += 1
    criteria, kept = read_criteria(row, fields), ("id", "title", "description", "weight", "origin")
    verdicts = ["merged_verdicts", *(f"verdicts_{round_number}" for round_number in range(1, number))]
    votes = {name: rows for field in verdicts for name, rows in ((row.get(field) or {}).get("votes") or {}).items()}
    return {
        "query": query_in(row),
        "criteria": [{name: getattr(candidate, name) for name in kept} for candidate in criteria],
        "judges": judges,
        "votes": votes,
        "relevance": [{"model": exchange.model, "reply": exchange.reply} for exchange in draws],
        "labels": {person: {candidate.id: "" for candidate in criteria} for person in ("first", "second")},
    }


def _find_last_draws(exchanges: tuple[Exchange, ...]) -> Iterator[Exchange]:
    """Yield the usable relevance replies of the last assessment before the rewrite, which covers all criteria."""
    draws = [
        exchange
        for exchange in exchanges
        if exchange.about.startswith("licences_") and exchange.reply is not None and not exchange.problem
    ]
    last = max((exchange.about for exchange in draws), default="")
    yield from (exchange for exchange in draws if exchange.about == last)


def read_recorded(path: Path) -> list[RecordedQuery]:
    """Return the queries of a file of recorded replies.

    Raises:
        InputError: the file cannot be read or has no row, or rows are wrong; with one problem for each.
    """
    found, problems = list[RecordedQuery](), list[str]()
    for record in read_rows(path, problems, what="Replies"):
        try:
            query = RecordedQuery.model_validate(record.fields)
        except ValidationError as error:
            problems += (f"{record.where}: {_describe(problem)}" for problem in error.errors(include_url=False)[:3])
            continue
        problems += (f"{record.where}: {problem}" for problem in query.find_problems())
        found.append(query)
    if problems or not found:
        raise InputError(problems[:20] or [f"{path}: no rows; expected one JSON object per line, one for each query"])
    return found


def _describe(problem: Any) -> str:
    expected = describe_expectation(problem)
    wrong = f"is {expected}" if problem["type"] == "missing" else f"is {problem['input']!r:.60}; {expected}"
    return f"{format_place(problem['loc'])} {wrong}"


class Share(NamedTuple):
    """A share with its 95 % interval, with queries as clusters; None if undefined."""

    hits: int
    of: int
    low: float | None = None
    high: float | None = None

    @property
    def value(self) -> float | None:
        """The share."""
        return self.hits / self.of if self.of else None


def estimate_clustered_share(cases: Iterable[tuple[int, bool]]) -> Share:
    """Estimate the share of hits, given the cluster of each case and whether it is a hit.

    Wilson's interval at the effective sample size that follows from the variance between clusters.

    Example:
        >>> even = estimate_clustered_share((query, place < 4) for query in range(20) for place in range(5))
        >>> uneven = estimate_clustered_share((query, query < 16) for query in range(20) for _ in range(5))
        >>> [f"{share.value:.2f} [{share.low:.2f}, {share.high:.2f}]" for share in (even, uneven)]
        ['0.80 [0.71, 0.87]', '0.80 [0.58, 0.92]']
    """
    from autorubric.metrics.intervals import wilson_interval

    found: dict[int, list[bool]] = {}
    for cluster, is_hit in cases:
        found.setdefault(cluster, []).append(is_hit)
    rows = [(sum(hits), len(hits)) for hits in found.values()]
    hits, of, clusters = sum(hit for hit, _ in rows), sum(size for _, size in rows), len(rows)
    if not of:
        return Share(0, 0)
    share = hits / of
    size = float(clusters)
    if 0 < share < 1 and clusters > 1:
        between = sum((hit - share * count) ** 2 for hit, count in rows) * clusters / (clusters - 1)
        # At most the number of criteria, however similar the clusters are.
        size = min(float(of), share * (1 - share) * of**2 / between) if between else float(of)
    interval = wilson_interval(share * size, size)
    return Share(hits, of) if interval is None else Share(hits, of, interval[0], interval[1])


@dataclass(frozen=True, slots=True)
class _JudgedCriterion:
    """A criterion with the decisions of the gates and the labels."""

    query: int
    candidate: Candidate
    decision: GateDecision | None
    unsure: bool
    labels: tuple[Label, ...]
    needs: tuple[bool, ...]

    @property
    def good(self) -> bool | None:
        """Whether both annotators label it good; None if one did not label it or they disagree."""
        verdicts = {label == "good" for label in self.labels if label not in ("", "unsure")}
        return verdicts.pop() if len(verdicts) == 1 and _count_labels(self.labels) >= _PEOPLE else None

    @property
    def outcome(self) -> Literal["rejected", "undecided", "kept"]:
        """The result of the gates; a criterion to be rewritten counts as undecided."""
        if self.decision and self.decision.outcome == "rejected":
            return "rejected"
        rewrite = self.decision is not None and self.decision.outcome == "rewrite"
        return "undecided" if self.unsure or rewrite else "kept"


def _count_labels(labels: Iterable[Label]) -> int:
    return sum(label not in ("", "unsure") for label in labels)


@dataclass(frozen=True)
class GatesReplay:
    """The gates' decisions on recorded replies, and their agreement with human labels.

    Attributes:
        queries: the number of queries.
        judged: every criterion.
        lost: the number of relevance replies that could not be parsed.
    """

    queries: int
    judged: Sequence[_JudgedCriterion] = field(repr=False)
    lost: int = 0

    @cached_property
    def labelled(self) -> list[_JudgedCriterion]:
        """The criteria on which two annotators agree."""
        return [criterion for criterion in self.judged if criterion.good is not None]

    @property
    def both(self) -> list[tuple[bool, bool]]:
        """Whether each of the first two annotators labelled a criterion good, for criteria that both labelled."""
        pairs = (
            [label for label in criterion.labels if label not in ("", "unsure")][:_PEOPLE]
            for criterion in self.judged
        )
        return [(pair[0] == "good", pair[1] == "good") for pair in pairs if len(pair) == _PEOPLE]

    def compute_kappa(self) -> float | None:
        """Compute Cohen's kappa of the two annotators; None if it is undefined."""
        from autorubric.metrics.confusion import cohen_kappa

        return cohen_kappa([mine for mine, _ in self.both], [other for _, other in self.both], [0, 1])

    def compute_shares(self) -> dict[str, Share]:
        """Return the shares of the table by name."""
        bad, good = ([criterion for criterion in self.labelled if criterion.good is kind] for kind in (False, True))
        sure = [[criterion for criterion in some if criterion.outcome != "undecided"] for some in (bad, good)]
        return {
            "bad rejected": self._compute_share(bad, "rejected"),
            "good kept": self._compute_share(good, "kept", "undecided"),
            "bad undecided": self._compute_share(bad, "undecided"),
            "good undecided": self._compute_share(good, "undecided"),
            "bad rejected, of the decided": self._compute_share(sure[0], "rejected"),
            "good kept, of the decided": self._compute_share(sure[1], "kept"),
        }

    def _compute_share(self, some: Sequence[_JudgedCriterion], *outcomes: str) -> Share:
        return estimate_clustered_share((criterion.query, criterion.outcome in outcomes) for criterion in some)

    def estimate_draw_error(self) -> tuple[Share, float | None]:
        """Return the error rate of one relevance draw, and the correlation of the errors of two draws."""
        cases, pairs, both = list[tuple[int, bool]](), 0, 0
        for criterion in self.labelled:
            asked = criterion.good is True
            if not asked and "not asked" not in criterion.labels:
                continue
            wrong = [refused == asked for refused in criterion.needs]
            cases += ((criterion.query, is_wrong) for is_wrong in wrong)
            for mine, other in combinations(wrong, 2):
                pairs, both = pairs + 1, both + (mine and other)
        share = estimate_clustered_share(cases)
        error = share.value
        if not pairs or not error or error == 1:
            return share, None
        return share, (both / pairs - error**2) / (error * (1 - error))

    def count_by_gate(self) -> dict[str, tuple[int, int, int]]:
        """Count the criteria that each gate rejected: bad ones, good ones, and those without an agreed label."""
        found: dict[str, list[int]] = {gate: [0, 0, 0] for gate in ORDER}
        for criterion in self.judged:
            if criterion.outcome == "rejected" and criterion.decision is not None:
                found[criterion.decision.gate][2 if criterion.good is None else int(criterion.good)] += 1
        return {gate: (bad, good, rest) for gate, (bad, good, rest) in found.items()}


def replay_gates(queries: Sequence[RecordedQuery], settings: GateSettings) -> GatesReplay:
    """Apply the gates to recorded replies."""
    used = settings.model_copy(update={"order": ORDER})
    judged, lost, numbers = list[_JudgedCriterion](), 0, dict[str, int]()
    for query in queries:
        # Two recordings of one query form one cluster.
        number = numbers.setdefault(str(query.query), len(numbers))
        candidates = tuple(criterion.to_candidate() for criterion in query.criteria)
        replies = [
            (recorded.model, read_relevance(candidates, Reply(recorded.reply))) for recorded in query.relevance
        ]
        draws = [(model, answer.value) for model, answer in replies if isinstance(answer, Answer)]
        lost += len(replies) - len(draws)
        judged += _judge_criteria(number, query, candidates, draws, used)
    return GatesReplay(len(queries), judged, lost)


def _judge_criteria(
    number: int,
    query: RecordedQuery,
    candidates: tuple[Candidate, ...],
    draws: Sequence[tuple[str, Mapping[str, Relevance]]],
    settings: GateSettings,
) -> Iterator[_JudgedCriterion]:
    combined = combine_relevance([found for _, found in draws], [model for model, _ in draws], settings)
    size = max((len(row) for rows in query.votes.values() for row in rows), default=0)
    votes = {name: tuple(map(tuple, rows)) for name, rows in query.votes.items()}
    context = GateContext(query.query, candidates, Pool(("",) * size, tuple(query.judges), votes), combined)
    decisions = decide(context, settings)
    final = find_final_decisions(decisions)
    unsure = {decision.candidate for decision in decisions if decision.outcome == "undecided"}
    for candidate in candidates:
        labels = tuple(held.get(candidate.id, "") for _, held in sorted(query.labels.items()))
        needs = tuple(found[candidate.id].need == "none" for _, found in draws if candidate.id in found)
        yield _JudgedCriterion(number, candidate, final.get(candidate.id), candidate.id in unsure, labels, needs)
