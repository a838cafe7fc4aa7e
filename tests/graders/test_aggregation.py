import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autorubric import Criterion, CriterionVerdict
from autorubric.errors import ConfigError
from autorubric.graders.aggregation import (
    BINARY,
    NOMINAL,
    ORDINAL,
    Choice,
    OptionVote,
    Rules,
    VerdictVote,
    find_option,
)
from tests.offenders import each

MET, UNMET = CriterionVerdict.MET, CriterionVerdict.UNMET


def combined_verdict(rule: str, votes: list[VerdictVote], weight: float) -> CriterionVerdict:
    return BINARY[rule](votes, weight)


def combined_option(rule: str, votes: list[OptionVote], criterion: Criterion) -> Choice:
    return (ORDINAL if criterion.scale_type == "ordinal" else NOMINAL)[rule](votes, criterion)


def votes(pattern: str, weights: tuple[float, ...] = ()) -> list[VerdictVote]:
    """`MMU` is two votes for MET and one for UNMET."""
    verdicts = [MET if letter == "M" else UNMET for letter in pattern]
    return [VerdictVote(verdict, weight) for verdict, weight in zip(verdicts, weights or (1.0,) * 9, strict=False)]


# The last two columns are the words for a positive and for a negative weight, by the rules in words: majority
# counts heads, weighted sums weights, a tie is UNMET for a reward and MET for a penalty; unanimous is MET if
# nobody says UNMET, any is MET if somebody says MET, both whatever the sign.
@each(
    ("rule", "pattern", "weights", "positive", "negative"),
    [
        ("majority", "MMU", (), MET, MET),
        ("majority", "MUU", (), UNMET, UNMET),
        ("majority", "MU", (), UNMET, MET),
        ("majority", "M", (), MET, MET),
        ("majority", "MUU", (9.0, 1.0, 1.0), UNMET, UNMET),  # heads, not weights
        ("weighted", "MUU", (9.0, 1.0, 1.0), MET, MET),  # 9 > 2
        ("weighted", "MUU", (2.0, 1.0, 1.0), UNMET, MET),  # 2 = 2
        ("weighted", "MMU", (0.1, 0.2, 0.3), UNMET, MET),  # 0.1 + 0.2 = 0.3 but for rounding
        ("weighted", "MMU", (0.1, 0.1, 0.3), UNMET, UNMET),
        ("unanimous", "MMM", (), MET, MET),
        ("unanimous", "MMU", (), UNMET, UNMET),
        ("unanimous", "U", (), UNMET, UNMET),
        ("any", "MUU", (), MET, MET),
        ("any", "UUU", (), UNMET, UNMET),
    ],
)
def test_verdicts_come_to_one_by_each_rule_and_sign(
    rule: str, pattern: str, weights: tuple[float, ...], positive: CriterionVerdict, negative: CriterionVerdict
) -> None:
    assert combined_verdict(rule, votes(pattern, weights), 5.0) is positive
    assert combined_verdict(rule, votes(pattern, weights), 0.0) is positive
    assert combined_verdict(rule, votes(pattern, weights), -5.0) is negative


def test_a_vote_without_a_weight_counts_once() -> None:
    heavier = [VerdictVote(MET), VerdictVote(UNMET, 1.5)]
    assert combined_verdict("weighted", heavier, 5.0) is UNMET
    options = scale(5.0, 0.0, 1.0)
    assert combined_option("weighted_mean", [OptionVote(1, 1.0), OptionVote(0, 0.0, 3.0)], options).value == 0.25


def scale(weight: float, *values: float, na: bool = False, scale_type: str = "ordinal") -> Criterion:
    options: list[dict[str, Any]] = [{"label": f"o{n}", "value": value} for n, value in enumerate(values)]
    if na:
        options.append({"label": "NA", "value": 0.0, "na": True})
    return Criterion.model_validate(
        {"requirement": "r", "weight": weight, "options": options, "scale_type": scale_type}
    )


def chosen(criterion: Criterion, *options: int, weights: tuple[float, ...] = ()) -> list[OptionVote]:
    found = criterion.options or []
    return [
        OptionVote(index, found[index].value, weight)
        for index, weight in zip(options, weights or (1.0,) * 9, strict=False)
    ]


# Options worth 0, 0.5 and 1, by index 0, 1, 2. Each row: rule, chosen options, weights, then the value and the
# option for a positive and for a negative weight.
@each(
    ("rule", "options", "weights", "value", "positive", "negative"),
    [
        ("mean", (0, 0, 1), (), 1 / 6, 0, 0),  # 0.5 / 3; 0.17 from 0, 0.33 from 0.5
        ("mean", (0, 1), (), 0.25, 0, 1),  # as far from 0 as from 0.5: the worse
        ("mean", (1, 2, 2, 2), (), 0.875, 2, 2),
        ("mean", (0, 2), (), 0.5, 1, 1),  # nobody chose it, yet it is the mean
        ("median", (0, 0, 2), (), 0.0, 0, 0),
        ("median", (0, 1, 2, 2), (), 0.75, 1, 2),  # between 0.5 and 1
        ("weighted_mean", (0, 2), (1.0, 3.0), 0.75, 1, 2),  # 3 / 4
        ("weighted_mean", (0, 2), (1.0, 9.0), 0.9, 2, 2),
        ("min", (1, 2, 2), (), 0.5, 1, 1),
        ("max", (0, 1, 1), (), 0.5, 1, 1),
    ],
)
def test_ordinal_values_are_summed_up_and_the_nearest_option_stands_beside(
    rule: str, options: tuple[int, ...], weights: tuple[float, ...], value: float, positive: int, negative: int
) -> None:
    for weight, option in ((5.0, positive), (-5.0, negative)):
        criterion = scale(weight, 0.0, 0.5, 1.0)
        choice = combined_option(rule, chosen(criterion, *options, weights=weights), criterion)
        assert choice.option == option
        assert choice.value == pytest.approx(value)


