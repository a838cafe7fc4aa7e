"""The scores of groups of items, such as the answers of several models, and their differences on shared queries."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

from autorubric.core.display import Displayed, join_first
from autorubric.errors import InputError, pluralize
from autorubric.metrics.intervals import adjust_p_values
from autorubric.metrics.statistic_results import ConfidenceInterval, MetricModel
from autorubric.rows.record import is_blank
from autorubric.runs.summary import Moments, fold_query

if TYPE_CHECKING:
    from autorubric.runs.result import ItemResult

_MOST_GROUPS = 100
_FEW = 10
"""With fewer queries, a few more answers may change the interval considerably."""


class GroupedItem(NamedTuple):
    """The parts of an item that the comparison uses.

    Attributes:
        name: its id or place, for messages.
        metadata: its metadata, which names the group.
        query: the query that it answers, normalized for comparison (`fold_query`).
        score: its score; None if it has none that counts.
        abstained: whether the judge abstained on any of its criteria.
    """

    name: str
    metadata: Mapping[str, Any]
    query: Hashable
    score: float | None
    abstained: bool

    @classmethod
    def from_result(cls, result: ItemResult) -> GroupedItem:
        """Return an item with its result."""
        entries = getattr(result.report, "report", None) or ()
        abstained = any(entry.error is None and entry.score_value is None for entry in entries)
        score = None if result.error is not None else result.report.score
        return cls(result.name, result.item.metadata, fold_query(result.item.prompt), score, abstained)


class GroupScore(MetricModel):
    """The scores of one group.

    Attributes:
        name: the value of the column.
        items: the number of items with this value.
        scored: how many of them have a score; the others failed, were not requested or have only abstentions.
        abstained: the number of scored items with an abstention on some criterion.
        queries: how many queries the scored items answer.
        mean: the mean score; None without scores.
        ci: its 95% interval, clustered by query if queries have several answers of the group.
    """

    name: str
    items: int
    scored: int
    abstained: int
    queries: int
    mean: float | None
    ci: ConfidenceInterval | None


class GroupDifference(MetricModel):
    """The paired difference of two groups on the queries that both have scores for.

    Attributes:
        first: the group with the higher mean score.
        second: the other group.
        queries: how many queries both have scores for.
        difference: the mean over these queries of first − second; of several answers to a query, their mean counts.
        ci: its 95% interval (Student's t, with queries as the unit), not adjusted for several pairs.
        p_value: two-sided, of the paired t-test; None for fewer than two queries or equal differences.
        p_holm: the p-value adjusted for all pairs of groups (Holm).
    """

    first: str
    second: str
    queries: int
    difference: float | None = None
    ci: ConfidenceInterval | None = None
    p_value: float | None = None
    p_holm: float | None = None


class GroupComparison(Displayed, MetricModel):
    """Groups of the items of one run.

    Attributes:
        by: the metadata column that names the group.
        groups: those with the highest mean score first, those without scores last.
        differences: of all pairs that share queries; those with the best group first.
        warnings: items that are in no group, scores that are missing, and pairs without a difference.

    Example:
        >>> import tempfile
        >>> from autorubric import Criterion, Rubric, grade
        >>> rubric = Rubric([Criterion(name="Short", requirement="Contains at most 3 words.")])
        >>> rows = [
        ...     {"prompt": "Why?", "submission": "So.", "model": "a"},
        ...     {"prompt": "Why?", "submission": "It must be so.", "model": "b"},
        ... ]
        >>> run = grade(rows, rubric=rubric, judge="builtin/offline", out=tempfile.mkdtemp())
        >>> [(group.name, group.mean) for group in run.compare_groups("model").groups]
        [('a', 1.0), ('b', 0.0)]
    """

    by: str
    groups: list[GroupScore]
    differences: list[GroupDifference]
    warnings: list[str]

    def _build_rows(self) -> Iterator[Mapping[str, Any]]:
        for group in self.groups:
            ends = {"ci_lower": group.ci and group.ci.lower, "ci_upper": group.ci and group.ci.upper}
            yield group.model_dump(exclude={"ci"}) | ends


def compare_groups(items: Iterable[GroupedItem], by: str) -> GroupComparison:
    """Return the mean score of each group, and the paired differences between groups.

    Args:
        items: all items of the run, also those without a score.
        by: the key of their metadata that names the group.

    Raises:
        InputError: no item has a value, a value is a list or mapping, or there are more than 100 groups.

    Example:
        >>> rows = [("a", 1, 0.9), ("b", 1, 0.4), ("a", 2, 0.8), ("b", 2, 0.6), ("a", 3, 1.0), ("b", 3, 0.5)]
        >>> found = compare_groups((GroupedItem("", {"by": g}, q, s, False) for g, q, s in rows), "by")
        >>> [(group.name, round(group.mean, 3)) for group in found.groups]
        [('a', 0.9), ('b', 0.5)]
        >>> [pair] = found.differences
        >>> round(pair.difference, 3), round(pair.p_holm, 3)
        (0.4, 0.057)
    """
    scores, counts, missing = _collect(items, by)
    ranked = sorted(scores, key=lambda name: (not scores[name].count, -scores[name].mean, name))
    groups = [_describe_group(name, scores[name], *counts[name]) for name in ranked]
    every = [_compare_pair(a, b, scores) for a, b in combinations(ranked, 2)]
    pairs = [pair for pair in every if pair.queries]
    adjusted = adjust_p_values([pair.p_value for pair in pairs])
    differences = [pair.model_copy(update={"p_holm": p}) for pair, p in zip(pairs, adjusted, strict=True)]
    notes = _collect_notes(by, groups, every, missing)
    return GroupComparison(by=by, groups=groups, differences=differences, warnings=list(notes))


def _collect(items: Iterable[GroupedItem], by: str) -> tuple[dict[str, Moments], dict[str, tuple[int, int]], int]:
    """Return each group's scores, its numbers of items and abstentions, and the number of items without a group."""
    scores, counts, missing, columns = dict[str, Moments](), dict[str, tuple[int, int]](), 0, dict[str, None]()
    for item in items:
        columns.update(dict.fromkeys(item.metadata))
        value = item.metadata.get(by)
        if is_blank(value):
            missing += 1
            continue
        if isinstance(value, list | dict):
            kind = type(value).__name__
            raise InputError(f"item {item.name}: {by!r} is of type {kind}; expected a string, number or boolean")
        name = str(value).removesuffix(".0") if isinstance(value, float) else str(value)
        group = scores.setdefault(name, Moments(clusters={}))
        if item.score is not None:
            group.add(item.score, item.query)
        whole, abstained = counts.get(name, (0, 0))
        counts[name] = whole + 1, abstained + (item.abstained and item.score is not None)
    if not scores:
        known = f"the metadata of the items has {join_first([*columns])}" if columns else "the items have no metadata"
        raise InputError(f"no item has a value for {by!r}; {known}")
    if len(scores) > _MOST_GROUPS:
        raise InputError(
            f"{by!r} has {len(scores):,} different values; at most {_MOST_GROUPS} groups are compared, so choose a "
            "column that several items share, such as the model"
        )
    least, most = min(group.least for group in scores.values()), max(group.most for group in scores.values())
    for group in scores.values():
        group.least, group.most = least, most  # all groups are on one scale
    return scores, counts, missing


def _describe_group(name: str, scores: Moments, items: int, abstained: int) -> GroupScore:
    method = "wilson" if scores.least >= 0.0 and scores.most <= 1.0 else "t"
    return GroupScore(
        name=name,
        items=items,
        scored=scores.count,
        abstained=abstained,
        queries=len(scores.clusters or ()),
        mean=scores.mean if scores.count else None,
        ci=ConfidenceInterval.from_interval(scores.compute_interval() if scores.count else None, method),
    )


def _compare_pair(first: str, second: str, scores: Mapping[str, Moments]) -> GroupDifference:
    from autorubric.metrics.distribution import systematic_bias

    means = [
        {query: total / n for query, (n, total) in (scores[name].clusters or {}).items()} for name in (first, second)
    ]
    shared = [query for query in means[0] if query in means[1]]
    found = systematic_bias(*([each[query] for query in shared] for each in means))
    return GroupDifference(
        first=first,
        second=second,
        queries=len(shared),
        difference=found.mean_bias,
        ci=found.ci,
        p_value=None if found.ci is None else found.p_value,
    )


def _collect_notes(by: str, groups: list[GroupScore], pairs: list[GroupDifference], missing: int) -> Iterator[str]:
    if missing:
        yield f"{pluralize(missing, 'item')} without {by!r} {'is' if missing == 1 else 'are'} in no group"
    unscored = sum(group.items - group.scored for group in groups)
    if unscored:
        yield (
            f"{pluralize(unscored, 'item')} without a score: failed, not requested, or no criterion could be "
            "assessed, or none with a positive weight"
        )
    single = [group.name for group in groups if group.queries == 1 < group.scored]
    few = [f"{group.name} ({group.queries})" for group in groups if 0 < group.queries < _FEW]
    if single:
        yield f"all answers are to one query and count as independent: {join_first(single)}"
    elif few:
        yield f"fewer than {_FEW} queries, so the interval is uncertain: {join_first(few)}"
    apart = sum(not pair.queries for pair in pairs)
    if apart:
        yield f"{pluralize(apart, 'pair')} of groups with no query in common; their answers cannot be paired"
    unknown = sum(pair.queries > 0 and pair.ci is None for pair in pairs)
    if unknown:
        yield (
            f"no interval for {pluralize(unknown, 'difference')}: one shared query, or the same difference on all "
            "shared queries"
        )
