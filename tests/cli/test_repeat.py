"""`--repeat` and `--share-equal`, as users type them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autorubric import Criterion, EvalResult, Rubric, RubricDataset
from autorubric.cli.app import run
from autorubric.testing import LoopbackEndpoint


def in_turn(*verdicts: str) -> Callable[[dict[str, Any]], str]:
    turns = itertools.cycle(verdicts)
    return lambda body: json.dumps({"explanation": "So it is.", "criterion_status": next(turns)})


def dataset(folder: Path, *texts: str) -> Path:
    made = RubricDataset("Explain.", Rubric([Criterion(name="Kind", requirement="Is kind.")]))
    for number, text in enumerate(texts):
        made.add_item(text, "", ["MET"], id=f"e{number}")
    path = folder / "essays.json"
    made.to_file(path)
    return path


def test_repeats_are_estimated_made_kept_and_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = dataset(tmp_path, "One.", "Two.", "Three.", "Four."), tmp_path / "run"
    with LoopbackEndpoint(replier=in_turn("MET", "MET", "UNMET")).in_thread() as endpoint:
        command = ["grade", str(source), "--judge", f"judge@{endpoint.base_url}", "-o", str(out), "-j", "1"]
        command += ["--temperature", "0.9", "--repeat", "3"]
        assert run([*command, "--dry-run"]) == 0
        assert "judge: 12 calls to make, 0 already recorded" in capsys.readouterr().out
        assert run(command) == 0
        assert endpoint.counts.requests == 12
        told = capsys.readouterr()
        assert run(command) == 0
        assert run([*command[:-1], "2"]) == 2
        assert run([*command[:-1], "2", "--replace"]) == 0
        assert endpoint.counts.requests == 12
        assert run([*command[:-1], "4", "--dry-run"]) == 0
        assert "judge: 4 calls to make, 12 already recorded" in capsys.readouterr().out
        assert run([*command, "--start-over", "--replace"]) == 0
        assert endpoint.counts.requests == 24
    # Of MET, MET, UNMET one pair in three agrees, on every item alike, so the interval is Wilson's of 4/3 in 4
    # (statsmodels: 0.075, 0.755); the variance of 1, 1, 0 is 1/3.
    assert (
        "self-consistency of judge: two repeats agree in 0.333, 95% interval 0.075 to 0.755, all repeats in 0.000 "
        "of 4 judgments; variance within the judge 0.333"
    ) in told.out
    assert "temperature" not in told.err
    result = EvalResult.from_experiment(out)
    assert result.get_scores() == [1.0] * 4
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["grader_config"]["judges"][0]["repeats"] == 3


def test_agreement_with_labels_counts_one_vote_and_shows_the_self_consistency(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = dataset(tmp_path, "One.", "Two.", "Three.", "Four."), tmp_path / "run"
    with LoopbackEndpoint(replier=in_turn("MET", "MET", "UNMET")).in_thread() as endpoint:
        command = ["grade", str(source), "--judge", f"judge@{endpoint.base_url}", "-o", str(out), "-j", "1"]
        assert run([*command, "--temperature", "0.9", "--repeat", "3"]) == 0
    capsys.readouterr()
    assert run(["agree", str(out)]) == 0
    told = capsys.readouterr().out
    assert "4 labelled items, 4 pairs of label and verdict" in told
    assert "self-consistency of judge: two repeats agree in 0.333 [0.075, 0.755], all repeats in 0.000 of 4" in told
    assert run(["agree", str(out), "--json", "--by", "judge"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert list(figures["per_judge"]) == ["judge"]
    assert figures["mean_krippendorff_alpha"] is None  # one judge, however often it was asked
    [judge] = figures["self_consistency"]
    assert (judge["judge_id"], judge["n_judgments"], judge["n_repeats"]) == ("judge", 4, 12)


def test_repeats_at_temperature_0_are_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = dataset(tmp_path, "One.")
    with LoopbackEndpoint(replier=in_turn("MET")).in_thread() as endpoint:
        command = ["grade", str(source), "--judge", f"judge@{endpoint.base_url}", "-o", str(tmp_path / "run")]
        assert run([*command, "--repeat", "2"]) == 0
        assert endpoint.counts.requests == 2
    told = capsys.readouterr().err
    assert "note: judge 'judge' is asked 2 times at temperature 0, where replies are likely to be identical" in told


def test_a_threshold_for_a_judge_without_confidence_is_noted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = dataset(tmp_path, "One.")
    with LoopbackEndpoint(replier=in_turn("MET")).in_thread() as endpoint:
        a, b, c = (f"{name}@{endpoint.base_url}" for name in "abc")
        for judges, noted in (((a,), True), ((a, "--repeat", "2"), False), ((a, "--judge", b), False)):
            command = ["grade", str(source), "--judge", *judges, "--escalate-to", c, "--dry-run"]
            assert run([*command, "-o", str(tmp_path / "run"), "--escalate-below", "0.7"]) == 0
            told = capsys.readouterr().err
            assert ("note: judge 'a' is asked once, so it has no confidence" in told) is noted, judges
            assert run([*command, "-o", str(tmp_path / "run")]) == 0
            assert "no confidence" not in capsys.readouterr().err


def test_a_judge_that_is_named_twice_is_pointed_to_repeat(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["grade", str(dataset(tmp_path, "One.")), "--judge", "vllm/m", "--judge", "vllm/m"]
    assert run([*command, "-o", str(tmp_path / "run")]) == 2
    assert "--judge vllm/m is given more than once; --repeat N asks each judge N times" in capsys.readouterr().err


def test_judges_of_a_cascade_are_repeated_too(tmp_path: Path) -> None:
    source = dataset(tmp_path, "One.")
    with LoopbackEndpoint(replier=in_turn("MET", "UNMET")).in_thread() as endpoint:
        at = f"@{endpoint.base_url}"
        command = ["grade", str(source), "--judge", f"small{at}", "--escalate-to", f"strong{at}", "-j", "1"]
        assert run([*command, "--repeat", "3", "--temperature", "1", "-o", str(tmp_path / "run")]) == 0
        assert [received.body["model"] for received in endpoint.received] == ["small"] * 3 + ["strong"] * 3


def test_a_budget_holds_over_repeats(tmp_path: Path) -> None:
    source, out = dataset(tmp_path, "One.", "Two.", "Three."), tmp_path / "run"
    with LoopbackEndpoint(replier=in_turn("MET")).in_thread() as endpoint:
        command = ["grade", str(source), "--judge", f"judge@{endpoint.base_url}", "-o", str(out)]
        command += ["--temperature", "1", "--repeat", "50", "--max-tokens", "100", "--budget-tokens", "50000"]
        assert run(command) == 1
        spent = endpoint.counts.prompt_tokens + endpoint.counts.completion_tokens
        assert 0 < endpoint.counts.requests < 150
        assert spent <= 50_000


@pytest.mark.parametrize(("flags", "calls"), [((), 3), (("--share-equal",), 2)])
def test_equal_submissions_share_replies_only_where_the_user_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: tuple[str, ...], calls: int
) -> None:
    source = dataset(tmp_path, "One.", "Two.", "One.")
    with LoopbackEndpoint(replier=in_turn("MET", "UNMET")).in_thread() as endpoint:
        command = ["grade", str(source), "--judge", f"judge@{endpoint.base_url}", "-o", str(tmp_path / "run"), *flags]
        assert run([*command, "--dry-run"]) == 0
        assert f"judge: {calls} calls to make, 0 already recorded" in capsys.readouterr().out
        assert run(command) == 0
        assert endpoint.counts.requests == calls
        assert run(command) == 0
        assert endpoint.counts.requests == calls
