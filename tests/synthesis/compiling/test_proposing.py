from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autorubric.synthesis.candidate import Candidate, Pool, Votes
from autorubric.synthesis.compiling import apply_proposals, propose_checks
from autorubric.synthesis.thresholds import CompileSettings
from tests.offenders import each

SHORT = Candidate("m1", "Length", "Has at most 3 words.", 5)
RESPONSES = ("a b", "a b c d", "a b c", "a b c d e")
# By hand: 2, 4, 3 and 5 words.
TRUTH = (True, False, True, False)


def pool(*rows: tuple[bool | None, ...], criterion: str = "m1") -> Pool:
    return Pool(RESPONSES, tuple(f"j{i}" for i in range(len(rows))), {criterion: tuple(rows)} if rows else {})


def test_a_check_that_agrees_on_every_response_takes_over() -> None:
    (found,) = propose_checks("Why?", [SHORT], pool(TRUTH))
    assert found.accepted
    assert found.decision == "judges and check agree on 4 of 4 responses that both decided"
    assert apply_proposals([SHORT], [found])[0].check == {"name": "word_count", "parameters": {"at_most": 3}}


def test_one_disagreement_keeps_the_judge_and_is_kept_with_its_reason() -> None:
    (found,) = propose_checks("Why?", [SHORT], pool((True, True, True, False)))
    assert not found.accepted
    assert [(one.response, one.judged, one.checked, one.reason) for one in found.disagreements] == [
        (1, True, False, "4 words; expected at most 3")
    ]
    assert apply_proposals([SHORT], [found]) == [SHORT]
    assert json.loads(json.dumps(found.to_dict()))["disagreements"][0]["response"] == 1


def test_how_much_agreement_is_needed_can_be_set() -> None:
    (found,) = propose_checks("Why?", [SHORT], pool((True, True, True, False)), CompileSettings(min_agreement=0.75))
    assert found.accepted


def test_ties_and_failures_of_judges_count_neither_way() -> None:
    # j0 and j1 differ on response 1; nobody has a verdict on response 3: two are left.
    votes = pool((True, False, True, None), (True, True, None, None))
    (found,) = propose_checks("Why?", [SHORT], votes)
    assert [one.judged for one in found.comparisons] == [True, None, True, None]
    assert not found.accepted
    assert "2 of 2" in found.decision


def test_a_check_that_never_had_to_say_no_has_shown_nothing() -> None:
    loose = Candidate("m1", "Length", "Has at most 9 words.", 5)
    (found,) = propose_checks("Why?", [loose], pool((True, True, True, True)))
    assert not found.accepted
    assert "all of them are met" in found.decision
    assert propose_checks("Why?", [loose], pool((True,) * 4), CompileSettings(both_verdicts=False))[0].accepted


def test_a_criterion_that_was_never_graded_is_not_compiled() -> None:
    (found,) = propose_checks("Why?", [SHORT], pool())
    assert not found.accepted
    assert "0 of 0" in found.decision


def test_a_pitfall_is_met_where_the_fault_is() -> None:
    long = Candidate("m1", "Length", "Exceeds 3 words.", -5)
    (found,) = propose_checks("Why?", [long], pool((False, True, False, True)))
    assert found.accepted
    assert apply_proposals([long], [found])[0].weight == -5


def test_criteria_that_need_a_judge_or_have_a_check_get_no_proposal() -> None:
    checked = Candidate("m2", "Length", "Has at most 3 words.", 5, check={"name": "word_count", "parameters": {}})
    assert propose_checks("Why?", [Candidate("m3", "Dose", "Names the dose.", 5), checked], pool()) == []


@each("wrong", [{"min_decided": 0}, {"min_agreement": 0}, {"min_agreement": 1.5}])
def test_settings_out_of_range_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="min_"):
        CompileSettings(**wrong)


@given(st.lists(st.tuples(*[st.sampled_from([True, False, None])] * 4), min_size=1, max_size=3))
def test_what_is_accepted_agrees_with_the_judges_wherever_they_decided(rows: list[tuple[bool | None, ...]]) -> None:
    votes: Votes = tuple(rows)
    found = propose_checks("Why?", [SHORT], Pool(RESPONSES, tuple("abc"[: len(rows)]), {"m1": votes}))[0]
    majority = Pool(RESPONSES, (), {"m1": votes}).find_majority("m1")
    wrong = [verdict for verdict, true in zip(majority, TRUTH, strict=True) if verdict not in (None, true)]
    assert found.accepted == (not wrong and None not in majority)
