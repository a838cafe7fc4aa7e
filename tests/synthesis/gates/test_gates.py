from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from pydantic import ValidationError

from autorubric.synthesis.candidate import Candidate, Pool, Relevance, Votes
from autorubric.synthesis.gate_rules import (
    GateContext,
    GateDecision,
    GateSettings,
    compute_evolved_share,
    decide,
    find_final_decisions,
)
from autorubric.synthesis.thresholds import GateName
from tests.offenders import each, offenders

QUERY = "How much ibuprofen may I take a day, and when should I see a doctor? Answer in three sentences."
ASKED = Relevance("implicit")
# Three good criteria of which better responses meet more; the last response is the best.
RISING: dict[str, Votes] = {
    "m1": ((False, False, False, True, True, True),) * 2,
    "m2": ((False, False, True, True, True, True),) * 2,
    "m3": ((False, False, False, False, True, True),) * 2,
}
MERGED = tuple(Candidate(f"m{n}", "", text, 8) for n, text in enumerate(("Dose.", "Doctor.", "Kidneys."), 1))


def evolved(description: str = "Warns of alcohol.", weight: int = 5, name: str = "e1.1") -> Candidate:
    return Candidate(name, "", description, weight, "evolved", 1)


def context(
    one: Candidate, votes: Votes | None = None, licence: Relevance | None = ASKED, query: str = QUERY
) -> GateContext:
    """The three good criteria and one more."""
    licences: dict[str, Relevance | None] = dict.fromkeys((other.id for other in MERGED), ASKED)
    licences[one.id] = licence
    given = RISING | ({one.id: votes} if votes else {})
    return GateContext(query, (*MERGED, one), Pool(("",) * 6, ("j1", "j2"), given), licences)


def said(
    found: GateContext, gate: GateName, name: str = "e1.1", settings: GateSettings | None = None
) -> GateDecision:
    """What one gate alone says about one criterion."""
    alone = replace_order(settings or GateSettings(), gate)
    return next(one for one in decide(found, alone) if one.candidate == name)


def replace_order(settings: GateSettings, *order: GateName) -> GateSettings:
    return settings.model_copy(update={"order": order})


GOOD: Votes = ((False, False, True, False, True, True),) * 2


def test_a_good_criterion_passes_every_gate_and_keeps_its_figures() -> None:
    decisions = [one for one in decide(context(evolved(), GOOD), GateSettings()) if one.candidate == "e1.1"]
    assert [one.gate for one in decisions] == [
        *("answerable", "licensed", "surface", "agreement", "separates", "redundant"),
    ]
    assert {one.outcome for one in decisions} == {"kept"}
    # Two judges who never disagree may be one judge twice.
    assert next(one.figures["judges"] for one in decisions if one.gate == "agreement") == 1.0
    figures = next(one.figures for one in decisions if one.gate == "separates")
    assert figures["met"] == pytest.approx(0.5)
    assert isinstance(figures["reversed"], float)
    assert figures["reversed"] < 0.1


@each("met", [True, False])
def test_what_all_responses_meet_or_none_does_is_rejected(met: bool) -> None:
    decision = said(context(evolved(), ((met,) * 6,) * 2), "separates")
    assert decision.outcome == "rejected"
    assert "separates none" in decision.reason


def test_one_slip_of_one_judge_does_not_make_it_separate() -> None:
    assert said(context(evolved(), ((False, *(True,) * 5), (True,) * 6)), "separates").outcome == "rejected"


def test_verdicts_of_one_judge_are_enough_where_the_other_failed() -> None:
    assert said(context(evolved(), (GOOD[0], (None,) * 6)), "separates").outcome == "kept"
    assert said(context(evolved(), ((True,) * 6, (None,) * 6)), "separates").outcome == "rejected"


def test_what_the_better_responses_miss_is_rejected() -> None:
    decision = said(context(evolved(), ((True, True, True, False, False, False),) * 2), "separates")
    assert decision.outcome == "rejected"
    assert decision.reason == "worse responses meet it"


