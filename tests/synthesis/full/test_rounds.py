"""Rounds of evolution: which pair each compares, and when they stop."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from tests.synthesis.full.conftest import Finished, Play, item

Make = Callable[..., Any]


class Growing(Play):
    """Evolves another criterion each time it is asked."""

    def _criteria(self, model: str, asked: str) -> Any:
        if model != "m-augment":
            return super()._criteria(model, asked)
        known = sum(f"Mentions F{n}" in asked for n in (5, 6))
        return {"criteria": [item(f"Mentions F{5 + known}", 7)] if known < 2 else []}


def test_each_round_compares_another_pair_and_sees_what_the_one_before_added(stand: Make) -> None:
    s = stand("Why is the sky blue?", replier=Growing())
    assert s.synthesize("--rounds", "3") == 0
    (row,) = s.rows()
    evolved = [(one["description"], one["round"]) for one in row["criteria"] if one["origin"] == "evolved"]
    assert evolved == [("Mentions F5", 1), ("Mentions F6", 2)]
    pairs = [frozenset(pair) for pair in row["compared_pairs"]]
    assert len(pairs) == len(set(pairs)) == 3
    asked = [r.body["messages"][1]["content"] for r in s.endpoint.received if r.body["model"] == "m-augment"]
    assert ["Mentions F5" in text for text in asked if "strict" in text] == [False, True, True]


def test_the_model_sees_what_the_judges_said_of_the_pair_and_of_the_pool(finished: Finished) -> None:
    asked = [one.body for one in finished.stand.endpoint.received if one.body["model"] == "m-augment"]
    texts = [body["messages"][1]["content"] for body in asked]
    found = [re.search(r"<verdicts-\w+>\n(.*)\n</verdicts-", text) for text in texts]
    assert found[0] is not None
    shown = json.loads(found[0][1])
    # Of the responses F1 to F6, the first two with F4 have equal scores: all 24 points from one judge, and from the
    # other, who does not find them well made, 19; the median of two is their mean.
    assert shown["scores"] == {"response_1": 0.896, "response_2": 0.896}
    both = {"title": "A title", "response_1": True, "response_2": True}
    split = {"title": "A title", "response_1": None, "response_2": None}
    assert shown["criteria"] == [
        both | {"met": 5, "judged": 6},
        both | {"met": 4, "judged": 6},
        split | {"met": 0, "judged": 0},
        both | {"met": 3, "judged": 6},
    ]


def test_rounds_stop_when_one_adds_nothing_that_passes_the_gates(stand: Make) -> None:
    # Every response holds F1, and nobody asked for a heading: both are rejected, and round 2 asks nobody.
    play = Play(evolved=[item("Mentions F1", 6), item("Carries the heading F6", 5)])
    s = stand("Why is the sky blue?", replier=play)
    assert s.synthesize("--rounds", "4") == 0
    (step,) = s.rows("step5_gated.jsonl")
    assert step["round_2"]["criteria"] == step["round_4"]["criteria"] == []
    assert step["round_2_model"] == "skipped(the round before added nothing that passed the gates)"
    assert step["licences_4_model"] == "passthrough"
    assert s.asked["m-augment"] == 2  # one round and one rewrite


def test_a_round_repeats_no_criterion_of_the_rubric(stand: Make) -> None:
    s = stand("Why is the sky blue?", replier=Play(evolved=[item("MENTIONS f3!", 9), item("Mentions F5", 7)]))
    assert s.synthesize() == 0
    (step,) = s.rows("step5_gated.jsonl")
    assert [one["reason"] for one in step["round_1"]["dropped"]] == ["the rubric has it already"]
    assert [one["id"] for one in step["augmented_rubrics"]] == ["e1.2"]
    assert s.rows()[0]["evolved_dropped"] == step["round_1"]["dropped"]


def test_two_equal_responses_are_not_compared(stand: Make, tmp_path: Any) -> None:
    s = stand("unused")
    (tmp_path / "q.jsonl").write_text(json.dumps({"id": "q0", "question": "Why?", "answers": ["F1.", "f1. "]}) + "\n")
    assert s.synthesize("--responses-column", "answers") == 0
    (step,) = s.rows("step5_gated.jsonl")
    assert step["round_1_model"] == "skipped(no two responses left to compare)"
