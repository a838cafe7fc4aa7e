"""How far the judges of a panel agree with each other, with no regard to the labels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from autorubric.metrics.arrays import Ints
from autorubric.metrics.cohen_kappa import agreement_weights
from autorubric.metrics.column import Column
from autorubric.metrics.fleiss_kappa import fleiss_kappa
from autorubric.metrics.gwet import gwet_ac
from autorubric.metrics.icc import icc
from autorubric.metrics.krippendorff_alpha import krippendorff_alpha
from autorubric.metrics.ratings import rating_counts


class BetweenJudges(NamedTuple):
    """Agreement among judges on one criterion; None where undefined or for a single judge.

    Attributes:
        krippendorff_alpha: ordinal for ordered options, else nominal; votes may be missing.
        fleiss_kappa: over the items that all judges voted on.
        gwet: AC1, or AC2 with quadratic weights for ordered options.
        icc: ICC(2,1) of the values; ordered options only.
        n_judges: judges with a vote.
    """

    krippendorff_alpha: float | None = None
    fleiss_kappa: float | None = None
    gwet: float | None = None
    icc: float | None = None
    n_judges: int = 1


def between_judges(votes: Ints, column: Column, categories: int) -> BetweenJudges:
    """The agreement among judges on a criterion.

    Args:
        votes: judges × items; negative for a missing vote.
        column: the criterion.
        categories: how many there are, the abstention included where it is one.

    Example:
        >>> from autorubric.core.criterion import Criterion
        >>> column = Column.of(Criterion(requirement="Is brief"), 0)
        >>> between_judges(np.array([[0, 1, 0], [0, 1, 0]]), column, 2).krippendorff_alpha
        1.0
    """
    cast = votes[(votes >= 0).any(axis=1)] if len(votes) else votes
    if len(cast) < 2:
        return BetweenJudges(n_judges=max(len(cast), 1))
    ratings = rating_counts(cast, categories)
    ordered = column.kind == "ordinal" and categories == len(column.values)
    values = column.values if ordered else np.arange(categories)
    scored = np.where(cast >= 0, column.values[np.maximum(cast, 0)], np.nan).T if ordered else None
    return BetweenJudges(
        krippendorff_alpha(ratings, "ordinal" if ordered else "nominal", values),
        fleiss_kappa(ratings, len(cast)),
        gwet_ac(ratings, agreement_weights(values, "quadratic") if ordered else None),
        None if scored is None else icc(scored),
        len(cast),
    )
