from __future__ import annotations

import gzip
import json
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autorubric.llm.model import Model
from autorubric.llm.offline import LABEL, OfflineModel
from autorubric.llm.offline.constraints import counted
from autorubric.llm.offline.merging import merge_rubrics
from autorubric.llm.offline.words import language_of, likeness, terms
from autorubric.llm.request import Message, Request, Usage

ROOT = Path(__file__).parents[3]
DATA = ROOT / "tests" / "data"
QUERIES = [json.loads(line) for line in (ROOT / "examples" / "queries.jsonl").read_text("utf-8").splitlines()]
ICE = "Why does ice float on water? Use at most 60 words for a ten-year-old and avoid the word density."


def request(role: str, draw: int = 0, reask: int = 0, **inputs: Any) -> Request:
    return Request((Message("user", "A prompt."),), role=role, draw=draw, reask=reask, inputs=inputs)


async def text(role: str, draw: int = 0, **inputs: Any) -> str:
    return (await OfflineModel().complete(request(role, draw, **inputs))).text


def items(reply: str) -> list[dict[str, Any]]:
    assert reply.startswith("```json\n")
    assert reply.endswith("\n```")
    read: list[dict[str, Any]] = json.loads(reply[len("```json\n") : -len("\n```")])
    return read


async def test_the_same_request_gets_the_same_reply_from_any_instance() -> None:
    for role in ("reference", "response", "rubric"):
        assert await text(role, query=ICE) == await text(role, query=ICE)


async def test_another_draw_reask_or_name_gets_another_reply() -> None:
    asked = [
        request("rubric", 0, query=ICE),
        request("rubric", 1, query=ICE),
        request("rubric", 0, 1, query=ICE),
    ]
    replies = [(await OfflineModel().complete(one)).text for one in asked]
    replies.append((await OfflineModel("builtin/other").complete(asked[0])).text)
    assert len(set(replies)) == 4


@pytest.mark.parametrize("query", [row["question"] for row in QUERIES])
async def test_every_example_query_goes_through_every_role(query: str) -> None:
    reference = await text("reference", query=query)
    responses = [await text("response", draw, query=query) for draw in (0, 1)]
    assert responses[0] != responses[1]
    drafts = [items(await text("rubric", draw, query=query, reference=reference)) for draw in (0, 1)]
    merged = items(await text("merge", query=query, sets=drafts))
    harder = items(await text("augment", query=query, rubrics=merged, responses=responses))
    assert all(5 <= len(draft) <= 12 for draft in drafts)
    assert len(merged) >= max(len(draft) for draft in drafts)
    assert 1 <= len(harder) <= 4
    for item in (*drafts[0], *drafts[1], *merged, *harder):
        assert set(item) == {"title", "description", "weight"}
        assert 1 <= item["weight"] <= 10
        assert len(item["description"].split()) <= 40
        assert len(item["title"].split()) <= 5
        assert "{" not in item["title"] + item["description"]
        if language_of(query) == "zh":
            assert language_of(item["description"]) == "zh"


async def test_two_rubric_draws_overlap_without_being_equal() -> None:
    first, second = [items(await text("rubric", draw, query=ICE, reference="")) for draw in (0, 1)]
    titles = [{item["title"] for item in rubric} for rubric in (first, second)]
    assert first != second
    assert titles[0] & titles[1]


async def test_a_rubric_holds_a_criterion_for_each_constraint_of_the_query() -> None:
    for draw in range(5):
        said = " ".join(item["description"] for item in items(await text("rubric", draw, query=ICE, reference="")))
        assert all(part in said for part in ("60 words", "a ten-year-old", "density"))


async def test_the_one_response_is_thorough_and_keeps_the_form_and_the_other_is_thinner() -> None:
    query = "Explain in between 90 and 120 words how a heat pump warms a house. Mention the compressor."
    words = sorted([counted(await text("response", draw, query=query), "words") for draw in (0, 1)])
    assert 90 <= words[1] <= 120
    assert words[0] < 90
    said = [("the compressor" in await text("response", draw, query=query)) for draw in (0, 1)]
    assert sorted(said) == [False, True]


async def test_answers_take_the_form_that_is_asked_for() -> None:
    as_json = await text("reference", query="Give three facts about owls as a JSON object.")
    assert isinstance(json.loads(as_json), dict)
    as_list = await text("reference", query="Give me exactly four reasons to visit Lisbon.")
    assert counted(as_list, "items") == 4
    as_table = await text("reference", query="Compare tea and coffee in a table with exactly three rows.")
    assert counted(as_table, "rows") == 3
    in_parts = await text("reference", query="Describe the Alps in exactly two paragraphs.")
    assert counted(in_parts, "paragraphs") == 2
    in_chinese = await text("reference", query="Describe the Alps in Chinese.")
    assert language_of(in_chinese) == "zh"


async def test_a_merge_keeps_the_higher_weight_of_near_equal_criteria_and_all_others() -> None:
    one = [{"title": "Names the cause", "description": "Names the cause of the leak.", "weight": 4}]
    two = [
        {"title": "Cause named", "description": "Names a cause for the leak.", "weight": 9},
        {"title": "Gives the cost", "description": "Gives the cost of the repair.", "weight": 2},
    ]
    merged = items(await text("merge", query="Why does my tap leak?", sets=[one, two]))
    assert [(item["title"], item["weight"]) for item in merged] == [
        ("Names the cause", 9),
        ("Gives the cost", 2),
    ]


def test_criteria_of_one_rubric_are_never_merged_unless_they_are_equal() -> None:
    one = [
        {"title": "Covers it", "description": f"Covers the {part} cost of the repair.", "weight": 3} for part in "ab"
    ]
    assert len(merge_rubrics([one])) == 2
    assert len(merge_rubrics([[one[0], one[0]]])) == 1


