from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from autorubric.llm.request import Answer, Reply, Unreadable
from autorubric.prompts.template import Template
from autorubric.synthesis.candidate import Candidate
from autorubric.synthesis.rubric_merge import MergeReply, build_merge_request, read_merge
from tests.offenders import each

GOLDEN = Path(__file__).parents[2] / "prompts" / "golden" / "merge_sets.txt"
SETS = [
    [Candidate("a1", "剂量", "Names 4 g.", 9)],
    [Candidate("b1", "Timing", "Says how far apart the doses are.", 6)],
    [Candidate("p1", "Alcohol", "Calls alcohol harmless.", -5)],
]


def test_a_changed_merge_prompt_shows_in_review() -> None:
    request = build_merge_request(Template.from_package("merge_sets"), "How much paracetamol a day?", SETS)
    text = "".join(f"=== {message.role} ===\n{message.content}\n" for message in request.messages)
    # After a wanted change: delete the file, run this test twice, look at the difference, commit it.
    if not GOLDEN.exists():
        GOLDEN.write_text(text, encoding="utf-8")
        pytest.fail("merge_sets.txt was not there and has been written; look at it and run the test again")
    assert text == GOLDEN.read_text(encoding="utf-8")


def test_pitfalls_are_explained_only_where_there_are_any() -> None:
    template = Template.from_package("merge_sets")
    texts = [build_merge_request(template, "q", sets).messages[0].content for sets in (SETS, SETS[:2])]
    assert ["marks a fault" in text for text in texts] == [True, False]


def reply_of(text: str) -> MergeReply:
    answer = read_merge(Reply(text))
    assert isinstance(answer, Answer), answer
    return answer.value


ITEM = '{"sources": ["a1"], "title": "Dose", "description": "Names it.", "weight": 9}'


@each(
    "text",
    [
        f'{{"criteria": [{ITEM}], "dropped": []}}',
        f'```json\n{{"criteria": [{ITEM}]}}\n```',
        f"[{ITEM}]",
        f'<think>[1, 2]</think>Here:\n```json\n{{"criteria": [{ITEM},]}}\n``` [done]',
        f'{{"criteria": [{ITEM}, 7, {{"title": "no text"}}], "dropped": null}}',
        '{"criteria": [{"sources": "a1", "title": null, "description": " Names it. ", "weight": "high"}]}',
    ],
)
def test_ugly_replies_are_read(text: str) -> None:
    (merged,) = reply_of(text).merged
    assert (merged.description, merged.sources) == ("Names it.", ("a1",))


def test_what_is_ignored_is_noted() -> None:
    answer = read_merge(Reply(f'{{"criteria": [{ITEM}, 7], "dropped": [{{"reason": "x"}}]}}'))
    assert isinstance(answer, Answer)
    assert [note for note in answer.notes if "ignored" in note] == [
        "criterion 2 was ignored: '7'",
        "dropped 1 was ignored: \"{'reason': 'x'}\"",
    ]


@each(
    "reply",
    [
        Reply("I cannot."),
        Reply('{"criteria": []}'),
        Reply('{"criteria": "all"}'),
        Reply(f'{{"criteria": [{ITEM}', finish_reason="length"),
    ],
)
def test_a_reply_without_criteria_is_no_answer(reply: Any) -> None:
    assert isinstance(read_merge(reply), Unreadable)
