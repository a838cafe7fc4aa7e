"""Reads the results of a run, as objects or as records of its file, into a table."""

import math
from array import array
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from autorubric.background import no_collections
from autorubric.core.criterion import Criterion, name_criteria
from autorubric.core.display import tell_apart
from autorubric.core.judgment import JudgeVote, MultiChoiceJudgeVote
from autorubric.core.report import EnsembleEvaluationReport, EvaluationReport, Report
from autorubric.core.rubric import Rubric
from autorubric.core.scoring import ScoreRule
from autorubric.dataset import DataItem, RubricDataset
from autorubric.errors import InputError, format_first
from autorubric.metrics.joining import ItemIndex, describe_mismatch, match_criteria
from autorubric.metrics.scores import read_rule
from autorubric.metrics.self_consistency import SelfConsistency
from autorubric.metrics.table import ABSENT, EXCLUDE, FAILED, Column, GradedRun, Modes, Points, Table

_IS_IT = "Is this the dataset that was graded?"
_KEYS = {"report_type", "criterion_reports"} | EvaluationReport.model_fields.keys()
_KEYS |= EnsembleEvaluationReport.model_fields.keys()
_NO_ITEMS = "the reports do not identify their items; pass the dataset that was graded"


def read_table(
    run: GradedRun | Sequence[Report | None], dataset: RubricDataset | None, modes: Modes = EXCLUDE
) -> Table:
    """Read a run and the labels of its items into a table; without a dataset, use the items stored in the run."""
    builder = _TableBuilder(dataset, read_rule(getattr(run, "grader_config", None)), modes)
    results = _list_results(run, dataset) if isinstance(run, Sequence) else map(_as_mapping, run.item_results)
    with no_collections():
        for result in results:
            try:
                builder.add(result)
            except InputError:
                raise
            except (KeyError, TypeError, AttributeError, ValueError) as error:
                source = getattr(run, "source", None)
                where = "the result" if source is None else f"{source}: the line"
                raise InputError(f"{where} of item {result['item_idx']} is damaged: {error!r}") from None
    return builder.build()


def read_graded_table(
    run: GradedRun | Sequence[Report | None], dataset: RubricDataset | None, modes: Modes = EXCLUDE
) -> Table:
    """Return the table of the items that have a report with criteria, labelled or not."""
    table = read_table(run, dataset, modes)
    if table.extra:
        total = len(table.items) + len(table.extra) + table.repeated
        raise InputError(
            f"{len(table.extra)} of the run's {total} items are not in the dataset: {format_first(table.extra)}",
            _IS_IT,
        )
    return table.select_rows(table.reported)


def describe_left_out(table: Table, use: str) -> Iterator[str]:
    """Yield notes on items without a report with criteria, and on items without the score that `use` needs."""
    if len(table.items) < table.size:
        yield f"{table.size - len(table.items)} of {table.size} items have no report with criteria and are left out"
    unscored = int(np.isnan(table.scores).sum())
    if unscored:
        yield f"{unscored} of {table.size} items have no score and are left out of {use}"


def _list_results(reports: Sequence[Report | None], dataset: RubricDataset | None) -> Iterator[Mapping[str, Any]]:
    """Yield the results of the items that have a report."""
    if dataset is None:
        raise InputError(_NO_ITEMS)
    if len(reports) != len(dataset):
        raise InputError(f"there are {len(reports)} reports for {len(dataset)} items; expected one each, or None")
    yield from ({"item_idx": n, "report": report, "error": None} for n, report in enumerate(reports) if report)


def _as_mapping(value: Any) -> Mapping[str, Any]:
    """Return the fields of a record, or of a model with the same names."""
    return value if isinstance(value, dict) else vars(value)


def _find_failure_code(error: str) -> int:
    """Return the code of a judgment without a verdict: failed, or not requested."""
    from autorubric.llm.failure_groups import NOT_MADE, parse_failure

    return ABSENT if parse_failure(error)[0] in NOT_MADE else FAILED


