"""The offline model: it reads the prompts of the package as any model does, and plays every role."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autorubric.core.criterion import Criterion, CriterionOption
from autorubric.graders.asking import JudgeOptions
from autorubric.graders.criterion_judge import CriterionJudge
from autorubric.graders.judge import JudgeInput
from autorubric.graders.rubric_judge import RubricJudge
from autorubric.llm.models import find_stand_in_note
from autorubric.llm.request import Message, Model, Reply, ReplySchema, Request, Usage
from autorubric.prompts import package_prompts
from autorubric.prompts.library import load_schema, package_gate_prompts
from autorubric.synthesis.accounting import build_account
from autorubric.synthesis.candidate import Candidate
from autorubric.synthesis.drafts import read_pitfalls
from autorubric.synthesis.relevance import build_relevance_request, read_relevance
from autorubric.synthesis.rubric_merge import build_merge_request, read_merge
from autorubric.testing.offline import OfflineModel
from autorubric.testing.offline_reading import find_constraints, find_language

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data"
QUERIES = [json.loads(line) for line in (ROOT / "examples" / "queries.jsonl").read_text("utf-8").splitlines()]
ICE = "Why does ice float on water? Use at most 60 words for a ten-year-old child and avoid the word density."
BREAD = "Explain in at most 80 words why bread dough is slow in a cold kitchen."
DOUGH = "为什么天气冷的时候面团发得慢？"
SCHEMAS = {"rubric": "rubric_items", "merge": "rubric_items", "augment": "rubric_items", "pitfalls": "pitfall_items"}


def request(prompt: str, draw: int = 0, reask: int = 0, **values: Any) -> Request:
    """What a stage of the synthesis sends: the package's prompt, filled in, and the schema of the reply."""
    turns = getattr(package_prompts(), prompt).render(**values)
    name = SCHEMAS.get(prompt)
    schema = ReplySchema(name, load_schema(name)) if name else None
    return Request(tuple(Message(*turn) for turn in turns), prompt, schema, draw, reask)


async def text(prompt: str, draw: int = 0, **values: Any) -> str:
    return (await OfflineModel().complete(request(prompt, draw, **values))).text


