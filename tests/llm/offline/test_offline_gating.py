"""The offline model in the parts that only the full method has."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from autorubric.llm.offline import OfflineModel
from autorubric.llm.offline.gating import license_criteria, merge_named, rewrite_disputed, write_pitfalls
from autorubric.llm.offline.reading import read_query
from autorubric.llm.request import Reply, Request
from autorubric.prompts.gating import package_gate_prompts
from autorubric.synthesis.accounting import account
from autorubric.synthesis.candidate import Candidate
from autorubric.synthesis.drafts import read_pitfalls
from autorubric.synthesis.relevance import read_relevance, relevance_request
from autorubric.synthesis.rubric_merge import merge_request, read_merge

EN, ZH = "Explain in at most 80 words why bread dough is slow in a cold kitchen.", "为什么天气冷的时候面团发得慢？"


async def said(request: Request) -> Reply:
    return await OfflineModel().complete(request)


@pytest.mark.parametrize("query", [EN, ZH])
async def test_pitfalls_are_read_as_faults_in_the_language_of_the_query(query: str) -> None:
    reply = await said(Request((), "pitfall", inputs={"query": query}))
    answer = read_pitfalls(reply)
    items: list[Any] = answer.value  # type: ignore[union-attr]
    assert 2 <= len(items) <= 3
    assert all(-10 <= one["weight"] <= -1 for one in items)
    assert any("面" in one["description"] for one in items) is (query == ZH)


async def test_a_merge_accounts_for_every_criterion() -> None:
    from autorubric.prompts import package_prompts

    sets = [
        [Candidate("a1", "Names the cause", "Names the cause of the leak.", 7)],
        [
            Candidate("b1", "Cause", "Names a cause of the leak.", 9),
            Candidate("pb1", "Cause", "Names the cause.", -4),
        ],
    ]
    reply = await said(merge_request(package_prompts().merge_sets, EN, sets))
    found = read_merge(reply).value  # type: ignore[union-attr]
    made = account([one for some in sets for one in some], found.merged, found.dropped)
    assert [(one.weight, one.parents) for one in made.criteria] == [(9, ("a1", "b1")), (-4, ("pb1",))]
    assert made.notes == ()


async def test_licences_are_read_and_an_unasked_form_is_told_from_an_asked_one() -> None:
    asked = [
        Candidate("m1", "", "The response has at most 80 words.", 9),
        Candidate("m2", "", "The response has at least 7 paragraphs.", 9),
        Candidate("m3", "", 'The response contains the phrase "slow and steady".', 9),
        Candidate("m4", "", "The response names yeast.", 9),
    ]
    reply = await said(relevance_request(package_gate_prompts(), EN, asked))
    found = read_relevance(asked, reply).value  # type: ignore[union-attr]
    assert {one: (said.surface, said.surface_asked) for one, said in found.items()} == {
        "m1": ("count", True),
        "m2": ("count", False),
        "m3": ("phrase", False),
        "m4": ("", True),
    }


def test_pitfalls_and_rewrites_are_the_same_for_the_same_request() -> None:
    reading = read_query(EN)
    assert write_pitfalls(reading, Random(3)) == write_pitfalls(reading, Random(3))
    rewritten = rewrite_disputed(reading, [{"id": "m1", "requirement": "Is clear."}])["rewrites"]
    assert rewritten[0]["description"].startswith("Is clear.")
    assert json.dumps(license_criteria(reading, [])) == '{"licences": []}'
    assert merge_named([[], []]) == {"criteria": [], "dropped": []}
