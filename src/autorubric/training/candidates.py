"""Candidate answers of queries: from a file, the data itself or a finished grading run, or sampled from models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any, TypeAlias

from autorubric.core.report import Report
from autorubric.core.scoring import explain_no_score
from autorubric.dataset import DataItem, RubricDataset
from autorubric.dataset.item import split_last_turn
from autorubric.errors import InputError, pluralize
from autorubric.llm.failure_groups import NOT_ASKED
from autorubric.llm.limits import BYTES_A_TOKEN, ModelEstimate
from autorubric.llm.request import Answer, Failure, Message, Model, Request
from autorubric.llm.structured import read_text
from autorubric.rows import Record, RowReader, drop_nulls, inspect_file, join_names, name_input, read_rows
from autorubric.rows.columns import COLUMN_OPTION, ROLES
from autorubric.rows.messages import read_answer
from autorubric.rows.record import FLOAT_ID, MERGED, as_text, as_turns, read_prompt
from autorubric.runs.blocks import Room, feed_records, note_ended, work_through
from autorubric.runs.items_file import read_items, read_report
from autorubric.runs.manifest import DATASET_FILE, ITEMS_FILE, ExperimentManifest, load_manifest
from autorubric.runs.run import DRAWS_A_GENERATION
from autorubric.runs.stopping import StoppableRun, build_resume_command
from autorubric.training.queries import RubricQuery, group_items, read_turns

_ROLES = ("query", "id", "submission", "submissions", "sample")
_QUERY_NAMES = (*ROLES["id"].names[:3], *ROLES["query"].names[:3])
_ANSWER_NAMES = (*ROLES["submission"].quiet, *ROLES["submissions"].quiet)


@dataclass(frozen=True, slots=True)
class CandidateAnswer:
    """One answer to a query.

    Attributes:
        query: the id of the query it answers.
        answer: its text.
        sample_id: its id.
        model: the model that wrote it; empty if unknown.
    """

    query: str
    answer: str
    sample_id: str
    model: str = ""


@dataclass(frozen=True, slots=True)
class ScoredCandidate:
    """A candidate and its score.

    Attributes:
        candidate: the answer.
        score: S / S_max, in [0, 1]; None if there is no score.
        failure: why there is no score.
        place: the index of its item in the run.
    """

    candidate: CandidateAnswer
    score: float | None
    failure: str | None = None
    place: int = 0


def read_candidates(
    path: Path,
    queries: Sequence[RubricQuery],
    problems: list[str],
    columns: Mapping[str, str] | None = None,
    notes: list[str] | None = None,
) -> list[CandidateAnswer]:
    """Read candidates from a file of rows, in order; a row has a query, by id or text, and one answer or several."""
    directory = _QueryIndex(queries)
    counts: dict[str, int] = {}
    found = []
    reader = RowReader(name_input(path), _ROLES, given=columns or {}, notes=[] if notes is None else notes)
    rows = reader.read_all(_read_rows(path, problems))
    for row in (row if "submissions" in row.columns else split_last_turn(reader, row) for row in rows):
        try:
            query = directory.find(row)
            answers = list(_read_answers(row))
        except InputError as error:
            problems += error.problems
            continue
        for own, model, answer in answers:
            place = counts[query.id] = counts.get(query.id, -1) + 1
            found.append(CandidateAnswer(query.id, answer, own or f"{query.id}-{place}", model))
    if not found and not problems:
        problems.append(f"{name_input(path)}: the file has no candidates")
    return found


def _read_rows(path: Path, problems: list[str]) -> Iterator[Record]:
    found = inspect_file(path, what="Candidates")
    for record in read_rows(path, problems, what="Candidates"):
        yield record._replace(fields=drop_nulls(record.fields)) if found.is_table else record


def list_answers(queries: Sequence[RubricQuery]) -> list[CandidateAnswer]:
    """Return the answers in the queries' own file, such as a dataset's submissions."""
    return [CandidateAnswer(query.id, text, name) for query in queries for name, text in query.answers]


def check_candidates(
    queries: Sequence[RubricQuery], candidates: Sequence[CandidateAnswer], origin: str
) -> tuple[list[RubricQuery], list[str]]:
    """Return the queries that have candidates, and a problem for each that has none, or one if none has."""
    answered = {candidate.query for candidate in candidates}
    if queries and not answered:
        return [], [f"no query has a candidate in {origin}"]
    missing = [
        f"{query.where or query.id}: query {query.id!r} has no candidates in {origin}"
        for query in queries
        if query.id not in answered
    ]
    return [query for query in queries if query.id in answered], missing


def build_dataset(queries: Sequence[RubricQuery], candidates: Sequence[CandidateAnswer], name: str) -> RubricDataset:
    """Build a dataset with the candidates as items, in order, each with the rubric of its query."""
    by_id = {query.id: query for query in queries}
    items = []
    for number, candidate in enumerate(candidates):
        query = by_id[candidate.query]
        about = {"query": query.id, "source": query.source, "model": candidate.model}
        items.append(
            DataItem(
                candidate.answer,
                candidate.sample_id,
                rubric=query.rubric,
                prompt=query.text,
                id=str(number),
                metadata={key: value for key, value in about.items() if value},
            )
        )
    return RubricDataset(items=items, name=name)


class _QueryIndex:
    """Finds the query of a row by its id, or else by its text."""

    def __init__(self, queries: Sequence[RubricQuery]) -> None:
        self._by_id = {name: query for query in queries for name in (query.id, *query.aliases)}
        self._by_text: dict[str, list[RubricQuery]] = {}
        for query in queries:
            self._by_text.setdefault(query.text.strip(), []).append(query)

    def find(self, row: Record) -> RubricQuery:
        own, where = row.id, row.where
        if own is not None and own in self._by_id:
            return self._by_id[own]
        asked = row.read_value("query")
        if asked is None:
            if own is None:
                known, keys = ", ".join(_QUERY_NAMES), join_names(row.fields)
                raise InputError(f"{where}: has no query; expected one of {known}; its keys are {keys}{MERGED}")
            raise InputError(f"{where}: the data has no query with the id {own!r}{FLOAT_ID * own.endswith('.0')}")
        text = as_text(read_prompt(list(read_turns(asked, where)), "the query")).strip()
        answers = self._by_text.get(text, [])
        if not answers:
            raise InputError(f"{where}: the data has no such query: {text[:60]!r}")
        if len(answers) > 1:
            names = ", ".join(repr(query.id) for query in answers[:3])
            raise InputError(f"{where}: the queries {names} have this text; identify one of them by its id")
        return answers[0]


def _read_answers(row: Record) -> Iterator[tuple[str, str, str]]:
    """Sample id, model and text of each answer in a row."""
    where, model, own = row.where, str(row.fields.get("model") or ""), row.read_value("sample")
    single, several = row.columns.get("submission"), row.columns.get("submissions")
    if single is not None:
        yield ("" if own is None else str(own)), model, _check_text(row.fields[single], f"{where}: {single!r}")
        return
    if several is None:
        problem = f"has no answer; expected one of {', '.join(_ANSWER_NAMES)}; its keys are {join_names(row.fields)}"
        raise InputError(f"{where}: {problem}; name it with {COLUMN_OPTION.format(role='answer')}")
    answers = row.fields[several]
    if not isinstance(answers, list | dict) or not answers:
        raise InputError(f"{where}: {several!r} is empty; expected at least one answer")
    for key, answer in answers.items() if isinstance(answers, dict) else enumerate(answers):
        yield (
            "",
            str(key) if isinstance(answers, dict) else model,
            _check_text(answer, f"{where}: '{several}[{key!r}]'"),
        )


def _check_text(value: Any, where: str) -> str:
    value = read_answer(value)
    if not isinstance(value, str):
        raise InputError(f"{where} is of type {type(value).__name__}; expected a string")
    if not value.strip():
        raise InputError(f"{where} is blank")
    return value


@dataclass(frozen=True, slots=True)
class GradedCandidates:
    """A grading run's queries, its submissions as scored candidates, and the command that resumes the run."""

    folder: Path
    queries: tuple[RubricQuery, ...]
    scored: tuple[ScoredCandidate, ...]
    again: str = ""

    @property
    def items(self) -> Path:
        """The file of the run's reports."""
        return self.folder / ITEMS_FILE

    def limit_to(self, count: int | None) -> GradedCandidates:
        """Return the run with its first `count` queries; all of them for None."""
        queries = self.queries[:count]
        wanted = {query.id for query in queries}
        return replace(self, queries=queries, scored=tuple(s for s in self.scored if s.candidate.query in wanted))


