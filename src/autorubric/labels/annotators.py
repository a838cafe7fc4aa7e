"""Annotators against one another: on the pairs that two or more of them labelled."""

import itertools
import math
from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from autorubric.core.criterion import Criterion
from autorubric.files.printable import to_utf8
from autorubric.labels.event import Items, Pair, PairFinder, list_choices
from autorubric.labels.label_store import History
from autorubric.metrics.confusion import cohen_kappa, count_pairs, count_ratings, kappas, krippendorff_alpha
from autorubric.metrics.table import Column

_BINARY = ("MET", "UNMET", "CANNOT_ASSESS")


@dataclass(frozen=True)
class TwoAnnotators:
    """Two annotators on the pairs that both labelled.

    Attributes:
        a: the first annotator.
        b: the second annotator.
        n: the number of pairs that both labelled.
        agreement: the share of these pairs on which they agree.
        kappa: Cohen's κ over the binary pairs, CANNOT_ASSESS a category; None if it is undefined.
        mean_kappa: the mean over criteria of Cohen's κ, computed as for the judge: quadratic for ordered options,
            without CANNOT_ASSESS and "not applicable"; None if it is undefined for all criteria.
    """

    a: str
    b: str
    n: int
    agreement: float
    kappa: float | None
    mean_kappa: float | None


@dataclass(frozen=True)
class Annotators:
    """The agreement of all annotators with each other.

    Attributes:
        labels: the number of current labels of each annotator.
        n: the number of pairs with two or more labels.
        differing: the number of these pairs on which annotators differ, adjudicated or not.
        alpha: Krippendorff's α over the binary pairs, CANNOT_ASSESS a category; None if it is undefined.
        by_criterion: α of each criterion by name; ordinal for ordered options.
        by_two: every two annotators with a pair in common.
    """

    labels: dict[str, int]
    n: int
    differing: int
    alpha: float | None
    by_criterion: dict[str, float | None]
    by_two: tuple[TwoAnnotators, ...]


def compare_annotators(history: History, items: Items, finder: PairFinder) -> Annotators:
    """Compute the agreement of the annotators with each other; labels whose pair has changed do not count."""
    names = list(history.annotators())
    shared: list[tuple[Pair, Criterion, dict[str, str | None]]] = []
    for key in history.labelled():
        labels, pair = history.labels(key), finder.find_key(key)
        if pair is not None and len(labels) > 1:
            verdicts = {name: event.verdict for name, event in labels.items()}
            shared.append((pair, items.get_item_rubric(pair.index)[pair.place], verdicts))
    shared.sort(key=lambda one: (one[0].index, one[0].place))
    columns: dict[str, list[tuple[Criterion, dict[str, str | None]]]] = defaultdict(list)
    for pair, criterion, verdicts in shared:
        columns[pair.criterion].append((criterion, verdicts))
    binary = [(criterion, verdicts) for _, criterion, verdicts in shared if criterion.options is None]
    return Annotators(
        history.annotators(),
        len(shared),
        sum(len(set(verdicts.values())) > 1 for _, _, verdicts in shared),
        _compute_alpha(binary, names),
        {name: _compute_alpha(rows, names) for name, rows in columns.items()},
        tuple(_pair_up(shared, names)),
    )


def _list_categories(criterion: Criterion) -> list[str]:
    if criterion.options is None:
        return list(_BINARY)
    return [to_utf8(choice) for choice in list_choices(criterion)]


def _compute_alpha(rows: list[tuple[Criterion, dict[str, str | None]]], names: list[str]) -> float | None:
    """Krippendorff's α of labels on one criterion, or on binary ones; None where criteria have other options."""
    if not rows:
        return None
    first = rows[0][0]
    categories = _list_categories(first)
    if any(_list_categories(criterion) != categories for criterion, _ in rows):
        return None
    codes = np.array(
        [[categories.index(word) if (word := verdicts.get(name)) else -1 for _, verdicts in rows] for name in names],
        np.int64,
    )
    options = first.options
    if options is None or first.scale_type != "ordinal":
        return krippendorff_alpha(count_ratings(codes, len(categories)))
    # "Not applicable" and CANNOT_ASSESS have no rank.
    scored = np.array([*(-1 if option.na else place for place, option in enumerate(options)), -1])
    codes = np.where(codes >= 0, scored[codes], -1)
    values = [option.value for option in options]
    return krippendorff_alpha(count_ratings(codes, len(options)), "ordinal", values)


def _pair_up(shared: list[tuple[Pair, Criterion, dict[str, str | None]]], names: list[str]) -> list[TwoAnnotators]:
    found = []
    for a, b in itertools.combinations(names, 2):
        columns: dict[str, list[tuple[Criterion, str | None, str | None]]] = defaultdict(list)
        for pair, criterion, verdicts in shared:
            if a in verdicts and b in verdicts:
                columns[pair.criterion].append((criterion, verdicts[a], verdicts[b]))
        both = [row for rows in columns.values() for row in rows]
        if not both:
            continue
        binary = [
            (_BINARY.index(x or ""), _BINARY.index(y or "")) for criterion, x, y in both if criterion.options is None
        ]
        kappa = cohen_kappa([x for x, _ in binary], [y for _, y in binary], range(len(_BINARY))) if binary else None
        same = sum(x == y for _, x, y in both) / len(both)
        known = [one for rows in columns.values() if not math.isnan(one := _compute_kappa(rows))]
        found.append(TwoAnnotators(a, b, len(both), same, kappa, float(np.mean(known)) if known else None))
    return found


def _compute_kappa(rows: list[tuple[Criterion, str | None, str | None]]) -> float:
    """Cohen's κ of two annotators on one criterion, as the judge's; NaN if undefined, or if the options differ."""
    first = rows[0][0]
    if any(criterion.options != first.options for criterion, _, _ in rows):
        return math.nan
    column = Column.from_criterion(first, 0)
    names = [to_utf8(label) for label in column.labels]
    codes = [(names.index(x), names.index(y)) for _, x, y in rows if x in names and y in names]
    truth, judged = np.array(codes, np.int64).reshape(-1, 2).T
    return float(kappas(count_pairs(truth, judged, len(names)), column.agreement))