class _TableBuilder:
    """A table under construction: one list per column."""

    def __init__(self, dataset: RubricDataset | None, rule: ScoreRule | None, modes: Modes) -> None:
        self._dataset, self._rule, self._modes = dataset, rule, modes
        self._index = ItemIndex(dataset.items) if dataset is not None else None
        self._columns: dict[Hashable, Column] = {}
        # The rubric is kept too, because an id is unique only as long as its object exists.
        self._by_rubric: dict[int, tuple[Rubric, list[Column], list[str]]] = {}
        if dataset is not None and dataset.rubric is not None:
            self._find_columns(dataset.rubric)
        self._items, self._row, self._column, self._truth, self._judged = (array("q") for _ in range(5))
        self._vote_judge, self._vote_point, self._vote_code = (array("q") for _ in range(3))
        self._labelled, self._failed, self._reported = (array("b") for _ in range(3))
        self._scores, self._means, self._dissent, self._confidence = (array("d") for _ in range(4))
        self._judges: dict[str, int] = {}
        self._judge_scores: list[Mapping[str, float | None]] = []
        self._superseded = False
        self._seen: set[int] = set()  # places in the run
        self._graded: set[int] = set()  # and in the dataset
        self._extra: list[int] = []
        self._unmatched: list[DataItem | None] = []
        self._repeated = 0
        self._problems: list[str] = []
        self._repeated_votes: list[str] = []
        self._asked_again: dict[str, list[JudgeVote | MultiChoiceJudgeVote]] = {}
        self._consistency: dict[str, SelfConsistency] = {}

    def add(self, result: Mapping[str, Any]) -> None:
        at, place = result["item_idx"], len(self._seen)
        if at in self._seen:
            raise InputError(f"item {at} is in the run more than once; expected one result per item")
        self._seen.add(at)
        report, item = _as_mapping(result["report"]), result.get("item")
        index = at if self._index is None else self._index.find(at, item)
        if index is None or index in self._graded:
            self._unmatched.append(item)
            self._extra += [place] if index is None else []
            self._repeated += index is not None
            return
        self._graded.add(index)
        entries = [_as_mapping(e) for e in report.get("report") or report.get("criterion_reports") or ()]
        if not entries and "report_type" in report and (unknown := report.keys() - _KEYS):
            raise KeyError(*sorted(unknown))
        error, first = result.get("error") or report.get("error"), len(self._judged)
        if not self._add_points(index, item, entries):
            return
        if error is not None and not entries:
            code = _find_failure_code(error)
            self._judged[first:] = array(self._judged.typecode, [code] * (len(self._judged) - first))
        n_failed, score = sum(entry.get("error") is not None for entry in entries), report.get("score")
        self._items.append(index)
        self._scores.append(math.nan if score is None else score)
        self._reported.append(bool(entries))
        # If a failed criterion leaves a report without a score, its other verdicts still count.
        self._failed.append(n_failed == len(entries) or (error is not None and not n_failed))
        self._judge_scores.append(report.get("judge_scores") or {})
        for judge, votes in self._asked_again.items():
            self._consistency.setdefault(judge, SelfConsistency(judge)).add(votes)
        self._asked_again.clear()

    def _add_points(self, index: int, item: DataItem | None, entries: list[Mapping[str, Any]]) -> bool:
        """Add the criteria of one item; False if they are not those of its rubric."""
        criteria = [_as_mapping(entry.get("criterion") or entry) for entry in entries]
        if self._dataset is not None:
            item, rubric = self._dataset.items[index], self._dataset.get_item_rubric(index)
        elif item is None:
            raise InputError(_NO_ITEMS)
        else:
            # An entry of a report may also have a verdict.
            rubric = Rubric([Criterion(**{n: c[n] for n in Criterion.model_fields if n in c}) for c in criteria])
        _, columns, requirements = self._find_columns(rubric)
        order: Sequence[int] = range(len(entries))
        if entries and [criterion["requirement"] for criterion in criteria] != requirements:
            texts = [(criterion.get("name"), criterion["requirement"]) for criterion in criteria]
            matched = match_criteria(texts, rubric.rubric)
            if matched is None:
                self._problems.append(describe_mismatch(index, item, texts, rubric))
                return False
            order = matched
        labels, size, first = item.ground_truth, len(columns), len(self._judged)
        self._row.extend([len(self._items)] * size)
        self._column.extend([column.index for column in columns])
        self._truth.extend([ABSENT] * size if labels is None else map(Column.find_code, columns, labels))
        self._judged.extend([FAILED] * size)
        for numbers in (self._means, self._dissent, self._confidence):
            numbers.extend([math.nan] * size)
        for point, place, column in zip(range(first, first + size), order, columns, strict=False):
            twice = self._read_entry(point, entries[place], column)
            if twice is not None and labels is not None:
                self._repeated_votes.append(
                    f"item {item.id or index}: judge {twice!r} voted more than once on {column.name!r}; "
                    "expected at most one vote per judge that is not superseded"
                )
        self._labelled.append(labels is not None)
        return True

    def _find_columns(self, rubric: Rubric) -> tuple[Rubric, list[Column], list[str]]:
        """Return a rubric with its columns and requirements; equal criteria of several rubrics share a column."""
        if id(rubric) not in self._by_rubric:
            columns: list[Column] = []
            seen: Counter[Hashable] = Counter()
            for name, criterion in zip(name_criteria(rubric.rubric), rubric.rubric, strict=True):
                # Everything that verdicts and scores depend on.
                options = tuple((option.label, option.value, option.na) for option in criterion.options or ())
                texts = criterion.name, criterion.section, criterion.requirement
                same = *texts, criterion.weight, criterion.scale_type, options
                seen[same] += 1  # one criterion twice in a rubric is two columns
                key = same, seen[same]
                if key not in self._columns:
                    self._columns[key] = Column.from_criterion(criterion, len(self._columns), name, self._modes, key)
                columns.append(self._columns[key])
            self._by_rubric[id(rubric)] = rubric, columns, [criterion.requirement for criterion in rubric.rubric]
        return self._by_rubric[id(rubric)]

    def _read_entry(self, point: int, entry: Mapping[str, Any], column: Column) -> str | None:
        """Write the verdict and votes on one criterion to a point; return the judge that voted twice, if any."""
        ensemble = "criterion" in entry
        choice = entry.get("final_multi_choice_verdict" if ensemble else "multi_choice_verdict")
        if choice is not None:
            choice = _as_mapping(choice)
            self._means[point] = choice.get("aggregated_value", math.nan)
        error = entry.get("error")
        if error is not None:
            self._judged[point] = _find_failure_code(error)
        else:
            # An entry without an error must have a verdict, so a missing key means damage.
            name = "final_verdict" if ensemble else "verdict"
            self._judged[point] = column.read_verdict(entry[name]) if choice is None else column.read_choice(choice)
        confidence = entry.get("confidence")
        if confidence is not None:
            self._confidence[point] = confidence
        votes = entry.get("votes") or entry.get("multi_choice_votes")
        return self._read_votes(point, votes, column) if votes else None

    def _read_votes(self, point: int, votes: Sequence[Any], column: Column) -> str | None:
        """Write the votes on one criterion to a point; return the judge that voted twice, if any."""
        words: list[object] = []
        counts: set[str] = set()
        twice: str | None = None
        several = len(votes) > 1
        for vote in votes:
            found = vote if type(vote) is dict else vars(vote)
            judge, is_binary, code = found["judge_id"], "verdict" in found, FAILED
            failed = found.get("error") is not None
            if not failed:
                code = column.read_verdict(found["verdict"]) if is_binary else column.read_choice(found)
            self._vote_point.append(point)
            self._vote_judge.append(self._judges.setdefault(judge, len(self._judges)))
            self._vote_code.append(code)
            if found.get("repeats"):
                made = (JudgeVote if is_binary else MultiChoiceJudgeVote).model_validate(vote)
                self._asked_again.setdefault(judge, []).append(made)
            if several and judge in counts and twice is None:
                twice = judge  # of several votes of a judge all but the last must be superseded
            if found.get("superseded"):
                self._superseded = True
            elif several:
                counts.add(judge)
                words += [] if failed else [found.get("selected_index", code)]
        if len(words) > 1:
            same = sum(math.comb(count, 2) for count in Counter(words).values())
            self._dissent[point] = 1.0 - same / math.comb(len(words), 2)
        return twice

    def build(self) -> Table:
        if self._seen and not self._graded and self._index is not None:
            why = self._index.explain_no_match(self._unmatched)
            raise InputError(f"none of the {len(self._seen)} graded items is in the dataset; {why}", _IS_IT)
        if self._problems:
            raise InputError(self._problems, _IS_IT)
        own = self._row, self._column, self._truth, self._judged, self._items
        row, column, truth, judged, items = (np.array(codes, np.int64) for codes in own)
        of_votes = self._vote_point, self._vote_judge, self._vote_code
        point, voter, code = (np.array(codes, np.int64) for codes in of_votes)
        votes = np.full((len(self._judges), len(judged)), ABSENT, np.int64)
        votes[voter, point] = code
        scores = np.array([[found.get(judge) for found in self._judge_scores] for judge in self._judges], float)
        known = self._dataset.items if self._dataset is not None else []
        columns = list(self._columns.values())
        if len(self._by_rubric) > 1:  # the names in one rubric are distinct
            names = tell_apart((column.name, column.criterion.requirement) for column in columns)
            columns = [replace(column, name=name) for column, name in zip(columns, names, strict=True)]
        return Table(
            columns=tuple(columns),
            points=Points(row, column, truth, judged, votes),
            items=items,
            scores=np.array(self._scores),
            labelled=np.array(self._labelled, bool),
            failed=np.array(self._failed, bool),
            reported=np.array(self._reported, bool),
            means=np.array(self._means),
            dissent=np.array(self._dissent),
            confidence=np.array(self._confidence),
            judges=tuple(self._judges),
            judge_scores=scores.reshape(len(self._judges), len(items)),
            escalated=self._superseded,
            rule=self._rule,
            size=len(known) or len(items),
            extra=tuple(self._extra),
            repeated=self._repeated,
            missing=sum(item.ground_truth is not None for n, item in enumerate(known) if n not in self._graded),
            repeated_votes=tuple(self._repeated_votes),
            consistency=tuple(self._consistency.values()),
            modes=self._modes,
        )
