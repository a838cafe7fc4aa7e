"""Criteria with several demands, split before training: shared weights, gates, provenance, versions, resume."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from autorubric import ConfigError, Rubric, RubricDataset, evolve, grade, improve
from autorubric.llm.request import Message, Request
from autorubric.testing import LoopbackEndpoint, PromptSections
from tests.cli.test_serve import serving
from tests.offenders import offenders
from tests.training.evolution.test_serve_evolve import events, read, rewards_of, wait_for_event

QUERY = "How much ibuprofen may I take a day, and when should I see a doctor?"
DOSE = "States the dose and warns about liver damage."
FORM = "Names a doctor and includes a heading."
FAULT = "Uses capitals and tells it twice."
RUBRIC = [
    {"name": "Dose", "requirement": DOSE, "weight": 6},
    {"requirement": "Keeps calm.", "weight": 2},
    {"name": "Form", "requirement": FORM, "weight": 3},
    {"name": "Fixed", "requirement": "States the dose and cites a source.", "weight": 1, "tags": ["persistent"]},
    {"name": "Panic", "requirement": FAULT, "weight": -2},
]
LISTS = {
    DOSE: ["States the dose.", "Warns about liver damage."],
    FORM: ["Names a doctor.", 'Includes a heading titled "Doctors".'],
    FAULT: ["Uses capitals.", "Tells it twice."],
}
WORDS = {"States the dose.": "4 g", "Warns about liver damage.": "liver", "Keeps calm.": "calm"}
TEXTS = [f"4 g of it. Keep calm {n} times." for n in range(3)] + ["The liver is at risk."]


class Models:
    """Judge and writer: the writer lists demands, and the judge decides by key words."""

    def __init__(self, lists: Mapping[str, Sequence[str]] | None = None) -> None:
        self.lists = LISTS if lists is None else lists

    def say(self, body: dict[str, Any]) -> str:
        turns = tuple(Message(turn["role"], turn["content"]) for turn in body["messages"])
        shown = PromptSections(Request(turns, role=""))
        if body["model"] == "writer" and "criterion" in shown:
            return json.dumps({"demands": self.lists[shown["criterion"]]})
        if body["model"] == "writer":
            return json.dumps({"criteria": []})
        if "submission" not in shown:
            return json.dumps({"licences": [_relevance(name, text) for name, text, _ in shown.criteria]})
        met = WORDS.get(shown["criterion"], "?") in shown["submission"]
        return json.dumps({"explanation": "So.", "criterion_status": "MET" if met else "UNMET"})


def _relevance(name: str, requirement: str) -> dict[str, Any]:
    heading = "heading" in requirement
    return {
        "criterion_id": name, "reason": "So.", "need": "implicit", "quote": "", "answerable": True, "same_as": "",
        "surface": "heading" if heading else "none", "surface_asked": not heading,
    }  # fmt: skip


@pytest.fixture
def endpoint() -> Iterator[LoopbackEndpoint]:
    with LoopbackEndpoint(replier=Models().say).in_thread() as running:
        yield running


def graded(endpoint: LoopbackEndpoint, out: Path) -> dict[str, Any]:
    judge = f"judge@{endpoint.base_url}"
    grade(TEXTS, rubric=Rubric.from_dict(RUBRIC), prompt=QUERY, judge=judge, out=out)
    return {"judge": [judge], "writer": f"writer@{endpoint.base_url}", "retry": 0, "compound": "split"}


def test_a_split_whose_parts_pass_the_gates_shares_the_weight_and_the_others_stay(
    endpoint: LoopbackEndpoint, tmp_path: Path
) -> None:
    settings, out = graded(endpoint, tmp_path / "run"), tmp_path / "out"
    result = evolve(tmp_path / "run", **settings, out=out)
    [lineage] = result.lineages
    assert [(one.name, one.weight, one.requirement) for one in lineage.newest.rubric] == [
        ("Dose (1)", 3, "States the dose."),
        ("Dose (2)", 3, "Warns about liver damage."),
        ("C2", 2, "Keeps calm."),
        ("Form", 3, FORM),
        ("Fixed", 1, "States the dose and cites a source."),
        ("Panic (1)", -1, "Uses capitals."),
        ("Panic (2)", -1, "Tells it twice."),
    ]
    [change] = lineage.changes
    assert change["split"] == [
        {"criterion": "Dose", "parts": ["Dose (1)", "Dose (2)"]},
        {"criterion": "Panic", "parts": ["Panic (1)", "Panic (2)"]},
    ]
    assert [(one["criterion"], one["gate"]) for one in change["rejected"]] == [("Form", "surface")]
    assert result.count("split") == 2
    record = lineage.newest.rubric[0].metadata["improved"]
    assert (record["kind"], record["author"], record["was"]["requirement"]) == ("split", "writer", DOSE)
    assert "'and warns'" in record["reason"]
    # Resumed, and rebuilt from the ledger: the same, without a call.
    made, versions = endpoint.counts.requests, (out / "rubric_versions.jsonl").read_bytes()
    evolve(tmp_path / "run", **settings, out=out)
    (out / "rubric_versions.jsonl").unlink()
    evolve(tmp_path / "run", **settings, out=out)
    assert endpoint.counts.requests == made
    assert (out / "rubric_versions.jsonl").read_bytes() == versions
    # What `improve` takes back of its own splits, it takes back of these.
    back = improve(out / "evolved.json", undo=["Dose", "Panic"], out=tmp_path / "undone").rubric
    assert [one.requirement for one in back] == [one["requirement"] for one in RUBRIC]
    assert [one.weight for one in back] == [6, 2, 3, 1, -2]


def test_nothing_is_split_twice_and_parts_of_original_criteria_do_not_retire(
    endpoint: LoopbackEndpoint, tmp_path: Path
) -> None:
    settings, out = graded(endpoint, tmp_path / "run"), tmp_path / "out"
    evolve(tmp_path / "run", **settings, out=out)
    split = RubricDataset.from_file(out / "evolved.json").get_item_rubric(0)
    texts = [f"4 g for the liver, and calm {n}." for n in range(9)]
    grade(texts, rubric=split, prompt=QUERY, judge=settings["judge"], out=tmp_path / "next")
    [lineage] = evolve(tmp_path / "next", **settings, out=out).lineages
    assert lineage.newest.number == 1 and "split" not in lineage.changes[-1]


def test_a_list_that_is_no_split_leaves_the_criterion_as_it_is(tmp_path: Path) -> None:
    cases: dict[str, tuple[dict[str, Any], list[str]]] = {
        "one demand after all": ({DOSE: [DOSE]}, []),
        "a part with several demands": (
            {DOSE: ["States the dose and warns about liver damage.", "States the dose."]},
            ["several-demands", "redundant"],
        ),
        "a part that nobody can decide": (
            {DOSE: ["States the dose.", "Warns about liver damage as the reference answer."]},
            ["answerable"],
        ),
        "a demand that is left out": ({DOSE: ["States the dose."]}, ["demands"]),
    }
    with offenders() as case:
        for number, (name, (lists, gates)) in enumerate(cases.items()):
            said = Models({**{one: [one] for one in LISTS}, **lists})
            with case(name), LoopbackEndpoint(replier=said.say).in_thread() as endpoint:
                settings = graded(endpoint, tmp_path / f"run{number}")
                [lineage] = evolve(tmp_path / f"run{number}", **settings, out=tmp_path / f"out{number}").lineages
                assert lineage.newest.number == 0
                assert [one["gate"] for one in lineage.changes[0]["rejected"]] == gates


def test_without_a_model_that_writes_nothing_can_be_split(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"compound split .*needs a model that writes criteria"):
        grade(TEXTS, rubric=Rubric.from_dict(RUBRIC), judge="builtin/offline", compound="split", out=tmp_path)


def test_a_service_splits_before_the_second_step_and_a_killed_one_keeps_the_parts(
    endpoint: LoopbackEndpoint, tmp_path: Path
) -> None:
    judge, writer = (f"{name}@{endpoint.base_url}" for name in ("judge", "writer"))
    flags = ["--judge", judge, "--evolve", writer, "--compound", "split", "--retry", "0", "-o", str(tmp_path)]
    with serving(*flags) as (process, url):
        first = rewards_of(url, QUERY, RUBRIC, 1, TEXTS)
        rewards_of(url, QUERY, RUBRIC, 2, TEXTS)
        wait_for_event(tmp_path, "version")
        after = rewards_of(url, QUERY, RUBRIC, 3, TEXTS)
        # Dose 3 of 12 by half of it, calm 2; before the split half of Dose is nothing.
        assert [round(one["reward"] * 12) for one in first] == [2, 2, 2, 0]
        assert [round(one["reward"] * 12) for one in after] == [5, 5, 5, 3]
        assert {one["version"] for one in after} == {1}
        assert [one["compound"] for one in after] == [0.0] * 4
        process.kill()
    with serving(*flags) as (process, url):
        assert rewards_of(url, QUERY, RUBRIC, 3, TEXTS) == after
        assert "autorubric_compound_share_count 4" in read(url.replace("/v1/reward", "/metrics"))
    assert [event["number"] for event in events(tmp_path) if "number" in event] == [0, 1]
