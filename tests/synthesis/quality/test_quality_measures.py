"""The thirteen measures, on rubrics whose figures can be counted on the fingers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autorubric.synthesis.candidate import Candidate, Pool, Relevance, Votes
from autorubric.synthesis.quality import MEASURES, measure_quality
from tests.offenders import each

QUERY = "What is the highest dose of paracetamol that is safe for an adult? Please name the signs of an overdose."
DOSE = Candidate("m1", "Dose", "States that the highest daily dose of paracetamol is 4 g.", 8)
SIGNS = Candidate("m2", "Signs", "Names at least two signs of an overdose.", 6)
TONE = Candidate("m3", "Tone", "The tone of the answer is appropriate and the style is good.", 2)
GUIDE = Path(__file__).parents[3] / "docs" / "quality.md"
YES, NO = True, False


def pool(judges: str, **votes: Votes) -> Pool:
    """Rows of the judges named by single letters."""
    width = len(next(iter(votes.values()))[0])
    return Pool(tuple(f"response {n}" for n in range(width)), tuple(judges), votes)


def measure(name: str, *candidates: Candidate, query: Any = QUERY, **evidence: Any) -> float | None:
    return measure_quality(query, candidates, **evidence)[name]


def test_all_thirteen_come_back_in_the_order_of_the_paper() -> None:
    assert list(measure_quality(QUERY, [DOSE])) == [
        "consistency",
        "stability",
        "alignment",
        "coverage",
        "number",
        "independence",
        "atomicity",
        "clarity",
        "conciseness",
        "language",
        "distinguishability",
        "weight_rationality",
        "verifiability",
    ]


def test_without_gradings_and_relevance_what_needs_them_is_none() -> None:
    found = measure_quality(QUERY, [DOSE, SIGNS])
    assert [name for name, value in found.items() if value is None] == [
        "consistency",
        "stability",
        "alignment",
        "distinguishability",
    ]


def test_a_rubric_without_criteria_has_a_number_and_nothing_else() -> None:
    found = measure_quality(QUERY, [])
    assert found.pop("number") == 0
    # No criterion takes up any of the two demands.
    assert found.pop("coverage") == 0
    assert set(found.values()) == {None}


def test_consistency_is_the_mean_over_criteria_of_how_often_pairs_of_judges_agree() -> None:
    votes = {
        # Pairs ab, ac, bc on two responses: the first agrees three times, the second once.
        "m1": ((YES, YES), (YES, NO), (YES, NO)),
        # Only b and c have verdicts, on one response, and agree.
        "m2": ((None, None), (NO, None), (NO, YES)),
    }
    assert measure("consistency", DOSE, SIGNS, pool=pool("abc", **votes)) == pytest.approx((4 / 6 + 1) / 2)


def test_stability_compares_a_judge_with_itself_only() -> None:
    # Judge a twice: equal on the first response, not on the second. Judge b disagrees with both on the first.
    votes = {"m1": ((YES, YES), (NO, YES), (YES, NO))}
    assert measure("stability", DOSE, pool=pool("aba", **votes)) == 0.5
    # ab, ba on two responses: no, yes, no, no.
    assert measure("consistency", DOSE, pool=pool("aba", **votes)) == 0.25


def test_one_run_of_one_judge_says_nothing_of_either() -> None:
    graded = pool("a", m1=((YES, NO),))
    assert measure("consistency", DOSE, pool=graded) is None
    assert measure("stability", DOSE, pool=graded) is None


def test_distinguishability_counts_criteria_that_some_responses_meet_and_some_do_not() -> None:
    votes: dict[str, Votes] = {"m1": ((YES, NO, YES),), "m2": ((YES, YES, YES),), "m3": ((NO, None, None),)}
    # m3 has one verdict and cannot separate anything: one of two.
    assert measure("distinguishability", DOSE, SIGNS, TONE, pool=pool("a", **votes)) == 0.5


def test_alignment_counts_what_is_asked_or_implied_and_demands_no_form_that_is_not() -> None:
    licences = {
        "m1": Relevance("explicit", "highest dose"),
        "m2": Relevance("implicit", surface="count", surface_asked=False),
        "m3": Relevance("none"),
    }
    assert measure("alignment", DOSE, SIGNS, TONE, relevance=licences) == pytest.approx(1 / 3)
    assert measure("alignment", DOSE, SIGNS, relevance={"m1": licences["m1"], "m2": None}) == 1


def test_coverage_counts_the_demands_that_a_criterion_takes_up() -> None:
    assert measure("coverage", DOSE, SIGNS) == 1
    assert measure("coverage", DOSE, TONE) == 0.5
    assert measure("coverage", TONE) == 0


def test_a_demand_is_also_taken_up_where_it_licenses_a_criterion() -> None:
    liver = Candidate("m4", "Liver", "Warns of harm to the liver.", 5)
    assert measure("coverage", liver) == 0
    assert measure("coverage", liver, relevance={"m4": Relevance("explicit", "the signs of an overdose")}) == 0.5
    assert measure("coverage", liver, relevance={"m4": Relevance("implicit", "the signs of an overdose")}) == 0


def test_context_in_a_query_is_no_demand() -> None:
    query = "I took part in a race last week. My leg has hurt since. How should I treat the pain?"
    pain = Candidate("m1", "Pain", "Advises to treat the pain with rest.", 5)
    assert measure("coverage", pain, query=query) == 1


def test_criteria_in_another_language_tell_nothing_about_coverage_and_are_in_the_wrong_language() -> None:
    chinese = [
        Candidate("m1", "剂量", "指出成年人每天最多服用4克对乙酰氨基酚。", 8),
        Candidate("m2", "症状", "列出过量服用的两种症状。", 5),
    ]
    assert measure("coverage", *chinese) is None
    assert measure("language", *chinese) == 0
    assert measure("language", *chinese, query="成年人每天最多可以服用多少对乙酰氨基酚？") == 1
    assert measure("coverage", *chinese, query="成年人每天最多可以服用多少对乙酰氨基酚？请列出过量的症状。") == 1


def test_language_is_a_share_and_none_where_the_query_has_no_clear_one() -> None:
    mixed = [DOSE, SIGNS, Candidate("m4", "肝", "提醒注意肝脏的损伤。", 5), TONE]
    assert measure("language", *mixed) == 0.75
    assert measure("language", *mixed, query="x = 3") is None


def test_a_conversation_is_what_the_user_says_in_it() -> None:
    turns = [
        {"role": "system", "content": "你是一位医生，请回答患者的问题。"},
        {"role": "user", "content": "What is the highest dose of paracetamol?"},
        {"role": "assistant", "content": "For whom?"},
        {"role": "user", "content": "For an adult."},
    ]
    assert measure("language", DOSE, query=turns) == 1


def test_atomicity_clarity_and_conciseness_are_shares_of_criteria_without_findings() -> None:
    both = Candidate("m4", "Both", "States the dose and warns about liver damage.", 5)
    short = Candidate("m5", "Short", "Names it.", 5)
    found = measure_quality(QUERY, [DOSE, TONE, both, short])
    assert (found["atomicity"], found["clarity"], found["conciseness"]) == (0.75, 0.75, 0.75)


def test_a_criterion_that_a_check_decides_cannot_be_worded_wrongly() -> None:
    check = Candidate("m4", "Short", "Good", 5, check={"name": "word_count", "parameters": {"at_most": 9}})
    found = measure_quality(QUERY, [check])
    names = ("atomicity", "clarity", "conciseness", "independence", "verifiability")
    assert [found[name] for name in names] == [1, 1, 1, 1, 1]


def test_independence_counts_repetition_in_words() -> None:
    again = Candidate("m4", "Dose", "Mentions the highest daily dose of paracetamol, 4 g.", 5)
    other = Candidate("m5", "Dose", "States that the highest daily dose of paracetamol is 8 g.", 5)
    assert measure("independence", DOSE, SIGNS, again) == pytest.approx(2 / 3)
    assert measure("independence", DOSE, SIGNS, other) == 1


def test_a_criterion_that_speaks_of_another_is_not_independent() -> None:
    bound = Candidate("m4", "Bound", "Gives the reason for the dose in criterion 1.", 5)
    assert measure("independence", DOSE, bound) == 0.5


@each(
    ("votes", "independent"),
    [
        # The same verdicts of both judges on four responses, met and unmet.
        (((YES, NO, YES, NO), (YES, NO, YES, YES)), 0.5),
        # Another verdict of one judge.
        (((YES, NO, YES, NO), (YES, NO, YES, NO)), 1.0),
    ],
)
def test_criteria_that_all_judges_treat_alike_and_that_share_words_are_one(votes: Votes, independent: float) -> None:
    one = Candidate("m1", "Liver", "Warns that an overdose damages the liver badly.", 8)
    other = Candidate("m2", "Liver", "Says how the liver is hurt by an overdose.", 5)
    graded = pool("ab", m1=((YES, NO, YES, NO), (YES, NO, YES, YES)), m2=votes)
    assert measure("independence", one, other, pool=graded) == independent


def test_equal_verdicts_of_criteria_without_common_words_or_on_few_responses_are_a_coincidence() -> None:
    row: Votes = ((YES, NO, YES, NO),)
    assert measure("independence", DOSE, SIGNS, pool=pool("a", m1=row, m2=row)) == 1
    few: Votes = ((YES, NO, YES),)
    one = Candidate("m1", "Liver", "Warns that an overdose damages the liver badly.", 8)
    other = Candidate("m2", "Liver", "Says how the liver is hurt by an overdose.", 5)
    assert measure("independence", one, other, pool=pool("a", m1=few, m2=few)) == 1


def weighted(*weights: int) -> list[Candidate]:
    return [Candidate(f"m{n}", "", f"Names fact number {n}.", weight) for n, weight in enumerate(weights)]


@each(
    ("candidates", "value"),
    [
        (weighted(8, 5, 3), 1.0),
        (weighted(8, 0, 3, 11), 0.5),
        (weighted(-10, 10, 3), 1.0),
        (weighted(-11, 8, 6, 3), 0.75),
        # All equal, and one that holds 9 of 13 points: half of it.
        (weighted(5, 5, 5), 0.5),
        (weighted(9, 2, 2), 0.5),
        ([Candidate("m1", "", "Avoids naming a dose.", -5), *weighted(8, 5, 3)], 0.75),
    ],
)
def test_weights_are_rational_in_range_with_the_sign_of_the_words_and_spread(
    candidates: list[Candidate], value: float
) -> None:
    assert measure("weight_rationality", *candidates) == value


def test_verifiability_counts_what_the_submission_alone_decides() -> None:
    unseen = Candidate("m4", "Ref", "Agrees with the reference answer in all points.", 5)
    assert measure("verifiability", DOSE, unseen) == 0.5
    licences = {"m1": Relevance("explicit", answerable=False), "m2": None}
    assert measure("verifiability", DOSE, SIGNS, relevance=licences) == 0.5


verdicts = st.one_of(st.none(), st.booleans())


@given(
    st.lists(st.sampled_from([DOSE, SIGNS, TONE]), unique_by=lambda one: one.id, max_size=3),
    st.lists(st.sampled_from("ab"), min_size=1, max_size=3),
    st.data(),
)
def test_every_measure_but_the_number_lies_between_zero_and_one(
    candidates: list[Candidate], judges: list[str], data: st.DataObject
) -> None:
    row = st.tuples(*[verdicts] * 4)
    votes = {one.id: tuple(data.draw(row) for _ in judges) for one in candidates if data.draw(st.booleans())}
    graded = Pool(("w", "x", "y", "z"), tuple(judges), votes)
    found = measure_quality(QUERY, candidates, graded)
    assert found.pop("number") == len(candidates)
    assert all(value is None or 0 <= value <= 1 for value in found.values())


def test_every_measure_is_defined_in_the_guide() -> None:
    text = GUIDE.read_text()
    assert [name for name in MEASURES if f"| `{name}` |" not in text] == []
