"""The full method, end to end, against a real endpoint whose models write known criteria."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from shutil import copytree
from typing import Any

import pyarrow.parquet as pq
import pytest

from autorubric.cli.app import run
from autorubric.synthesis.gate_rules import GateSettings
from tests.offenders import offenders
from tests.synthesis.full.conftest import AMBIGUOUS, Finished, Play, Stand, item

Make = Callable[..., Any]  # makes a `Stand`, see conftest

# One query: 6 responses, 2 answers of the rubric models' own, 2 rubrics, 1 merge,
# 6 x 2 verdicts, 1 evolution and the licence judgments; then 6 x 2 verdicts on what evolution added; then
# 1 rewrite with 6 x 2 verdicts and the licence judgments again.
LICENCES = GateSettings().licence_draws
FIXED, EVOLVED, REWRITTEN = 24 + LICENCES, 12, 13 + LICENCES


def texts(rows: list[dict[str, Any]]) -> list[tuple[str, int]]:
    return [(row["description"], row["weight"]) for row in rows]


def test_a_query_becomes_a_rubric_whose_every_criterion_has_passed_the_gates(finished: Finished) -> None:
    row = finished.stand.rows()[0]
    assert texts(row["criteria"]) == [
        ("mentions  F2.", 9),
        ("Mentions F3", 6),
        ("Mentions F6", 5),
        ("Mentions F4", 4),
        ("Mentions F5", 7),
    ]
    rejected = {one["description"]: one["gate"] for one in row["rejected"]}
    assert rejected == {"Carries the heading Overview of F6": "surface", "Mentions F1": "separates"}
    assert texts(row["rewritten"]) == [(AMBIGUOUS, 5)]
    assert row["pitfalls_left_out"] == []
    # 7 of 9 + 6 + 5 + 4 + 7 points.
    assert row["evolved_share"] == pytest.approx(7 / 31)
    assert row["rank_agreement"] == pytest.approx(1.0)


def test_every_criterion_names_who_wrote_it_what_it_came_from_and_what_each_gate_said(finished: Finished) -> None:
    row = finished.stand.rows()[0]
    by_text = {one["description"]: one for one in (*row["criteria"], *row["rejected"])}
    merged = by_text["mentions  F2."]
    assert merged["models"] == ["m-rubric-b", "m-rubric-a"]
    assert {"a1", "b1"} <= set(merged["parents"])
    evolved = by_text["Mentions F5"]
    assert (evolved["origin"], evolved["round"], evolved["models"]) == ("evolved", 1, ["m-augment"])
    assert {"licensed", "separates", "agreement"} <= {said["gate"] for said in evolved["gates"]}
    # Draws that never disagree may be one draw five times: their majority is not enough to reject.
    unsure = next(
        said for said in by_text["Carries the heading Overview of F6"]["gates"] if said["gate"] == "licensed"
    )
    assert unsure["outcome"] == "undecided"
    assert json.loads(unsure["figures"]) == {"need": "none", "quote": "", "draws": 5, "votes": 1.0}
    assert json.loads(evolved["gates"][-1]["figures"])
    fates = {fate["id"]: (fate["outcome"], fate["into"]) for fate in row["merge_fates"]}
    assert fates["a1"] == ("merged", merged["id"])
    assert set(fates) == {"a1", "a2", "a3", "b1", "b2"}


def test_the_calls_are_those_that_the_dry_run_names(finished: Finished) -> None:
    assert f"{FIXED} calls per query" in finished.estimate
    assert f"{EVOLVED} more if round 1 adds criteria" in finished.estimate
    assert f"{REWRITTEN} more if judges split on a criterion" in finished.estimate
    assert finished.requests == 2 * (FIXED + EVOLVED + REWRITTEN)


@pytest.mark.parametrize("rounds", ["0", "3"])
def test_the_dry_run_holds_for_other_numbers_of_rounds(
    stand: Make, capsys: pytest.CaptureFixture[str], rounds: str
) -> None:
    # Each further round asks the augment model; the same criteria again add nothing, and nothing more is asked.
    s = stand("Why is the sky blue?")
    s.synthesize("--dry-run", "--rounds", rounds)
    told = capsys.readouterr().out
    assert (f"{FIXED - 1} calls per query" if rounds == "0" else f"{FIXED} calls per query") in told
    assert s.synthesize("--rounds", rounds) == 0
    further = -1 - EVOLVED if rounds == "0" else 1
    assert s.endpoint.counts.requests == FIXED + EVOLVED + REWRITTEN + further


def test_the_same_command_again_asks_nothing_and_changes_no_file(finished: Finished) -> None:
    s = finished.stand
    names = [p.name for p in s.out.iterdir() if p.suffix in {".jsonl", ".parquet"}]
    assert {"step5_gated.jsonl", "final_full.parquet"} <= set(names)
    before = {name: (s.out / name).read_bytes() for name in names}
    requests = s.endpoint.counts.requests
    assert s.synthesize() == 0
    assert s.endpoint.counts.requests == requests
    assert {name: (s.out / name).read_bytes() for name in names} == before


def test_the_final_files_are_the_seeds_and_hold_no_pitfall(stand: Make) -> None:
    s = stand("Why is the sky blue?")
    assert s.synthesize("--pitfalls", "keep") == 0
    (final,) = s.rows("final.jsonl")
    assert list(final) == ["question", "id", "rubrics"]
    assert sorted(one["points"] for one in final["rubrics"]) == [4, 5, 6, 7, 9]
    assert pq.read_table(s.out / "final.parquet").to_pylist() == [final]
    (full,) = s.rows()
    assert [one["weight"] for one in full["criteria"] if one["weight"] < 0] == [-5]
    assert pq.read_table(s.out / "final_full.parquet").to_pylist() == [full]


@pytest.mark.parametrize("pitfalls", ["off", "drop"])
def test_pitfalls_that_no_file_would_hold_are_not_paid_for(stand: Make, pitfalls: str) -> None:
    s = stand("Why is the sky blue?")
    assert s.synthesize("--pitfalls", pitfalls) == 0
    assert s.asked["m-rubric-a"] == 2
    assert s.rows()[0]["pitfalls_left_out"] == []
    assert s.endpoint.counts.requests == FIXED + EVOLVED + REWRITTEN


def test_a_conversation_is_a_query_too(stand: Make) -> None:
    turns = [
        {"role": "user", "content": "Why is the sky blue?"},
        {"role": "assistant", "content": "At noon, or at dusk?"},
        {"role": "user", "content": "At noon."},
    ]
    s = stand(turns)
    assert s.synthesize() == 0
    (row,) = s.rows()
    assert row["prompt"] == turns
    assert json.loads(row["question"]) == turns
    asked = [received.body for received in s.endpoint.received if received.body["model"] == "m-judge-a"]
    assert all("At noon, or at dusk?" in json.dumps(body) for body in asked)


def test_rubrics_on_one_reference_ask_for_it_and_for_no_answer_of_the_rubric_models(stand: Make) -> None:
    s = stand("Why is the sky blue?")
    assert s.synthesize("--grounding", "reference", "--until", "rubrics") == 0
    assert (s.asked["m-reference"], s.asked["m-rubric-a"]) == (1, 1)


def test_a_rubric_model_that_responds_anyway_is_grounded_in_its_response(stand: Make) -> None:
    play = Play()
    play.rubrics["m-response-a"] = play.rubrics.pop("m-rubric-a")
    s = stand("Why is the sky blue?", replier=play)
    assert s.synthesize("--rubric-model-a", "m-response-a", "--until", "rubrics") == 0
    # Three of the six responses and a rubric.
    assert s.asked["m-response-a"] == 4


def test_one_call_a_criterion_comes_to_the_same_rubric(stand: Make) -> None:
    s = stand("Why is the sky blue?")
    assert s.synthesize("--judging", "criterion") == 0
    (row,) = s.rows()
    assert "Mentions F5" in [one["description"] for one in row["criteria"]]
    # 4 merged criteria, 3 evolved, 1 rewritten: 8 criteria, 6 responses; and 2 of 5 relevance draws, twice.
    assert s.asked["m-judge-b"] == 48 + 4


class Failing:
    """Requests of one model that hold a word fail until it is mended."""

    def __init__(self, model: str, word: str = "", fault: str = "500") -> None:
        self.model, self.word, self.fault, self.mended = model, word, fault, False

    def __call__(self, body: dict[str, Any]) -> str | None:
        hit = body["model"] == self.model and self.word in json.dumps(body) and not self.mended
        return self.fault if hit else None


def test_a_failed_judgment_is_no_verdict_and_is_asked_again_by_the_next_run(
    stand: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = Failing("m-judge-b", "Answer 3 to", "400-content-filter")  # not retried
    s = stand("Why is the sky blue?", faults=broken)
    assert s.synthesize() == 1
    (step,) = s.rows("step5_gated.jsonl")
    columns = list(zip(*step["merged_verdicts"]["votes"]["m1"], strict=True))
    # Of one response the second judge's verdict is missing; the first judge's stands.
    [(first, second)] = [column for column in columns if None in column]
    assert first is not None and second is None
    assert "merged_verdicts_error" in step
    assert "merged_verdicts" in s.rows("unfinished.jsonl")[0]["failures"]
    broken.mended = True
    before = s.asked["m-judge-a"]
    assert s.synthesize() == 0
    (step,) = s.rows("step5_gated.jsonl")
    assert "merged_verdicts_error" not in step
    assert None not in [vote for row in step["merged_verdicts"]["votes"]["m1"] for vote in row]
    assert s.asked["m-judge-a"] == before
    assert not (s.out / "unfinished.jsonl").exists()


def is_relevance(body: dict[str, Any]) -> bool:
    return bool((body.get("response_format") or {}).get("json_schema", {}).get("name") == "licences")


@pytest.mark.parametrize("failing", [1, LICENCES])
def test_a_failed_relevance_call_is_no_assessment(stand: Make, failing: int) -> None:
    refused = set[float]()

    def broken(body: dict[str, Any]) -> str | None:
        # Each draw has a seed of its own.
        seeds = refused | {body["seed"]} if is_relevance(body) else set()
        if is_relevance(body) and len(seeds) <= failing:
            refused.add(body["seed"])
            return "400-content-filter"
        return None

    s = stand("Why is the sky blue?", faults=broken)
    assert s.synthesize() == 1
    (unfinished,) = s.rows("unfinished.jsonl")
    assert "licences_1" in unfinished["failures"]
    if failing == LICENCES:  # without any assessment there is no rubric
        assert s.rows() == []
    else:  # the others decide
        (row,) = s.rows()
        assert {one["description"]: one["gate"] for one in row["rejected"]}["Mentions F1"] == "separates"
        figures = json.loads(row["criteria"][0]["gates"][0]["figures"])
        assert figures["draws"] == LICENCES - 1
    failing = 0
    refused.clear()
    before = Counter(s.asked)
    assert s.synthesize() == 0
    assert not (s.out / "unfinished.jsonl").exists()
    assert (s.asked - before)["m-rubric-a"] == 0
    assert len(s.rows()) == 1


def test_a_failed_response_leaves_a_smaller_pool_and_an_unfinished_row(stand: Make) -> None:
    s = stand("Why is the sky blue?", faults=Failing("m-response-b", fault="400-content-filter"))
    assert s.synthesize() == 1
    (row,) = s.rows()
    assert [one["slot"] for one in row["responses"]] == ["a", "c", "e"]
    assert s.manifest()["status"] == "incomplete"


def test_without_any_judge_there_is_no_rubric_and_no_zero(stand: Make) -> None:
    play = Play()
    broken = lambda body: "400-content-filter" if body["model"].startswith("m-judge") else None  # noqa: E731
    s = stand("Why is the sky blue?", replier=play, faults=broken)
    assert s.synthesize() == 1
    assert s.rows() == []
    assert s.rows("final.jsonl") == []


def test_a_criterion_that_stays_ambiguous_after_its_rewrite_is_rejected(stand: Make) -> None:
    s = stand("Why is the sky blue?", replier=Play(rewritten="Is an answer made well indeed"))
    assert s.synthesize() == 0
    (row,) = s.rows()
    rejected = {one["id"]: one for one in row["rejected"]}
    (again,) = [one for one in rejected.values() if one["description"] == "Is an answer made well indeed"]
    assert again["gate"] == "agreement"
    assert again["reason"].endswith("after a rewrite")


def test_without_a_usable_rewrite_the_disputed_criterion_is_rejected_and_the_row_is_unfinished(stand: Make) -> None:
    play = Play()
    play._rewritten = lambda model, asked: {"rewrites": []}  # type: ignore[method-assign]
    s = stand("Why is the sky blue?", replier=play)
    assert s.synthesize() == 1
    (row,) = s.rows()
    (disputed,) = [one for one in row["rejected"] if one["description"] == AMBIGUOUS]
    assert disputed["gate"] == "agreement" and disputed["reason"].endswith("it was not rewritten")
    assert row["criteria"] and "no entry for criterion" in s.rows("unfinished.jsonl")[0]["failures"]["rewriting"]
    del play._rewritten
    assert s.synthesize() == 0
    (row,) = s.rows()
    assert texts(row["rewritten"]) == [(AMBIGUOUS, 5)]


def test_a_gate_can_be_switched_off_and_evolution_capped(stand: Make, tmp_path: Any) -> None:
    config = tmp_path / "synth.yaml"
    config.write_text("full: {gates: {order: [licensed, share], share: {most: 0.1}}}\n")
    s = stand("Why is the sky blue?")
    assert s.synthesize("--config", str(config)) == 0
    (row,) = s.rows()
    assert row["evolved_share"] <= 0.1
    assert {said["gate"] for one in row["rejected"] for said in one["gates"]} <= {"licensed", "share"}
    # Without the gate of agreement nothing is rewritten.
    assert s.endpoint.counts.requests == FIXED + EVOLVED


def test_abnormal_responses_and_criteria_are_dropped_and_counted(stand: Make) -> None:
    play = Play()
    play.rubrics["m-rubric-a"] = [*play.rubrics["m-rubric-a"], item("Mentions F2 " * 60, 5), item("```json", 3)]
    s = stand("Why is the sky blue?", replier=play)
    assert s.synthesize("--until", "merge") == 0
    (row,) = s.rows("step3_merged.jsonl")
    dropped = {fate["id"]: fate["reason"] for fate in row["merge"]["fates"] if fate["outcome"] == "dropped"}
    assert dropped == {"a4": "longer than 600 characters", "a5": "not plain text"}
    notes = s.manifest()["counts"]["notes"]
    assert notes["a criterion was dropped: longer than 600 characters"] == 1


def test_candidate_sets_that_do_not_fit_one_call_are_folded(stand: Make, tmp_path: Any) -> None:
    config = tmp_path / "synth.yaml"
    config.write_text("full: {merge_characters: 1000}\n")
    play = Play()
    for name in ("m-rubric-a", "m-rubric-b"):
        play.rubrics[name] = [item(f"Mentions F{n} at length " + name[-1] * 200, n) for n in range(2, 6)]
    s = stand("Why is the sky blue?", replier=play)
    assert s.synthesize("--config", str(config), "--until", "merge", "--pitfalls", "keep") == 0
    # Four sets, one of which only repeats the other's pitfall: three are left, so two merges.
    assert s.asked["m-merge"] == 2
    fates = s.rows("step3_merged.jsonl")[0]["merge"]["fates"]
    assert len(fates) == 10
    assert all(fate["into"].startswith("m") for fate in fates)


def test_given_responses_are_the_pool_and_nobody_is_asked_for_any(stand: Make, tmp_path: Any) -> None:
    s = stand("unused")
    answers = {"small": "F1.", "middle": "F1, F2, F3.", "large": "F1, F2, F3, F4, F5, F6."}
    (tmp_path / "q.jsonl").write_text(json.dumps({"id": "q0", "question": "Why?", "answers": answers}) + "\n")
    assert s.synthesize("--responses-column", "answers") == 0
    assert Counter(model[:10] for model in s.asked)["m-response"] == 0
    (row,) = s.rows()
    assert [one["model"] for one in row["responses"]] == ["small", "middle", "large"]
    scores = [one["score"] for one in row["responses"]]
    assert scores == sorted(scores)


WRONG_RESPONSES: list[tuple[Any, str]] = [
    (["only one"], "'answers' has 1 responses; expected 2 to 26"),
    ({"m": "x", "n": "  "}, "'answers['n']' is '  '; expected a text that is not blank"),
    (["x", 7], "'answers[1]' is 7; expected a text that is not blank"),
    ("text", "'answers' is of type str"),
]


def test_wrong_responses_are_refused_before_anything_is_asked(
    stand: Make, tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    s = stand("unused")
    with offenders() as case:
        for answers, told in WRONG_RESPONSES:
            with case(answers):
                row = {"id": "q0", "question": "Why?", "answers": answers}
                (tmp_path / "q.jsonl").write_text(json.dumps(row) + "\n")
                assert s.synthesize("--responses-column", "answers") == 2
                assert told in capsys.readouterr().err
                assert s.endpoint.counts.requests == 0


def test_a_budget_ends_the_run_and_a_higher_one_goes_on_without_paying_twice(stand: Make) -> None:
    s = stand("Why 0?", "Why 1?")
    assert s.synthesize("--budget-tokens", "60000", "-j", "4") == 1
    paid = s.endpoint.counts.requests
    assert 0 < paid < 2 * (FIXED + EVOLVED + REWRITTEN)
    assert s.synthesize("--budget-tokens", "90000000", "-j", "4") == 0
    assert s.endpoint.counts.requests == 2 * (FIXED + EVOLVED + REWRITTEN)
    assert len(s.rows()) == 2


WRONG_FLAGS = [
    (["--rounds", "9"], "--rounds is 9"),
    (["--domain", "medcal"], "did you mean 'medical'?"),
    (["--profile", "ful"], "--profile is 'ful'"),
    (["--evolved-share", "1.5"], "--evolved-share is 1.5"),
]


def test_wrong_settings_end_with_status_2(stand: Make, capsys: pytest.CaptureFixture[str]) -> None:
    s = stand("Why?")
    with offenders() as case:
        for flags, told in WRONG_FLAGS:
            with case(" ".join(flags)):
                assert s.synthesize(*flags) == 2
                assert told in capsys.readouterr().err


def test_an_unknown_key_of_the_full_method_is_refused_with_the_nearest(
    stand: Make, tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "synth.yaml"
    config.write_text("full: {gates: {redundant: {least_sam: 0.4}}, pol: 3}\n")
    s = stand("Why?")
    assert s.synthesize("--config", str(config)) == 2
    told = capsys.readouterr().err
    assert "unknown key 'full.pol'; did you mean 'pool'?" in told
    assert "did you mean 'least_same'?" in told


def test_the_full_method_needs_a_judge(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "q.jsonl").write_text('{"question": "Why?"}\n')
    roles = dict.fromkeys(("reference", "responses", "rubrics", "merge", "augment"), "builtin/offline")
    roles_file = tmp_path / "synth.json"
    roles_file.write_text(json.dumps({"roles": roles | {"responses": ["builtin/offline"] * 2}, "profile": "full"}))
    words = ["synthesize", str(tmp_path / "q.jsonl"), "--out", str(tmp_path / "out"), "--config", str(roles_file)]
    assert run(words) == 2
    assert "no model for the role 'judges'" in capsys.readouterr().err


def test_the_release_layout_and_a_card_stand_beside_the_final_files(stand: Make) -> None:
    s = stand("Why is the sky blue?")
    assert s.synthesize("--domain", "science", "--license", "cc-by-4.0") == 0
    (row,) = pq.read_table(s.out / "rubrichub" / "RuRL" / "rurbichub_v1_Science.parquet").to_pylist()
    assert row["ability"] == "Science"
    assert row["prompt"] == [{"content": "Why is the sky blue?", "role": "user"}]
    assert sorted(one["points"] for one in row["Rubrics"]) == [4, 5, 6, 7, 9]
    card = (s.out / "README.md").read_text()
    assert "license: cc-by-4.0" in card
    assert "path: rubrichub/RuRL/*.parquet" in card


def test_a_criterion_that_a_check_decides_as_the_judges_do_becomes_the_check(stand: Make) -> None:
    play = Play()
    play.rubrics["m-rubric-b"] = [item('Contains the word "F4"', 3)]
    s = stand('Write a short text about trees and use the word "F4" in it.', replier=play)
    assert s.synthesize() == 0
    (row,) = s.rows()
    checks = {one["description"]: one["check"] for one in row["criteria"] if one["check"]}
    tried = {one["check"]: one["accepted"] for one in row["checks"]}
    assert list(checks) == ['Contains the word "F4"']
    assert tried[checks['Contains the word "F4"']] is True


def test_a_bare_off_in_yaml_is_understood(stand: Make, tmp_path: Any) -> None:
    config = tmp_path / "synth.yaml"
    config.write_text("full:\n  pitfalls: off\n")
    s = stand("Why is the sky blue?")
    assert s.synthesize("--config", str(config), "--until", "rubrics") == 0
    assert s.asked["m-rubric-a"] == 2
    assert not (s.out / "final.jsonl").exists()


def test_the_requests_of_a_refreshed_role_are_sent_again_and_no_others(finished: Finished, tmp_path: Path) -> None:
    copytree(finished.stand.folder, tmp_path, dirs_exist_ok=True)
    s = Stand(tmp_path, finished.stand.endpoint)
    before = s.asked
    assert s.synthesize("--refresh", "judge") == 0
    assert s.asked - before == {"m-judge-a": 2 * 18, "m-judge-b": 2 * 18}


def test_draws_of_one_model_fill_slots_of_their_own(stand: Make, tmp_path: Any) -> None:
    s = stand("Why is the sky blue?")
    config = tmp_path / "synth.yaml"
    url = s.endpoint.base_url
    config.write_text(
        f"roles: {{responses: [{{model: m-response-a, base_url: '{url}', draws: 3}}, m-response-b],"
        f" judges: [{{model: m-judge-a, base_url: '{url}', draws: 2}}, m-judge-b]}}\n"
    )
    assert s.synthesize("--config", str(config)) == 0
    (row,) = s.rows()
    assert [one["model"] for one in row["responses"]] == ["m-response-a"] * 3 + ["m-response-b"]
    (step,) = s.rows("step5_gated.jsonl")
    assert len(step["merged_verdicts"]["votes"]["m1"]) == 3
    # Judge a gives the same verdicts in both of its draws.
    assert row["quality"]["stability"] == 1.0
