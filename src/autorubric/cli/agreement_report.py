"""The tables of `autorubric agree`, with conclusions that the intervals support, and notes."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from autorubric.errors import InputError, pluralize
from autorubric.files.printable import align_columns, escape_markdown, format_csv
from autorubric.metrics.agreement_statistics import MeasuredModel, load_statistics
from autorubric.metrics.compare import JudgeComparison, describe_winner
from autorubric.metrics.intervals import DISTRUST, TRUST
from autorubric.metrics.judge_agreement import JudgeAgreement, JudgePair
from autorubric.metrics.metrics_text import render_consistency, show, sort_worst_first
from autorubric.metrics.results import CoverageSimulation, MetricsResult, TagMetrics
from autorubric.metrics.rubric_analysis import RubricAnalysis
from autorubric.metrics.score_agreement import HumanScoreAgreement
from autorubric.metrics.statistic_results import ConfidenceInterval

INTERVALS = "{:.10g}% confidence intervals"
"""The name of a table's intervals, given their level in percent."""
_LEAST_SCORES = 30
"""Below this number of scores, Student's interval of the bias covers too little for a conclusion."""
_AC = "AC: Gwet's AC1 (AC2 for ordered options), chance-corrected like kappa but robust to class imbalance"


class MetricCell(NamedTuple):
    """A metric with its interval, as a cell of a table; None if undefined.

    Attributes:
        value: the metric.
        interval: its interval, if it has one.

    Example:
        >>> cell = MetricCell(0.5, ConfidenceInterval(lower=0.2, upper=0.8))
        >>> print(TableReport([{"kappa": cell}], {}).render("text"))
          kappa
          0.500 [0.200, 0.800]
        >>> f"kappa {MetricCell(0.5)}"
        'kappa 0.500'
    """

    value: float | None
    interval: ConfidenceInterval | None = None

    def __str__(self) -> str:
        """Return the metric with its interval, for the lines above and below a table."""
        return show(*self)


@dataclass(frozen=True)
class TableReport:
    """A table with lines above and below it.

    Attributes:
        rows: one mapping per row, all with the same keys. Text shows three decimals; CSV has full precision, and
            three columns for a metric with an interval.
        whole: everything, for JSON.
        above: lines before the table.
        below: lines after it.
        texts: columns of long texts, which only CSV includes.
        kappa: the mean κ of the judge and the labels, or that of all pairs where items have their own rubrics.
    """

    rows: Sequence[Mapping[str, Any]]
    whole: Any
    above: Sequence[str] = ()
    below: Sequence[str] = ()
    texts: Sequence[str] = ()
    kappa: float | None = None

    def render(self, form: str) -> str:
        """Return the report as `text`, `md`, `csv` or `json`.

        Example:
            >>> print(TableReport([{"n": 1}], {}).render("md"))
            | n |
            | --- |
            | 1 |
        """
        if form == "json":
            return json.dumps(self.whole, indent=2, ensure_ascii=False)
        if form == "csv":
            return format_csv((dict(_split_columns(row)) for row in self.rows), "\r\n")
        names = [name for name in (self.rows[0] if self.rows else ()) if name not in self.texts]
        cells = [names] if names else []
        for row in self.rows:
            values = (row[name] for name in names)
            plain = (one if isinstance(one, tuple | str | int) else (one,) for one in values)
            cells.append([show(*cell) if isinstance(cell, tuple) else str(cell) for cell in plain])
        if form == "md":
            table = ["| " + " | ".join(map(escape_markdown, row)) + " |" for row in cells]
            table[1:1] = ["| " + " | ".join("---" for _ in names) + " |"] if names else []
        else:
            table = align_columns(cells)
        return "\n".join([*self.above, *table, *self.below])


