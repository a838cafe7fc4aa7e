"""Criteria of the full profile and the evidence on them, also as row fields."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import combinations
from statistics import mean, median
from typing import Any, Literal, NamedTuple, TypeAlias

Origin: TypeAlias = Literal["merged", "evolved"]
"""The origin of a criterion: the candidate rubrics, or evolution from two good responses."""

Votes: TypeAlias = tuple[tuple[bool | None, ...], ...]
"""Verdicts on one criterion: a row for each judge, a column for each response; None if a judge has no verdict.

True means that the criterion is met; for a pitfall (negative weight), that the fault is present.
"""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One criterion before it is exported.

    Attributes:
        id: unique within its record and stable when a run is resumed, such as `m3` or `e1.2` (round 1, second).
        title: two to five words.
        description: the requirement, in a form a judge can decide.
        weight: -10 to 10; negative for a pitfall.
        origin: where it comes from.
        round: the round of evolution, from 1; 0 for the merged rubric.
        models: the models that wrote it, or the criteria from which it was merged.
        parents: ids of the criteria it was merged or rewritten from.
        check: name and parameters of the check that decides it, if it was compiled to one.
        rewritten: whether this wording replaced one on which judges disagreed.
    """

    id: str
    title: str
    description: str
    weight: int
    origin: Origin = "merged"
    round: int = 0
    models: tuple[str, ...] = ()
    parents: tuple[str, ...] = ()
    check: Mapping[str, Any] | None = None
    rewritten: bool = False

    @property
    def pitfall(self) -> bool:
        """Whether meeting it is a fault."""
        return self.weight < 0

    @property
    def first_id(self) -> str:
        """The id of the first wording, before any rewrite."""
        return self.parents[0] if self.rewritten and self.parents else self.id


@dataclass(frozen=True, slots=True)
class Pool:
    """The responses to one query and the judges' verdicts on them.

    Attributes:
        responses: the texts.
        judges: ids of the judges, in the order of the rows of `votes`.
        votes: verdicts by criterion id.
    """

    responses: tuple[str, ...]
    judges: tuple[str, ...]
    votes: Mapping[str, Votes] = field(default_factory=dict)

    def find_majority(self, criterion: str) -> tuple[bool | None, ...]:
        """Return the majority verdict on each response; None for a tie or without verdicts.

        Example:
            >>> Pool(("x", "y"), ("j1", "j2"), {"m1": ((True, False), (True, True))}).find_majority("m1")
            (True, None)
        """
        counts = [(column.count(True), column.count(False)) for column in zip(*self.votes[criterion], strict=True)]
        return tuple(None if met == unmet else met > unmet for met, unmet in counts)


@dataclass(frozen=True, slots=True)
class Relevance:
    """A judge's assessment, from the query alone, of whether the query asks for a criterion.

    Attributes:
        need: whether the query asks for the criterion explicitly, implies it, or neither.
        quote: the words of the query that ask for it; empty if it is implied or not asked for.
        surface: the kind of surface form that it demands: a fixed phrase, heading, count or layout; empty for none.
        surface_asked: whether the query asks for that form.
        answerable: whether the submission alone shows if it is met.
        reason: the judge's explanation.
        same_as: the id of another criterion that demands the same in other words; empty for none.
        draws: the number of assessments that were combined.
        votes: the number of independent votes that they are worth; None if not measured.
        unsure: the points (`need`, `surface`, `answerable`) on which a majority is against the criterion but is worth
            too few votes to reject it.
    """

    need: Literal["explicit", "implicit", "none"]
    quote: str = ""
    surface: Literal["", "phrase", "heading", "count", "layout"] = ""
    surface_asked: bool = True
    answerable: bool = True
    reason: str = ""
    same_as: str = ""
    draws: int = 1
    votes: float | None = None
    unsure: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GateContext:
    """All evidence on the criteria of one query.

    Attributes:
        query: the text, or the turns as `{role, content}`.
        candidates: the criteria, merged ones first.
        pool: the responses and the judges' verdicts; a criterion without votes has not been graded.
        relevance: the combined relevance by criterion id; None or missing without an assessment.
    """

    query: str | Sequence[Mapping[str, Any]]
    candidates: tuple[Candidate, ...]
    pool: Pool
    relevance: Mapping[str, Relevance | None] = field(default_factory=dict)

    @property
    def query_text(self) -> str:
        r"""The text of the query, all turns together.

        Example:
            >>> turns = [{"role": "user", "content": "My leg cramps."}, {"role": "assistant", "content": "When?"}]
            >>> GateContext(turns, (), Pool((), ())).query_text
            'My leg cramps.\nWhen?'
        """
        if isinstance(self.query, str):
            return self.query
        return "\n".join(str(turn.get("content", "")) for turn in self.query)

    def find_relevance(self, candidate: Candidate) -> Relevance | None:
        """Return the relevance of a criterion; a rewritten one may only have that of its first wording."""
        own = self.relevance.get(candidate.id)
        return self.relevance.get(candidate.first_id) if own is None else own


def dump_relevance(relevance: Relevance) -> dict[str, Any]:
    """Return a relevance as JSON values; `votes` and `unsure` only if votes were measured."""
    row = asdict(relevance) | {"unsure": list(relevance.unsure)}
    return {key: value for key, value in row.items() if relevance.votes is not None or key not in ("votes", "unsure")}


