"""The result of an evaluation: the report of each item, the totals, and how both are displayed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from autorubric.charts.html import render_judged
from autorubric.charts.svg import Ranged, plot_bars, plot_intervals
from autorubric.core.display import Displayed, as_html, join_charts, tell_apart
from autorubric.core.report import Report
from autorubric.core.usage import TokenUsage, UnknownCost
from autorubric.dataset import DataItem, RubricDataset
from autorubric.errors import InputError, MissingFileError, clip, pluralize
from autorubric.files.remote import make_path
from autorubric.llm.failure_groups import NOT_MADE, parse_failure, quote_text
from autorubric.metrics.intervals import rate_interval
from autorubric.runs.cells import list_entries
from autorubric.runs.items_file import dump_report, parse_report, read_items, read_report, read_run
from autorubric.runs.manifest import DATASET_FILE, ExperimentManifest
from autorubric.runs.progress import format_cost
from autorubric.runs.summary import EvalTimingStats, sum_paid

if TYPE_CHECKING:
    from autorubric.llm.limits import ModelEstimate
    from autorubric.llm.records.accounts import UsageTotals
    from autorubric.metrics import CannotAssessMode, MetricsResult, NAMode
    from autorubric.metrics.labelled_run import PerItemMetrics
    from autorubric.runs.group_scores import GroupComparison
    from autorubric.runs.summary import EvaluationSummary


@dataclass
class ItemResult(Displayed):
    """The report on one item.

    Attributes:
        item_idx: the item's place in the dataset, from 0.
        item: the item.
        report: the grader's report.
        duration_seconds: from the start of the item to its report, in the session that graded it.
        error: why the item has no report that counts; None if it has one.

    Example:
        >>> import tempfile
        >>> from autorubric import Criterion, Rubric, grade
        >>> rubric = Rubric([Criterion(name="Short", requirement="Contains at most 3 words.")])
        >>> [item] = grade(["Yes"], rubric=rubric, judge="builtin/offline", out=tempfile.mkdtemp()).item_results
        >>> item.report.score, item.error
        (1.0, None)
    """

    item_idx: int
    item: DataItem
    report: Report
    duration_seconds: float
    error: str | None = None

    @property
    def name(self) -> str:
        """The item's id, or its place where it has none."""
        return self.item.id or str(self.item_idx)

    def __repr__(self) -> str:
        name = self.item.id or self.item.description
        shown = f" {clip(name, 60)!r}" if name else ""
        outcome = f"score={self.report.score}" if self.error is None else f"error={clip(self.error, 200)!r}"
        return f"<ItemResult {self.item_idx}{shown}: {outcome}>"

    def _build_rows(self) -> Iterator[dict[str, Any]]:
        found = getattr(self.report, "report", None) or ()
        return (entry.as_row(number) for number, entry in enumerate(found, start=1))

    def _select_rows(self) -> Iterator[dict[str, Any]]:
        return iter(())

    def _render_above(self) -> str:
        item = self.item
        submission = item.submission if isinstance(item.submission, str) else str(item.submission)
        labels = [getattr(label, "value", label) for label in item.ground_truth or ()]
        stored = {"ground_truth": labels, "ground_truth_reasons": item.ground_truth_reasons}
        criteria = render_judged(list_entries(self.to_dict(), stored))
        return as_html("Submission", submission) + as_html("Reference", item.reference_submission, 600) + criteria

    def to_line(self) -> str:
        """Return the result as one line of JSON, without the item, which is in the dataset."""
        error = json.dumps(self.error)
        head = f'"item_idx":{self.item_idx},"duration_seconds":{self.duration_seconds:.6f},"error":{error}'
        return f'{{{head},"report":{dump_report(self.report)}}}'

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON values, without the item, which is in the dataset."""
        record: dict[str, Any] = json.loads(self.to_line())
        return record

    @classmethod
    def from_dict(cls, data: dict[str, Any], item: DataItem) -> ItemResult:
        """Build a result from JSON values, as `to_dict` returns them.

        Raises:
            ValueError: they are not a result.

        Example:
            >>> from autorubric.core.report import EvaluationReport
            >>> item = DataItem("It began in Britain.", "short")
            >>> result = ItemResult(0, item, EvaluationReport(score=0.5), 1.25)
            >>> ItemResult.from_dict(result.to_dict(), item) == result
            True
        """
        return cls(data["item_idx"], item, parse_report(data["report"]), data["duration_seconds"], data.get("error"))


@dataclass
class EvalResult(Displayed):
    """The result of an evaluation.

    Attributes:
        item_results: the items that were graded or failed, in the dataset's order. If the run was stopped, items that
            were not started are missing.
        total_items: items of the dataset.
        successful_items: items with a report that counts.
        failed_items: items without one, also those that were not requested completely because the run was stopped.
        total_token_usage: tokens of all calls made for this experiment, each counted once.
        total_completion_cost: their cost; `unknown` (false, equal to None, not a number) where a price is not known.
        timing_stats: durations of items.
        started_at: when this run began.
        completed_at: when it ended.
        errors: index and reason of each failed item.
        experiment_name: the directory's name.
        experiment_dir: the directory.
        stopped: why the run ended before every item was opened (budget, a refused key); None if it did not.
        grader_config: the configuration of the grader, as the manifest records it.
        summary: counts, scores, failures and cost of the run; None for a result that was read from a directory.
        estimate: what a dry run found; a dry run has no item results.

    Example:
        >>> import tempfile
        >>> from autorubric import Criterion, Rubric, grade
        >>> rubric = Rubric([Criterion(name="Short", requirement="Contains at most 5 words.")])
        >>> result = grade(["So."], rubric=rubric, judge="builtin/offline", out=tempfile.mkdtemp())
        >>> [(item.report.score, [one.word for one in item.report.report]) for item in result.item_results]
        [(1.0, ['MET'])]
    """

    item_results: Sequence[ItemResult]
    total_items: int
    successful_items: int
    failed_items: int
    total_token_usage: TokenUsage | None
    total_completion_cost: float | None
    timing_stats: EvalTimingStats
    started_at: datetime
    completed_at: datetime
    errors: list[tuple[int, str]] = field(default_factory=list)
    experiment_name: str | None = None
    experiment_dir: Path | None = None
    stopped: str | None = None
    grader_config: dict[str, Any] | None = None
    summary: EvaluationSummary | None = field(default=None, repr=False)
    estimate: list[ModelEstimate] | None = None

    def __repr__(self) -> str:
        if self.estimate is not None:
            calls, costs = sum(row.calls for row in self.estimate), [row.cost for row in self.estimate]
            cost = format_cost(None if None in costs else sum(filter(None, costs)))
            return (
                f"<EvalResult: dry run of {pluralize(self.total_items, 'item')}, {pluralize(calls, 'call')}, {cost}>"
            )
        name = "" if self.experiment_name is None else f" {clip(self.experiment_name, 60)!r}"
        scores = self.get_scores()
        parts = [f"{self.successful_items} of {pluralize(self.total_items, 'item')} graded"]
        unasked = sum(parse_failure(error)[0] in NOT_MADE for _, error in self.errors)
        left = self.total_items - self.successful_items - self.failed_items if self.stopped else 0
        counts = (self.failed_items - unasked, "failed"), (unasked + left, "not requested")
        parts += [f"{count} {what}" for count, what in counts if count]
        if scores:
            parts.append(f"mean score {sum(scores) / len(scores):.3f} ({min(scores):.3g} to {max(scores):.3g})")
        if self.total_token_usage is not None:
            parts.append(f"{self.total_token_usage.total_tokens:,} tokens")
        if self.total_completion_cost not in (None, UnknownCost()):
            parts.append(f"${self.total_completion_cost:.4g}")
        parts += self.summary.negotiated if self.summary else ()
        if self.stopped:
            parts.append(f"stopped: {quote_text(self.stopped)}")
        return f"<EvalResult{name}: {', '.join(parts)}>"

    def _build_rows(self) -> Iterator[dict[str, Any]]:
        """Yield a row for each criterion of each item, as in the tables of `autorubric grade -f`."""
        from autorubric.runs.tables import VoteColumns, build_rows

        judges = (self.grader_config or {}).get("judges") or ()
        votes = VoteColumns.from_judges({judge["judge_id"]: judge.get("repeats", 1) for judge in judges})
        for found in self.item_results:
            yield from build_rows(found.to_dict(), found.item, votes)

    def _select_rows(self) -> Iterator[dict[str, Any]]:
        """Yield a row for each item."""
        for found in self.item_results:
            yield {
                "item_idx": found.item_idx,
                "id": found.item.id,
                "description": found.item.description or None,
                "score": found.report.score,
                "error": found.error,
            }

    def _render_above(self) -> str:
        """Return a histogram of scores, and the mean value of each criterion with its interval."""
        scores = self.get_scores()
        if not scores:
            return ""
        bins = [0] * _BINS
        for score in scores:
            bins[min(max(int(round(score * _BINS, 6)), 0), _BINS - 1)] += 1
        bars = [(f"{place / _BINS:.2f}", float(count)) for place, count in enumerate(bins)]
        charts = [plot_bars("Scores", bars, "score, from", "items")]
        rows = list(_compute_criterion_means(self))[:_MOST_CRITERIA]
        if rows:
            charts.append(plot_intervals("Mean value of each criterion", rows, "mean value"))
        return join_charts(charts)

    def get_scores(self) -> list[float]:
        """Return the scores of the items that have one, in order; fewer than `item_results` if items failed.

        `[item.report.score for item in result.item_results]` has None in their places.
        """
        return [r.report.score for r in self.filter_successful() if r.report.score is not None]

    def get_reports(self) -> list[Report]:
        """Return the reports of the successful items; those of the failed ones are in `item_results`."""
        return [result.report for result in self.filter_successful()]

    def filter_successful(self) -> list[ItemResult]:
        """Return the items with a report that counts."""
        return [result for result in self.item_results if result.error is None]

    def filter_failed(self) -> list[ItemResult]:
        """Return the items without a report that counts."""
        return [result for result in self.item_results if result.error is not None]

    def compute_metrics(  # noqa: PLR0913 (published signature)
        self,
        dataset: RubricDataset,
        *,
        bootstrap: bool = False,
        n_bootstrap: int = 1000,
        per_judge: bool = False,
        cannot_assess: CannotAssessMode = "exclude",
        na_mode: NAMode = "exclude",
        confidence_level: float = 0.95,
        seed: int | None = None,
        per_item_metrics: PerItemMetrics = "auto",
    ) -> MetricsResult:
        """Agreement of this run with the labels of its items; see `autorubric.metrics.compute_metrics`."""
        from autorubric.metrics import compute_metrics

        return compute_metrics(
            self,
            dataset,
            bootstrap=bootstrap,
            n_bootstrap=n_bootstrap,
            per_judge=per_judge,
            cannot_assess=cannot_assess,
            na_mode=na_mode,
            confidence_level=confidence_level,
            seed=seed,
            per_item_metrics=per_item_metrics,
        )

    def compare_groups(self, by: str) -> GroupComparison:
        """Compare the mean scores of groups of items, such as the answers of each model, by paired differences.

        Args:
            by: the key of the items' metadata that names the group.

        Raises:
            InputError: see `autorubric.runs.group_scores.compare_groups`.
        """
        from autorubric.runs.group_scores import GroupedItem, compare_groups

        found = compare_groups(map(GroupedItem.from_result, self.item_results), by)
        left = self.total_items - len(self.item_results)
        notes = [f"{pluralize(left, 'item')} not started before the run was stopped"] if left else []
        return found.model_copy(update={"warnings": found.warnings + notes})

    @classmethod
    def from_experiment(cls, experiment_path: Path | str) -> EvalResult:
        """Return the result of an experiment directory; the run may be in progress or killed.

        AutoRubric 1.6 stored no submissions; those of its items are empty.

        Raises:
            MissingFileError: the directory contains no experiment.
            ValueError: a file of the run is not valid.
        """
        run = read_run(make_path(experiment_path))
        results = list(StoredItems(run.source, run.dataset))
        usage, cost = sum_paid(_read_totals(run.directory), [result.report for result in results])
        seen = {result.item_idx: (result.duration_seconds, result.error) for result in results}
        return make_result(results, run.manifest, run.directory, usage, cost, seen=seen)


class StoredItems(Sequence[ItemResult]):
    """The item results of a run directory, read when they are first used."""

    def __init__(self, path: Path, dataset: RubricDataset) -> None:
        self._path, self._dataset = path, dataset

    @cached_property
    def _items(self) -> list[ItemResult]:
        return list(map(self._read, read_items(self._path)))

    def _read(self, record: dict[str, Any]) -> ItemResult:
        index = record["item_idx"]
        if index >= len(self._dataset):
            known = f"{DATASET_FILE}, which has {pluralize(len(self._dataset), 'item')}"
            raise InputError(f"{self._path}: item {index} is not in {known}")
        report = read_report(self._path, record)
        return ItemResult(index, self._dataset[index], report, record["duration_seconds"], record["error"])

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, index: int) -> ItemResult: ...
    @overload
    def __getitem__(self, index: slice) -> list[ItemResult]: ...
    def __getitem__(self, index: int | slice) -> ItemResult | list[ItemResult]:
        return self._items[index]


def make_result(
    results: Sequence[ItemResult],
    manifest: ExperimentManifest,
    directory: Path,
    usage: TokenUsage | None,
    cost: float | None,
    *,
    seen: Mapping[int, tuple[float, str | None]],
) -> EvalResult:
    """Build the result from item results and a manifest; `seen` has the duration and the error of each item."""
    errors = [(index, error) for index in sorted(seen) if (error := seen[index][1]) is not None]
    started = manifest.started_at or manifest.created_at
    return EvalResult(
        item_results=results,
        total_items=manifest.total_items,
        successful_items=len(seen) - len(errors),
        failed_items=len(errors),
        total_token_usage=usage,
        total_completion_cost=UnknownCost() if cost is None else cost,
        timing_stats=EvalTimingStats.from_durations(
            [seen[index][0] for index in sorted(seen)], manifest.total_duration_seconds or 0.0
        ),
        started_at=started,
        completed_at=manifest.completed_at or datetime.now(UTC),
        errors=errors,
        experiment_name=manifest.experiment_name,
        experiment_dir=directory,
        stopped=manifest.error,
        grader_config=manifest.grader_config,
    )


def _read_totals(directory: Path) -> list[UsageTotals]:
    from autorubric.llm.records.ledger_view import ledger_view
    from autorubric.runs.run_folder import LEDGER_FOLDER

    try:
        with ledger_view(directory / LEDGER_FOLDER) as ledger:
            return ledger.add_up()
    except MissingFileError:
        return []


_BINS = 20
_MOST_CRITERIA = 12  # fits a screen


def _compute_criterion_means(result: EvalResult) -> Iterator[Ranged]:
    values: dict[tuple[str, str], list[float]] = {}
    for found in result.item_results:
        for row in found._build_rows():
            if row["value"] is not None:
                values.setdefault((row["criterion"], row["requirement"]), []).append(row["value"])
    for name, found_values in zip(tell_apart(values), values.values(), strict=True):
        n, total, squares = len(found_values), sum(found_values), sum(value * value for value in found_values)
        interval = rate_interval(n, total, squares)
        yield Ranged(name, total / n, *(interval[:2] if interval else (None, None)))
