import numpy as np
import numpy.typing as npt
import pytest

from autorubric.errors import InputError
from autorubric.metrics.confusion import kappas
from autorubric.metrics.jackknife import (
    Draws,
    bounded_mean_intervals,
    check_draws,
    jackknife_intervals,
    kappa_interval,
    mean_kappa_interval,
)
from tests.oracles import cohen_kappa_score, proportion_confint, stats

Array = npt.NDArray[np.float64]


def ratio(sums: Array) -> Array:
    with np.errstate(invalid="ignore"):
        return np.asarray(sums[..., :1] / sums[..., 1:])


def with_ones(values: npt.ArrayLike) -> Array:
    return np.column_stack([np.asarray(values, float), np.ones(len(np.asarray(values)))])


def test_the_interval_of_a_mean_is_students() -> None:
    values = np.random.default_rng(2).exponential(size=30)
    [found] = jackknife_intervals(with_ones(values), ratio, ["plain"], 0.9)
    expected = stats.t.interval(0.9, 29, values.mean(), stats.sem(values))
    assert found is not None and found[:2] == pytest.approx(expected)


def test_the_interval_of_a_share_as_a_bounded_mean_is_of_beta_quantiles() -> None:
    ends, draws = np.array([[0.0], [1.0]]), Draws(100_000, 0.9, seed=4)
    for met in (0, 3, 20):
        [found] = bounded_mean_intervals(np.array([1.0] * met + [0.0] * (20 - met))[:, None], ends, draws)
        # Clopper and Pearson's ends, with half an item in place of one.
        low = stats.beta.ppf(0.05, met, 20.5 - met) if met else 0.0
        high = stats.beta.ppf(0.95, met + 0.5, 20 - met) if met < 20 else 1.0
        assert found[:2] == pytest.approx((low, high), abs=0.003), met


def test_small_errors_on_a_large_scale_keep_their_lower_end() -> None:
    # Means of squares far below the scale: what an unseen large error could add is no evidence of one.
    rng, covered = np.random.default_rng(7), 0
    for seed in range(300):
        values = (0.02 * rng.normal(size=(30, 1))) ** 2
        [found] = bounded_mean_intervals(values, np.array([[0.0], [1.0]]), Draws(seed=seed))
        covered += found.contains(0.0004)
    assert covered / 300 >= 0.93


def test_intervals_of_a_mean_with_rare_large_values_cover_it() -> None:
    # One item in twenty is off by 0.75: a fifth of the samples of 30 contain none, where Student's t covers least.
    rng, covered = np.random.default_rng(6), dict.fromkeys(("bounded", "t"), 0)
    for seed in range(500):
        values = np.where(rng.random((30, 1)) < 0.05, 0.75, 0.02 * rng.normal(size=(30, 1)))
        [found] = bounded_mean_intervals(values, np.array([[-1.0], [1.0]]), Draws(seed=seed))
        low, high = stats.t.interval(0.95, 29, values.mean(), stats.sem(values[:, 0]))
        covered["bounded"] += found.contains(0.0375)
        covered["t"] += low <= 0.0375 <= high
    # 95 % of 500 has a standard error of 1.0 %.
    assert covered["bounded"] / 500 >= 0.93
    assert covered["t"] / 500 <= 0.85


def test_the_interval_of_a_share_of_single_pairs_is_wilsons_with_students_quantile() -> None:
    # The jackknife's variance is p(1 - p)/(n - 1), so that 30 pairs are worth 29.
    [found] = jackknife_intervals(with_ones([1] * 24 + [0] * 6), ratio, ["share"], 0.95)
    level = 2 * stats.norm.sf(stats.t.ppf(0.975, 29))
    expected = proportion_confint(0.8 * 29, 29, alpha=level, method="wilson")
    assert found is not None and found[:2] == pytest.approx(expected)