def _split_columns(row: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in row.items():
        if isinstance(value, MetricCell):
            ends = (None, None) if value.interval is None else (value.interval.lower, value.interval.upper)
            yield from zip((name, f"{name} low", f"{name} high"), (value.value, *ends), strict=True)
        else:
            yield name, value


def show_agreement(found: MetricsResult, by: str) -> TableReport:
    """Return the table of criteria, judges or tags, below the metrics of the whole run."""
    rows = {"criterion": _build_criterion_rows, "judge": _build_judge_rows, "tag": _build_tag_rows}[by](found)
    confidence = found.bootstrap.confidence_level if found.bootstrap else 0.95
    kappa, mean, ends = "mean kappa", found.mean_kappa, found.mean_kappa_ci
    if found.pooled_by_scale is not None:
        kappa, mean = "kappa of all binary pairs", found.micro_kappa
        ends = next((scale.kappa_ci for scale in found.pooled_by_scale if scale.scale_type == "binary"), None)
    above = [
        f"{pluralize(found.n_items, 'labelled item')}, {pluralize(found.n_samples or 0, 'pair')} of label and "
        f"verdict; {INTERVALS.format(100.0 * confidence)} clustered by item",
        f"accuracy {show(found.criterion_accuracy, found.accuracy_ci)} (majority-class baseline "
        f"{show(found.majority_baseline)}), {kappa} {show(mean, ends)}, "
        f"Gwet's AC1 {show(found.criterion_gwet)}",
        f"score error (MAE) {show(found.score_mae)}, bias {show(found.bias.mean_bias, found.bias.ci)} over "
        f"{pluralize(found.n_scores, 'item')}",
        *(render_consistency(found) if found.self_consistency else ()),
        "",
    ]
    notes = [f"note: {warning}" for warning in found.warnings]
    named = [(repr(c.name), None if c.mcc is None else c.kappa_ci) for c in sort_worst_first(found)]
    named += [(f"the {scale.scale_type} criteria", scale.kappa_ci) for scale in found.pooled_by_scale or []]
    its = "its" if found.pooled_by_scale is None else "their"
    conclusions = [*describe_intervals(named, its, found.bias.ci if found.n_scores >= _LEAST_SCORES else None)]
    if ends and (ends.lower < DISTRUST <= ends.upper or ends.lower < TRUST <= ends.upper):
        more = f"about {4 * found.n_items:,} labelled items in all would halve it"
        conclusions.append(f"The interval of {kappa} is too wide for a conclusion; {more}.")
    below = ["", *([_AC] if any("AC" in row for row in rows) else ()), *conclusions, *notes]
    if found.simulation is not None:
        below += format_simulation(found.simulation)
    return TableReport(rows, found.model_dump(mode="json"), above, below, kappa=mean)


def format_simulation(found: CoverageSimulation) -> Iterator[str]:
    """Yield how often the intervals covered the true values in samples of the run's own items."""
    error = 100.0 * math.sqrt(found.confidence * (1.0 - found.confidence) / found.resamples)
    yield ""
    yield (
        f"coverage of the intervals in {found.resamples} samples of {pluralize(found.items, 'item')}, drawn with "
        f"replacement from the labelled items ({found.method}); standard error {error:.1f}%"
    )
    wide = max((len(one.name) for one in found.intervals), default=0)
    yield f"  {'interval':<{wide}}  covered  above  below  no interval"
    for one in found.intervals:
        yield f"  {one.name:<{wide}}  {one.covered:7.1%}  {one.above:5.1%}  {one.below:5.1%}  {1.0 - one.given:11.1%}"


def describe_intervals(
    named: Iterable[tuple[str, ConfidenceInterval | None]], its: str = "its", bias: ConfidenceInterval | None = None
) -> Iterator[str]:
    """Conclusions that the intervals support: those of κ, by names of criteria, and that of the bias."""
    for name, interval in named:
        if interval is None:
            continue
        if interval.upper < DISTRUST:
            yield f"Do not rely on {name}: {its} kappa is below {DISTRUST} at best ({interval.upper:.2f})."
        elif interval.lower >= TRUST:
            yield f"{name[0].upper()}{name[1:]} can be relied on: {its} kappa is {interval.lower:.2f} or more."
    if bias is None:
        return
    if bias.lower > 0:
        yield f"Scores are too high, by {bias.lower:.3f} or more on average."
    elif bias.upper < 0:
        yield f"Scores are too low, by {-bias.upper:.3f} or more on average."


def _build_statistics(part: MeasuredModel) -> dict[str, Any]:
    """Return a cell for each statistic that has a column, including those of installed packages."""
    kappa_ci = getattr(part, "micro_kappa_ci", getattr(part, "kappa_ci", None))
    ends = {"kappa": kappa_ci, "accuracy": getattr(part, "accuracy_ci", None)}
    return {
        statistic.title: MetricCell(part.find(statistic.name), ends[statistic.name])
        if statistic.name in ends
        else part.find(statistic.name)
        for statistic in load_statistics()
        if statistic.title
    }


def _build_criterion_rows(found: MetricsResult) -> list[dict[str, Any]]:
    if found.pooled_by_scale is not None:
        return [
            {
                "criteria": scale.scale_type,
                "n": scale.n_points,
                **_build_statistics(scale),
                "abstained": scale.n_abstain,
            }
            for scale in found.pooled_by_scale
        ]
    return [
        {
            "criterion": criterion.name,
            "n": criterion.n_samples,
            **_build_statistics(criterion),
            "coverage": criterion.coverage_stats.coverage if criterion.coverage_stats else None,
            "weight": f"{criterion.weight:g}",
        }
        for criterion in sort_worst_first(found)
    ]


def _build_judge_rows(found: MetricsResult) -> list[dict[str, Any]]:
    if not found.per_judge:
        raise InputError("--by judge: the reports of this run have no votes")
    change = {influence.judge_id: influence.accuracy_change for influence in found.without_judge}
    judges = sorted(found.per_judge.values(), key=lambda j: (j.criterion_accuracy is None, j.criterion_accuracy or 0))
    return [
        {
            "judge": judge.judge_id,
            "n": judge.n_pairs,
            **({} if found.pooled_by_scale else {"mean kappa": MetricCell(judge.mean_kappa, judge.kappa_ci)}),
            **_build_statistics(judge),
            "score bias": MetricCell(*((judge.bias.mean_bias, judge.bias.ci) if judge.bias else (None, None))),
            "panel without it": change.get(judge.judge_id),
            "asked": judge.coverage,
        }
        for judge in judges
    ]


def _build_tag_rows(found: MetricsResult) -> list[dict[str, Any]]:
    if not found.per_tag:
        raise InputError("--by tag: no criterion has a tag")
    return [
        {
            "tag": tag.tag,
            "criteria": tag.n_criteria,
            "n": tag.n_samples,
            "mean kappa": MetricCell(tag.mean_kappa, tag.mean_kappa_ci),
            **_build_statistics(tag),
        }
        for tag in sorted(found.per_tag, key=_rank_by_kappa)
    ]


def _rank_by_kappa(tag: TagMetrics) -> tuple[bool, float, float]:
    """Return a sort key: mean κ (κ of all pairs if criteria are pooled), then accuracy; tags without κ come last."""
    kappa = tag.micro_kappa if tag.mean_kappa is None else tag.mean_kappa
    return kappa is None, kappa or 0.0, tag.accuracy or 0.0


def show_judges(found: JudgeAgreement, by: str) -> TableReport:
    """Return how much judges agree with each other, by criterion or pair of judges, and where they differ most."""
    rows = [
        {
            "criterion": agreement.name,
            "n": agreement.n,
            "agreement": MetricCell(agreement.agreement, agreement.agreement_ci),
            "alpha": agreement.alpha,
        }
        for agreement in found.criteria
    ]
    if by == "judge":
        rows = [_build_pair_row(pair) for pair in found.pairs]
    overall = found.overall
    ends = overall.agreement_ci
    confidence = 0.95 if ends is None else ends.confidence
    least = found.each_judge[0]
    above = [
        f"{', '.join(found.judges)}: {pluralize(found.n_items, 'item')}, "
        f"{pluralize(overall.n, 'pair')} of verdicts, without labels; "
        f"{INTERVALS.format(100.0 * confidence)} clustered by item",
        f"two judges give the same verdict in {show(overall.agreement, ends)} of the pairs",
        *([f"lowest agreement with others: {least.name}, {show(least.agreement)}"] if len(found.judges) > 2 else []),
        "",
    ]
    below = [""]
    if found.disputed:
        below.append("items where judges differ most:")
        below += [
            f"  {item.id or f'item {item.item}'}: {item.differing:.0%} of {pluralize(item.n, 'pair')} "
            f"{'differs' if item.n == 1 else 'differ'} ({', '.join(item.criteria)})"
            for item in found.disputed
        ]
    notes = [f"note: {warning}" for warning in found.warnings]
    return TableReport(rows, found.model_dump(mode="json"), above, [*below, *notes])


def _build_pair_row(pair: JudgePair) -> dict[str, Any]:
    return {
        "judge": pair.name,
        "other": pair.other,
        "n": pair.n,
        "agreement": MetricCell(pair.agreement, pair.agreement_ci),
        "mean kappa": MetricCell(pair.mean_kappa, pair.mean_kappa_ci),
        "kappa, binary": MetricCell(pair.kappa, pair.kappa_ci),
        "AC1, binary": pair.gwet,
    }


def show_comparison(found: JudgeComparison) -> TableReport:
    """Return two runs compared on the same labels; a is the first."""
    kappa, mean = ("mean kappa", found.mean_kappa) if found.per_criterion else ("kappa, binary", found.micro_kappa)
    whole = [found.accuracy, mean, found.score_error, found.score_bias]
    names = ["accuracy", kappa, "score error", "score bias", *(f"kappa of {one.name}" for one in found.per_criterion)]
    rows = [
        {
            "metric": name,
            "n": difference.n,
            "a": difference.a,
            "b": difference.b,
            "a − b": MetricCell(difference.difference, difference.ci),
            "p": difference.p_value,
            "p (Holm)": difference.p_holm,
        }
        for name, difference in zip(names, [*whole, *found.per_criterion], strict=True)
    ]
    head, *_ = found.summary().splitlines()
    notes = [f"note: {warning}" for warning in found.warnings]
    return TableReport(rows, found.model_dump(mode="json"), [head, ""], ["", describe_winner(found.accuracy), *notes])


def show_human_scores(found: HumanScoreAgreement) -> TableReport:
    """Return how the score and each criterion relate to human scores."""
    rows = [
        {
            "compared": part.name,
            "n": part.spearman.n_samples,
            **{
                each.method.title(): MetricCell(each.coefficient, each.ci)
                for each in (part.spearman, part.kendall, part.pearson)
            },
            "pairs": part.n_pairs,
            "pairwise accuracy": MetricCell(part.pairwise_accuracy, part.pairwise_ci),
        }
        for part in (found.overall, *found.criteria)
    ]
    whole = found.overall
    above = [
        f"{pluralize(found.n_items, 'item')} with a score and a human score ({found.score!r}); "
        f"{INTERVALS.format(100.0 * found.confidence)}",
        f"pairwise accuracy {show(whole.pairwise_accuracy, whole.pairwise_ci)} over "
        f"{pluralize(whole.n_pairs, 'pair')} of submissions to one query ({pluralize(whole.n_ties, 'tie')})",
        "",
    ]
    notes = [f"note: {warning}" for warning in found.warnings]
    return TableReport(rows, found.model_dump(mode="json"), above, ["", *notes] if notes else ())


def show_analysis(found: RubricAnalysis, rollouts: int) -> TableReport:
    """Return how each criterion performs, worst first, and the signal of the rubric for training."""
    rows = [
        {
            "criterion": each.name,
            "n": each.n,
            "advice": each.advice,
            "pass rate": each.pass_rate.value,
            "discrimination": each.discrimination.value,
            "slope": each.slope,
            "difficulty": each.difficulty,
            "share of variance": each.score_share,
            "disagreement": each.disagreement,
            "most similar": each.partner,
            "correlation": MetricCell(
                each.redundancy.value, ConfidenceInterval.from_interval(each.redundancy.interval)
            ),
            "why": each.reason,
        }
        for each in found.criteria
    ]
    effective = "–" if found.effective is None else f"{found.effective:.1f}"
    return TableReport(
        rows,
        {**asdict(found), "group": found.group._asdict()},
        [
            f"{pluralize(len(rows), 'criterion')}, equivalent to {effective} independent ones",
            f"groups of {rollouts} submissions to one prompt: expected variance of the score "
            f"{show(found.group.expected)}, all scores equal in {show(found.group.silent)} of the groups",
            "",
        ],
        ["", *(f"note: {note}" for note in found.notes)] if found.notes else (),
    )
