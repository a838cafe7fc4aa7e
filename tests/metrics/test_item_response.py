import numpy as np
import numpy.typing as npt
import pytest

from autorubric.metrics.item_analysis import fit_item_response

SLOPES = np.array([0.6, 1.0, 1.4, 1.8, 1.0, 2.2, 0.8, 1.2])
DIFFICULTIES = np.array([-1.5, -0.8, -0.3, 0.0, 0.4, 0.8, 1.2, 0.2])


def simulated(items: int, seed: int) -> npt.NDArray[np.float64]:
    rng = np.random.default_rng(seed)
    ability = rng.standard_normal((items, 1))
    chance = 1 / (1 + np.exp(-SLOPES * (ability - DIFFICULTIES)))
    return np.asarray(rng.random(chance.shape) < chance, dtype=float)


def test_known_parameters_are_found_again() -> None:
    model = fit_item_response(simulated(5000, 1))
    assert model is not None
    # Standard errors at 5,000 items are about 0.05 to 0.1 for both.
    assert model.slope == pytest.approx(SLOPES, abs=0.25)
    assert model.difficulty == pytest.approx(DIFFICULTIES, abs=0.25)


def test_missing_verdicts_do_not_move_the_parameters() -> None:
    table = simulated(5000, 2)
    table[np.random.default_rng(3).random(table.shape) < 0.2] = np.nan
    model = fit_item_response(table)
    assert model is not None
    assert model.slope == pytest.approx(SLOPES, abs=0.35)
    assert model.difficulty == pytest.approx(DIFFICULTIES, abs=0.3)


def test_a_criterion_that_poor_submissions_meet_has_a_negative_slope() -> None:
    table = simulated(3000, 4)
    table[:, 3] = 1.0 - table[:, 3]
    model = fit_item_response(table)
    assert model is not None
    assert model.slope[3] < -1.0 and (np.delete(model.slope, 3) > 0).all()


def test_a_criterion_that_all_meet_stays_finite_and_easy() -> None:
    table = simulated(300, 5)
    table[:, 0] = 1.0
    model = fit_item_response(table)
    assert model is not None
    assert np.isfinite(model.slope).all() and model.level[0] > 3.0


def test_too_little_data_is_none() -> None:
    assert fit_item_response(np.ones((9, 5))) is None
    assert fit_item_response(np.ones((50, 2))) is None
