"""`serve --evolve`: versions by training step, killed in the middle and resumed; refusals."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from autorubric import RubricDataset, evolve
from autorubric.llm.records.ledger_view import ledger_view
from autorubric.testing import LoopbackEndpoint
from tests.cli.test_serve import posted, serving
from tests.training.evolution.scripted import QUERY, ROLLOUTS, RUBRIC, scripted


def flags_of(endpoint: LoopbackEndpoint, out: Path, *more: str) -> list[str]:
    judge, writer = (f"{name}@{endpoint.base_url}" for name in ("judge", "writer"))
    return ["--judge", judge, "--evolve", writer, "--most-added", "4", "--retry", "0", "-o", str(out), *more]


def rewards(url: str, step: int, texts: list[str]) -> list[dict[str, Any]]:
    return rewards_of(url, QUERY, RUBRIC, step, texts)


def rewards_of(url: str, query: str, rubric: Any, step: int, texts: list[str]) -> list[dict[str, Any]]:
    items = [{"query": query, "submission": text, "rubric": rubric, "step": step} for text in texts]
    status, body = posted(url, json.dumps({"items": items}).encode())
    assert status == 200, body
    found: list[dict[str, Any]] = body["rewards"]
    return found


def events(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "rubric_versions.jsonl").read_bytes().splitlines()]


def wait_for_event(out: Path, kind: str) -> None:
    while all(event["event"] != kind for event in events(out)):
        time.sleep(0.02)


def test_all_rollouts_of_a_step_have_one_version_and_a_killed_service_resumes_with_the_same(tmp_path: Path) -> None:
    out = tmp_path / "run"
    with scripted().in_thread() as endpoint:
        flags = flags_of(endpoint, out)
        with serving(*flags) as (process, url):
            first = rewards(url, 1, ROLLOUTS)
            early = rewards(url, 2, ROLLOUTS[:4])  # the step begins, so the rubric evolves from step 1
            wait_for_event(out, "version")
            late = rewards(url, 2, ROLLOUTS[4:])
            after = rewards(url, 3, ROLLOUTS)
            process.kill()
        assert {one["version"] for one in (*first, *early, *late)} == {0}
        assert {one["version"] for one in after} == {1}
        assert [*after[0]["criteria"]] == ["Limit", "Doctor", "Ulcers", "Doubling"]
        # Limit 8, Doctor 4, Ulcers 5.6, a pitfall: 8 + 4 of 17.6; the third answer has no ulcer.
        assert after[2]["reward"] == pytest.approx(12 / 17.6)
        before = [event for event in events(out) if event["event"] == "version"]
        paid = endpoint.counts.requests
        with (out / "rubric_versions.jsonl").open("ab") as log:
            log.write(b'{"event": "version", "gr')  # what a kill while writing leaves
        with serving(*flags) as (process, url):
            assert rewards(url, 2, ROLLOUTS) == [*early, *late]
            assert rewards(url, 3, ROLLOUTS) == after
            process.terminate()
            process.communicate(timeout=600)
        assert [event for event in events(out) if event["event"] == "version"] == before
        assert endpoint.counts.requests == paid
        final = RubricDataset.from_file(out / "evolved.json")
        assert [one.name for one in final.get_item_rubric(0)] == ["Limit", "Doctor", "Ulcers", "Doubling"]
        assert final.items[0].metadata["history"] == [event["change"] | {"version": 1} for event in before]
        offline = {"judge": [flags[1]], "writer": flags[3], "out": tmp_path / "offline"}
        [lineage] = evolve(out, **offline).lineages
        assert [one.name for one in lineage.versions[0].rubric] == ["Limit", "Doctor", "Ulcers", "Doubling"]
    with ledger_view(out / "ledger") as view:
        rows, rollouts = ([value for _, value in view.list_observations(kind)] for kind in ("reward", "rollout"))
    assert {(row["step"], row["version"]) for row in rows} == {(1, 0), (2, 0), (3, 1)}
    assert len(rows) == len(rollouts) == 3 * len(ROLLOUTS), "what was given again counts once"


def test_calls_that_would_mix_versions_are_refused_with_one_message(tmp_path: Path) -> None:
    out = tmp_path / "run"
    with scripted().in_thread() as endpoint, serving(*flags_of(endpoint, out)) as (_, url):
        rewards(url, 1, ROLLOUTS)
        rewards(url, 2, ROLLOUTS[:1])
        wait_for_event(out, "version")
        [evolved] = [event["rubric"] for event in events(out) if event["event"] == "version"]
        item = {"query": QUERY, "submission": "So.", "rubric": RUBRIC}
        cases = {
            "give each submission its 'step'": [item, item],
            "the rubric is version 1 of one that evolves here (the newest is 1); send version 0": [
                {**item, "step": 3, "rubric": evolved},
                {**item, "step": 3, "rubric": evolved},
            ],
        }
        for message, items in cases.items():
            status, body = posted(url, json.dumps({"items": items}).encode())
            assert (status, len(body["error"]["problems"])) == (400, 1)
            assert message in body["error"]["problems"][0]


def test_a_call_that_is_refused_begins_no_step_and_no_rubric(tmp_path: Path) -> None:
    out = tmp_path / "run"
    unknown = [{"requirement": "Is right.", "check": {"name": "no_such_check"}}]
    with scripted().in_thread() as endpoint, serving(*flags_of(endpoint, out)) as (_, url):
        rewards(url, 1, ROLLOUTS[:2])
        before = events(out)
        good = {"query": QUERY, "submission": "So.", "rubric": RUBRIC, "step": 9}
        status, body = posted(url, json.dumps({"items": [good, {**good, "rubric": unknown}]}).encode())
        assert status == 400
        assert "no_such_check" in body["error"]["problems"][0]
        assert events(out) == before


def test_an_evolve_model_that_returns_nothing_usable_is_counted_and_said_once(tmp_path: Path) -> None:
    out = tmp_path / "run"
    with scripted("No.").in_thread() as endpoint, serving(*flags_of(endpoint, out)) as (process, url):
        metrics = url.replace("/v1/reward", "/metrics")
        rewards(url, 0, ROLLOUTS)
        for step in (1, 2):
            rewards(url, step, ROLLOUTS[step:])
            while f'outcome="undecided"}} {step}' not in read(metrics):
                time.sleep(0.02)
        assert {one["version"] for one in rewards(url, 3, ROLLOUTS)} == {0}
        process.terminate()
        said = "".join(process.communicate(timeout=600))
    assert said.count("a rubric was not evolved and stays as it is") == 1


def read(url: str) -> str:
    from urllib.request import urlopen

    with urlopen(url, timeout=600) as answer:
        text: str = answer.read().decode()
        return text