def test_criteria_with_other_thresholds_are_never_merged() -> None:
    sets = [[{"title": "Length", "description": f"Has at most {n} words.", "weight": n}] for n in (50, 80, 100)]
    assert len(merge_rubrics(sets)) == 3


async def test_the_sets_may_come_as_json_text() -> None:
    one = json.dumps([{"title": "A cause", "description": "Names the cause.", "weight": 4}])
    assert [item["title"] for item in items(await text("merge", query="Why?", sets=[one, "[]"]))] == ["A cause"]


async def test_harder_criteria_are_new_and_come_from_what_only_one_response_has() -> None:
    query = "Why does ice float on water?"
    responses = ["For example, ice floats on a lake.", "It floats on water."]
    harder = items(await text("augment", query=query, rubrics=[], responses=responses))
    assert any("example" in item["description"] for item in harder)
    again = items(await text("augment", query=query, rubrics=harder, responses=responses))
    for old, new in ((old, new) for old in harder for new in again):
        assert likeness(terms(old["description"]), terms(new["description"])) < 0.6


@pytest.mark.parametrize(
    ("requirement", "submission", "status"),
    [
        ("The response contains at most 5 words.", "One two three.", "MET"),
        ("The response contains at most 2 words.", "One two three.", "UNMET"),
        ("The response does not use or mention jargon.", "Plain words.", "MET"),
        ("The response contains no jargon.", "Full of jargon.", "UNMET"),
        ("States that ice is less dense than water.", "Ice is less dense than liquid water.", "MET"),
        ("Names the boiling point of ethanol.", "Ice is less dense than liquid water.", "UNMET"),
        ('Says "thank you" at the end.', "Thanks a lot.", "UNMET"),
        ("回答提到高压锅。", "用高压锅可以提高沸点。", "MET"),
        ("Names the cause.", "", "UNMET"),
        ("The response is clear.", "Anything.", "CANNOT_ASSESS"),
    ],
)
async def test_a_judge_decides_by_counts_first_and_by_shared_words_otherwise(
    requirement: str, submission: str, status: str
) -> None:
    criterion = {"requirement": requirement, "weight": 5}
    verdict = json.loads(await text("judge", query="Why?", submission=submission, criterion=criterion))
    assert list(verdict) == ["explanation", "criterion_status"]
    assert verdict["criterion_status"] == status


async def test_without_inputs_the_last_user_message_is_the_query() -> None:
    messages = (Message("system", "Be brief."), Message("user", "Why are flamingos pink?"))
    reply = await OfflineModel().complete(Request(messages, role="rubric"))
    assert "flamingos" in reply.text


async def test_a_conversation_is_read_by_its_last_turn_of_the_user() -> None:
    query = [
        {"role": "user", "content": "I want to grow tomatoes."},
        {"role": "assistant", "content": "On a balcony?"},
        {"role": "user", "content": "Yes. How do I keep slugs away from my balcony plants?"},
    ]
    reply = await text("rubric", query=query, reference="")
    assert "slugs" in reply
    assert "balcony plants" in reply


async def test_usage_counts_a_quarter_of_the_characters_and_is_free() -> None:
    model: Model = OfflineModel()
    asked = request("reference", query=ICE)
    reply = await model.complete(asked)
    # 'A prompt.' has 9 characters: 3 tokens.
    assert reply.usage == Usage(3, -(-len(reply.text) // 4))
    assert (reply.cost, reply.model, reply.finish_reason) == (0.0, "builtin/offline", "stop")
    assert model.ceiling(asked) == reply.usage
    await model.close()


async def test_placeholders_and_braces_in_a_query_stay_text() -> None:
    query = 'What does {0} or {a!r} or <<reference>> mean in "{b}"? Mention {curly braces}.'
    for role in ("reference", "response", "rubric"):
        assert await text(role, query=query, reference="{x}")
    assert "{curly braces}" in await text("rubric", query=query, reference="")


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet=st.characters(), max_size=300))
async def test_no_query_is_too_strange(query: str) -> None:
    reference = await text("reference", query=query)
    assert reference.strip()
    drafts = [items(await text("rubric", draw, query=query, reference=reference)) for draw in (0, 1)]
    assert all(5 <= len(draft) <= 12 for draft in drafts)
    harder = await text("augment", query=query, rubrics=drafts[0], responses=[reference, query])
    assert items(harder)
    assert harder.encode()


def test_the_label_says_that_it_is_a_stand_in() -> None:
    assert "stand-in" in LABEL
    assert LABEL.count(".") == 1


@pytest.mark.parametrize("name", ["mt_bench.jsonl.gz", "arena_hard.jsonl.gz"])
async def test_real_queries_give_rubrics_of_the_right_size(name: str) -> None:
    for line in gzip.decompress((DATA / name).read_bytes()).splitlines():
        row = json.loads(line)
        query = row["turns"][0] if "turns" in row else row["question"]
        rubric = items(await text("rubric", query=query, reference=""))
        assert 5 <= len(rubric) <= 12
        assert all(len(item["description"].split()) <= 40 for item in rubric)


def test_the_example_queries_cover_five_domains_in_two_languages() -> None:
    domains = [row["domain"] for row in QUERIES]
    assert {name: domains.count(name) >= 5 for name in domains} == dict.fromkeys(
        ("medical", "science", "instruction_following", "writing", "chat"), True
    )
    assert sum(language_of(row["question"]) == "zh" for row in QUERIES) >= 5
    assert all(set(row) == {"id", "question", "domain"} for row in QUERIES)
    assert all(first["id"] != second["id"] for first, second in combinations(QUERIES, 2))
