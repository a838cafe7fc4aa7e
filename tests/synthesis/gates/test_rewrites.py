from __future__ import annotations

import json
import re

from autorubric.llm.request import Answer, Reply, Unreadable
from autorubric.prompts.library import package_gate_prompts
from autorubric.synthesis.candidate import Candidate, Pool
from autorubric.synthesis.gated import build_rewrite_request, read_rewrites
from autorubric.testing.scripted import PromptSections

TONE = Candidate("e1.1", "Tone", "Has a good tone.", 4, "evolved", 1, models=("evolver",))
FAULT = Candidate("m2", "Frightens", "Frightens the reader.", -6)
POOL = Pool(
    ("First text.", "Second text.", "Third text.", "Fourth text.", "Fifth text."),
    ("j1", "j2"),
    {
        "e1.1": ((True, True, False, True, None), (True, False, True, False, True)),
        "m2": ((False, True, False, False, True), (False, False, None, True, False)),
    },
)


def test_the_rewriter_sees_what_judges_split_on_and_no_other_response() -> None:
    request = build_rewrite_request(package_gate_prompts(), "Write to Ann.", [TONE], POOL, {})
    assert request.role == "rewrite"
    assert PromptSections(request).find_numbered("answer") == ["Second text.", "Third text.", "Fourth text."]
    shown = PromptSections(request).text
    assert re.findall(r"^On answer (\d)", shown, re.M) == ["1", "2", "3"]
    assert "On answer 1:\n- a judge said MET\n- a judge said UNMET\n" in shown
    assert "First text." not in request.messages[-1].content


def test_two_disputes_share_the_responses_they_are_about() -> None:
    request = build_rewrite_request(package_gate_prompts(), "Why?", [TONE, FAULT], POOL, {})
    assert PromptSections(request).find_numbered("answer") == list(POOL.responses[1:])
    text = PromptSections(request).text
    assert re.findall(r"^On answer (\d)", text, re.M) == ["1", "2", "3", "1", "3", "4"]
    assert f"{FAULT.id}, a pitfall:" in text
    assert f"{TONE.id}:" in text


def test_the_reasons_of_the_judges_go_along_where_they_are_known() -> None:
    reasons = {"e1.1": (("", "Warm.", "Cold.", "", None), ("", "Stiff.", None, "", ""))}
    text = PromptSections(build_rewrite_request(package_gate_prompts(), "Why?", [TONE], POOL, reasons)).text
    lines = [line for line in text.partition("On answer 1:")[2].splitlines() if not line.startswith("<")]
    first = ["- a judge said MET, because", "Warm.", "- a judge said UNMET, because", "Stiff."]
    second = ["On answer 2:", "- a judge said UNMET, because", "Cold.", "- a judge said MET"]
    assert lines[1:9] == [*first, *second]


def test_a_rewrite_keeps_all_but_the_words() -> None:
    said = {"criterion_id": "e1.1", "split": "?", "title": "Greeting", "description": "Greets Ann by name."}
    found = read_rewrites([TONE, FAULT], Reply(json.dumps({"rewrites": [said]})))
    assert isinstance(found, Answer)
    new = found.value["e1.1"]
    assert new == Candidate(
        "e1.1.r", "Greeting", "Greets Ann by name.", 4, "evolved", 1, ("evolver",), ("e1.1",), rewritten=True
    )
    assert found.notes == ("m2: not rewritten",)


def test_what_has_no_clearer_wording_or_the_same_is_not_rewritten() -> None:
    entries = [
        {"criterion_id": "e1.1", "description": ""},
        {"criterion_id": "m2", "description": "Frightens the reader."},
        {"criterion_id": "m9", "description": "Unknown."},
        "m2",
    ]
    found = read_rewrites([TONE, FAULT], Reply(json.dumps({"rewrites": entries})))
    assert isinstance(found, Answer)
    assert found.value == {}
    assert found.notes == ("e1.1: not rewritten", "m2: not rewritten")


def test_a_reply_without_rewrites_is_unreadable() -> None:
    assert isinstance(read_rewrites([TONE], Reply("No idea.")), Unreadable)
