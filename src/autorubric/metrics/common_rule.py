"""Whether the scores of two runs are made by one rule, so that their errors are of one unit."""

from __future__ import annotations

from dataclasses import replace

from autorubric.core.verdict import CannotAssessStrategy
from autorubric.metrics.labelled_run import LabelledRun
from autorubric.metrics.scores import ScoreRule, recorded_rule, score_pairs


def rule_text(rule: ScoreRule) -> str:
    """A rule in words: what an abstention does, and the unit of the scores.

    Example:
        >>> rule_text(ScoreRule())
        'skip, normalized'
    """
    config = rule.cannot_assess
    credit = f" {config.partial_credit:g}" if config.strategy is CannotAssessStrategy.PARTIAL else ""
    return f"{config.strategy.value}{credit}, {'normalized' if rule.normalize else 'bare sums'}"


def with_one_rule(a: LabelledRun, b: LabelledRun) -> tuple[LabelledRun, LabelledRun, str | None]:
    """The runs with scores by one rule; without scores, and with a sentence that says why, where there is none.

    A run that did not record its rule takes that of the other where its scores follow from that one too.
    """
    names = rule_text(a.scores.rule), rule_text(b.scores.rule)
    if names[0] == names[1]:
        return a, b, None
    if (other := _by(a, b.scores.rule)) is not None:
        return other, b, None
    if (other := _by(b, a.scores.rule)) is not None:
        return a, other, None
    why = f"scores are not compared, as they are made by different rules: a by {names[0]}; b by {names[1]}"
    return _without_scores(a), _without_scores(b), why


def _by(run: LabelledRun, rule: ScoreRule) -> LabelledRun | None:
    """The run scored by another rule; None where it recorded its own, or its scores do not follow from that one."""
    if recorded_rule(run.settings) is not None:
        return None
    stated = {"normalize": rule.normalize, "cannot_assess": rule.cannot_assess.model_dump()}
    scores = score_pairs(run.table, run.table.scores, run.table.points.judged, stated, run.table.means)
    return None if scores.warnings else replace(run, scores=scores)


def _without_scores(run: LabelledRun) -> LabelledRun:
    scores = run.scores
    return replace(run, scores=scores._replace(rows=scores.rows[:0], judged=scores.judged[:0], true=scores.true[:0]))
