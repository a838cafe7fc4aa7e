from __future__ import annotations

import json
from typing import Any

from autorubric.llm.request import Answer, Reply, Unreadable
from autorubric.prompts.library import package_gate_prompts
from autorubric.synthesis.candidate import Candidate, Relevance
from autorubric.synthesis.relevance import build_relevance_request, combine_relevance, read_relevance
from tests.offenders import each

DOSE = Candidate("m1", "Dose", "States the largest daily dose.", 9)
TIMING = Candidate("e1.2", "Timing", "Says how far apart the doses are.", 6, "evolved", 1)
BOTH = (DOSE, TIMING)
ENTRY: dict[str, Any] = {
    "criterion_id": "m1",
    "reason": "Asked.",
    "need": "explicit",
    "quote": "How much",
    "surface": "none",
    "surface_asked": True,
    "answerable": True,
    "same_as": "",
}


def read(*entries: object) -> Answer[dict[str, Relevance]] | Unreadable:
    return read_relevance(BOTH, Reply(json.dumps({"licences": entries}, ensure_ascii=False)))


def answer(*entries: object) -> Answer[dict[str, Relevance]]:
    found = read(*entries)
    assert isinstance(found, Answer)
    return found


def test_one_request_asks_about_all_criteria_and_shows_no_response() -> None:
    request = build_relevance_request(package_gate_prompts(), "How much ibuprofen?", BOTH, draw=2)
    text = request.messages[-1].content
    assert request.role == "licence"
    assert request.draw == 2
    assert request.schema is not None
    assert all(part in text for part in ("How much ibuprofen?", DOSE.description, TIMING.description))


def test_a_conversation_may_stand_for_the_query() -> None:
    turns = [{"role": "user", "content": "My leg cramps."}]
    assert "My leg cramps." in build_relevance_request(package_gate_prompts(), turns, BOTH).messages[-1].content


def test_relevance_is_read_with_all_its_points() -> None:
    other = {**ENTRY, "criterion_id": "e1.2", "need": "none", "quote": "", "surface": "count"}
    other |= {"surface_asked": False, "answerable": False, "same_as": "m1"}
    found = answer(ENTRY, other)
    assert found.value["m1"] == Relevance("explicit", "How much", reason="Asked.")
    assert found.value["e1.2"] == Relevance("none", "", "count", False, False, "Asked.", "m1")
    assert found.notes == ()


def test_a_criterion_without_an_entry_is_left_without_relevance() -> None:
    found = answer(ENTRY)
    assert set(found.value) == {"m1"}
    assert found.notes == ("e1.2: has no entry",)


@each(
    ("change", "said"),
    [
        ({"need": "maybe"}, "need is 'maybe'; expected explicit, implicit, none"),
        ({"need": None}, "need is None; expected explicit, implicit, none"),
        ({"surface": "colour"}, "surface is 'colour'; expected phrase, heading, count, layout, none"),
        ({"answerable": "perhaps"}, "surface_asked and answerable have to be true or false"),
        ({"answerable": 1}, "surface_asked and answerable have to be true or false"),
        ({"surface_asked": None}, "surface_asked and answerable have to be true or false"),
    ],
)
def test_an_unusable_entry_leaves_its_criterion_alone_without_relevance(change: dict[str, Any], said: str) -> None:
    found = answer(ENTRY, {**ENTRY, "criterion_id": "e1.2", **change})
    assert set(found.value) == {"m1"}
    assert found.notes == (f"e1.2: {said}",)


def test_two_entries_that_differ_are_not_used_and_two_alike_are_one() -> None:
    second = {**ENTRY, "criterion_id": "e1.2"}
    assert set(answer(ENTRY, ENTRY, second).value) == {"m1", "e1.2"}
    assert set(answer(ENTRY, {**ENTRY, "need": "none"}, second).value) == {"e1.2"}


def test_truth_may_be_spelled_and_keys_may_be_in_capitals() -> None:
    entry = {key.upper(): value for key, value in ENTRY.items()} | {"ANSWERABLE": "False", "NEED": "Explicit "}
    assert answer(entry).value["m1"].answerable is False


def test_a_repetition_of_itself_or_of_nothing_is_none() -> None:
    same = answer({**ENTRY, "same_as": "m1"}, {**ENTRY, "criterion_id": "e1.2", "same_as": "m7"}).value
    assert [licence.same_as for licence in same.values()] == ["", ""]


@each("text", ["", "I cannot say.", '{"licences": []}', '{"licences": ["m1"]}', '{"licences": [{}]}'])
def test_a_reply_without_any_usable_entry_is_unreadable(text: str) -> None:
    assert isinstance(read_relevance(BOTH, Reply(text)), Unreadable)


def test_a_reply_that_was_cut_off_is_unreadable() -> None:
    reply = Reply(json.dumps({"licences": [ENTRY]}), finish_reason="length")
    found = read_relevance(BOTH, reply)
    assert isinstance(found, Unreadable)
    assert found.kind == "truncated"


def test_each_point_is_settled_by_most_judgments() -> None:
    draws = [
        {"m1": Relevance("none", surface="count", surface_asked=False, same_as="e1.2")},
        {"m1": Relevance("explicit", "How much", answerable=False, same_as="e1.2")},
        {"m1": Relevance("implicit", surface="count", surface_asked=False, answerable=False)},
    ]
    agreed = combine_relevance(draws)["m1"]
    assert agreed.need == "explicit"
    assert agreed.quote == "How much"
    assert (agreed.surface, agreed.surface_asked) == ("count", False)
    assert not agreed.answerable
    assert agreed.same_as == "e1.2"
    assert agreed.draws == 3


def test_a_tie_goes_the_way_of_the_criterion() -> None:
    against = Relevance("none", surface="layout", surface_asked=False, answerable=False, same_as="m2", reason="No.")
    agreed = combine_relevance([{"m1": against}, {"m1": Relevance("implicit", reason="Yes.")}])["m1"]
    assert agreed == Relevance("implicit", reason="Yes.", draws=2, votes=2.0)


def test_a_judgment_that_is_missing_does_not_vote() -> None:
    agreed = combine_relevance([{"m1": Relevance("none")}, {}, {"e1.2": Relevance("implicit")}])
    assert agreed["m1"].need == "none"
    assert agreed["m1"].draws == 1
    assert combine_relevance([]) == {}