def read_graded_run(folder: Path) -> GradedCandidates:
    """Read the candidates of a finished run of `autorubric grade` (or `evaluate`), with the run's scores."""
    manifest = load_manifest(folder)
    if not (manifest.grader_config or {}).get("normalize", True):
        raise InputError(f"{folder}: its scores are bare sums (normalize=False); selection needs scores in [0, 1]")
    dataset = RubricDataset.from_stored(folder / DATASET_FILE)
    manifest.warn_of_change(folder / DATASET_FILE)
    queries, own = group_items(dataset, folder / DATASET_FILE)
    records = {record["item_idx"]: record for record in read_items(folder / ITEMS_FILE)}
    _check_finished(folder, manifest, len(dataset), records)
    scored = []
    for index, item in enumerate(dataset):
        model = item.metadata.get("model")
        name = item.id or f"item-{index}"
        candidate = CandidateAnswer(own[index], item.submission, name, model if isinstance(model, str) else "")
        scored.append(_score_candidate(candidate, records[index], index, folder))
    return GradedCandidates(folder, tuple(queries), tuple(scored), _find_resume_command(manifest))


def _score_candidate(candidate: CandidateAnswer, record: dict[str, Any], index: int, folder: Path) -> ScoredCandidate:
    report = read_report(folder / ITEMS_FILE, record)
    failures = [found.error for found in report.report or () if found.error is not None]
    failure = record["error"] or (failures[0] if failures else None)
    if failure is None and report.score is None:
        failure = describe_abstention(report)
    if failure is None and report.score is not None and not 0 <= report.score <= 1:
        raise InputError(f"{folder / ITEMS_FILE}: item {index} has the score {report.score:g}; expected 0 to 1")
    return ScoredCandidate(candidate, None if failure is not None else report.score, failure, index)