def test_intervals_of_a_share_of_correlated_pairs_cover_it_as_often_as_they_say() -> None:
    # 1,000 samples of 30 items with three correlated criteria each: 95 % ± 2.1 % (three standard errors).
    rng, covered = np.random.default_rng(5), 0
    for _ in range(1000):
        hits = (rng.random((30, 3)) < rng.random((30, 1))).sum(axis=1)
        [found] = jackknife_intervals(np.column_stack([hits, np.full(30, 3.0)]), ratio, ["share"], 0.95)
        covered += found is not None and found.contains(0.5)
    assert covered / 1000 == pytest.approx(0.95, abs=0.021)


def test_a_single_item_an_undefined_and_a_constant_statistic_have_no_interval() -> None:
    for made in (np.ones((1, 2)), np.zeros((5, 2)), np.ones((5, 2)), np.array([[1.0, 1.0], [0.0, 0.0]])):
        assert jackknife_intervals(made, ratio, ["plain"], 0.95) == [None]
    with pytest.raises(InputError, match="n_bootstrap=1"):
        check_draws("n_bootstrap", 1, 0.95, None)


def items(*counts: int) -> Array:
    return np.repeat(np.eye(4).reshape(4, 2, 2), counts, axis=0)


def test_the_posterior_of_kappa_is_that_of_dirichlet_cells() -> None:
    cells = stats.dirichlet.rvs([14.5, 2.5, 1.5, 13.5], size=400_000, random_state=7)
    observed = cells[:, 0] + cells[:, 3]
    rows, columns = cells[:, 0] + cells[:, 1], cells[:, 0] + cells[:, 2]
    chance = rows * columns + (1 - rows) * (1 - columns)
    expected = np.quantile((observed - chance) / (1 - chance), [0.025, 0.975])
    found = kappa_interval(items(14, 2, 1, 13), np.eye(2), Draws(100_000, seed=1)).interval
    assert found is not None and found[:2] == pytest.approx(expected, abs=0.005)
    kappa = cohen_kappa_score([0] * 16 + [1] * 14, [0] * 14 + [1] * 2 + [0] + [1] * 13)
    assert found.contains(kappa)


def test_pairs_that_repeat_within_an_item_or_weigh_more_add_nothing_to_the_posterior_of_kappa() -> None:
    draws = Draws(100_000, seed=1)
    once, alike = items(40, 10, 8, 42), kappa_interval(items(40, 10, 8, 42), np.eye(2), draws).interval
    for factor in (3.0, 20.0):
        found = kappa_interval(once * factor, np.eye(2), draws).interval
        assert found is not None and alike is not None
        # 1 % for the jackknife's n - 1, and for Student's quantile of 99 degrees of freedom.
        assert found.width == pytest.approx(alike.width, rel=0.03)
        assert found[:2] == pytest.approx(alike[:2], abs=0.01)


def test_a_perfect_judge_has_a_posterior_of_kappa_that_is_no_point_and_one_class_has_none() -> None:
    found = kappa_interval(items(5, 0, 0, 5), np.eye(2), Draws(20_000, seed=0)).interval
    assert found is not None and found.high == 1.0 and 0.3 < found.low < 0.8
    assert kappa_interval(items(10, 0, 0, 0), np.eye(2), Draws()).interval is None


def test_the_ends_of_the_interval_of_mean_kappa_count_one_pair_that_differs_or_agrees() -> None:
    once, both = items(14, 2, 1, 13), [np.eye(2)]
    found = mean_kappa_interval([once], both, Draws(100_000, seed=1))
    for end, at, counts in ((found.low, 0.025, [14, 2.5, 1.5, 13]), (found.high, 0.975, [14.5, 2, 1, 13.5])):
        cells = stats.dirichlet.rvs(counts, size=400_000, random_state=7)
        observed = cells[:, 0] + cells[:, 3]
        rows, columns = cells[:, 0] + cells[:, 1], cells[:, 0] + cells[:, 2]
        chance = rows * columns + (1 - rows) * (1 - columns)
        assert end == pytest.approx(np.quantile((observed - chance) / (1 - chance), at), abs=0.005)
    # The weights of labels have no unit.
    assert mean_kappa_interval([once * 20.0], both, Draws(100_000, seed=1))[:2] == pytest.approx(found[:2], abs=1e-9)