def test_a_pitfall_is_rejected_where_the_better_responses_show_it() -> None:
    shown_by_worse: Votes = ((True, True, True, False, False, False),) * 2
    shown_by_better: Votes = ((False, False, False, True, True, True),) * 2
    fault = evolved("Promises a cure.", weight=-5)
    assert said(context(fault, shown_by_worse), "separates").outcome == "kept"
    assert said(context(fault, shown_by_better), "separates").reason == "better responses show this fault"


def test_a_mixed_order_is_no_proof_of_the_wrong_direction() -> None:
    assert said(context(evolved(), ((True, False, False, True, False, True),) * 2), "separates").outcome == "kept"


def test_two_responses_are_too_few_to_reject_anything_on() -> None:
    votes = {name: tuple(row[-2:] for row in rows) for name, rows in RISING.items()} | {"e1.1": ((True, False),) * 2}
    pool = Pool(("",) * 2, ("j1", "j2"), votes)
    decision = said(replace(context(evolved()), pool=pool), "separates")
    assert decision.outcome == "undecided"
    assert decision.figures == {"responses": 2}


def test_three_responses_show_whether_a_criterion_separates_but_not_which_way() -> None:
    # By chance alone, one order of three is the wrong one once in three.
    votes = {name: tuple(row[::2] for row in rows) for name, rows in RISING.items()}
    wrong_way, flat = ((True, False, False),) * 2, ((True,) * 3,) * 2
    for verdicts, outcome in ((wrong_way, "undecided"), (flat, "rejected")):
        pool = Pool(("",) * 3, ("j1", "j2"), votes | {"e1.1": verdicts})
        assert said(replace(context(evolved()), pool=pool), "separates").outcome == outcome


def test_a_criterion_that_was_not_graded_is_undecided_and_not_rejected() -> None:
    found = context(evolved())
    assert said(found, "separates").outcome == "undecided"
    assert said(found, "agreement").outcome == "undecided"
    assert find_final_decisions(decide(found, GateSettings()))["e1.1"].outcome in ("kept", "undecided")


def test_verdicts_that_all_failed_reject_nothing() -> None:
    for decision in decide(context(evolved(), ((None,) * 6,) * 2), GateSettings()):
        assert decision.outcome in ("kept", "undecided")


def test_the_direction_is_open_where_the_others_do_not_differ() -> None:
    one = evolved()
    pool = Pool(("",) * 6, ("j1", "j2"), {"m1": ((True,) * 6,) * 2, "e1.1": GOOD})
    decision = said(GateContext(QUERY, (MERGED[0], one), pool), "separates")
    assert decision.outcome == "undecided"
    assert decision.figures["reversed"] is None


def test_merged_criteria_have_to_separate_only_where_that_is_set() -> None:
    one = Candidate("m4", "", "Is about ibuprofen.", 3)
    found = context(one, ((True,) * 6,) * 2)
    assert "m4" not in {each.candidate for each in decide(found, GateSettings(order=("separates",)))}
    settings = GateSettings.model_validate({"separates": {"merged": True}})
    assert said(found, "separates", "m4", settings).outcome == "rejected"


def test_what_the_query_does_not_license_is_rejected_with_the_words_of_the_judge() -> None:
    decision = said(context(evolved(), licence=Relevance("none", reason="Nobody asked.", draws=3)), "licensed")
    assert (decision.outcome, decision.reason) == ("rejected", "Nobody asked.")
    assert decision.figures == {"need": "none", "quote": "", "draws": 3}


def test_words_that_are_not_in_the_query_license_nothing_and_decide_nothing() -> None:
    assert said(context(evolved(), licence=Relevance("explicit", "with alcohol")), "licensed").outcome == "undecided"
    assert said(context(evolved(), licence=Relevance("explicit", "a DAY,  and when")), "licensed").outcome == "kept"


def test_the_words_may_stand_in_any_turn_of_a_conversation() -> None:
    turns = [{"role": "user", "content": "我腿抽筋。"}, {"role": "user", "content": "每天喝多少水合适？"}]
    found = replace(context(evolved(), licence=Relevance("explicit", "喝多少水")), query=turns)
    assert said(found, "licensed").outcome == "kept"