def describe_abstention(report: Report) -> str:
    """Return why a candidate has no score although no judgment failed."""
    return ABSTAINED + explain_no_score(entry.criterion.weight for entry in report.report or ())


def _check_finished(
    folder: Path, manifest: ExperimentManifest, total: int, records: dict[int, dict[str, Any]]
) -> None:
    beyond = [index for index in records if index >= total]
    if beyond:
        path = folder / ITEMS_FILE
        raise InputError(f"{path}: item {beyond[0]} is not in {DATASET_FILE}, which has {pluralize(total, 'item')}")
    asked = sum(not any(words in (record["error"] or "") for words in NOT_ASKED) for record in records.values())
    if asked < total:
        how, again = build_resume_command(manifest.error or "", _find_resume_command(manifest))
        advice = f"finish it with{how}:\n  {again}" if again else f"run it again{how and f' with{how}'} to finish it"
        raise InputError(f"{folder}: the run has not finished, {asked} of {total} items are graded; {advice}")


def _find_resume_command(manifest: ExperimentManifest) -> str:
    again = (manifest.eval_config or {}).get("again")
    return again if isinstance(again, str) else ""


ROLE = "response"

ABSTAINED = "abstained: "
"""How the reason of a candidate without a score starts if no judgment failed."""

ANSWER_TOKENS = 500
"""Assumed tokens per candidate if none is recorded."""


Key: TypeAlias = tuple[int, int, int]
"""The indices of query and model, and the draw."""