def read_relevance_rows(value: Mapping[str, Any] | None) -> dict[str, Relevance]:
    """Return the relevance by criterion id in a field."""
    return {name: Relevance(**row | {"unsure": tuple(row.get("unsure", ()))}) for name, row in (value or {}).items()}


def dump_criterion(candidate: Candidate) -> dict[str, Any]:
    """Return a criterion as JSON values; `check` and `rewritten` only if they are set."""
    row = asdict(candidate) | {"models": list(candidate.models), "parents": list(candidate.parents)}
    return {key: value for key, value in row.items() if not (key in ("check", "rewritten") and not value)}


def read_criteria(fields: Mapping[str, Any], names: Iterable[str]) -> tuple[Candidate, ...]:
    """Return the criteria under `criteria` in several fields of a row, in order."""
    rows = (row for name in names for row in (fields.get(name) or {}).get("criteria", ()))
    return tuple(
        Candidate(**{**row, "models": tuple(row["models"]), "parents": tuple(row["parents"])}) for row in rows
    )


def is_criteria_list(value: Any) -> bool:
    """Return whether a value is a list of criteria with ids, as the full profile writes it."""
    return isinstance(value, list) and all(isinstance(row, Mapping) and "id" in row for row in value)


def read_responses(fields: Mapping[str, Any]) -> dict[str, str]:
    """Return the responses of a row's pool by slot letter."""
    pool = fields.get("pool") or {"slots": []}
    return {slot: fields[f"response_{slot}"] for slot in pool["slots"]}


def read_pool(fields: Mapping[str, Any], judges: Sequence[str], verdicts: Iterable[str]) -> Pool:
    """Read the pool of a row, with the verdicts in several fields; later fields take precedence."""
    votes: dict[str, Votes] = {}
    for name in verdicts:
        pool = fields.get(name) or {}
        votes |= {name: tuple(map(tuple, rows)) for name, rows in pool.get("votes", {}).items()}
    return Pool(tuple(read_responses(fields).values()), tuple(judges), votes)


def replace_rewritten(criteria: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Return the criteria, with rewritten ones in place of their originals."""
    newer = {candidate.parents[0]: candidate for candidate in criteria if candidate.rewritten}
    return tuple(newer.get(candidate.id, candidate) for candidate in criteria if not candidate.rewritten)


def make_example_criteria(prefix: str, count: int, number: int = 0) -> list[dict[str, Any]]:
    """Make rows of example criteria without common words, for estimates."""
    words = [" ".join(f"{prefix}{n}w{word}" for word in range(25)).replace(".", "x") for n in range(1, count + 1)]
    origin: Origin = "evolved" if number else "merged"
    return [
        dump_criterion(Candidate(f"{prefix}{n}", "Title of it", text, 9, origin, number))
        for n, text in enumerate(words, 1)
    ]


class Consensus(NamedTuple):
    """The judges' median score of each response, and their mean Kendall's τ-b; None if undefined."""

    scores: tuple[float | None, ...]
    rank_agreement: float | None


def compute_consensus(criteria: Sequence[Candidate], pool: Pool) -> Consensus:
    """Compute the scores of the responses under a rubric, and the judges' agreement on their ranks.

    A judge's score of a response is the sum of the points of criteria that it finds met (pitfalls subtract points),
    divided by the positive points. Only criteria on which that judge has a verdict for every response count, so that
    a failed judgment does not favour one response over another.
    """
    scored = [_score_responses(criteria, pool, judge) for judge in range(len(pool.judges))]
    rows = [row for row in scored if row is not None]
    columns = [[row[i] for row in rows] for i in range(len(pool.responses))]
    agreements: list[float] = []
    if len(rows) > 1:
        from autorubric.metrics.correlation import kendall

        agreements = [tau[0] for one, other in combinations(rows, 2) if (tau := kendall(one, other)) is not None]
    scores = tuple(median(column) if column else None for column in columns)
    return Consensus(scores, mean(agreements) if agreements else None)


def find_best_pair(
    scores: Sequence[float | None], texts: Sequence[str], used: Collection[tuple[int, int]] = ()
) -> tuple[int, int] | None:
    """Find the two best responses that differ and were not compared before, by index; None if there are none.

    It is the pair with the highest sum of scores; ties go to the pair with the better first response, then to the
    first.
    """
    rank = {place: score for place, score in enumerate(scores) if score is not None}
    order = sorted(rank, key=lambda place: (-rank[place], place))
    done = {frozenset(pair) for pair in used}
    plain = [" ".join(text.split()).casefold() for text in texts]
    pairs = [
        (one, other)
        for one, other in combinations(order, 2)
        if frozenset((one, other)) not in done and plain[one] != plain[other]
    ]
    return max(pairs, key=lambda pair: rank[pair[0]] + rank[pair[1]], default=None)


def _score_responses(criteria: Sequence[Candidate], pool: Pool, judge: int) -> list[float] | None:
    rows = [
        (candidate.weight, pool.votes[candidate.id][judge]) for candidate in criteria if candidate.id in pool.votes
    ]
    whole = [(weight, row) for weight, row in rows if None not in row]
    positive = sum(weight for weight, _ in whole if weight > 0)
    if not positive:
        return None
    return [sum(weight for weight, row in whole if row[place]) / positive for place in range(len(pool.responses))]