@each("gate", ["licensed", "surface", "answerable"])
def test_without_a_relevance_judgment_nothing_is_rejected(gate: GateName) -> None:
    decision = said(context(evolved('Has a heading titled "Next".'), licence=None), gate)
    assert decision.outcome == "undecided"


@each(
    ("description", "form"),
    [
        ('Contains the exact phrase "dependent rubor".', "phrase"),
        ('Ends with a line "I am an AI assistant".', "phrase"),
        ("Uses a heading for every cause.", "heading"),
        ("Names exactly seven activities.", "count"),
        ("Gives the steps as a numbered list with bold heads.", "layout"),
        ("必须出现“健康第一”这句话。", "phrase"),
        ("包含小标题“注意事项”。", "heading"),
        ("恰好列出五条建议。", "count"),
        ("用表格给出剂量。", "layout"),
    ],
)
def test_an_unasked_form_is_rejected_by_its_words_even_if_judges_miss_it(description: str, form: str) -> None:
    decision = said(context(evolved(description)), "surface")
    assert decision.outcome == "rejected"
    assert decision.figures["form"] == form


@each(
    ("description", "query"),
    [
        ("Has exactly three sentences.", QUERY),
        ("Presents the doses in a table.", "List the doses in a table."),
        ("全文分点列出。", "请分点回答。"),
        ('Contains the phrase "see a doctor".', 'Include the words "see a doctor".'),
        ("States the largest daily dose in milligrams.", QUERY),
        ("Names at least two signs of an overdose.", QUERY),
    ],
)
def test_a_form_that_the_query_asks_for_and_plain_substance_are_kept(description: str, query: str) -> None:
    assert said(context(evolved(description), query=query), "surface").outcome == "kept"


def test_a_judge_overrules_the_words_of_a_criterion_only_with_words_of_the_query() -> None:
    one = evolved("Gives the answer as a bulleted list.")
    query = "Answer so that I can tick things off one by one."
    vouched = Relevance("explicit", "tick things off one by one", surface="layout")
    assert said(context(one, licence=vouched, query=query), "surface").outcome == "kept"
    invented = replace(vouched, quote="as bullets")
    assert said(context(one, licence=invented, query=query), "surface").outcome == "rejected"


def test_a_form_that_judges_call_unasked_is_rejected_unless_that_form_is_allowed() -> None:
    licence = Relevance("implicit", surface="layout", surface_asked=False)
    found = context(evolved("Each cause stands by itself."), licence=licence)
    assert said(found, "surface").outcome == "rejected"
    settings = GateSettings.model_validate({"surface": {"kinds": ["phrase"]}})
    assert said(found, "surface", settings=settings).outcome == "kept"


@each(
    "description",
    [
        "Is deeper than the other response.",
        "Matches the reference answer.",
        "Warns as the previous answer does.",
        "与参考答案一致。",
        "比其他回答更完整。",
    ],
)
def test_what_a_grader_cannot_see_is_rejected(description: str) -> None:
    assert said(context(evolved(description)), "answerable").outcome == "rejected"


def test_a_query_about_two_responses_makes_criteria_about_them_answerable() -> None:
    query = "Compare both answers below: which one is right?"
    assert said(context(evolved("Says that both answers are wrong."), query=query), "answerable").outcome == "kept"


def test_what_judges_call_unanswerable_is_rejected() -> None:
    assert (
        said(context(evolved(), licence=Relevance("implicit", answerable=False)), "answerable").outcome == "rejected"
    )
    assert said(context(evolved()), "answerable").outcome == "kept"


def test_a_criterion_that_judges_split_on_is_rewritten_once_and_then_rejected() -> None:
    split: Votes = ((True, False, True, False, True, False), (False, False, True, True, False, True))
    first = said(context(evolved(), split), "agreement")
    assert first.outcome == "rewrite"
    assert (first.figures["disputed"], first.figures["compared"]) == (4, 6)
    again = replace(evolved(name="e1.1.r"), parents=("e1.1",), rewritten=True)
    second = said(context(again, split), "agreement", "e1.1.r")
    assert second.outcome == "rejected"
    assert "after a rewrite" in second.reason


