"""How hard each criterion is to meet, and how sharply it tells good submissions from poor ones."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

_ABILITIES = np.linspace(-5.0, 5.0, 41)
_PRIOR = np.exp(-(_ABILITIES**2) / 2.0) / np.exp(-(_ABILITIES**2) / 2.0).sum()
_MOST_ROUNDS = 500
_CLOSE = 1e-6
_SLOPE_MEAN, _SLOPE_VARIANCE, _LEVEL_VARIANCE = 1.0, 1.0, 9.0
_FLAT = 0.1


class ItemResponse(NamedTuple):
    """The two-parameter logistic model P(met | θ) = 1 / (1 + exp(-slope·(θ - difficulty))), θ ~ N(0, 1).

    Attributes:
        slope: the discrimination of each criterion; below 0 poor submissions meet it more often.
        difficulty: the ability at which half meet it; NaN where the slope is nearly 0.
        level: slope · (-difficulty), which is always defined.
    """

    slope: Array
    difficulty: Array
    level: Array


def fit_item_response(values: npt.ArrayLike) -> ItemResponse | None:
    """The model's parameters by marginal maximum likelihood; None with fewer than three criteria or ten items.

    EM over 41 abilities (Bock and Aitkin, Psychometrika 46 (1981)), each criterion maximised by one damped
    Newton step a round. Weak normal priors (slope 1 ± 1, level 0 ± 3) keep criteria that all meet finite, at
    the price of some shrinkage with few items.

    Args:
        values: items × criteria in [0, 1], NaN where nothing was said; give a pitfall as 1 - MET.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> ability = rng.standard_normal((2000, 1))
        >>> chance = 1 / (1 + np.exp(-np.array([0.7, 1.0, 1.5, 2.0]) * (ability - np.array([-1, 0, 0.5, 1]))))
        >>> model = fit_item_response(rng.random(chance.shape) < chance)
        >>> bool(np.abs(model.difficulty - [-1, 0, 0.5, 1]).max() < 0.2)
        True
    """
    table = np.asarray(values, dtype=float)
    if table.ndim != 2 or table.shape[0] < 10 or table.shape[1] < 3:
        return None
    # Items with the same verdicts are one row that counts several times: 2¹⁰ rows at most for ten binary criteria.
    patterns, counts = np.unique(np.where(np.isnan(table), -1.0, table), axis=0, return_counts=True)
    seen = patterns >= 0.0
    met, missed = np.where(seen, patterns, 0.0), np.where(seen, 1.0 - patterns, 0.0)
    share = np.clip(counts @ met / np.maximum(counts @ seen, 1), 0.02, 0.98)
    slope, level = np.ones(table.shape[1]), np.log(share / (1.0 - share))
    for _ in range(_MOST_ROUNDS):
        posterior = _posterior(met, missed, slope, level) * counts[:, None]
        new_slope, new_level = _newton_step(met.T @ posterior, missed.T @ posterior, slope, level)
        moved = max(float(np.abs(new_slope - slope).max()), float(np.abs(new_level - level).max()))
        slope, level = new_slope, new_level
        if moved < _CLOSE:
            break
    steep = np.abs(slope) >= _FLAT
    difficulty = np.where(steep, -level / np.where(steep, slope, 1.0), np.nan)
    return ItemResponse(slope, difficulty, level)


def _posterior(met: Array, missed: Array, slope: Array, level: Array) -> Array:
    """The posterior of each item's ability over the grid: items × abilities."""
    logit = np.outer(slope, _ABILITIES) + level[:, None]
    log_met, log_missed = -np.logaddexp(0.0, -logit), -np.logaddexp(0.0, logit)
    log_joint = met @ log_met + missed @ log_missed + np.log(_PRIOR)
    joint = np.exp(log_joint - log_joint.max(axis=1, keepdims=True))
    return np.asarray(joint / joint.sum(axis=1, keepdims=True))


def _newton_step(met: Array, missed: Array, slope: Array, level: Array) -> tuple[Array, Array]:
    """One step for all criteria at once; `met` and `missed` are expected counts, criteria × abilities."""
    chance = 1.0 / (1.0 + np.exp(-(np.outer(slope, _ABILITIES) + level[:, None])))
    counts = met + missed
    residual, curvature = met - counts * chance, counts * chance * (1.0 - chance)
    of_slope = residual @ _ABILITIES - (slope - _SLOPE_MEAN) / _SLOPE_VARIANCE
    of_level = residual.sum(axis=1) - level / _LEVEL_VARIANCE
    ss = curvature @ _ABILITIES**2 + 1.0 / _SLOPE_VARIANCE
    sl = curvature @ _ABILITIES
    ll = curvature.sum(axis=1) + 1.0 / _LEVEL_VARIANCE
    determinant = ss * ll - sl * sl
    slope_step = (ll * of_slope - sl * of_level) / determinant
    level_step = (ss * of_level - sl * of_slope) / determinant
    return slope + np.clip(slope_step, -1.0, 1.0), level + np.clip(level_step, -1.0, 1.0)