@dataclass
class SamplingRun(StoppableRun):
    """Samples `k` answers to each query from each model; `window` limits the answers in progress."""

    queries: Sequence[RubricQuery]
    models: Sequence[tuple[str, Model]]
    k: int
    window: int = 64
    generation: int = 0
    answers: dict[Key, str] = field(default_factory=dict)
    failed: dict[Key, Failure] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """The number of answers to sample."""
        return len(self.queries) * len(self.models) * self.k

    async def execute(self) -> None:
        """Sample every answer that is not recorded."""
        keys = feed_records(self.iter_keys(), self._find_number, self._group_equal_keys)
        await work_through(keys, self._sample, Room(self.window), self)

    def collect_candidates(self) -> list[CandidateAnswer]:
        """Return the answers as candidates, query by query, model by model, draw by draw."""
        return [self.build_candidate(key, self.answers[key]) for key in self.iter_keys() if key in self.answers]

    def find_missing(self) -> list[tuple[CandidateAnswer, Failure]]:
        """Return the candidates without an answer, each with the failure."""
        return [(self.build_candidate(key, ""), self.failed[key]) for key in self.iter_keys() if key in self.failed]

    def build_candidate(self, key: Key, answer: str) -> CandidateAnswer:
        """Return the candidate with this answer."""
        query, model, draw = key
        own = self.queries[query].id
        return CandidateAnswer(own, answer, f"{own}-{model * self.k + draw}", self.models[model][0])

    def iter_keys(self) -> Iterator[Key]:
        """Return every query, model and draw, in order."""
        return product(range(len(self.queries)), range(len(self.models)), range(self.k))

    def _find_number(self, key: Key) -> int:
        query, model, draw = key
        return (query * len(self.models) + model) * self.k + draw

    def _group_equal_keys(self) -> Iterator[list[Key]]:
        """Groups of keys whose requests are equal because the texts of their queries are."""
        equal: dict[str, list[int]] = {}
        for place, query in enumerate(self.queries):
            equal.setdefault(query.text, []).append(place)
        for places in equal.values():
            for model, draw in product(range(len(self.models)), range(self.k)):
                yield [(place, model, draw) for place in places]

    def build_request(self, query: int, draw: int) -> Request:
        """Build the request for one answer: the query itself, without a prompt template."""
        asked = self.queries[query]
        turns = tuple(Message(**turn) for turn in as_turns(asked.prompt))  # type: ignore[arg-type]
        return Request(turns, ROLE, draw=draw + self.generation * DRAWS_A_GENERATION, item=asked.id)

    async def _sample(self, key: Key) -> None:
        query, model, draw = key
        assert self.executor is not None
        outcome = await self.executor.ask_for(self.models[model][1], self.build_request(query, draw), read_text)
        if isinstance(outcome, Answer):
            self.answers[key] = outcome.value
        else:
            self.failed[key] = outcome
            self.end_with(outcome)
        note_ended(self._find_number(key))


async def estimate_sampling(
    run: SamplingRun, answer_tokens: float
) -> tuple[list[ModelEstimate], list[CandidateAnswer]]:
    """Estimate a run's calls by model; also return its candidates, with filler text for unrecorded ones."""
    assert run.executor is not None
    run.executor.stop("dry run")
    rows = [ModelEstimate(model, role=ROLE) for _, model in run.models]
    candidates = []
    for key in run.iter_keys():
        query, model, draw = key
        row, request = rows[model], run.build_request(query, draw)
        outcome = await run.executor.ask_for(row.model, request, read_text)
        if isinstance(outcome, Answer):
            row.recorded += 1
            candidates.append(run.build_candidate(key, outcome.value))
            continue
        if outcome.kind != "stopped":
            continue  # a truncated answer is not sent again
        expected = row.add(request, answer_tokens)
        # Equal texts would be judged only once, so each filler text is different.
        candidates.append(run.build_candidate(key, f"{key} {'x' * round(expected * BYTES_A_TOKEN)}"))
    return rows, candidates