def test_one_judge_cannot_disagree_and_the_criterion_passes_with_a_note() -> None:
    pool = Pool(("",) * 6, ("j1",), {"e1.1": (GOOD[0],)})
    decision = said(replace(context(evolved()), pool=pool), "agreement")
    assert (decision.outcome, decision.reason) == ("undecided", "no response was judged by two judges")


def test_a_criterion_to_be_rewritten_does_not_reach_the_next_gates() -> None:
    split: Votes = ((True,) * 6, (False,) * 6)
    decisions = [one for one in decide(context(evolved(), split), GateSettings()) if one.candidate == "e1.1"]
    assert decisions[-1].gate == "agreement"
    assert find_final_decisions(decisions)["e1.1"].outcome == "rewrite"


def test_a_rewritten_criterion_has_the_relevance_of_its_first_wording() -> None:
    again = replace(evolved(name="e1.1.r"), parents=("e1.1",), rewritten=True)
    licences: Mapping[str, Relevance | None] = {"e1.1": Relevance("none", reason="Unasked.")}
    found = replace(context(again), relevance=licences)
    assert said(found, "licensed", "e1.1.r").outcome == "rejected"


TWIN = evolved("Tells how much is too much in 24 hours.")


def test_a_repetition_in_other_words_is_rejected_and_names_what_it_repeats() -> None:
    decision = said(context(TWIN, RISING["m1"], Relevance("implicit", same_as="m1")), "redundant")
    assert decision.outcome == "rejected"
    assert decision.figures["as"] == "m1"


def test_equal_verdicts_alone_are_no_repetition_in_a_small_pool() -> None:
    assert said(context(TWIN, RISING["m1"]), "redundant").outcome == "kept"


def test_equal_verdicts_make_no_two_criteria_one_without_their_words_or_a_judge() -> None:
    wide, other = (tuple(bool(number % step) for number in range(24)) for step in (3, 2))
    votes: dict[str, Votes] = {"m1": (wide,) * 2, "m2": (other,) * 2, "e1.1": (wide,) * 2}
    pool = Pool(("",) * 24, ("j1", "j2"), votes)
    first = Candidate("m1", "", "Recommends finasteride for hair loss in men.", 8)
    with offenders() as case:
        for text, relevance, outcome in [
            ("Recommends minoxidil for hair loss in men.", ASKED, "kept"),
            ("Advises a check of the iron level.", ASKED, "kept"),
            ("Recommends that men with hair loss take finasteride.", ASKED, "rejected"),
            ("Names the drug that blocks the enzyme.", Relevance("implicit", same_as="m1"), "rejected"),
        ]:
            with case(text):
                found = context(evolved(text), licence=relevance)
                found = replace(found, candidates=(first, *found.candidates[1:]), pool=pool)
                assert said(found, "redundant").outcome == outcome


def test_unlike_verdicts_refute_a_judge_who_calls_two_criteria_the_same() -> None:
    # Half of the verdicts differ from those on m1.
    unlike: Votes = ((True, False, False, False, True, False),) * 2
    assert said(context(TWIN, unlike, Relevance("implicit", same_as="m1")), "redundant").outcome == "kept"


def test_the_heavier_of_two_stays_then_the_merged_one() -> None:
    licence = Relevance("implicit", same_as="m1")
    heavier = replace(TWIN, weight=9)
    assert said(context(heavier, RISING["m1"], licence), "redundant", "m1").outcome == "rejected"
    assert said(context(heavier, RISING["m1"], licence), "redundant").outcome == "kept"
    equal = replace(TWIN, weight=8)
    assert said(context(equal, RISING["m1"], licence), "redundant", "m1").outcome == "kept"
    assert said(context(equal, RISING["m1"], licence), "redundant").outcome == "rejected"


def test_a_pitfall_repeats_the_criterion_it_is_the_breach_of() -> None:
    breach = evolved("Leaves the largest dose out.", weight=-5)
    votes: Votes = tuple(tuple(not vote for vote in row) for row in RISING["m1"])
    assert said(context(breach, votes, Relevance("implicit", same_as="m1")), "redundant").outcome == "rejected"


