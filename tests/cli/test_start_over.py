"""A run whose ledger is damaged, empty or gone: what goes on, what stops, and what `--start-over` does."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from autorubric import Criterion, LLMConfig, Rubric, RubricDataset, evaluate
from autorubric.cli.app import run
from autorubric.errors import LedgerError
from autorubric.graders import CriterionGrader
from autorubric.testing import LoopbackEndpoint
from tests.warm_commands import WarmProcess

ITEMS = 6


def dataset() -> RubricDataset:
    made = RubricDataset("Explain.", Rubric([Criterion(requirement="Is kind."), Criterion(requirement="Is brief.")]))
    for number in range(ITEMS):
        made.add_item(f"Essay number {number}.", f"essay {number}", id=f"e{number}")
    return made


def calls_of(out: Path) -> int:
    calls: int = json.loads((out / "manifest.json").read_text())["calls"]
    return calls


def deleted(ledger: Path) -> None:
    ledger.unlink()


def deleted_with_its_folder(ledger: Path) -> None:
    shutil.rmtree(ledger.parent)


def emptied(ledger: Path) -> None:
    ledger.write_bytes(b"")


def replaced_by_a_new_one(ledger: Path) -> None:
    with closing(sqlite3.connect(ledger)) as connection:
        for table in ("calls", "payloads", "replies"):
            connection.execute(f"DELETE FROM {table}")
        connection.execute("UPDATE meta SET value = 0 WHERE name = 'indexed'")
        connection.commit()


def scrambled(ledger: Path) -> None:
    content = bytearray(ledger.read_bytes())
    content[100:] = bytes(len(content) - 100)
    ledger.write_bytes(bytes(content))


LOSSES = [
    (deleted, "is missing, but manifest.json records 12 calls"),
    (deleted_with_its_folder, "is missing, but manifest.json records 12 calls"),
    (emptied, "is empty, but manifest.json records 12 calls"),
    (replaced_by_a_new_one, "is empty, but manifest.json records 12 calls"),
    (scrambled, "is damaged and no reply in it can be read"),
]


def test_a_lost_ledger_stops_grading_until_it_may_start_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "essays.json"
    dataset().to_file(source)
    with LoopbackEndpoint().in_thread() as endpoint:
        for number, (lose, told) in enumerate(LOSSES):
            out = tmp_path / f"run{number}"
            command = ["grade", str(source), "--judge", f"judge@{endpoint.base_url}", "-o", str(out)]
            before = endpoint.counts.requests
            assert run(command) == 0
            assert calls_of(out) == endpoint.counts.requests - before == 2 * ITEMS
            lose(out / "ledger" / "ledger.sqlite")
            results = (out / "items.jsonl").read_bytes()
            while (status := run(command)) == 1 and "run the same command again" in capsys.readouterr().err:
                pass
            assert status == 1
            assert run(command) == 1
            problem = capsys.readouterr().err
            assert f"{out}/ledger/ledger.sqlite {told}" in problem
            assert "--start-over (in Python: start_over=True)" in problem
            assert endpoint.counts.requests - before == 2 * ITEMS
            assert (out / "items.jsonl").read_bytes() == results
            assert run([*command, "--start-over"]) == 0
            assert endpoint.counts.requests - before == 4 * ITEMS
            assert run(command) == 0
            assert endpoint.counts.requests - before == 4 * ITEMS


def test_a_damaged_reply_is_named_and_only_that_judgment_is_requested_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    source = tmp_path / "essays.json"
    dataset().to_file(source)
    out = tmp_path / "run"
    with LoopbackEndpoint().in_thread() as endpoint:
        command = ["grade", str(source), "--judge", f"judge@{endpoint.base_url}", "-o", str(out)]
        assert run(command) == 0
        with closing(sqlite3.connect(out / "ledger" / "ledger.sqlite")) as connection:
            connection.execute("UPDATE payloads SET data = zeroblob(9) WHERE id = 5")
            [(item,)] = connection.execute("SELECT item FROM calls WHERE id = 5").fetchall()
            connection.commit()
        assert run(command) == 0
        assert f"the reply of call 5 (item '{item}', judge, " in caplog.text
        assert "is damaged; it is set aside and requested again" in caplog.text
        assert endpoint.counts.requests == 2 * ITEMS + 1
        assert "6 of 6 items graded" in capsys.readouterr().out
        assert run(command) == 0
        assert endpoint.counts.requests == 2 * ITEMS + 1
    assert calls_of(out) == 2 * ITEMS + 1


async def test_evaluate_stops_at_a_lost_ledger_until_resume_is_false(tmp_path: Path) -> None:
    async def graded(endpoint: LoopbackEndpoint, *, resume: bool = True) -> Sequence[float | None]:
        grader = CriterionGrader(judge_model_config=LLMConfig("judge", api_base=endpoint.base_url))
        result = await evaluate(
            dataset(), grader, experiments_dir=tmp_path, experiment_name="e", resume=resume, show_progress=False
        )
        return result.get_scores()

    with LoopbackEndpoint().in_thread() as endpoint:
        assert await graded(endpoint) == [1.0] * ITEMS
        (tmp_path / "e" / "ledger" / "ledger.sqlite").unlink()
        with pytest.raises(LedgerError, match=r"is missing, but manifest\.json records 12 calls"):
            await graded(endpoint)
        assert endpoint.counts.requests == 2 * ITEMS
        assert await graded(endpoint, resume=False) == [1.0] * ITEMS
        assert endpoint.counts.requests == 4 * ITEMS


def synthesis(folder: Path) -> list[str]:
    source = folder / "queries.jsonl"
    source.write_text(
        '{"id": "q1", "question": "Why is the sky blue?"}\n{"id": "q2", "question": "Why do cats purr?"}\n'
    )
    flags = ["--id-column", "id", "--models", "builtin/offline"]
    return ["synthesize", str(source), "--out", str(folder / "run"), *flags]


@pytest.mark.parametrize("lose", [deleted, emptied, replaced_by_a_new_one])
def test_a_lost_ledger_stops_synthesis_until_it_may_start_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], lose: Callable[[Path], None]
) -> None:
    command, out = synthesis(tmp_path), tmp_path / "run"
    assert run(command) == 0
    calls = calls_of(out)
    assert calls > 0
    lose(out / "ledger" / "ledger.sqlite")
    final = (out / "final.jsonl").read_bytes()
    assert run(command) == 1
    assert f"manifest.json records {calls} calls" in capsys.readouterr().err
    assert (out / "final.jsonl").read_bytes() == final
    assert run([*command, "--start-over"]) == 0
    assert calls_of(out) == calls


def test_starting_synthesis_over_requests_everything_again_once(tmp_path: Path) -> None:
    command, out = synthesis(tmp_path), tmp_path / "run"
    assert run(command) == 0
    calls = calls_of(out)
    assert run([*command, "--start-over"]) == 0
    assert calls_of(out) == 2 * calls
    assert run(command) == 0
    assert calls_of(out) == 2 * calls


def tokens(endpoint: LoopbackEndpoint) -> int:
    """The tokens of all calls; the endpoint counts a call once its last byte is sent, in its own thread."""
    while endpoint.counts.in_flight:
        time.sleep(0.001)
    return endpoint.counts.prompt_tokens + endpoint.counts.completion_tokens


def grading(folder: Path, endpoint: LoopbackEndpoint) -> list[str]:
    source = folder / "essays.json"
    dataset().to_file(source)
    return ["grade", str(source), "--judge", f"judge@{endpoint.base_url}", "-o", str(folder / "run"), "-j", "1"]


def deleted_with_the_manifest(ledger: Path) -> None:
    """No ledger at all, and nothing else that says what was spent but `spent.json`."""
    shutil.rmtree(ledger.parent)
    (ledger.parent.parent / "manifest.json").unlink()


def with_an_overwritten_header(ledger: Path) -> None:
    ledger.write_bytes(b"\xff" * 100 + ledger.read_bytes()[100:])


@pytest.mark.parametrize(
    "lose", [deleted, deleted_with_its_folder, emptied, with_an_overwritten_header, deleted_with_the_manifest]
)
def test_a_budget_counts_what_was_spent_before_the_ledger_was_lost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], lose: Callable[[Path], None]
) -> None:
    with LoopbackEndpoint().in_thread() as endpoint:
        command, out = grading(tmp_path, endpoint), tmp_path / "run"
        assert run(command) == 0
        counts = endpoint.counts
        spent = tokens(endpoint)
        assert json.loads((out / "spent.json").read_text())["tokens"] == spent
        again = [*command, "--start-over", "--budget-tokens"]
        for _ in range(2):  # a second loss forgets nothing either
            lose(out / "ledger" / "ledger.sqlite")
            capsys.readouterr()
            before = counts.requests
            assert run([*again, str(spent)]) == 1
            assert counts.requests == before
            assert f"{spent:,} spent, and the next call may cost" in capsys.readouterr().out
            limit = spent + 8000
            assert run([*again, str(limit)]) == 1
            assert counts.requests > before
            spent = tokens(endpoint)
            assert spent <= limit
            assert json.loads((out / "spent.json").read_text())["tokens"] == spent


def test_a_budget_in_dollars_counts_what_a_lost_synthesis_has_spent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text("local/m: {input: 10, output: 20}\n")
    with LoopbackEndpoint().in_thread() as endpoint:
        command, out = synthesis(tmp_path), tmp_path / "run"
        command[-1] = f"local/m@{endpoint.base_url}"
        command += ["--prices", str(prices)]
        run(command)
        counts = endpoint.counts
        cost = (counts.prompt_tokens * 10 + counts.completion_tokens * 20) / 1e6
        assert json.loads((out / "spent.json").read_text())["cost"] == pytest.approx(cost)
        deleted_with_its_folder(out / "ledger" / "ledger.sqlite")
        before = counts.requests
        capsys.readouterr()
        assert run([*command, "--start-over", "--budget-usd", f"{cost:.12f}"]) == 1
        assert counts.requests == before > 0
        assert "budget of $" in capsys.readouterr().out


def test_without_any_record_of_the_spending_a_budget_is_refused_and_a_run_without_one_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with LoopbackEndpoint().in_thread() as endpoint:
        command, out = grading(tmp_path, endpoint), tmp_path / "run"
        assert run(command) == 0
        (out / "spent.json").unlink()  # earlier releases wrote none
        deleted(out / "ledger" / "ledger.sqlite")
        for _ in range(2):
            assert run([*command, "--start-over", "--budget-tokens", "1000000"]) == 2
            assert "what 12 calls cost is not known, because their records are lost" in capsys.readouterr().err
        assert endpoint.counts.requests == 2 * ITEMS
        assert run([*command, "--start-over"]) == 0
        assert endpoint.counts.requests == 4 * ITEMS


def test_a_ledger_of_an_earlier_release_gets_the_file_and_is_asked_nothing_again(tmp_path: Path) -> None:
    with LoopbackEndpoint().in_thread() as endpoint:
        command, out = grading(tmp_path, endpoint), tmp_path / "run"
        assert run(command) == 0
        kept = (out / "spent.json").read_bytes()
        (out / "spent.json").unlink()
        assert run([*command, "--budget-tokens", "1000000"]) == 0
        assert endpoint.counts.requests == 2 * ITEMS
        assert (out / "spent.json").read_bytes() == kept


def test_a_run_that_is_killed_and_then_loses_its_ledger_forgets_at_most_what_was_in_flight(tmp_path: Path) -> None:
    with LoopbackEndpoint(latency="fixed:0.05").in_thread() as endpoint:
        command, out = grading(tmp_path, endpoint), tmp_path / "run"
        with WarmProcess(command, stdout=subprocess.DEVNULL) as process:
            while endpoint.counts.requests < 5:
                time.sleep(0.01)
            process.kill()
        ended = endpoint.counts.requests - 1  # one is in flight at a time
        deleted_with_its_folder(out / "ledger" / "ledger.sqlite")
        known = json.loads((out / "spent.json").read_text())
        assert ended - 1 <= known["calls"] <= ended + 1
        assert known["tokens"] > 0
        assert run([*command, "--start-over", "--budget-tokens", str(known["tokens"])]) == 1


@pytest.mark.parametrize(("name", "place"), [("grade", 0), ("grade", 18), ("grade", 21), ("synthesize", 47)])
def test_starting_over_keeps_a_ledger_with_a_damaged_header_under_another_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, place: int
) -> None:
    with LoopbackEndpoint().in_thread() as endpoint:
        command = grading(tmp_path, endpoint) if name == "grade" else synthesis(tmp_path)
        ledger = tmp_path / "run" / "ledger" / "ledger.sqlite"
        assert run(command) == 0
        damaged = bytearray(ledger.read_bytes())
        damaged[place] ^= 0xFF
        ledger.write_bytes(bytes(damaged))
        assert run(command) in {1, 2}
        assert "--start-over (in Python: start_over=True)" in capsys.readouterr().err
        assert run([*command, "--start-over"]) == 0
        assert ledger.with_name("ledger.sqlite.damaged-1").read_bytes() == bytes(damaged)
        assert run(command) == 0


def test_a_dry_run_counts_what_the_next_command_pays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def told(*flags: str) -> str:
        capsys.readouterr()
        assert run([*command, *flags, "--dry-run"]) == 0
        return capsys.readouterr().out

    with LoopbackEndpoint().in_thread() as endpoint:
        command = grading(tmp_path, endpoint)
        assert "12 calls" in told()
        assert run(command) == 0
        assert "0 calls" in told()
        assert "12 calls" in told("--start-over")
        # Starts over, and leaves half of it undone: an interrupted run goes on in the new generation.
        budget = str(2 * (endpoint.counts.prompt_tokens + endpoint.counts.completion_tokens) + 3000)
        before = endpoint.counts.requests
        assert run([*command, "--start-over", "--budget-tokens", budget]) == 1
        paid = endpoint.counts.requests - before
        assert 0 < paid < 12
        assert f"{12 - paid} calls" in told()
        assert run(command) == 0
        assert endpoint.counts.requests == 24
        assert "0 calls" in told()
