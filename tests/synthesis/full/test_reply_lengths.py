"""Replies of realistic length, cut off at the limit of their request as servers do, at four characters a token."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from autorubric.cli.app import run
from autorubric.testing import Completion, TokenLimits
from autorubric.testing.completion import estimate_tokens

from .conftest import Item, Play, Stand, item

Make = Callable[..., Stand]
QUERIES = ("Why is the sky blue?", "Why is the sea salty?", "Why do leaves fall?")
# About 220 characters: 40 words, the most that the prompts ask for.
WORDS = (
    "and says in which of the cases that the question is about it holds, with the figure that supports it and the "
)
WORDS += "source it was taken from, so that a reader who is new to the matter can check it alone"


def criteria(prefix: str, count: int, weight: int = 5) -> list[Item]:
    return [item(f"Mentions F{1 + n % 9} as point {prefix}{n}, {WORDS}", weight) for n in range(count)]


def full_play(each: int, pitfalls: int = 1) -> Play:
    """A play in which each rubric model writes `each` criteria and `pitfalls` pitfalls, and the merge keeps all."""
    play = Play(rubrics={f"m-rubric-{letter}": criteria(letter, each) for letter in "ab"})
    play.rubrics["m-merge"] = [one for letter in "ab" for one in play.rubrics[f"m-rubric-{letter}"]]
    play.pitfalls = [item(f"States wrongF as error {n}, {WORDS}", -5) for n in range(pitfalls)]
    return play


def thinking(play: Play, tokens: int, models: tuple[str, ...]) -> Callable[[dict[str, Any]], Completion]:
    """The play, with reasoning of so many tokens before each answer of some models."""

    def reply(body: dict[str, Any]) -> Completion:
        said = Completion(play(body))
        return replace(said, reasoning="Hm. " * tokens) if body["model"] in models else said

    return reply


class Cutting:
    """Cuts replies off at the limits of their requests, and keeps what it has cut off."""

    def __init__(self, replier: Callable[[dict[str, Any]], str | Completion]) -> None:
        self.replier = replier
        self.cut: Counter[tuple[str, str, int]] = Counter()

    def __call__(self, body: dict[str, Any]) -> Completion:
        said = self.replier(body)
        whole = Completion(said) if isinstance(said, str) else said
        found = TokenLimits().cut(whole, body)
        if found.finish_reason == "length":
            self.cut[body["model"], json.dumps(body["messages"]), body["max_tokens"]] += 1
        return found


def basic(stand: Stand, *more: str) -> int:
    arguments = [flag for flag in stand.arguments("--judging") if not flag.startswith(("--judg", "m-judge"))]
    given = [flag for flag in arguments if flag != stand.endpoint.base_url]
    flags = [flag for flag in given if flag not in {"--profile", "full"} and not flag.endswith("-base-url")]
    places = [part for flag in flags if flag.startswith("m-") for part in (f"--{flag[2:]}-base-url",)]
    return run([*flags, *(word for place in places for word in (place, stand.endpoint.base_url)), *more])


def limits_of(stand: Stand, model: str) -> Counter[int]:
    return Counter(r.body["max_tokens"] for r in stand.endpoint.received if r.body["model"] == model)


def finished(stand: Stand) -> int:
    rows = stand.rows("final.jsonl")
    return sum(bool(row["rubrics"]) for row in rows)


def test_the_merge_of_40_criteria_fits_its_default_limit(stand: Make) -> None:
    play = full_play(20)
    # The reply of a merge, as a model writes it.
    assert estimate_tokens(len(json.dumps({"criteria": play.rubrics["m-merge"]}))) > 2048
    replier = Cutting(play)
    s = stand(QUERIES[0], replier=replier)
    assert basic(s) == 0
    assert finished(s) == 1
    assert not replier.cut
    asked = s.endpoint.counts.requests
    assert basic(s) == 0
    assert s.endpoint.counts.requests == asked


def test_rubrics_after_1500_tokens_of_reasoning_fit_their_default_limit(stand: Make) -> None:
    replier = Cutting(thinking(full_play(20), 1500, ("m-rubric-a", "m-rubric-b", "m-merge", "m-augment")))
    s = stand(QUERIES[0], replier=replier)
    assert basic(s) == 0
    assert (finished(s), replier.cut) == (1, Counter())


def test_the_full_method_finishes_with_15_criteria_and_8_pitfalls_a_model(
    stand: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    replier = Cutting(full_play(15, 8))
    s = stand(QUERIES[0], replier=replier)
    assert s.synthesize() == 0, capsys.readouterr().out
    assert (finished(s), replier.cut) == (1, Counter())
    asked = s.endpoint.counts.requests
    assert s.synthesize() == 0
    assert s.endpoint.counts.requests == asked


def test_a_reply_that_was_cut_off_is_asked_for_with_twice_the_limit_and_later_rows_start_there(stand: Make) -> None:
    replier = Cutting(full_play(20))
    s = stand(*QUERIES, replier=replier)
    given = ("--merge-max-tokens", "1000", "--concurrency", "1")
    assert basic(s, *given) == 0
    assert finished(s) == 3
    # 40 criteria take about 3,100 tokens. Two rows are open at a time, so that the third starts where they ended.
    asked = limits_of(s, "m-merge")
    assert asked[4000] == 3
    # The second may begin before the first has ended, and be asked again where that one ended.
    assert 1 <= asked[2000] <= asked[1000] < 3
    assert set(replier.cut.values()) == {1}


def test_a_limit_is_never_tried_twice_for_the_same_request_also_across_sessions(stand: Make) -> None:
    replier = Cutting(full_play(20))
    s = stand(*QUERIES, replier=replier)
    low = ("--merge-max-tokens", "500", "--max-tokens-ceiling", "1500")
    assert basic(s, *low) == 1
    assert limits_of(s, "m-merge") == {500: 3, 1000: 3, 1500: 3}
    (told,) = {row["merged_rubrics_error"] for row in s.rows("step3_merged.jsonl")}
    assert told == (
        "truncated: the reply was cut off at 1,500 tokens; raise --max-tokens-ceiling (LLMConfig.max_tokens_ceiling)"
    )
    asked = s.endpoint.counts.requests
    assert basic(s, *low) == 1
    assert s.endpoint.counts.requests == asked
    assert basic(s, "--merge-max-tokens", "500", "--max-tokens-ceiling", "6000") == 0
    assert limits_of(s, "m-merge") == {500: 3, 1000: 3, 1500: 3, 3000: 3}
    assert set(replier.cut.values()) == {1}
    assert finished(s) == 3


def test_a_response_that_was_cut_off_is_asked_for_again_and_never_kept_half(stand: Make) -> None:
    play = full_play(3)
    long_answer = "The light of the sun is scattered by the air. " * 300

    def reply(body: dict[str, Any]) -> str:
        return long_answer if body["model"] in {"m-reference", "m-response-a"} else play(body)

    replier = Cutting(reply)
    s = stand(QUERIES[0], replier=replier)
    assert basic(s, "--ref-max-tokens", "2048") == 0
    assert limits_of(s, "m-reference") == {2048: 1, 4096: 1}
    assert s.rows("step0_reference.jsonl")[0]["reference"] == long_answer.strip()


def test_a_reply_that_is_reasoning_only_says_so(stand: Make) -> None:
    replier = Cutting(thinking(full_play(3), 9000, ("m-merge",)))
    s = stand(QUERIES[0], replier=replier)
    assert basic(s, "--merge-max-tokens", "2048", "--max-tokens-ceiling", "4096") == 1
    (row,) = s.rows("step3_merged.jsonl")
    assert row["merged_rubrics_error"].startswith(
        "truncated: 4,096 tokens of reasoning and no answer; raise --max-tokens-ceiling"
    )
    assert basic(s, "--merge-max-tokens", "2048") == 0
    assert limits_of(s, "m-merge") == {2048: 1, 4096: 1, 8192: 1, 16_384: 1}
    assert set(replier.cut.values()) == {1}


def test_an_endpoint_that_allows_fewer_tokens_is_asked_for_what_it_allows(stand: Make) -> None:
    s = stand(QUERIES[0], replier=full_play(20), limits=TokenLimits(most_tokens=4000))
    assert basic(s) == 0
    assert finished(s) == 1
    asked = s.endpoint.counts.requests
    assert basic(s) == 0
    assert s.endpoint.counts.requests == asked


def test_what_an_endpoint_allows_is_not_asked_for_twice_when_it_is_too_little(stand: Make) -> None:
    s = stand(QUERIES[0], replier=full_play(20), limits=TokenLimits(most_tokens=2100))
    assert basic(s) == 1
    (row,) = s.rows("step3_merged.jsonl")
    assert "the endpoint allows no more than 2,100" in row["merged_rubrics_error"]
    taken = s.endpoint.counts.by_status[200]
    assert basic(s) == 1
    assert s.endpoint.counts.by_status[200] == taken


def test_a_context_that_the_prompt_half_fills_is_used_to_its_end(stand: Make) -> None:
    s = stand(QUERIES[0], replier=full_play(3), limits=TokenLimits(context=4000))
    assert basic(s) == 0
    assert finished(s) == 1


def test_many_sets_are_merged_in_parts_that_fit_a_reply(stand: Make) -> None:
    replier = Cutting(full_play(25, 25))
    s = stand(QUERIES[0], replier=replier)
    assert s.synthesize("--until", "merge", "--pitfalls", "keep", "--max-tokens-ceiling", "12000") == 0
    # Both models name the same pitfalls, so that three sets of 25 are left: 75 criteria of about 270 characters need
    # 2,048 + 75 * (40 + 270 / 3) = 11,798 tokens, and half of the ceiling is 6,000. Three sets fold in two merges.
    assert sum(limits_of(s, "m-merge").values()) == 2
    assert not replier.cut
