"""What a run of the full method says at its end, and which flags it alone takes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autorubric.cli.app import run
from autorubric.synthesis.gate_rules import GateSettings
from autorubric.synthesis.query_file import Query
from autorubric.synthesis.run_summary import RubricCounts, Summary
from autorubric.synthesis.stage_runner import Row
from autorubric.synthesis.stages import Plan, Stage, StageOutcome
from tests.synthesis.full.conftest import Finished, jsonl

Make = Callable[..., Any]  # makes a `Stand`, see conftest


def test_the_summary_holds_the_measures_and_the_gates_in_their_order(finished: Finished) -> None:
    s = finished.stand
    gates, rows = s.manifest()["counts"]["gates"], s.rows()
    assert list(gates["by_gate"]) == [gate for gate in GateSettings().order if gate != "share"]
    assert list(gates["quality"]) == list(rows[0]["quality"])
    # One run of each judge says nothing of stability.
    assert gates["quality"]["stability"] is None
    assert gates["quality"]["number"] == sum(row["quality"]["number"] for row in rows) / 2
    assert "  quality: consistency 1.00, " in finished.printed


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ("filters: {response_most_characters: 5}", "pool: 1 row failed: missing_input: missing responses"),
        (
            "gates: {separates: {merged: true, least_separating: 1}}",
            "gated: 1 row failed: missing_input: missing cri",
        ),
    ],
)
def test_a_row_that_filters_or_gates_leave_nothing_has_its_reason_in_the_summary(
    stand: Make, capsys: pytest.CaptureFixture[str], settings: str, reason: str
) -> None:
    s = stand("one?")
    (s.folder / "full.yaml").write_text(f"full: {{{settings}}}\n")
    assert s.synthesize("--config", str(s.folder / "full.yaml")) == 1
    assert reason in capsys.readouterr().out


def test_notes_that_differ_only_in_words_of_a_reply_are_counted_together_but_weights_in_words_are_shown() -> None:
    summary, row = Summary(2), Row(Query(0, "q0", {}), {})
    dropped = (
        "criterion 2 was dropped: weight is 'high'; expected a number",
        'criterion 3 was ignored: "it\'s"',
        "criterion 1 was dropped: weight is 'high'; expected a number",
    )
    unusual = r"criterion 7 was dropped: weight is 'it\'s \"low\"'; expected a number"
    row.outcomes["merge"] = StageOutcome(notes=dropped)
    summary.add(row, Plan((Stage("merge", 3, (), lambda fields, models: ()),)), failed=False)
    row.outcomes["merge"] = StageOutcome(notes=(unusual,))
    summary.add(row, Plan((Stage("merge", 3, (), lambda fields, models: ()),)), failed=False)
    weight, ignored = "criterion # was dropped: weight is {}; expected a number", "criterion # was ignored: #"
    assert summary.notes == {weight.format("'high'"): 2, weight.format("#"): 1, ignored: 1}
    assert summary.count_notes() == {dropped[2]: 2, dropped[1]: 1, unusual: 1}


def test_a_criterion_whose_rewrite_failed_counts_as_rejected_alone() -> None:
    def criterion(name: str, outcome: str) -> dict[str, Any]:
        return {"id": name, "weight": 1, "gates": [{"gate": "agreement", "outcome": outcome}]}

    counts = RubricCounts(["agreement"])
    # m2 was rewritten as m2.r, which passed; m3 should have been, and is in `rejected` as it was not.
    counts.add(
        {
            "criteria": [criterion("m1", "kept"), criterion("m2.r", "kept")],
            "rejected": [criterion("m3", "rewrite")],
            "rewritten": [criterion("m2", "rewrite")],
        }
    )
    assert counts.gates == {"agreement": {"kept": 2, "rewrite": 1, "rejected": 1, "undecided": 0}}
    assert counts.rejected == sum(decided["rejected"] for decided in counts.gates.values())


def test_a_flag_of_the_full_method_is_refused_where_it_would_do_nothing(
    stand: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    s = stand("one?")
    assert s.synthesize("--profile", "basic", "--rounds", "2", "--pitfalls", "keep") == 2
    assert "--rounds, --judging, --pitfalls need the full profile; pass --profile=full" in capsys.readouterr().err
    assert s.synthesize("--profile", "basic", "--judge-max-tokens", "9", "--license", "mit") == 2
    said = capsys.readouterr().err
    assert "--judge-max-tokens, --license, " in said and "need the full profile; pass --profile=full" in said
    assert s.endpoint.counts.requests == 0


def test_the_replies_of_a_run_are_recorded_with_places_for_labels(
    finished: Finished, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    requests = finished.stand.endpoint.counts.requests
    target = tmp_path / "replies.jsonl"
    arguments = ["gates", str(finished.stand.out), "--record", str(target), "--sample", "1"]
    assert run(arguments) == 0
    (row,) = jsonl(target)
    assert row["query"] in {"Why is the sky blue?", "Why is it green?"}
    assert [one["description"] for one in row["criteria"]][-1] == "Mentions F1"
    assert [one["model"] for one in row["relevance"]] == ["m-judge-a", "m-judge-b"] * 2 + ["m-judge-a"]
    assert row["judges"] == ["m-judge-a", "m-judge-b"]
    assert all(len(rows) == 2 and len(rows[0]) == 6 for rows in row["votes"].values())
    assert set(row["labels"]["first"].values()) == {""}
    assert run(["gates", "--replay", str(target)]) == 0
    assert "7 criteria in 1 rubric" in capsys.readouterr().out
    assert run(arguments) == 2
    assert "replies.jsonl exists; pass another file, or --force to replace it" in capsys.readouterr().err
    assert finished.stand.endpoint.counts.requests == requests
