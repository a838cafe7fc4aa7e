"""The calls that a dry run states, held against those that the endpoint counts afterwards."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from autorubric.llm.executor import Executor
from autorubric.llm.records.ledger import Ledger
from autorubric.synthesis.plan_estimate import NeededCalls
from autorubric.synthesis.stage_runner import StageRunner
from autorubric.synthesis.stages import Fields, Models, Stage, StageOutcome

Make = Callable[..., Any]  # makes a `Stand`, see conftest
Captured = pytest.CaptureFixture[str]


def stated(s: Any, capsys: Captured, *more: str) -> tuple[int, int]:
    """The calls of a dry run: those in any case, and what conditions can add."""
    before = s.endpoint.counts.requests
    assert s.synthesize("--dry-run", *more) == 0
    assert s.endpoint.counts.requests == before
    told = capsys.readouterr().out
    total = re.search(r"^  total +([\d,]+) ", told, re.MULTILINE)
    added = re.search(r"at most ([\d,]+) more calls", told)
    assert total is not None
    return int(total[1].replace(",", "")), int(added[1].replace(",", "")) if added else 0


def made(s: Any, *more: str) -> int:
    before = int(s.endpoint.counts.requests)
    assert s.synthesize(*more) == 0
    return int(s.endpoint.counts.requests) - before


def test_a_query_that_comes_twice_is_paid_for_once_and_stated_once(stand: Make, capsys: Captured) -> None:
    # In this play a round adds criteria and judges split, so every condition holds.
    s = stand("one?", "one?", "two?")
    few = ("--pool", "3")
    fixed, more = stated(s, capsys, *few)
    once, more_of_once = stated(s, capsys, *few, "--limit", "1")
    assert (fixed, more) == (2 * once, 2 * more_of_once)
    assert made(s, *few) == fixed + more


def test_equal_responses_and_those_that_are_filtered_are_not_stated(stand: Make, capsys: Captured) -> None:
    s = stand("one?")
    answers = ["F1", "F1, F2", "F1, F2", "F1, F2, F3, F4", "```F1"]
    (s.folder / "q.jsonl").write_text(json.dumps({"id": "q0", "question": "one?", "answers": answers}) + "\n")
    more = ("--responses-column", "answers")
    fixed, added = stated(s, capsys, *more)
    # 2 answers of the rubric models' own, 2 rubrics, merge, evolution, 5 licence judgments,
    # and 2 judges on the 3 responses that differ.
    assert fixed == 2 + 2 + 1 + 1 + 5 + 2 * 3
    # 2 judges on the 3 responses for what is new, likewise for a rewrite with its own call and licences.
    assert added == 6 + (1 + 6 + 5)
    assert fixed < made(s, *more) <= fixed + added
    # Of two new rows, one has another question only, and one has more equal responses: 2 differ.
    rows = [("one?", answers), ("two?", answers), ("one?", [*answers[:3], "F1", answers[-1]])]
    texts = [json.dumps({"id": f"q{n}", "question": q, "answers": given}) for n, (q, given) in enumerate(rows)]
    (s.folder / "q.jsonl").write_text("\n".join(texts) + "\n")
    new = "--out", str(s.folder / "new")
    assert stated(s, capsys, *more, *new) == (17 + 17 + 15, 18 + 18 + (4 + 1 + 4 + 5))


def test_a_role_that_is_to_be_asked_anew_is_stated(stand: Make, capsys: Captured) -> None:
    s = stand("one?")
    made(s)
    assert stated(s, capsys)[0] == 0
    fixed, added = stated(s, capsys, "--refresh", "merge")
    assert 1 <= made(s, "--refresh", "merge") <= fixed + added
    # What was requested again is what counts from then on.
    assert stated(s, capsys)[0] == 0
    assert made(s) == 0


def test_a_larger_pool_is_stated_without_the_verdicts_that_are_recorded(stand: Make, capsys: Captured) -> None:
    s = stand("one?")
    made(s, "--pool", "3")
    # The fourth response, 2 judges on it alone, evolution and 5 licence judgments.
    fixed, added = stated(s, capsys, "--pool", "4")
    assert fixed == 1 + 2 + 1 + 5
    assert made(s, "--pool", "4") <= fixed + added
    assert stated(s, capsys, "--pool", "4")[0] == 0


def test_the_maximum_covers_the_calls_under_a_condition(stand: Make, capsys: Captured) -> None:
    s = stand("one?")
    assert s.synthesize("--dry-run", "--judge-max-tokens", "20000", "--rewrite-max-tokens", "7000") == 0
    told = capsys.readouterr().out
    most = dict(re.findall(r"^  (\S+) .* cost unknown +([\d.]+)k ", told, re.MULTILINE))
    # A judge grades 6 responses, and all again for new criteria and for a rewrite; a prompt has about 9 kB.
    assert 3 * 6 * 20 < float(most["judge_a"]) < 3 * 6 * 32
    assert float(most["rewrite"]) > 7


def test_stages_that_make_no_calls_are_not_run_for_the_count() -> None:
    def refuse(fields: Fields, models: Models) -> StageOutcome:
        raise AssertionError("no call can come of it")

    needed, gated = NeededCalls(), Stage("gated", 5, ("question",), refuse)
    with Ledger.in_memory() as ledger:
        needed.add_example([gated], {}, StageRunner(Executor(ledger), {}), is_new=True)
    assert not needed.fixed and not needed.conditional