def test_the_interval_of_mean_kappa_allows_for_errors_of_one_item_together_and_for_many_items() -> None:
    once, other = items(140, 20, 10, 130), items(140, 10, 20, 130)
    both = [np.eye(2)] * 2
    apart = np.random.default_rng(3).permutation(once)
    alone = mean_kappa_interval([once], both[:1], Draws(4000, seed=1))
    together = mean_kappa_interval([once, once], both, Draws(4000, seed=1))
    independent = mean_kappa_interval([once, apart], both, Draws(4000, seed=1))
    assert together.width == pytest.approx(alone.width, rel=0.05)
    assert independent.width == pytest.approx(alone.width / 2**0.5, rel=0.1)
    many = [np.tile(one, (40, 1, 1)) for one in (once, other)]
    sums = np.concatenate([one.reshape(len(one), -1) for one in many], axis=1)

    def mean(total: Array) -> Array:
        tables = total.reshape(*total.shape[:-1], 2, 2, 2)
        return np.asarray(kappas(tables).mean(axis=-1, keepdims=True))

    [tukey] = jackknife_intervals(sums, mean, ["plain"], 0.95)
    assert tukey is not None
    assert mean_kappa_interval(many, both, Draws(4000, seed=1)).width == pytest.approx(tukey.width, rel=0.1)


def test_the_interval_of_mean_kappa_covers_that_of_a_judge_who_hardly_errs() -> None:
    # Student's t of the jackknife, which was used before, covers 87 % here: too few items have an error.
    rng, rates = np.random.default_rng(5), np.array([0.9, 0.6, 0.3, 0.1])
    judged = rates * 0.99 + (1 - rates) * 0.01
    chance = rates * judged + (1 - rates) * (1 - judged)
    truth, held = float(((0.99 - chance) / (1 - chance)).mean()), 0
    for seed in range(200):
        met = rng.random((50, 4)) < rates
        said = met ^ (rng.random(met.shape) < 0.01)
        tables = [np.eye(4)[2 * ~one + ~other].reshape(-1, 2, 2) for one, other in zip(met.T, said.T, strict=True)]
        held += mean_kappa_interval(tables, [np.eye(2)] * 4, Draws(seed=seed, finer=2)).contains(truth)
    assert held >= 0.95 * 200 - 3 * (200 * 0.95 * 0.05) ** 0.5


def test_the_interval_of_kappa_of_options_is_at_least_that_of_independent_labels() -> None:
    # 26 of 30 pairs are the best of three options, the others never agree: the jackknife alone has an upper end below
    # 0. The formula of Fleiss, Cohen and Everitt (1969), from the shares 1/30, 1/30 and 28/30 on both sides.
    cells = np.zeros((30, 3, 3))
    for place, (label, verdict) in enumerate([*[(2, 2)] * 26, (0, 2), (1, 2), (2, 0), (2, 1)]):
        cells[place, label, verdict] = 1.0
    shares = np.array([1, 1, 28]) / 30
    chance = np.outer(shares, shares)
    off = np.eye(3) - shares[:, None] - shares
    error = np.sqrt(((chance * off**2).sum() - np.trace(chance) ** 2) / 30) / (1 - np.trace(chance))
    kappa = (26 / 30 - np.trace(chance)) / (1 - np.trace(chance))
    ends = np.tanh(np.arctanh(kappa) + np.array([-1, 1]) * stats.t.ppf(0.975, 29) * error)
    for unit in (1.0, 7.0):
        found = kappa_interval(unit * cells, np.eye(3), Draws()).interval
        assert found is not None and found[:2] == pytest.approx(ends)
