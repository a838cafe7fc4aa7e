"""The share of requests that are refused at any rate."""

from __future__ import annotations

from autorubric.llm.http.chance import Chance


def test_few_refusals_are_no_share() -> None:
    chance = Chance()
    chance.learn(2, 50)
    assert chance.share == 0.0
    assert not chance.can_explain(1, 100)


def test_an_equal_share_after_a_further_cut_is_chance() -> None:
    """10 of 150, and 50 more that are assumed to pass: 10 / 200."""
    chance = Chance()
    chance.suspect(10, 150)
    assert chance.recall(5, 100)
    assert chance.share == 0.05


def test_a_larger_share_after_a_further_cut_is_not_chance() -> None:
    """0.05 x 20 = 1 is expected, with a deviation of 1: 4 are the most that it explains."""
    chance = Chance()
    chance.suspect(10, 150)
    assert not chance.recall(5, 20)
    assert chance.share == 0.0


def test_no_refusals_where_many_are_expected_end_a_share() -> None:
    """Two deviations reach down to 4 - 2 x 2 = 0 of 80 requests, but to 5 - 2 x 2.24 > 0 of 100."""
    chance = Chance()
    chance.learn(10, 150)
    chance.learn(0, 80)
    assert 0.0 < chance.share < 0.05
    chance = Chance()
    chance.learn(10, 150)
    chance.learn(0, 100)
    assert chance.share == 0.0