def test_different_numbers_are_different_demands_however_alike_the_words() -> None:
    three, six = Candidate("m1", "", "Checks every 3 months.", 5), Candidate("m2", "", "Checks every 6 months.", 5)
    votes = {"m1": RISING["m1"], "m2": RISING["m1"]}
    found = GateContext(QUERY, (three, six), Pool(("",) * 6, ("j1", "j2"), votes))
    assert said(found, "redundant", "m2").outcome == "kept"
    same = replace(six, description="Checks each 3 months.")
    assert said(replace(found, candidates=(three, same)), "redundant", "m2").outcome == "rejected"


def test_a_rewritten_criterion_is_still_the_one_that_another_repeats() -> None:
    original = replace(MERGED[0], id="m1.r", parents=("m1",), rewritten=True)
    votes: dict[str, Votes] = {"m1.r": RISING["m1"], "e1.1": RISING["m1"]}
    found = GateContext(
        QUERY,
        (original, TWIN),
        Pool(("",) * 6, ("j1", "j2"), votes),
        {"m1": ASKED, "e1.1": Relevance("implicit", same_as="m1")},
    )
    decision = said(found, "redundant")
    assert (decision.outcome, decision.figures["as"]) == ("rejected", "m1.r")


def test_evolved_criteria_with_the_least_evidence_go_until_the_share_is_kept() -> None:
    sure, unsure = evolved(weight=6, name="e1.1"), evolved("Is short.", weight=6, name="e1.2")
    votes = RISING | {"e1.1": GOOD, "e1.2": ((True, False, False, True, False, True),) * 2}
    found = GateContext(QUERY, (*MERGED, sure, unsure), Pool(("",) * 6, ("j1", "j2"), votes))
    settings = GateSettings.model_validate({"share": {"most": 0.25}})
    # 12 of 36 points are too many, 6 of 30 are not.
    assert compute_evolved_share(found.candidates) == pytest.approx(1 / 3)
    assert said(found, "share", "e1.2", settings).outcome == "rejected"
    assert said(found, "share", "e1.1", settings).outcome == "kept"
    assert all(one.outcome != "rejected" for one in decide(found, replace_order(GateSettings(), "share")))


def test_pitfalls_have_no_points_and_leave_the_evolved_share_as_it_is() -> None:
    faults = (Candidate("m4", "", "Invents a dose.", -10), evolved("Scolds the reader.", -5, "e1.2"))
    found = GateContext(QUERY, (*MERGED, evolved(weight=6), *faults), Pool(("",) * 6, ("j1", "j2"), RISING))
    # 6 of 30 points, whatever is deducted.
    outcomes = {
        most: {
            one.candidate: one.outcome
            for one in decide(found, GateSettings.model_validate({"order": ["share"], "share": {"most": most}}))
        }
        for most in (0.2, 0.19)
    }
    assert outcomes == {0.2: {"e1.1": "kept"}, 0.19: {"e1.1": "rejected"}}


def test_without_merged_criteria_the_share_takes_nothing() -> None:
    found = GateContext(QUERY, (evolved(),), Pool(("",) * 6, ("j1", "j2"), {"e1.1": GOOD}))
    settings = GateSettings.model_validate({"order": ["share"], "share": {"most": 0.0}})
    assert decide(found, settings) == []


def test_a_gate_that_is_not_in_the_order_is_off_and_the_order_counts() -> None:
    found = context(evolved('Has a heading "Next".'), ((True,) * 6,) * 2, Relevance("none"))
    assert decide(found, GateSettings(order=())) == []
    for first, second in (("separates", "licensed"), ("licensed", "separates")):
        settings = GateSettings.model_validate({"order": [first, second]})
        assert find_final_decisions(decide(found, settings))["e1.1"].gate == first


@each(
    "wrong",
    [
        {"order": ["licenced"]},
        {"order": ["licensed", "licensed"]},
        {"seperates": {}},
        {"separates": {"least": 1}},
        {"separates": {"least_reversed": 1.5}},
        {"share": {"most": float("nan")}},
        {"judge_error": 0.5},
        {"licence_draws": 0},
    ],
)
def test_settings_that_mean_nothing_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        GateSettings.model_validate(wrong)