async def items(prompt: str, draw: int = 0, **values: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(await text(prompt, draw, **values))["criteria"]
    return found


async def test_the_same_request_gets_the_same_reply_and_another_draw_reask_or_name_another_one() -> None:
    asked = request("rubric", query=ICE, reference="")
    others = [request("rubric", 1, query=ICE, reference=""), request("rubric", 0, 1, query=ICE, reference="")]
    replies = [(await OfflineModel().complete(one)).text for one in (asked, asked, *others)]
    replies.append((await OfflineModel("builtin/other").complete(asked)).text)
    assert replies[0] == replies[1]
    assert len(set(replies)) == 4


async def test_the_role_of_a_request_is_not_read() -> None:
    asked = request("rubric", query=ICE, reference="")
    replies = [await OfflineModel().complete(one) for one in (asked, replace(asked, role="judge", item="7"))]
    assert replies[0].text == replies[1].text


async def test_every_example_query_goes_through_every_stage() -> None:
    problems = []
    for query in (row["question"] for row in QUERIES):
        reference = await text("reference", query=query)
        responses = [await text("reference", draw, query=query) for draw in (1, 2)]
        drafts = [await items("rubric", draw, query=query, reference=reference) for draw in (0, 1)]
        merged = await items("merge", query=query, sets=drafts)
        harder = await items("augment", query=query, rubrics=merged, responses=responses)
        rules = {
            "two responses differ": responses[0] != responses[1],
            "5 to 12 criteria": all(5 <= len(draft) <= 12 for draft in drafts),
            "draws differ": drafts[0] != drafts[1],
            "a merge keeps what differs": max(map(len, drafts)) <= len(merged) < sum(map(len, drafts)),
            "1 to 4 stricter criteria": 1 <= len(harder) <= 4,
            "weights": all(1 <= item["weight"] <= 10 for item in (*merged, *harder)),
            "several weights": len({item["weight"] for item in merged}) > 2,
            "length": all(len(item["description"].split()) <= 40 for item in (*merged, *harder)),
            "titles": all(1 <= len(item["title"].split()) <= 5 for item in (*merged, *harder)),
            "no gap left": "{" not in str([list(item.values()) for item in (*merged, *harder)])[1:],
            "language": {find_language(item["description"]) for item in (*merged, *harder)} == {find_language(query)},
        }
        problems += [f"{name}: {query}" for name, held in rules.items() if not held]
    assert not problems


async def test_a_rubric_names_the_topics_and_every_constraint_of_the_query() -> None:
    for draw in range(5):
        said = " ".join(item["description"] for item in await items("rubric", draw, query=ICE, reference=""))
        assert all(part in said for part in ("60 words", "a ten-year-old child", "density", "ice"))


async def test_one_of_two_neighbouring_answers_keeps_the_form_and_the_other_is_thinner() -> None:
    query = "Explain in at least 90 words how a heat pump warms a house. Mention the compressor."
    answers = sorted([await text("reference", draw, query=query) for draw in (1, 2)], key=len)
    assert [len(answer.split()) >= 90 for answer in answers] == [False, True]
    assert ["the compressor" in answer for answer in answers] == [False, True]


async def test_answers_take_the_form_that_is_asked_for() -> None:
    assert isinstance(json.loads(await text("reference", query="Give facts about owls as a JSON object.")), dict)
    as_list = await text("reference", query="Give me exactly four reasons to visit Lisbon.")
    assert sum(line.startswith("- ") for line in as_list.splitlines()) == 4
    assert len((await text("reference", query="Why is the sky blue? At most 30 words.")).split()) <= 30
    assert len(await text("reference", query="为什么天是蓝的？不超过60字。")) <= 70


async def test_merging_keeps_the_larger_weight_of_near_equal_criteria_and_all_others() -> None:
    one = {"title": "Names the cause", "description": "Names the cause of the leak.", "weight": 4}
    two = {"title": "Cause named", "description": "Names a cause for the leak.", "weight": 9}
    cost = {"title": "Gives the cost", "description": "Gives the cost of the repair.", "weight": 2}
    merged = await items("merge", query="Why does my tap leak?", sets=[[one], [two, cost]])
    assert [(item["title"], item["weight"]) for item in merged] == [("Names the cause", 9), ("Gives the cost", 2)]
    limits = [[{"title": "Length", "description": f"Has at most {n} words.", "weight": 3}] for n in (50, 80)]
    assert len(await items("merge", query="Why?", sets=limits)) == 2
    parts = [{"title": "", "description": f"Covers the {part} cost of the repair.", "weight": 3} for part in "ab"]
    assert len(await items("merge", query="Why?", sets=[parts])) == 2


async def test_stricter_criteria_are_new_and_come_from_what_only_one_response_has() -> None:
    query, responses = "Why does ice float on water?", ["For example, ice floats on a lake.", "It floats on water."]
    harder = await items("augment", query=query, rubrics=[], responses=responses)
    assert any("example" in item["description"] for item in harder)
    again = await items("augment", query=query, rubrics=harder, responses=responses)
    assert not {item["description"] for item in harder} & {item["description"] for item in again}


async def test_pitfalls_are_faults_in_the_language_of_the_query() -> None:
    for query in (BREAD, DOUGH):
        asked = request("pitfalls", query=query, reference="")
        found: list[Any] = read_pitfalls(await OfflineModel().complete(asked)).value  # type: ignore[union-attr]
        assert 2 <= len(found) <= 3
        assert all(-10 <= one["weight"] <= -1 for one in found)
        assert {find_language(one["description"]) for one in found} == {find_language(query)}


async def test_a_merge_accounts_for_every_criterion_and_keeps_signs_apart() -> None:
    sets = [
        [Candidate("a1", "Names the cause", "Names the cause of the leak.", 7)],
        [Candidate("b1", "Cause", "Names a cause of the leak.", 9), Candidate("p1", "Cause", "Names the cause.", -4)],
    ]
    reply = await OfflineModel().complete(build_merge_request(package_prompts().merge_sets, BREAD, sets))
    found = read_merge(reply).value  # type: ignore[union-attr]
    made = build_account([one for some in sets for one in some], found.merged, found.dropped)
    assert [(one.weight, one.parents) for one in made.criteria] == [(9, ("a1", "b1")), (-4, ("p1",))]
    assert made.notes == ()


async def test_an_unasked_form_is_told_from_an_asked_one() -> None:
    asked = [
        Candidate("m1", "", "The response has at most 80 words.", 9),
        Candidate("m2", "", "The response has at least 7 sentences.", 9),
        Candidate("m3", "", 'The response contains the phrase "slow and steady".', 9),
        Candidate("m4", "", "The response names yeast.", 9),
        Candidate("m5", "", "The response says that the cold kitchen slows yeast.", 9),
    ]
    reply = await OfflineModel().complete(build_relevance_request(package_gate_prompts(), BREAD, asked))
    found = read_relevance(asked, reply).value  # type: ignore[union-attr]
    assert {one: (said.surface, said.surface_asked, said.need) for one, said in found.items()} == {
        "m1": ("count", True, "implicit"),
        "m2": ("count", False, "implicit"),
        "m3": ("phrase", False, "implicit"),
        "m4": ("", True, "implicit"),
        "m5": ("", True, "explicit"),
    }


VERDICTS = [
    ("The response contains at most 5 words.", "One two three.", "MET"),
    ("The response contains at most 2 words.", "One two three.", "UNMET"),
    ("The response keeps to this: under 3 words.", "One two three.", "UNMET"),
    ("The response does not use or mention jargon.", "Plain words.", "MET"),
    ("The response contains no jargon.", "Full of jargon.", "UNMET"),
    ("The response comes in the requested format (JSON object).", '{"a": 1}', "MET"),
    ("The response has exactly three tips.", "Tips:\n- a\n- b\n- c", "MET"),
    ("The response has exactly three tips.", "Tips:\n- a\n- b", "UNMET"),
    ("States that ice is less dense than water.", "Ice is less dense than liquid water.", "MET"),
    ("Names the boiling point of ethanol.", "Ice is less dense than liquid water.", "UNMET"),
    ('Says "thank you" at the end.', "Thanks a lot.", "UNMET"),
    ("回答提到高压锅。", "用高压锅可以提高沸点。", "MET"),
    ("回答不超过5字。", "用高压锅可以提高沸点。", "UNMET"),
    ("Names the cause.", "", "UNMET"),
    ("The response is clear.", "Anything.", "CANNOT_ASSESS"),
]


async def test_a_judge_decides_by_counts_first_and_by_shared_words_otherwise() -> None:
    model, wrong = OfflineModel(), []
    for requirement, submission, status in VERDICTS:
        case = JudgeInput(submission, (Criterion(requirement=requirement),))
        one = json.loads((await model.complete(CriterionJudge(model).build(case, 0))).text)
        all_ = json.loads((await model.complete(RubricJudge(model).build(case, (0,)))).text)["judgments"][0]
        if [one["criterion_status"], all_["criterion_status"], next(iter(one))] != [status, status, "explanation"]:
            wrong.append((requirement, one, all_))
    assert not wrong


async def test_a_judge_quotes_the_submission_where_it_has_to() -> None:
    model = OfflineModel()
    case = JudgeInput("Tea is old. Coal and canals.", (Criterion(requirement="Names coal and canals"),))
    asked = CriterionJudge(model, options=JudgeOptions(evidence=True)).build(case, 0)
    assert json.loads((await model.complete(asked)).text)["quotes"] == ["Coal and canals."]


async def test_a_judge_chooses_the_best_or_worst_option_by_its_words() -> None:
    model = OfflineModel()
    labels = [
        (["No", "Yes"], "Yes", "No"),
        (["1 point", "3 points", "2 points"], "3 points", "1 point"),
        (["0", "0.5", "1"], "1", "0"),
        (["−1 - against", "0", "1 - for"], "1 - for", "−1 - against"),
        (["Not shown", "Partly", "Shown in full"], "Shown in full", "Not shown"),
    ]
    for shown, best, worst in labels:
        options = [CriterionOption(label=label, value=0.5) for label in shown]
        asked = Criterion(requirement="Does it name coal and canals?", options=options)
        for submission, wanted in (("Coal and canals.", best), ("Steam.", worst)):
            judge, case = CriterionJudge(model), JudgeInput(submission, (asked,))
            found = judge.read(case, 0, await model.complete(judge.build(case, 0)))
            assert shown[found.value.option] == wanted  # type: ignore[union-attr,index]


async def test_a_prompt_without_sections_is_the_query() -> None:
    schema = ReplySchema("rubric_items", load_schema("rubric_items"))
    messages = (Message("system", "Be brief."), Message("user", "Why are flamingos pink?"))
    assert "flamingos" in (await OfflineModel().complete(Request(messages, "rubric", schema))).text
    assert "flamingos" in (await OfflineModel().complete(Request(messages, "sample"))).text


async def test_a_conversation_is_read_by_its_last_turn_of_the_user() -> None:
    query = [
        {"role": "user", "content": "I want to grow tomatoes."},
        {"role": "assistant", "content": "On a balcony?"},
        {"role": "user", "content": "Yes. How do I keep slugs away from my balcony plants?"},
    ]
    reply = await text("rubric", query=query, reference="")
    assert "slugs" in reply
    assert "balcony plants" in reply
    assert "slugs" in await text("reference", query=query)


async def test_usage_counts_a_quarter_of_the_characters_and_is_free() -> None:
    model: Model = OfflineModel()
    asked = Request((Message("user", "A prompt."),), role="response")
    reply: Reply = await model.complete(asked)
    # 'A prompt.' has 9 characters: 3 tokens.
    assert reply.usage == Usage(3, -(-len(reply.text) // 4))
    assert (reply.cost, reply.model, reply.finish_reason) == (0.0, "builtin/offline", "stop")
    assert model.ceiling(asked) == reply.usage
    await model.close()


async def test_braces_and_markers_in_a_query_stay_text() -> None:
    query = 'What does {0} or <request-0123456789ab> mean in "{b}"? Mention {curly braces}.'
    assert await text("reference", query=query)
    assert "{curly braces}" in await text("rubric", query=query, reference="{x}")


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet=st.characters(), max_size=300))
async def test_no_query_is_too_strange(query: str) -> None:
    reference = await text("reference", query=query)
    assert reference.strip()
    drafts = [await items("rubric", draw, query=query, reference=reference) for draw in (0, 1)]
    assert all(5 <= len(draft) <= 12 for draft in drafts)
    assert (await text("augment", query=query, rubrics=drafts[0], responses=[reference, query])).encode()


def test_the_stand_in_is_labelled() -> None:
    (label,) = find_stand_in_note(["builtin/offline"])
    assert "stand-in" in label
    assert label.count(".") == 1


CONSTRAINTS = [
    ("Use no more than 120 words.", [("count", 0, 120, "words")]),
    ("Write fewer than 10 sentences.", [("count", 0, 9, "sentences")]),
    ("Give at least five reasons.", [("count", 5, 10**9, "items")]),
    ("Between 60 and 80 words, please.", [("count", 60, 80, "words")]),
    ("A story of about 250 words.", [("count", 200, 300, "words")]),
    ("List exactly six vegetarian lunches.", [("count", 6, 6, "items")]),
    ("Each tip has one sentence of at most 15 words.", []),
    ("写一篇300字左右的散文。", [("count", 240, 360, "characters")]),
    ("请用恰好四句话介绍都江堰。", [("count", 4, 4, "sentences")]),
    ("不超过150字。", [("count", 0, 150, "characters")]),
    ("The bus leaves at 7 and the year is 1999.", []),
]


def test_counts_are_read_with_their_bounds() -> None:
    found = {
        query: [(one.kind, one.low, one.high, one.unit) for one in find_constraints(query)]
        for query, _ in CONSTRAINTS
    }
    assert found == dict(CONSTRAINTS)


DEMANDS = [
    ("Avoid jargon.", "avoid", "jargon"),
    ("Do not use the word bridge.", "avoid", "bridge"),
    ("Include one indoor option.", "include", "one indoor option"),
    ("Return a JSON object.", "format", "JSON"),
    ("Compare them in a table.", "format", "table"),
    ("Translate it into French.", "language", "French"),
    ("Explain it to a ten-year-old child.", "audience", "a ten-year-old child"),
    ("Answer in a friendly tone.", "tone", "friendly"),
    ("语气要温和。", "tone", "温和"),
    ("不要使用吓人的说法。", "avoid", "吓人的说法"),
]


def test_other_demands_are_read_with_their_values() -> None:
    missing = [
        case for case in DEMANDS if case[1:] not in [(one.kind, one.value) for one in find_constraints(case[0])]
    ]
    assert not missing


@pytest.mark.parametrize("name", ["mt_bench.jsonl.gz", "arena_hard.jsonl.gz"])
async def test_real_queries_give_rubrics_of_the_right_size(name: str) -> None:
    for line in gzip.decompress((DATA / name).read_bytes()).splitlines():
        row = json.loads(line)
        rubric = await items("rubric", query=row["turns"][0] if "turns" in row else row["question"], reference="")
        assert 5 <= len(rubric) <= 12
        assert all(len(item["description"].split()) <= 40 for item in rubric)


def test_the_example_queries_cover_five_domains_in_two_languages() -> None:
    domains = [row["domain"] for row in QUERIES]
    assert {name: domains.count(name) >= 5 for name in domains} == dict.fromkeys(
        ("medical", "science", "instruction_following", "writing", "chat"), True
    )
    assert sum(find_language(row["question"]) == "zh" for row in QUERIES) >= 5
    assert all(set(row) == {"id", "question", "domain"} for row in QUERIES)
    assert all(first["id"] != second["id"] for first, second in combinations(QUERIES, 2))
