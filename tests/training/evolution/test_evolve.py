"""Offline evolution through the public function: gates, versions, retirement, return, resume, refusals."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from autorubric import InputError, Rubric, RubricDataset, Stop, convert, evolve, grade
from autorubric.testing import LoopbackEndpoint
from autorubric.testing.faults import Fault
from tests.training.evolution.scripted import (
    DOUBLE,
    PROPOSED,
    QUERY,
    ROLLOUTS,
    RUBRIC,
    ULCERS,
    graded,
    models,
    scripted,
)

SAME = ["4 g of ibuprofen, with fever ask, mind an ulcer." + " Yes." * n for n in range(8)]


@pytest.fixture
def endpoint() -> Iterator[LoopbackEndpoint]:
    with scripted().in_thread() as running:
        yield running


@pytest.mark.filterwarnings("ignore:.* with reasoning, which")
def test_only_proposals_that_pass_every_gate_enter_and_the_others_say_why_not(
    endpoint: LoopbackEndpoint, tmp_path: Path
) -> None:
    run = graded(endpoint, tmp_path / "run", ROLLOUTS)
    result = evolve(run, **models(endpoint), most_added=4, out=tmp_path / "out")
    [lineage] = result.lineages
    [change] = lineage.changes
    assert change["added"] == ["Ulcers", "Doubling"]
    assert {one["description"]: one["gate"] for one in change["rejected"]} == {
        'Has a heading titled "Doses".': "surface",
        "Praises the reader for asking.": "licensed",
        "Names ibuprofen.": "separates",
        "Tells how much is too much in 24 hours.": "redundant",
        "Agrees with the reference answer.": "answerable",
    }
    # 10 on the writer's scale is the largest original weight, 8.
    assert [(one.name, one.weight) for one in lineage.newest.rubric] == [
        ("Limit", 8),
        ("Doctor", 4),
        ("Ulcers", 5.6),
        ("Doubling", -4.8),
    ]
    assert lineage.versions[0].rubric == Rubric.from_dict(RUBRIC)
    thought = [f"<think>4 g, fever, ulcer, double. # Doses {n}</think>\n{text}" for n, text in enumerate(ROLLOUTS)]
    again = evolve(
        graded(endpoint, tmp_path / "thought", thought), **models(endpoint), most_added=4, out=tmp_path / "b"
    )
    assert again.lineages[0].newest.rubric == lineage.newest.rubric
    assert again.lineages[0].changes[0]["rejected"] == change["rejected"]


def test_at_most_k_enter_the_heaviest_first(endpoint: LoopbackEndpoint, tmp_path: Path) -> None:
    run = graded(endpoint, tmp_path / "run", ROLLOUTS)
    [lineage] = evolve(run, **models(endpoint), most_added=1, out=tmp_path / "out").lineages
    assert [one.name for one in lineage.newest.rubric] == ["Limit", "Doctor", "Ulcers"]
    assert lineage.changes[0]["rejected"][-1]["gate"] == "most_added"


def test_a_resumed_evolution_and_one_rebuilt_from_its_ledger_make_no_call(
    endpoint: LoopbackEndpoint, tmp_path: Path
) -> None:
    run, out = graded(endpoint, tmp_path / "run", ROLLOUTS), tmp_path / "out"
    evolve(run, **models(endpoint), out=out)
    versions, final = ((out / name).read_bytes() for name in ("rubric_versions.jsonl", "evolved.json"))
    made = endpoint.counts.requests
    evolve(run, **models(endpoint), out=out)
    (out / "rubric_versions.jsonl").unlink()
    evolve(run, **models(endpoint), out=out)
    assert endpoint.counts.requests == made
    assert (out / "rubric_versions.jsonl").read_bytes() == versions
    assert (out / "evolved.json").read_bytes() == final


def test_an_added_criterion_without_variance_retires_and_returns_when_it_tells_rollouts_apart_again(
    endpoint: LoopbackEndpoint, tmp_path: Path
) -> None:
    out, settings = tmp_path / "out", {**models(endpoint), "most_added": 4}
    evolve(graded(endpoint, tmp_path / "1", ROLLOUTS), **settings, out=out)

    def again(name: str, texts: list[str]) -> list[list[str]]:
        rubric = RubricDataset.from_file(out / "evolved.json").get_item_rubric(0)
        [lineage] = evolve(graded(endpoint, tmp_path / name, texts, rubric), **settings, out=out).lineages
        return [[str(one.name) for one in part] for part in (lineage.newest.rubric, lineage.newest.inactive)]

    # Every verdict is equal: both added criteria retire, the original ones never do.
    assert again("2", SAME) == [["Limit", "Doctor"], ["Ulcers", "Doubling"]]
    assert again("3", ROLLOUTS[::-1]) == [["Limit", "Doctor", "Ulcers", "Doubling"], []]
    numbers = [json.loads(line).get("number") for line in (out / "rubric_versions.jsonl").read_bytes().splitlines()]
    assert numbers == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("settings", "left"),
    [
        ({}, ["Limit", "Doctor"]),
        ({"retire_original": True}, ["Limit"]),  # one criterion with points stays
        ({"retire_original": True, "persistent": ["Doctor"]}, ["Doctor"]),
    ],
)
def test_original_criteria_retire_only_where_that_is_asked_for(
    endpoint: LoopbackEndpoint, tmp_path: Path, settings: dict[str, object], left: list[str]
) -> None:
    run = graded(endpoint, tmp_path / "run", SAME)
    [lineage] = evolve(run, **models(endpoint), **settings, out=tmp_path / "out").lineages
    assert [one.name for one in lineage.newest.rubric] == left


def test_rollouts_of_an_older_version_are_refused(endpoint: LoopbackEndpoint, tmp_path: Path) -> None:
    out = tmp_path / "out"
    evolve(graded(endpoint, tmp_path / "1", ROLLOUTS), **models(endpoint), out=out)
    late = graded(endpoint, tmp_path / "2", SAME)
    with pytest.raises(InputError, match=r"of 1 query were graded by an older version .*: version 0, but 1 is"):
        evolve(late, **models(endpoint), out=out)


@pytest.mark.parametrize(
    ("said", "faults", "reason"),
    [
        ("I would rather not.", {}, "evolve: "),
        ('{"criteria": [{"title": "Empty"}]}', {}, "no criterion that can be used"),
        (json.dumps({"criteria": PROPOSED}), {"500": 1.0}, "evolve: "),
    ],
)
def test_a_writer_that_returns_nothing_usable_leaves_the_rubric_and_is_said_once(
    tmp_path: Path, said: str, faults: dict[str, float], reason: str
) -> None:
    with scripted().in_thread() as judge:
        run = graded(judge, tmp_path / "run", ROLLOUTS)
        with scripted(said, faults=faults).in_thread() as writer:
            settings = {**models(judge), "writer": f"writer@{writer.base_url}"}
            result = evolve(run, **settings, out=tmp_path / "out")
    [(told, count)] = result.undecided.items()
    assert reason in told
    assert count == 1
    assert [one.number for one in result.lineages[0].versions] == [0]
    assert not result.lineages[0].changes  # the same command asks again


def test_a_proposal_in_another_language_is_rejected_before_it_is_graded(tmp_path: Path) -> None:
    foreign = {"title": "胃溃疡", "description": "提醒胃溃疡患者谨慎用药。", "weight": 9, "pitfall": False}
    with scripted([foreign]).in_thread() as endpoint:
        run = graded(endpoint, tmp_path / "run", ROLLOUTS)
        made = endpoint.counts.requests
        result = evolve(run, **models(endpoint), out=tmp_path / "out")
    [change] = result.lineages[0].changes
    assert (change["added"], endpoint.counts.requests - made) == ([], 1)
    assert change["rejected"] == [
        {
            "description": foreign["description"],
            "gate": "language",
            "reason": "it is in 'zh', query and rubric in 'en'",
        }
    ]


def test_an_empty_list_is_an_answer(tmp_path: Path) -> None:
    with scripted([]).in_thread() as endpoint:
        run = graded(endpoint, tmp_path / "run", ROLLOUTS)
        result = evolve(run, **models(endpoint), out=tmp_path / "out")
    assert not result.undecided
    assert result.lineages[0].changes[0]["note"] == "no new criterion was proposed"


def test_a_budget_that_ends_stops_the_run_and_more_budget_resumes_it(
    endpoint: LoopbackEndpoint, tmp_path: Path
) -> None:
    run, out = graded(endpoint, tmp_path / "run", ROLLOUTS), tmp_path / "out"
    first = evolve(run, **models(endpoint), budget_tokens=12_000, out=out)
    assert first.stopped and not first.undecided
    assert sum(one.usage.total_tokens for one in first.totals) <= 12_000
    paid = endpoint.counts.requests
    second = evolve(run, **models(endpoint), budget_tokens=10**7, out=out)
    assert second.stopped is None
    assert second.lineages[0].newest.number == 1
    asked = endpoint.counts.requests
    with scripted().in_thread() as other:
        evolve(run, **{**models(endpoint), "base_url": other.base_url}, out=out)
    assert endpoint.counts.requests == asked > paid


def test_a_judgment_that_fails_costs_one_more_call_when_the_run_resumes(tmp_path: Path) -> None:
    # One call in three is slow, so many are in flight when the failed one ends.
    broken = count(1)

    def fail_once(body: dict[str, Any]) -> Fault | None:
        is_first = body["model"] == "judge" and str(DOUBLE["description"]) in str(body) and next(broken) == 1
        return Fault("broken", status=500) if is_first else None

    with scripted(latency="fixed:0.002+0.3@0.1").in_thread() as endpoint:
        run = graded(endpoint, tmp_path / "run", ROLLOUTS)
        evolve(run, **models(endpoint), out=tmp_path / "whole")
        calls = endpoint.counts.requests
    with scripted(latency="fixed:0.002+0.3@0.1", faults=fail_once).in_thread() as endpoint:
        run, out = graded(endpoint, tmp_path / "again", ROLLOUTS), tmp_path / "out"
        assert evolve(run, **models(endpoint), out=out).undecided
        assert evolve(run, **models(endpoint), out=out).lineages[0].newest.number == 1
        assert endpoint.counts.requests == calls + 1


def test_writer_and_judge_together_keep_to_the_limit_of_concurrent_requests(tmp_path: Path) -> None:
    dataset = RubricDataset(rubric=Rubric.from_dict(RUBRIC))
    for number in range(4):
        for text in ROLLOUTS:
            dataset.add_item(text, "", prompt=f"{QUERY} {number}")
    with scripted(latency="fixed:0.005").in_thread() as endpoint:
        grade(dataset, judge=f"judge@{endpoint.base_url}", out=tmp_path / "run", concurrency=2)
        evolve(tmp_path / "run", **models(endpoint), out=tmp_path / "out", concurrency=2)
        assert endpoint.counts.max_in_flight == 2


def test_a_stop_ends_calls_in_flight_and_starts_none_of_those_that_wait(tmp_path: Path) -> None:
    stop, judged = Stop(), count(1)

    def stop_at_the_fifth(body: dict[str, Any]) -> None:
        if body["model"] == "judge" and next(judged) == 5:
            stop()

    with scripted().in_thread() as endpoint:
        run = graded(endpoint, tmp_path / "run", ROLLOUTS)
        evolve(run, **models(endpoint), out=tmp_path / "whole")
        calls = endpoint.counts.requests
    settings = {"out": tmp_path / "out", "concurrency": 2}
    with scripted(latency="fixed:0.05", faults=stop_at_the_fifth).in_thread() as endpoint:
        stopped = evolve(run, **models(endpoint), **settings, stop=stop)
        assert stopped.interrupted
        # No query has failed; it was not reached.
        counts = json.loads((tmp_path / "out" / "manifest.json").read_text())["counts"]
        assert (stopped.undecided, counts) == ({}, {"rows": 1, "finished": 0, "failed": 0})
        # The other call in flight may have been answered before the fifth arrived, and the next one have left.
        assert endpoint.counts.requests <= 1 + 5 + 1
        assert sum(one.calls for one in stopped.totals) == endpoint.counts.requests
        evolve(run, **models(endpoint), **settings)
        assert endpoint.counts.requests == calls - len(ROLLOUTS) * len(RUBRIC)


def test_the_final_rubrics_convert_with_their_history(endpoint: LoopbackEndpoint, tmp_path: Path) -> None:
    run, out = graded(endpoint, tmp_path / "run", ROLLOUTS), tmp_path / "out"
    file = evolve(run, **models(endpoint), out=out).file
    done = convert(file, target=tmp_path / "rows.jsonl", to="verl")
    assert (done.records, done.criteria) == (1, 4)
    [row] = map(json.loads, (tmp_path / "rows.jsonl").read_text().splitlines())
    assert "Warns people with stomach ulcers." in json.dumps(row)
    assert '"added"' in json.dumps(row).replace('\\"', '"')
    assert QUERY in json.dumps(row)
    assert {ULCERS["title"], DOUBLE["title"]} == {"Ulcers", "Doubling"}


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (b'{"event": "begin"}\n', "line 1: not an event of a rubric's history"),
        (b"[]\n", "line 1"),
        (b"\xff\n", "line 1"),
    ],
)
def test_a_damaged_log_of_versions_is_refused_with_its_line(
    endpoint: LoopbackEndpoint, tmp_path: Path, damage: bytes, told: str
) -> None:
    run, out = graded(endpoint, tmp_path / "run", ROLLOUTS), tmp_path / "out"
    evolve(run, **models(endpoint), out=out)
    (out / "rubric_versions.jsonl").write_bytes(damage)
    with pytest.raises(InputError, match=told):
        evolve(run, **models(endpoint), out=out)


def test_a_dry_run_counts_the_calls_and_makes_none(endpoint: LoopbackEndpoint, tmp_path: Path) -> None:
    run = graded(endpoint, tmp_path / "run", ROLLOUTS)
    made, out = endpoint.counts.requests, tmp_path / "out"
    planned = evolve(run, **models(endpoint), most_added=4, out=out, dry_run=True).estimate
    assert planned is not None
    # One proposal; at most 2 · 4 criteria on 8 rollouts, and 3 relevance judgments.
    assert {row.model.name: row.calls for row in planned} == {"writer": 1, "judge": 8 * 8 + 3}
    assert endpoint.counts.requests == made and not out.exists()
    evolve(run, **models(endpoint), most_added=4, out=out)
    assert endpoint.counts.requests == made + 1 + len(PROPOSED) * 8 + 3
    again = evolve(run, **models(endpoint), most_added=4, out=out, dry_run=True).estimate
    assert again == []
    # What is on record counts as such: without its versions, the run is rebuilt from the ledger.
    (out / "rubric_versions.jsonl").unlink()
    kept = evolve(run, **models(endpoint), most_added=4, out=out, dry_run=True).estimate
    assert kept is not None and {(row.calls, row.recorded) for row in kept} == {(0, 1), (0, len(PROPOSED) * 8 + 3)}


def test_a_dry_run_after_first_replies_that_were_unusable_has_no_call_left(tmp_path: Path) -> None:
    met, out = set[str](), tmp_path / "out"

    def first(body: dict[str, Any]) -> str | None:
        return None if (asked := str(body["messages"][:2])) in met else met.add(asked) or "prose"  # type: ignore[func-returns-value]

    with scripted(faults=first).in_thread() as endpoint:
        run = graded(endpoint, tmp_path / "run", ROLLOUTS)
        assert evolve(run, **models(endpoint), out=out).lineages[0].changes
        asked = endpoint.counts.requests
        (out / "rubric_versions.jsonl").unlink()
        kept = evolve(run, **models(endpoint), out=out, dry_run=True).estimate
        assert kept is not None and [row.calls for row in kept] == [0, 0]
        assert endpoint.counts.requests == asked and endpoint.counts.by_fault["prose"] == len(met)


def test_a_dry_run_of_a_split_counts_what_it_takes_if_the_gates_reject_it(
    endpoint: LoopbackEndpoint, tmp_path: Path
) -> None:
    both = [{"requirement": "States the dose and warns about liver damage."}, {"requirement": "Is calm."}]
    grade(ROLLOUTS, rubric=Rubric.from_dict(both), prompt=QUERY, judge="builtin/offline", out=tmp_path / "run")
    settings = {"judge": "builtin/offline", "writer": "builtin/offline", "compound": "split"}
    [writer, judge] = evolve(tmp_path / "run", **settings, out=tmp_path / "out", dry_run=True).estimate or []
    # A list and three relevance judgments; then a proposal, 2 · 3 criteria on 8 rollouts, and three more.
    assert (writer.calls, judge.calls) == (1 + 1, 3 + 6 * 8 + 3)
