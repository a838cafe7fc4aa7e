"""What `autorubric agree` prints: a table, sentences that the intervals support, and notes."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from autorubric.dataset import RubricDataset
from autorubric.errors import InputError
from autorubric.files.markdown import markdown_text
from autorubric.files.spreadsheet import defused
from autorubric.metrics.compare import compare_judges, verdict_on
from autorubric.metrics.compute import compute_metrics
from autorubric.metrics.criterion_results import CriterionMetricsUnion
from autorubric.metrics.results import MetricsResult
from autorubric.metrics.statistic_results import ConfidenceInterval
from autorubric.metrics.summary import shown, worst_first
from autorubric.metrics.worth import criteria_worth

_TRUST = 0.61
_DISTRUST = 0.41


@dataclass(frozen=True)
class Shown:
    """A table with what is said above and below it.

    Attributes:
        rows: one mapping a row, all with the same keys.
        whole: everything, for JSON.
        above: lines before the table.
        below: lines after it.
    """

    rows: Sequence[Mapping[str, Any]]
    whole: Any
    above: Sequence[str] = ()
    below: Sequence[str] = ()

    def text(self, form: str) -> str:
        """The report as `text`, `md`, `csv` or `json`.

        Example:
            >>> print(Shown([{"n": 1}], {}).text("md"))
            | n |
            | --- |
            | 1 |
        """
        if form == "json":
            return json.dumps(self.whole, indent=2, ensure_ascii=False)
        if form == "csv":
            return self._csv()
        table = self._markdown() if form == "md" else self._aligned()
        return "\n".join([*self.above, *table, *self.below])

    def _cells(self) -> Iterator[list[str]]:
        if self.rows:
            yield list(self.rows[0])
        for row in self.rows:
            yield ["–" if value is None else str(value) for value in row.values()]

    def _aligned(self) -> Iterator[str]:
        cells = list(self._cells())
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        for row in cells:
            yield ("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))).rstrip()

    def _markdown(self) -> Iterator[str]:
        for place, row in enumerate(self._cells()):
            yield "| " + " | ".join(map(markdown_text, row)) + " |"
            if place == 0:
                yield "| " + " | ".join("---" for _ in row) + " |"

    def _csv(self) -> str:
        out = io.StringIO()
        writer = csv.DictWriter(out, list(self.rows[0]) if self.rows else [])
        writer.writeheader()
        writer.writerows({name: defused(value) for name, value in row.items()} for row in self.rows)
        return out.getvalue()


def agreement(run: Any, dataset: RubricDataset, by: str, replicates: int, options: Mapping[str, Any]) -> Shown:
    """The agreement of a run with its labels.

    Raises:
        InputError: fewer than two items have a label and a verdict; or see `compute_metrics`.
    """
    found = compute_metrics(run, dataset, bootstrap=True, n_bootstrap=replicates, per_judge=by == "judge", **options)
    if found.n_items < 2:
        raise InputError(
            f"only {found.n_items} item has both labels and verdicts; agreement needs two or more, and intervals "
            "that say something need 30 or more"
        )
    rows = {"criterion": _criterion_rows, "judge": _judge_rows, "tag": _tag_rows}[by](found)
    kappa = found.bootstrap.kappa_ci if found.bootstrap else None
    interval = None if kappa is None else ConfidenceInterval(lower=kappa[0], upper=kappa[1])
    above = [
        f"{found.n_items} labelled items, {found.n_samples} pairs of label and verdict; "
        f"{options['confidence_level']:.0%} intervals by resampling items",
        f"accuracy {shown(found.criterion_accuracy, found.accuracy_ci)} (always the commonest label: "
        f"{shown(found.base_rate)}), mean kappa {shown(found.mean_kappa, interval)}, "
        f"Gwet's AC1 {shown(found.criterion_gwet)}",
        f"score error (MAE) {shown(found.score_mae)}, bias {shown(found.bias.mean_bias, found.bias.ci)} over "
        f"{found.n_scores} items",
        "",
    ]
    notes = [f"note: {warning}" for warning in found.warnings]
    return Shown(rows, found.model_dump(mode="json"), above, ["", *sentences(found), *notes])


def sentences(found: MetricsResult) -> Iterator[str]:
    """What the intervals support, and nothing more."""
    for figures in worst_first(found):
        interval = figures.kappa_ci
        if interval is None or figures.is_degenerate:
            continue
        if interval.upper < _DISTRUST:
            yield f"Do not rely on {figures.name!r}: its kappa is below {_DISTRUST} at best ({interval.upper:.2f})."
        elif interval.lower >= _TRUST:
            yield f"{figures.name!r} can be relied on: its kappa is {interval.lower:.2f} or more."
    bias = found.bias
    if bias.ci is not None and bias.ci.lower > 0:
        yield f"Scores are too high, by {bias.ci.lower:.3f} or more on average."
    elif bias.ci is not None and bias.ci.upper < 0:
        yield f"Scores are too low, by {-bias.ci.upper:.3f} or more on average."


def _criterion_rows(found: MetricsResult) -> list[dict[str, Any]]:
    if found.pooled_by_scale is not None:
        return [
            {
                "criteria": scale.scale_type,
                "n": scale.n_points,
                "accuracy": shown(scale.exact_accuracy, scale.accuracy_ci),
                "kappa": shown(scale.kappa, scale.kappa_ci),
                "AC1": shown(scale.gwet),
                "abstained": scale.n_abstain,
            }
            for scale in found.pooled_by_scale
        ]
    return [_criterion_row(figures) for figures in worst_first(found)]


def _criterion_row(figures: CriterionMetricsUnion) -> dict[str, Any]:
    coverage = figures.coverage_stats
    return {
        "criterion": figures.name,
        "n": figures.n_samples,
        "kappa": shown(figures.kappa, figures.kappa_ci),
        "AC": shown(figures.gwet),
        "accuracy": shown(figures.accuracy, figures.accuracy_ci),
        "commonest label": shown(figures.base_rate),
        "coverage": shown(coverage.coverage if coverage else None),
        "weight": f"{figures.weight:g}",
    }


def _judge_rows(found: MetricsResult) -> list[dict[str, Any]]:
    if not found.per_judge:
        raise InputError("--by judge: the reports of this run have no votes")
    change = {influence.judge_id: influence.accuracy_change for influence in found.without_judge}
    judges = sorted(found.per_judge.values(), key=lambda j: (j.criterion_accuracy is None, j.criterion_accuracy or 0))
    return [
        {
            "judge": judge.judge_id,
            "n": judge.n_pairs,
            "accuracy": shown(judge.criterion_accuracy),
            "mean kappa": shown(judge.mean_kappa),
            "AC1": shown(judge.gwet),
            "score bias": shown(judge.bias.mean_bias if judge.bias else None, judge.bias.ci if judge.bias else None),
            "panel without it": shown(change.get(judge.judge_id)),
            "asked": judge.coverage,
        }
        for judge in judges
    ]


def _tag_rows(found: MetricsResult) -> list[dict[str, Any]]:
    if not found.per_tag:
        raise InputError("--by tag: no criterion has a tag")
    return [
        {
            "tag": tag.tag,
            "criteria": tag.n_criteria,
            "n": tag.n_samples,
            "mean kappa": shown(tag.mean_kappa, tag.mean_kappa_ci),
            "accuracy": shown(tag.accuracy, tag.accuracy_ci),
        }
        for tag in sorted(found.per_tag, key=lambda tag: (tag.mean_kappa is None, tag.mean_kappa or 0.0))
    ]


def comparison(run: Any, other: Any, dataset: RubricDataset, replicates: int, options: Mapping[str, Any]) -> Shown:
    """Two runs against the same labels; the first is a."""
    found = compare_judges(run, other, dataset, n_replicates=replicates, **options)
    figures = [found.accuracy, found.mean_kappa, found.score_error, found.score_bias, *found.per_criterion]
    names = ("accuracy", "mean kappa", "score error", "score bias")
    rows = [
        {
            "figure": names[place] if place < len(names) else f"kappa of {figure.name}",
            "n": figure.n,
            "a": shown(figure.a),
            "b": shown(figure.b),
            "a − b": shown(figure.difference, figure.ci),
            "p": shown(figure.p_value),
            "p (Holm)": shown(figure.p_holm),
        }
        for place, figure in enumerate(figures)
    ]
    head, *_ = found.summary().splitlines()
    notes = [f"note: {warning}" for warning in found.warnings]
    return Shown(rows, found.model_dump(mode="json"), [head, ""], ["", verdict_on(found.accuracy), *notes])


def worth(run: Any, dataset: RubricDataset, confidence: float) -> Shown:
    """What each criterion of a run is worth, worst first."""
    found = criteria_worth(run, dataset, confidence=confidence)
    rows = [
        {
            "criterion": each.name,
            "n": each.n,
            "what to do": each.advice,
            "pass rate": shown(each.pass_rate.value),
            "discrimination": shown(each.discrimination.value),
            "share of score": shown(each.score_share),
            "most like": each.partner,
            "why": each.reason,
        }
        for each in found
    ]
    return Shown(rows, [_jsonable(each) for each in found])


def _jsonable(found: Any) -> Any:
    return json.loads(json.dumps(asdict(found), default=str))
