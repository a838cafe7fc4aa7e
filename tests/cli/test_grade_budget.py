"""What a `grade` command spends of its budget, whatever form the endpoint's token counts have."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from autorubric import Criterion, Rubric, RubricDataset
from autorubric.cli.app import run
from autorubric.llm.failure_groups import HIGHER
from autorubric.llm.records.ledger_view import ledger_view
from autorubric.testing import LoopbackEndpoint
from autorubric.testing.faults import Fault

VERDICT = json.dumps({"explanation": "It says so.", "criterion_status": "MET"})


def answer(usage: Any) -> Fault:
    choice = {"message": {"role": "assistant", "content": VERDICT}, "finish_reason": "stop"}
    return Fault("answer", body=json.dumps({"choices": [choice], "usage": usage}).encode())


def essays(folder: Path, items: int, criteria: int = 1) -> str:
    limits = range(5, 5 + criteria)
    rubric = Rubric([Criterion(name=f"Short {n}", requirement=f"Contains at most {n} words.") for n in limits])
    made = RubricDataset("Explain.", rubric)
    for number in range(items):
        made.add_item(f"Essay number {number}.", f"essay {number}", id=f"e{number}")
    path = folder / "essays.json"
    made.to_file(path)
    return str(path)


def spent(out: Path) -> tuple[int, float]:
    with ledger_view(out / "ledger") as view:
        return view.sum_spent().tokens, view.sum_spent().cost


@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize(
    ("budget", "stopped", "processes"),
    [
        (["--budget-tokens", "30000"], "budget of 30,000 tokens reached after ", "1"),
        (["--budget-tokens=1"], "budget of 1 tokens reached after 0 calls", "1"),
        (["--budget-usd", "0"], "budget of $0.00 reached after 0 calls", "1"),
        (["--budget-tokens", "30000"], "budget of 30,000 tokens reached after ", "2"),
    ],
)
def test_what_a_budget_leaves_out_is_counted_once_and_the_printed_command_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], budget: list[str], stopped: str, processes: str
) -> None:
    prices, out = tmp_path / "prices.yaml", tmp_path / "run"
    prices.write_text("m: {input: 1, output: 1}\n")
    with LoopbackEndpoint(faults=lambda body: answer(None)).in_thread() as endpoint:
        judge = f"m@{endpoint.base_url}"
        words = ["grade", essays(tmp_path, 12), "--judge", judge, "-o", str(out), "-j", "2", *budget]
        assert run([*words, "--prices", str(prices), "--processes", processes]) == 1
        told, made = capsys.readouterr().out, endpoint.counts.requests
        assert told.count(stopped) == told.count("budget of ") - told.count("resume with a budget of ") == 1
        assert f"\n  {12 - made} judgments were not made\n" in told
        assert "raise" not in told
        assert all(
            HIGHER not in items.read_text() for items in out.rglob("items.jsonl")
        )  # the end of the run says it
        again = shlex.split(told.splitlines()[-1])
        assert run(["status", str(out)]) == 0
        status = capsys.readouterr().out
        assert status.count(stopped) == 1 and "failures" not in status
        assert status.rstrip().endswith(told.splitlines()[-1].strip())
        assert run(again[1:]) == (0 if "(estimated: " in told else 1)  # no item has ended: nothing can be estimated
        assert endpoint.counts.requests > made


@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize("processes", ["1", "2"])
def test_few_commands_lead_from_a_budget_for_no_item_to_a_finished_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], processes: str
) -> None:
    counted = answer({"prompt_tokens": 900, "completion_tokens": 20})
    with LoopbackEndpoint(faults=lambda body: counted).in_thread() as endpoint:
        words = ["grade", essays(tmp_path, 12, 4), "--judge", f"m@{endpoint.base_url}", "-o", str(tmp_path / "run")]
        words += ["--processes", processes, "--budget-tokens", "1"]
        assert run(words) == 1
        told = [capsys.readouterr().out]
        assert " tokens (a guess: none of 12 is done):\n" in told[0]
        while len(told) < 9 and run(shlex.split(told[-1].splitlines()[-1])[1:]):
            told.append(capsys.readouterr().out)
        assert "(estimated: " in told[-1] and len(told) == 2  # the third session finishes
        assert endpoint.counts.requests == 12 * 4


def test_a_small_budget_is_spent_on_whole_items_if_replies_have_no_token_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with LoopbackEndpoint(faults=lambda body: answer(None), latency="fixed:0.02").in_thread() as endpoint:
        words = ["grade", essays(tmp_path, 24, criteria=4), "--judge", f"m@{endpoint.base_url}", "-j", "32"]
        assert run([*words, "-o", str(tmp_path / "run"), "--budget-tokens", "150000"]) == 1
        made = endpoint.counts.requests
    assert 20 < made < 24 * 4
    assert spent(tmp_path / "run")[0] <= 150_000
    told = capsys.readouterr().out
    assert f"\n{made // 4} of 24 items graded\n" in told
    assert f"judge m: {made} calls, tokens unknown, cost unknown\n" in told


def test_a_dry_run_says_whether_the_budget_covers_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text("m: {input: 1000000, output: 1000000}\n")  # $1 for each token
    counted = answer({"prompt_tokens": 900, "completion_tokens": 100})
    with LoopbackEndpoint(faults=lambda body: counted).in_thread() as endpoint:
        words = ["grade", essays(tmp_path, 8), "--judge", f"m@{endpoint.base_url}", "-o", str(tmp_path / "run")]
        words += ["--prices", str(prices)]
        assert run([*words, "--limit", "4"]) == 0
    capsys.readouterr()
    budgets = {
        "4000": "covers about 0% of the estimate",
        "6000": "covers about ",
        "20000": "covers the estimate, but not the maximum",
        "900000": "covers the maximum",
    }
    for budget, told in budgets.items():
        assert run([*words, "--replace", "--dry-run", "--budget-tokens", budget, "--budget-usd", budget]) == 0
        lines = capsys.readouterr().out.splitlines()[-2:]
        assert lines[0].startswith(f"  the budget of ${int(budget):,}.00, of which $4,000.00 is spent, {told}"), lines
        assert lines[1].startswith(f"  the budget of {int(budget):,} tokens, of which 4,000 tokens is spent, {told}")


def test_coverage_counts_the_judgments_of_items_that_were_not_begun(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with LoopbackEndpoint(faults=lambda body: answer(None)).in_thread() as endpoint:
        words = ["grade", essays(tmp_path, 40), "--judge", f"m@{endpoint.base_url}", "-o", str(tmp_path / "run")]
        assert run([*words, "-j", "1", "--budget-tokens", "12000"]) == 1
        made = endpoint.counts.requests
    assert 0 < made < 10
    assert f"coverage: {made} of 40 judgments ({made / 40:.1%})" in capsys.readouterr().out


def test_prices_given_later_hold_for_recorded_calls_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """2 calls of 830 + 4170 tokens at $1 and $10 a million: 2 x (0.00083 + 0.0417) = $0.08506."""
    prices, out = tmp_path / "prices.json", tmp_path / "run"
    prices.write_text(json.dumps({"m": {"input": 1.0, "output": 10.0}}))
    usage = {"prompt_tokens": 830, "completion_tokens": 4170}
    with LoopbackEndpoint(faults=lambda body: answer(usage)).in_thread() as endpoint:
        words = ["grade", essays(tmp_path, 2), "--judge", f"m@{endpoint.base_url}", "-o", str(out)]
        assert run(words) == 0
        assert "$" not in capsys.readouterr().out.partition("judge m:")[2].partition("\n")[0]
        assert run([*words, "--prices", str(prices), "--budget-usd", "0.1"]) == 0
        assert "$0.085" in capsys.readouterr().out.partition("judge m:")[2].partition("\n")[0]
        assert endpoint.counts.requests == 2
    assert spent(out)[1] == pytest.approx(0.08506)
    assert json.loads((out / "spent.json").read_bytes())["cost"] == pytest.approx(0.08506)


def test_a_failure_that_the_budget_does_not_let_retry_keeps_the_words_of_the_endpoint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = Fault("answer", body=json.dumps({"error": {"message": "the upstream provider is gone"}}).encode())
    with LoopbackEndpoint(faults=lambda body: broken).in_thread() as endpoint:
        words = ["grade", essays(tmp_path, 1), "--judge", f"m@{endpoint.base_url}", "-o", str(tmp_path / "run")]
        assert run([*words, "--budget-tokens", "7000"]) == 1
        assert endpoint.counts.requests == 1
    [line] = [line for line in capsys.readouterr().out.splitlines() if "judgment failed" in line]
    assert "the upstream provider is gone'; not retried: budget of 7,000 tokens reached" in line
    assert spent(tmp_path / "run")[0] <= 7000


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": 830.0, "completion_tokens": 4170.0},
        {"prompt_tokens": "830", "completion_tokens": "4170"},
        {"input_tokens": 830, "output_tokens": 4170},
        {"input_tokens": 30, "cache_read_input_tokens": 800, "output_tokens": 4170},
    ],
    ids=["floats", "strings", "responses", "anthropic"],
)
@pytest.mark.parametrize("limit", [["--budget-tokens", "30000"], ["--budget-usd", "0.03"]], ids=["tokens", "usd"])
def test_a_budget_holds_for_token_counts_of_any_form(tmp_path: Path, usage: Any, limit: list[str]) -> None:
    # 5,000 tokens a call, at a dollar for a million: six calls are 30,000 tokens, or $0.03. Fewer are made, because
    # the seventh needs room for its worst case; with 4,170 tokens of reply allowed that is more than one call.
    prices = tmp_path / "prices.yaml"
    prices.write_text("judge: {input: 1, output: 1}\n")
    out = tmp_path / "run"
    with LoopbackEndpoint(faults=lambda body: answer(usage)).in_thread() as endpoint:
        command = ["grade", essays(tmp_path, 60), "--judge", f"judge@{endpoint.base_url}", "-o", str(out)]
        assert run([*command, "--max-tokens", "4170", "--prices", str(prices), *limit]) == 1
        assert 3 <= endpoint.counts.requests <= 6
        tokens, dollars = spent(out)
        assert tokens == endpoint.counts.requests * 5000
        assert dollars == pytest.approx(endpoint.counts.requests * 0.005)


@pytest.mark.parametrize(
    "usage", [None, {}, {"prompt_tokens": 0, "completion_tokens": 0}, {"prompt_tokens": -830, "completion_tokens": 4}]
)
def test_replies_without_usable_counts_are_charged_and_reported(
    tmp_path: Path, usage: Any, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    out = tmp_path / "run"
    with LoopbackEndpoint(faults=lambda body: answer(usage)).in_thread() as endpoint:
        command = ["grade", essays(tmp_path, 60), "--judge", f"judge@{endpoint.base_url}", "-o", str(out)]
        assert run([*command, "--budget-tokens", "30000"]) == 1
        asked = endpoint.counts.requests
    tokens, _ = spent(out)
    # A worst case is more than the 2,048 tokens of the reply.
    assert asked * 2048 < tokens <= 30_000
    assert 1 <= asked < 15
    note = f"judge: {asked} replies had no usable token counts; a budget also counts {tokens / 1000:.1f}k tokens, the"
    assert note in capsys.readouterr().out
    assert len([one for one in caplog.records if "no plausible token counts" in one.getMessage()]) == 1
    assert run(["status", str(out)]) == 0
    assert note in capsys.readouterr().out


def test_what_a_lost_reply_may_have_cost_is_told_apart_from_known_costs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prices, out, lost = tmp_path / "prices.yaml", tmp_path / "run", [Fault("cut", action="cut")]
    prices.write_text("judge: {input: 1000, output: 1000}\n")
    with LoopbackEndpoint(faults=lambda body: lost.pop() if lost else None).in_thread() as endpoint:
        words = ["grade", essays(tmp_path, 2), "--judge", f"judge@{endpoint.base_url}", "-o", str(out)]
        assert run([*words, "--prices", str(prices)]) == 0
        assert endpoint.counts.requests == 3
    told = capsys.readouterr().out
    with ledger_view(out / "ledger") as view:
        [total], all_tokens = view.add_up(), view.sum_spent().tokens
    most = all_tokens - total.usage.total_tokens  # at $1 per 1,000 tokens
    assert most > 2048
    note = f"judge: a budget also counts {most / 1000:.1f}k tokens (${most / 1000:.2f}), the worst case of what"
    assert note in told
    assert run(["status", str(out)]) == 0
    told = capsys.readouterr().out
    assert note in told and f"tokens, ${all_tokens / 1000:.2f}, worst cases included\n" in told


def test_a_model_without_a_price_says_how_to_give_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with LoopbackEndpoint().in_thread() as endpoint:
        judge = f"judge@{endpoint.base_url}"
        assert run(["grade", essays(tmp_path, 2), "--judge", judge, "-o", str(tmp_path / "run")]) == 0
    told = capsys.readouterr().out
    assert "cost unknown" in told
    assert "no price is known for judge; give it in dollars per million tokens with --prices FILE" in told
    assert run(["status", str(tmp_path / "run")]) == 0
    told = capsys.readouterr().out
    assert "cost unknown" in told and "no price is known" not in told  # the run itself has said it


@pytest.mark.parametrize(
    "words",
    [
        ["synthesize", "--models"],
        ["select", "--judge"],
        ["select", "--judge", "builtin/offline", "--sample"],
        ["review", "--reviewer"],
    ],
)
def test_a_dry_run_refuses_the_dollar_budget_that_the_run_would_refuse(
    tmp_path: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    row = {"id": "a", "question": "Why?", "rubric": ["Is kind."], "answer": "So."}
    data = tmp_path / "data.jsonl"
    data.write_text(json.dumps(row) + "\n")
    command, *flags = words
    model = "m@http://127.0.0.1:9/v1"
    assert (
        run([command, str(data), *flags, model, "-o", str(tmp_path / "run"), "--budget-usd", "1", "--dry-run"]) == 2
    )
    assert "a budget in dollars needs one: give prices" in capsys.readouterr().err


@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_run_whose_failures_used_up_its_budget_names_one_that_is_enough(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], processes: str
) -> None:
    broken = Fault("answer", body=json.dumps({"error": {"message": "the upstream provider is gone"}}).encode())
    gone = [True]
    with LoopbackEndpoint(faults=lambda body: broken if gone else None).in_thread() as endpoint:
        words = ["grade", essays(tmp_path, 2), "--judge", f"m@{endpoint.base_url}", "-o", str(tmp_path / "run")]
        words += ["--retry", "0", "--processes", processes]
        assert run([*words, "--budget-tokens", "14500"]) == 1
        assert endpoint.counts.requests == 2  # each is charged at its worst case, so a third does not fit
        told = capsys.readouterr().out
        assert "2 judgments failed" in told and "resume with a budget of " in told
        assert run(["status", str(tmp_path / "run")]) == 0
        again = told.splitlines()[-1].strip()
        assert capsys.readouterr().out.rstrip().endswith(again)
        gone.clear()
        assert run(shlex.split(again)[1:]) == 0
    assert "2 of 2 items graded" in capsys.readouterr().out