# Ties go to the lowest value for a positive weight and to the highest for a negative one.
@each(
    ("rule", "scale_type", "options", "weights", "positive", "negative"),
    [
        ("mode", "ordinal", (2, 2, 0), (), 2, 2),
        ("mode", "ordinal", (0, 2), (), 0, 2),
        ("mode", "ordinal", (1, 1, 2, 2, 0), (), 1, 2),
        ("mode", "nominal", (2, 0, 2), (5.0, 99.0, 5.0), 2, 2),  # heads, not weights
        ("weighted_mode", "nominal", (2, 0, 2), (5.0, 99.0, 5.0), 0, 0),
        ("weighted_mode", "nominal", (2, 0, 2), (0.1, 0.3, 0.2), 0, 2),  # 0.3 = 0.1 + 0.2
        ("unanimous", "nominal", (1, 1), (), 1, 1),
    ],
)
def test_modes_and_their_ties_by_each_sign(
    rule: str, scale_type: str, options: tuple[int, ...], weights: tuple[float, ...], positive: int, negative: int
) -> None:
    for weight, option in ((5.0, positive), (-5.0, negative)):
        criterion = scale(weight, 0.0, 0.5, 1.0, scale_type=scale_type)
        choice = combined_option(rule, chosen(criterion, *options, weights=weights), criterion)
        assert choice == Choice(option, [0.0, 0.5, 1.0][option])


def test_nominal_judges_that_must_agree_and_do_not_choose_not_applicable() -> None:
    criterion = scale(5.0, 0.0, 0.5, 1.0, na=True, scale_type="nominal")
    assert combined_option("unanimous", chosen(criterion, 1, 1, 2), criterion).option == 3
    assert combined_option("unanimous", chosen(criterion, 2, 2, 2), criterion) == Choice(2, 1.0)
    without = scale(5.0, 0.0, 0.5, 1.0, scale_type="nominal")
    option = combined_option("unanimous", chosen(without, 1, 1, 2), without).option
    assert find_option(without, option).label == "Cannot assess / not applicable"


def test_a_not_applicable_option_is_never_the_nearest() -> None:
    # NA is worth 0.0 here and would be nearest to a mean of 0.1.
    criterion = scale(5.0, 0.25, 1.0, na=True)
    assert combined_option("mean", [OptionVote(0, 0.1)], criterion) == Choice(0, 0.1)


def test_options_are_told_apart_by_value_and_not_by_place() -> None:
    # High, Low, Mid: the mean of Low (0) and Mid (0.5) is 0.25, and the worse of both is Low at index 1.
    criterion = scale(5.0, 1.0, 0.0, 0.5)
    assert combined_option("mean", chosen(criterion, 1, 2), criterion).option == 1
    assert combined_option("min", chosen(criterion, 0, 2), criterion).option == 2


def test_of_options_with_one_value_the_voted_one_is_named() -> None:
    criterion = scale(5.0, 0.0, 1.0, 1.0)
    assert combined_option("max", chosen(criterion, 0, 2), criterion) == Choice(2, 1.0)


def test_the_mean_of_a_panel_enters_as_the_mean_it_is() -> None:
    criterion = scale(5.0, 0.0, 0.5, 1.0)
    # One vote is a panel's mean of 0.3, shown as the option worth 0.5; with a vote of 1.0 the mean is 0.65.
    choice = combined_option("mean", [OptionVote(1, 0.3), OptionVote(2, 1.0)], criterion)
    assert choice.value == pytest.approx(0.65)
    assert choice.option == 1


def test_weights_that_are_all_zero_count_alike() -> None:
    criterion = scale(5.0, 0.0, 0.5, 1.0)
    assert combined_option("weighted_mean", chosen(criterion, 0, 2, weights=(0.0, 0.0)), criterion).value == 0.5


def test_an_option_beyond_the_list_is_the_one_that_judges_add_themselves() -> None:
    assert find_option(scale(5.0, 0.0, 1.0), 2).na
    for criterion, index in ((scale(5.0, 0.0, 1.0), 3), (scale(5.0, 0.0, 1.0, na=True), 3), (scale(5.0, 0, 1), -1)):
        with pytest.raises(ValueError, match="out of range"):
            find_option(criterion, index)


def test_unknown_rules_are_refused_together_before_anything_is_asked() -> None:
    with pytest.raises(ConfigError) as error:
        Rules("majorty", "average", "mode ")  # type: ignore[arg-type]
    assert error.value.problems == (
        "unknown binary aggregation 'majorty'; did you mean 'majority'?",
        "unknown ordinal aggregation 'average'; expected one of mean, median, weighted_mean, mode, min, max",
        "unknown nominal aggregation 'mode '; did you mean 'mode'?",
    )


def test_a_criterion_may_have_its_own_rule() -> None:
    rules = Rules("majority", "mean", "mode")
    assert rules.choose(Criterion(requirement="r")) == "majority"
    assert rules.choose(Criterion(requirement="r", aggregation="any")) == "any"
    assert rules.choose(scale(1.0, 0.0, 1.0)) == "mean"
    assert rules.choose(scale(1.0, 0.0, 1.0, scale_type="nominal")) == "mode"


verdict_votes = st.lists(
    st.builds(VerdictVote, st.sampled_from([MET, UNMET]), st.floats(0.01, 100)), min_size=1, max_size=7
)
signs = st.sampled_from([5.0, -5.0])


@given(verdict_votes, st.sampled_from(sorted(BINARY)), signs, st.randoms())
def test_the_order_of_verdicts_does_not_matter(
    found: list[VerdictVote], rule: str, weight: float, random: Any
) -> None:
    shuffled = random.sample(found, len(found))
    assert combined_verdict(rule, shuffled, weight) is combined_verdict(rule, found, weight)


@given(st.sampled_from([MET, UNMET]), st.integers(1, 7), st.sampled_from(sorted(BINARY)), signs)
def test_what_all_say_is_what_the_panel_says(verdict: CriterionVerdict, count: int, rule: str, weight: float) -> None:
    assert combined_verdict(rule, [VerdictVote(verdict)] * count, weight) is verdict


@given(verdict_votes, st.sampled_from(["majority", "weighted"]), signs)
def test_swapping_the_verdicts_and_the_sign_swaps_the_word(
    found: list[VerdictVote], rule: str, weight: float
) -> None:
    def swapped(verdict: CriterionVerdict) -> CriterionVerdict:
        return UNMET if verdict is MET else MET

    mirrored = [VerdictVote(swapped(vote.verdict), vote.weight) for vote in found]
    assert combined_verdict(rule, mirrored, -weight) is swapped(combined_verdict(rule, found, weight))


LEVELS = (0.0, 0.25, 0.5, 0.75, 1.0)
option_votes = st.lists(st.tuples(st.integers(0, 4), st.floats(0.01, 100)), min_size=1, max_size=7)
rules_of_options = st.sampled_from(
    [("ordinal", rule) for rule in sorted(ORDINAL)] + [("nominal", rule) for rule in sorted(NOMINAL)]
)


@given(option_votes, rules_of_options, signs, st.randoms())
def test_the_order_of_options_chosen_does_not_matter(
    found: list[tuple[int, float]], kind: tuple[str, str], weight: float, random: Any
) -> None:
    criterion = scale(weight, *LEVELS, scale_type=kind[0])
    made = [OptionVote(index, LEVELS[index], share) for index, share in found]
    once = combined_option(kind[1], made, criterion)
    again = combined_option(kind[1], random.sample(made, len(made)), criterion)
    assert again.option == once.option
    assert math.isclose(again.value, once.value, abs_tol=1e-12)


@given(st.integers(0, 4), st.integers(1, 7), rules_of_options, signs)
def test_the_option_that_all_choose_is_the_panels(
    index: int, count: int, kind: tuple[str, str], weight: float
) -> None:
    criterion = scale(weight, *LEVELS, scale_type=kind[0])
    assert combined_option(kind[1], chosen(criterion, *[index] * count), criterion) == Choice(index, LEVELS[index])


@given(option_votes, st.sampled_from(["mean", "median", "weighted_mean", "mode"]), signs)
def test_mirroring_the_scale_and_the_sign_mirrors_the_word(
    found: list[tuple[int, float]], rule: str, weight: float
) -> None:
    made = [OptionVote(index, LEVELS[index], share) for index, share in found]
    mirrored = [OptionVote(4 - index, 1.0 - LEVELS[index], share) for index, share in found]
    there = combined_option(rule, made, scale(weight, *LEVELS))
    back = combined_option(rule, mirrored, scale(-weight, *LEVELS))
    assert back.option == 4 - there.option
    assert math.isclose(back.value, 1.0 - there.value, abs_tol=1e-9)


@given(option_votes, rules_of_options, signs)
def test_the_value_lies_between_the_votes(
    found: list[tuple[int, float]], kind: tuple[str, str], weight: float
) -> None:
    if kind == ("nominal", "unanimous"):
        return  # a disagreement has no value
    criterion = scale(weight, *LEVELS, scale_type=kind[0])
    made = [OptionVote(index, LEVELS[index], share) for index, share in found]
    values = [vote.value for vote in made]
    assert min(values) - 1e-9 <= combined_option(kind[1], made, criterion).value <= max(values) + 1e-9
