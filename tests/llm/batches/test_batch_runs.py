"""Runs whose requests travel in batches, in every dialect and with every fault."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from autorubric import Criterion, Rubric, Stop, grade, synthesize_async
from autorubric.cli.app import run
from autorubric.errors import ConfigError, InputError
from autorubric.jobs.grade import GradeSettings
from autorubric.llm.batches.batch_store import BatchStore
from autorubric.llm.batches.carrier import Carrier
from autorubric.llm.limits import ModelEstimate
from autorubric.llm.records.ledger import Ledger
from autorubric.llm.request import Message, ReplySchema, Request
from autorubric.runs.progress import RunState
from autorubric.runs.result import EvalResult
from autorubric.runs.run_status import read_run_status
from autorubric.runs.summary import EvaluationSummary
from autorubric.testing.offline import OfflineModel
from benchmarks.batch_services.books import BatchFaults
from benchmarks.batch_services.endpoint import BatchEndpoint
from tests.offenders import each
from tests.processes import environment
from tests.warm_commands import SOURCE, forked_python

# Where each dialect is found on the loopback endpoint.
DIALECTS = {
    "openai": ("OPENAI", "/v1"),
    "anthropic": ("ANTHROPIC", "/v1"),
    "gemini": ("GEMINI", "/v1beta/openai"),
    "mistral": ("MISTRAL", "/v1"),
    "openrouter": ("OPENROUTER", "/api/v1"),
    "together": ("TOGETHER", "/v1"),
}
# What each calls a batch that has ended.
OVER = {
    "openai": "completed",
    "anthropic": "ended",
    "gemini": "succeeded",
    "mistral": "success",
    "together": "completed",
}
ITEMS = 20
ASKED = 2 * ITEMS
RUBRIC = Rubric([Criterion(name="a", requirement="Is good."), Criterion(name="b", requirement="Is kind.")])
KEY = "sk-planted"
LISTED = {"input": 2.0, "output": 8.0}  # dollars per million tokens


@contextmanager
def serving(monkeypatch: pytest.MonkeyPatch, dialect: str = "openai", **more: Any) -> Iterator[BatchEndpoint]:
    variable, path = DIALECTS[dialect]
    faults = BatchFaults(**more.pop("faults", {}))
    with BatchEndpoint(batches=faults, key=KEY, **more).in_thread() as endpoint:
        monkeypatch.setenv(f"{variable}_BASE_URL", endpoint.url + path)
        monkeypatch.setenv(f"{variable}_API_KEY", KEY)
        yield endpoint


def graded(folder: Path, dialect: str = "openai", **more: Any) -> EvalResult:
    prices = folder / "prices.json"
    prices.write_text(json.dumps({f"{dialect}/judge": LISTED}))
    settings: dict[str, Any] = {"rubric": RUBRIC, "judge": f"{dialect}/judge", "out": folder / "run"}
    settings |= {"batch": True, "batch_poll": 0.05, "prices": prices, **more}
    return grade([f"Answer number {n}." for n in range(ITEMS)], **settings)


def summary_of(result: EvalResult) -> EvaluationSummary:
    assert result.summary is not None
    return result.summary


def expected(folder: Path, dialect: str = "openai") -> ModelEstimate:
    estimate = graded(folder, dialect, dry_run=True).estimate
    assert estimate is not None
    return estimate[0]


def recorded(folder: Path) -> tuple[int, int, float]:
    """Replies and failed calls in the ledger, and the dollars spent."""
    with Ledger.open(folder / "run" / "ledger") as ledger:
        totals = ledger.add_up()
        return sum(t.calls - t.failed for t in totals), sum(t.failed for t in totals), ledger.sum_spent().cost


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_dialect_pays_each_request_once_through_faults(
    dialect: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = {
        "expire": 0.5,
        "shuffle": True,
        "duplicates": True,
        "cut_downloads": 1,
        "lost_creations": 1,
        "seconds": 0.1,
    }
    with serving(monkeypatch, dialect, faults=faults) as endpoint:
        result = graded(tmp_path, dialect)
        books, alone = endpoint.books, endpoint.counts.by_status[200]
        for job in endpoint.books.jobs.values():
            assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", custom_id) for custom_id, _ in job.lines)
    assert result.get_scores() == [1.0] * ITEMS
    # What expired is asked again, in a further batch or, as the last few, alone.
    assert max(books.paid.values()) == 1
    assert books.paid.total() + alone == ASKED
    assert recorded(tmp_path)[:2] == (ASKED, 0)
    assert len(books.jobs) >= 2
    assert books.deleted  # the files of collected batches do not stay with the provider
    assert KEY not in "".join(path.read_text() for path in (tmp_path / "run/ledger/batches").iterdir())


@pytest.mark.parametrize("detached", [False, True])
@pytest.mark.parametrize("expire", [0.0, 0.3])
@pytest.mark.parametrize("dialect", ["openai", "gemini"])
def test_result_lines_that_cannot_be_read_are_said_and_count_at_their_worst_case(
    dialect: str,
    expire: float,
    detached: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    damaged = [b'{"custom_id": "', b"\xff\xfe", b"[1]"]

    with serving(monkeypatch, dialect, faults={"expire": expire}) as endpoint:
        keep = endpoint.books.keep_file

        def keep_damaged(content: bytes, name: str = "") -> str:
            lines = content.splitlines(keepends=True)
            answered = [line for line in lines if b'"response": {' in line]
            if answered and len(endpoint.books.jobs) == 1:
                others = [line for line in lines if line not in answered[: len(damaged)]]
                content = b"".join([*(line + b"\n" for line in damaged), b"\n", *others])
            return keep(content, name)

        monkeypatch.setattr(endpoint.books, "keep_file", keep_damaged)
        most = expected(tmp_path, dialect).most
        assert most is not None
        each = (most.prompt_tokens * 2.0 + most.completion_tokens * 8.0) / 2e6 / ASKED
        if detached:
            graded(tmp_path, dialect, batch_detach=True)
        result = graded(tmp_path, dialect)
        paid = endpoint.books.paid.total() + endpoint.counts.by_status[200]
        [*jobs] = endpoint.books.jobs
    assert result.get_scores() == [1.0] * ITEMS
    [told] = [record for record in caplog.records if record.name == "autorubric.batches"]
    assert told.levelname == "WARNING"
    words = rf"batch {re.escape(jobs[0])} of {dialect}/judge: 3 lines of its results cannot be read. (\d+) requests "
    found = re.match(words + "without a reply will be sent again. The provider may charge for both", told.message)
    assert found, told.message
    assert int(found[1]) == 3
    assert paid == ASKED + 3
    assert recorded(tmp_path)[2] > 3 * each


def test_a_batch_costs_half_the_list_price(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(monkeypatch):
        [batched] = summary_of(graded(tmp_path)).totals
        [single] = summary_of(graded(tmp_path, batch=None, out=tmp_path / "other")).totals
    assert batched.usage == single.usage
    tokens = single.usage.prompt_tokens * 2.0 + single.usage.completion_tokens * 8.0
    assert single.cost == pytest.approx(tokens / 1e6)
    assert batched.cost == pytest.approx(tokens / 2e6)


@pytest.mark.parametrize("detached", [False, True])
def test_progress_counts_the_replies_of_batches_as_calls(
    detached: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    states: list[RunState] = []
    with serving(monkeypatch):
        if detached:
            graded(tmp_path, batch_detach=True, progress=states.append)
            assert (states[-1].calls, states[-1].reused) == (0, 0)
            # Items that wait for their batch are neither finished nor failed.
            assert (states[-1].finished, states[-1].stages[0].failed) == (0, 0)
        [paid] = summary_of(graded(tmp_path, progress=states.append)).totals
        assert (states[-1].calls, states[-1].reused) == (ASKED, 0)
        assert states[-1].tokens == paid.usage.total_tokens
        assert states[-1].cost == pytest.approx(paid.cost)
        graded(tmp_path, progress=states.append)
        # The finished run stands as it is: its replies are not read again.
        assert (states[-1].finished, states[-1].calls, states[-1].cost) == (states[-1].rows, 0, 0.0)


@pytest.mark.parametrize(
    ("faults", "said"),
    [
        ({"error_share": 1.0, "errors": (400,)}, "HTTP 400: 'The server had an error while processing"),
        ({"error_share": 1.0, "errors": (0,)}, "the batch did not run this request: The server had an error"),
        ({"expire": 1.0}, "could not be executed before the completion window expired"),
        ({"missing": 1.0}, "have no line for this request"),
        ({"failing": 99, "reason": "Line 3 is not JSON."}, "failed: Line 3 is not JSON. (invalid)"),
    ],
)
def test_requests_without_a_reply_fail_in_the_words_of_the_endpoint(
    faults: dict[str, Any], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(monkeypatch, faults=faults) as endpoint:
        result = graded(tmp_path, retry=1)
        waves = len(endpoint.books.jobs)
    assert result.get_scores() == []
    [group] = summary_of(result).failures
    assert said in group.message
    assert group.count == ASKED
    # A request that is not acceptable is not asked again; all others are, once.
    assert waves == (1 if "400" in said or "failed" in said else 2)


def test_what_an_endpoint_does_not_accept_is_learned_from_a_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(monkeypatch, rejects=["max_tokens"]) as endpoint:
        result = graded(tmp_path, judge=f"judge@{endpoint.base_url}", api_key_env="OPENAI_API_KEY")
        first, second = endpoint.books.jobs.values()
    assert result.get_scores() == [1.0] * ITEMS
    assert "max_tokens" in first.lines[0][1]
    assert "max_completion_tokens" in second.lines[0][1]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_batch_that_was_created_before_a_kill_is_found_again(
    dialect: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(monkeypatch, dialect) as endpoint:
        left = graded(tmp_path, dialect, batch_detach=True)
        assert left.stopped == "waiting for the provider: 40 requests in 1 batch"
        # As a process leaves it that is killed between the creation and the note of it.
        [path] = (tmp_path / "run/ledger/batches").glob("*.json")
        record = json.loads(path.read_text()) | {"state": "planned", "remote": ""}
        path.write_text(json.dumps(record))
        assert graded(tmp_path, dialect).get_scores() == [1.0] * ITEMS
        assert endpoint.books.summarize()["batches"] == 1
        assert endpoint.counts.requests == 0


def test_a_batch_of_somebody_else_is_not_taken_for_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(monkeypatch, "anthropic") as endpoint:
        graded(tmp_path, "anthropic", batch_detach=True)
        [path] = (tmp_path / "run/ledger/batches").glob("*.json")
        path.write_text(json.dumps(json.loads(path.read_text()) | {"state": "planned", "remote": ""}))
        # The provider never got ours, and has one of the same size.
        [ours] = endpoint.books.jobs.values()
        ours.lines = [(f"{number}", body) for number, (_, body) in enumerate(ours.lines)]
        # It is not cancelled either.
        assert graded(tmp_path, "anthropic", batch_cancel=True).stopped is not None
        assert not ours.is_cancelled
        assert graded(tmp_path, "anthropic").get_scores() == [1.0] * ITEMS
        assert endpoint.books.summarize()["batches"] == 2
        assert endpoint.books.deleted == [list(endpoint.books.jobs)[1]]  # ours alone


def test_detached_batches_are_shown_collected_and_not_paid_beside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps({"submission": f"Text {n}."}) + "\n" for n in range(3)))
    RUBRIC.to_file(tmp_path / "rubric.yaml")
    words = ["grade", str(tmp_path / "rows.jsonl"), "--rubric", str(tmp_path / "rubric.yaml")]
    words += ["--judge", "openai/judge", "-o", str(tmp_path / "run")]
    batch = ["--batch-poll", "0.05", "--batch"]
    with serving(monkeypatch, faults={"endless": 1}) as endpoint:
        assert run([*words, *batch, "--dry-run"]) == 0
        assert "batches: at least 1 wave of up to 24 hours" in capsys.readouterr().out
        assert run([*words, *batch, "2", "--batch-detach"]) == 3
        said = capsys.readouterr().out
        assert "waiting for the provider: 6 requests in 3 batches" in said
        assert "collect them with:" in said
        assert run(["status", str(tmp_path / "run")]) == 0
        said = capsys.readouterr().out
        assert "2 requests to openai/judge (batch_" in said
        assert "collect them; run:" in said
        # Requests that are sent alone would be paid a second time.
        assert run(words) == 2
        assert "3 open batches that will be charged: 6 requests to openai/judge" in capsys.readouterr().err
        # Another model cannot collect them, and the command that can is kept.
        known = (tmp_path / "run" / "manifest.json").read_bytes()
        other = ["openai/other" if word == "openai/judge" else word for word in words]
        assert run([*other, *batch, "--replace"]) == 2
        assert "This command does not call that model. Collect the batch by the command" in capsys.readouterr().err
        assert (tmp_path / "run" / "manifest.json").read_bytes() == known
        assert run([*words, *batch, "--batch-detach"]) == 3
        assert "2 requests in 1 batch" in capsys.readouterr().out
        next(iter(endpoint.books.jobs.values())).endless = False
        assert run([*words, *batch]) == 0
        assert endpoint.books.summarize()["asked_twice"] == 0
    [*records] = read_run_status(tmp_path / "run", {}).batches
    assert [(one.state, one.replies) for one in records] == [("collected", 2)] * 3


@pytest.mark.parametrize("dialect", ["openai", "gemini", "mistral", "together"])
def test_a_batch_that_failed_while_nobody_waited_is_reported_before_its_requests_are_sent_again(
    dialect: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(monkeypatch, dialect, faults={"failing": 1}) as endpoint:
        assert str(graded(tmp_path, dialect, batch_detach=True).stopped).startswith("waiting for the provider")
        failed = graded(tmp_path, dialect, batch_detach=True)
        assert (failed.stopped, failed.failed_items, len(endpoint.books.jobs)) == (None, ITEMS, 1)
        assert "The input file is not valid." in str(failed.item_results[0].report.error)
        assert graded(tmp_path, dialect).get_scores() == [1.0] * ITEMS
        assert endpoint.books.paid.total() == ASKED


@pytest.mark.parametrize(("more", "taken"), [({}, 0), ({"calls": "per_item"}, 0), ({"calls": "per_item"}, 1)])
def test_a_detached_run_waits_for_the_batches_that_were_taken_and_not_for_those_that_were_refused(
    more: dict[str, str], taken: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(monkeypatch) as endpoint:
        create = endpoint.books.create

        def create_some(*given: Any) -> Any:
            if len(endpoint.books.jobs) == taken:
                raise RuntimeError("answered with HTTP 500")
            return create(*given)

        monkeypatch.setattr(endpoint.books, "create", create_some)
        left = graded(tmp_path, batch=10, batch_detach=True, retry=0, **more)
    assert left.stopped == ("waiting for the provider: 10 requests in 1 batch" if taken else None)
    assert taken or "HTTP 500" in str(left.item_results[0].report.error)


@pytest.mark.parametrize("dialect", [name for name in DIALECTS if name != "openrouter"])
def test_a_cancelled_batch_keeps_what_was_answered_and_the_rest_can_be_asked_later(
    dialect: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(monkeypatch, dialect, faults={"endless": 1}) as endpoint:
        graded(tmp_path, dialect, batch_detach=True)
        # The endpoint has answered half of a batch when it is cancelled.
        left = graded(tmp_path, dialect, batch_cancel=True)
        words = f"{ASKED // 2} of {ASKED} requests had been answered, and their replies are saved"
        assert left.stopped == f"batches cancelled: {words}"
        assert recorded(tmp_path)[:2] == (ASKED // 2, 0)
        assert graded(tmp_path, dialect, batch_cancel=True).stopped == "batches cancelled: none is open"
        books = endpoint.books.summarize()
        assert (books["batches"], books["paid"], endpoint.counts.requests) == (1, ASKED // 2, 0)
        assert graded(tmp_path, dialect).get_scores() == [1.0] * ITEMS
        assert endpoint.books.summarize()["paid_twice"] == 0
    assert recorded(tmp_path)[:2] == (ASKED, 0)


def test_a_cancellation_is_tried_again_and_says_which_batch_is_still_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(monkeypatch, faults={"endless": 1}) as endpoint:
        graded(tmp_path, batch_detach=True)
        [job] = endpoint.books.jobs
        cancel, refused = endpoint.books.cancel, 0

        def broken(id: str) -> Any:
            nonlocal refused
            refused += 1
            if refused == 2:
                raise RuntimeError("answered with HTTP 500")
            return cancel(id) if refused > 2 else None

        monkeypatch.setattr(endpoint.books, "cancel", broken)
        told = str(graded(tmp_path, batch_cancel=True).item_results[0].report.error)
        assert f"batch {job} was not cancelled and will be charged; try --batch-cancel" in told
        assert str(graded(tmp_path, batch_cancel=True).stopped).startswith("batches cancelled: ")
        assert (refused, endpoint.books.summarize()["batches"]) == (3, 1)


@pytest.mark.parametrize(
    ("dialect", "status", "detached"),
    [
        *(("openai", 404, True), ("openai", 404, False), ("anthropic", 410, True), ("gemini", 403, False)),
        *(("mistral", 404, True), ("together", 404, False)),
    ],
)
def test_a_batch_whose_results_are_gone_is_given_up_at_its_worst_case(
    dialect: str,
    status: int,
    detached: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with serving(monkeypatch, dialect, faults={"gone": 1, "gone_status": status}) as endpoint:
        most = expected(tmp_path, dialect).most
        assert most is not None
        whole = (most.prompt_tokens * 2.0 + most.completion_tokens * 8.0) / 2e6
        if detached:
            graded(tmp_path, dialect, batch_detach=True)
        dead = graded(tmp_path, dialect, budget_usd=1.9 * whole)
        [job] = endpoint.books.jobs
        gone = f"the results are gone at the provider: batch {job} (HTTP {status}: 'No such File object: {job}')"
        ways = f"gives the batch up and counts it at its worst case, .* then sends its {ASKED} requests again"
        assert re.search(f"{re.escape(gone)}; --batch-cancel .* {ways}", str(dead.stopped))
        [record] = read_run_status(tmp_path / "run", {}).batches
        assert (record.state, record.word) == ("sent", OVER[dialect])
        assert recorded(tmp_path) == (0, 0, 0.0)  # it stays open, and counts in full

        left = graded(tmp_path, dialect, batch_cancel=True, budget_usd=1.9 * whole)
        assert f"{gone}, so its {ASKED} requests without a saved reply count at their worst case" in str(left.stopped)
        assert recorded(tmp_path)[:2] == (0, ASKED)
        assert recorded(tmp_path)[2] == pytest.approx(whole)
        assert graded(tmp_path, dialect, batch_cancel=True).stopped == "batches cancelled: none is open"

        # Nine tenths of the worst case are left, so some requests wait for the true price of others.
        again = graded(tmp_path, dialect, budget_usd=1.9 * whole)
        assert again.get_scores() == [1.0] * ITEMS
        alone = endpoint.counts.by_status[200]
        assert endpoint.books.paid.total() + alone == 2 * ASKED  # the lost replies were paid for
    assert whole < recorded(tmp_path)[2] <= 1.9 * whole


@pytest.mark.parametrize(
    ("dialect", "status", "detached"),
    [
        *(("openai", 404, True), ("openai", 404, False), ("anthropic", 410, False), ("gemini", 404, True)),
        *(("mistral", 410, False), ("openrouter", 404, True), ("together", 404, False)),
    ],
)
def test_a_batch_that_the_provider_has_forgotten_is_given_up_at_its_worst_case(
    dialect: str,
    status: int,
    detached: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    faults = {"forgotten": 1, "gone_status": status, "seconds": 0.0 if detached else 0.05}
    with serving(monkeypatch, dialect, faults=faults) as endpoint:
        most = expected(tmp_path, dialect).most
        assert most is not None
        whole = (most.prompt_tokens * 2.0 + most.completion_tokens * 8.0) / 2e6
        if detached:
            graded(tmp_path, dialect, batch_detach=True)
        dead = graded(tmp_path, dialect, budget_usd=1.9 * whole)
        [job] = endpoint.books.jobs
        unknown = f"the provider no longer knows batch {job} (HTTP {status}: 'There is no such batch or file: {job}"
        ways = f"gives the batch up and counts it at its worst case, .* then sends its {ASKED} requests again"
        assert re.search(f"^{re.escape(unknown)}.*; otherwise --batch-cancel .* {ways}", str(dead.stopped))
        assert run(["status", str(tmp_path / "run")]) == 0
        said = capsys.readouterr().out
        assert f"  batch      {ASKED} requests to {dialect}/judge ({job}, " in said
        assert f"\n             {unknown}" in said
        assert f"next       batch {job} cannot be collected; add --batch-cancel to give up what is lost" in said
        assert "collect them" not in said
        assert recorded(tmp_path) == (0, 0, 0.0)  # it stays open, and counts in full
        # Without the choice, the same command sends nothing.
        assert str(graded(tmp_path, dialect).stopped) == str(dead.stopped)
        assert endpoint.counts.requests == 0
        assert len(endpoint.books.jobs) == 1

        left = graded(tmp_path, dialect, batch_cancel=True, budget_usd=1.9 * whole)
        assert str(left.stopped).startswith(f"batches cancelled: {unknown}")
        assert f"so its {ASKED} requests without a saved reply count at their worst case" in str(left.stopped)
        assert recorded(tmp_path)[:2] == (0, ASKED)
        assert recorded(tmp_path)[2] == pytest.approx(whole)
        again = graded(tmp_path, dialect, budget_usd=1.9 * whole)
        assert again.get_scores() == [1.0] * ITEMS
    assert whole < recorded(tmp_path)[2] <= 1.9 * whole


# Every dialect meets it in the grading run above.
@pytest.mark.parametrize("dialect", ["openai", "gemini"])
def test_a_synthesis_stops_at_a_forgotten_batch_and_goes_on_once_it_is_given_up(
    dialect: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "q.jsonl").write_text("".join(f'{{"id": "q{n}", "query": "Why {n}?"}}\n' for n in range(2)))
    words = ["synthesize", str(tmp_path / "q.jsonl"), "--models", f"{dialect}/m", "-o", str(tmp_path / "run")]
    words += ["--batch", "--batch-poll", "0.05"]
    with serving(monkeypatch, dialect, replier=offline, faults={"forgotten": 1}) as endpoint:
        assert run(words) == 1
        job, *others = endpoint.books.jobs
        said = capsys.readouterr().out
        assert f"stopped: the provider no longer knows batch {job} (HTTP 404: " in said
        assert run(words) == 1
        assert list(endpoint.books.jobs) == [job, *others]
        assert run([*words, "--batch-cancel"]) == 1
        assert f"batches cancelled: the provider no longer knows batch {job}" in capsys.readouterr().out
        assert run(words) == 0
        # Each request ran once, and those of the lost batch once more.
        first = {custom_id for custom_id, _ in endpoint.books.jobs[job].lines}
        assert {id for id, times in endpoint.books.paid.items() if times > 1} <= first
        assert max(endpoint.books.paid.values()) <= 2


def test_a_batch_that_is_not_known_at_once_is_looked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(monkeypatch) as endpoint:
        find, asked = endpoint.books.find, 0

        def later(id: str) -> Any:
            nonlocal asked
            asked += 1
            return None if asked == 1 else find(id)

        monkeypatch.setattr(endpoint.books, "find", later)
        assert graded(tmp_path).get_scores() == [1.0] * ITEMS
        assert endpoint.books.summarize()["batches"] == 1


@pytest.mark.parametrize(
    ("dialect", "detached"),
    [
        *(("openai", False), ("openai", True), ("anthropic", True), ("gemini", False)),
        *(("mistral", True), ("together", False)),
    ],
)
def test_a_batch_whose_downloads_break_off_stays_open_with_what_arrived_on_record(
    dialect: str,
    detached: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    with serving(monkeypatch, dialect, faults={"cut_downloads": 3}) as endpoint:
        if detached:
            graded(tmp_path, dialect, batch_detach=True)
        broken = graded(tmp_path, dialect)
        [job] = endpoint.books.jobs
        arrived = recorded(tmp_path)[0]
        assert 0 < arrived < ASKED
        assert recorded(tmp_path)[1] == 0
        told = str(broken.stopped)
        assert told.startswith(f"the download broke off: batch {job} (")
        kept = f"replies to {arrived} of {ASKED} requests arrived and are saved; the batch stays open, and the same"
        assert f"{kept} command continues collecting it" in told
        [record] = read_run_status(tmp_path / "run", {}).batches
        assert record.state == "sent"
        assert run(["status", str(tmp_path / "run")]) == 0
        said = capsys.readouterr().out
        assert f"\n             the download broke off: batch {job} (" in said
        assert "or collect them; " in said
        assert graded(tmp_path, dialect).get_scores() == [1.0] * ITEMS
        assert (endpoint.books.paid.total(), max(endpoint.books.paid.values())) == (ASKED, 1)
        assert (len(endpoint.books.jobs), endpoint.counts.requests) == (1, 0)
    assert recorded(tmp_path)[:2] == (ASKED, 0)
    assert not [one for one in caplog.records if one.name == "autorubric.batches"]
    [record] = read_run_status(tmp_path / "run", {}).batches
    assert (record.state, record.trouble, record.replies) == ("collected", "", ASKED)


def test_a_batch_that_breaks_off_every_time_is_given_up_only_by_choice_and_keeps_what_arrived(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(monkeypatch, faults={"cut_downloads": 9}) as endpoint:
        graded(tmp_path, batch_detach=True)
        # A cancellation loses nothing that may still come.
        assert str(graded(tmp_path, batch_cancel=True).stopped).startswith("the download broke off: ")
        arrived = recorded(tmp_path)[0]
        assert 0 < arrived < ASKED
        assert str(graded(tmp_path).stopped).startswith("the download broke off: ")
        left = str(graded(tmp_path, batch_cancel=True).stopped)
        assert f"so its {ASKED - arrived} requests without a saved reply count at their worst case" in left
        assert recorded(tmp_path)[:2] == (arrived, ASKED - arrived)
        assert graded(tmp_path).get_scores() == [1.0] * ITEMS
        assert endpoint.books.paid.total() + endpoint.counts.by_status[200] == 2 * ASKED - arrived


def test_other_batches_are_collected_beside_one_whose_results_are_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(monkeypatch, faults={"gone": 1}) as endpoint:
        graded(tmp_path, batch=ITEMS, batch_detach=True)
        assert "gone at the provider" in str(graded(tmp_path).stopped)
        assert recorded(tmp_path)[:2] == (ITEMS, 0)
        left = str(graded(tmp_path, batch_cancel=True, budget_usd=1000.0).stopped)
        assert f"so its {ITEMS} requests without a saved reply count at their worst case" in left
        # A budget that is spent by what was lost sends nothing.
        spent = recorded(tmp_path)[2]
        assert "budget" in str(graded(tmp_path, budget_usd=spent).stopped)
        assert (len(endpoint.books.jobs), endpoint.counts.requests) == (2, 0)
        assert graded(tmp_path).get_scores() == [1.0] * ITEMS
        assert endpoint.books.paid.total() + endpoint.counts.by_status[200] == ASKED + ITEMS


def test_a_run_can_be_stopped_while_it_waits_for_a_batch_of_an_earlier_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop, follow = Stop(), Carrier.follow

    async def stopped(carrier: Carrier, *given: Any, **more: Any) -> Any:
        stop()
        return await follow(carrier, *given, **more)

    with serving(monkeypatch, faults={"endless": 1}):
        graded(tmp_path, batch_detach=True)
        monkeypatch.setattr(Carrier, "follow", stopped)
        assert graded(tmp_path, stop=stop).stopped == "interrupted"
    [record] = read_run_status(tmp_path / "run", {}).batches
    assert record.state == "sent"


def test_a_run_can_be_stopped_while_a_batch_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stop, send = Stop(), Carrier.send

    async def stopped(carrier: Carrier, *given: Any) -> Any:
        asyncio.get_running_loop().call_soon(stop)
        await asyncio.sleep(0.05)
        return await send(carrier, *given)

    monkeypatch.setattr(Carrier, "send", stopped)
    (tmp_path / "prices.json").write_text(json.dumps({"openai/m": LISTED}))
    settings: dict[str, Any] = {"models": "openai/m", "batch": True, "batch_poll": 0.05, "stop": stop}
    with serving(monkeypatch, replier=offline) as endpoint:
        run = synthesize_async(["Why?"], out=tmp_path / "run", prices=tmp_path / "prices.json", **settings)
        made = asyncio.run(asyncio.wait_for(run, 5))  # after ten seconds, calls in flight are abandoned
        assert (made.stopped, len(endpoint.books.jobs)) == ("interrupted", 0)


def test_a_provider_that_cancels_no_batch_is_said_and_its_batch_stays_collectable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(monkeypatch, "openrouter", faults={"endless": 1}) as endpoint:
        graded(tmp_path, "openrouter", batch_detach=True)
        with pytest.raises(ConfigError, match=r"OpenRouter cancels no batch, .* collect it by the same command"):
            graded(tmp_path, "openrouter", batch_cancel=True)
        next(iter(endpoint.books.jobs.values())).endless = False
        assert graded(tmp_path, "openrouter").get_scores() == [1.0] * ITEMS
        assert endpoint.books.summarize()["batches"] == 1


def test_a_budget_holds_at_batch_prices_and_takes_back_what_expired(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(monkeypatch, faults={"expire": 0.3}) as endpoint:
        row = expected(tmp_path)
        assert row.most is not None
        whole = (row.most.prompt_tokens * 2.0 + row.most.completion_tokens * 8.0) / 2e6
        assert row.model.cost(row.most) == pytest.approx(whole)
        # Half of the worst case: the second half waits until the first one's true price is known.
        assert graded(tmp_path, budget_usd=whole / 2).get_scores() == [1.0] * ITEMS
        assert len(endpoint.books.jobs) > 1
        first = next(iter(endpoint.books.jobs.values()))
        assert 0 < len(first.lines) <= ITEMS
        assert max(endpoint.books.paid.values()) == 1
        assert recorded(tmp_path)[0] == ASKED
        assert 0 < recorded(tmp_path)[2] < whole / 2
        (tmp_path / "ended").mkdir()
        ended = str(graded(tmp_path / "ended", budget_usd=whole / 16).stopped)
        assert f"reached after {recorded(tmp_path / 'ended')[0]} calls: " in ended


def test_open_batches_count_in_the_budget_of_the_next_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(monkeypatch) as endpoint:
        row = expected(tmp_path)
        assert row.most is not None
        whole = row.model.cost(row.most) or 0.0
        assert graded(tmp_path, batch_detach=True, budget_usd=whole).stopped is not None
        more = [f"Answer number {n}." for n in range(2 * ITEMS)]
        settings: dict[str, Any] = {"rubric": RUBRIC, "judge": "openai/judge", "out": tmp_path / "run"}
        settings |= {"batch": True, "batch_poll": 0.05, "prices": tmp_path / "prices.json", "budget_usd": whole}
        assert len(grade(more, **settings).get_scores()) == 2 * ITEMS
        assert endpoint.books.summarize()["paid_twice"] == 0
    assert recorded(tmp_path)[2] <= whole


@pytest.mark.parametrize("status", [500, 404])
def test_what_a_batch_may_cost_that_cannot_be_collected_is_not_there_for_others(
    status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "q.jsonl").write_text("".join(f'{{"id": "q{n}", "query": "Why {n}?"}}\n' for n in range(6)))
    (tmp_path / "prices.json").write_text(json.dumps({"openai/m": LISTED}))
    words = [
        "synthesize",
        str(tmp_path / "q.jsonl"),
        "--models",
        "openai/m",
        "--prices",
        str(tmp_path / "prices.json"),
    ]
    words += ["-o", str(tmp_path / "run"), "--batch", "1", "--batch-poll", "0.05", "--retry", "1"]
    with serving(monkeypatch, replier=offline, faults={"gone": 4, "gone_status": status}):
        assert run([*words, "--budget-usd", "0.16"]) == 1
        lost = read_run_status(tmp_path / "run", {}).batches
        open_ones = sum(one.cost for one in BatchStore(tmp_path / "run" / "ledger").read_records() if one.is_open)
        assert len(lost) >= 4
        assert open_ones > 0
        assert recorded(tmp_path)[2] + open_ones <= 0.16


@pytest.mark.parametrize("command", ["synthesize", "select", "improve", "review"])
def test_every_command_takes_batches(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rubric = [{"criterion": "Names the moon.", "points": 6}, {"criterion": "Is brief.", "points": 4}]
    queries = [{"id": f"q{n}", "question": f"Why do tides rise {n}?", "rubrics": rubric} for n in range(4)]
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in queries))
    RUBRIC.to_file(tmp_path / "rubric.yaml")
    labelled = [{"submission": f"Text {n}.", "ground_truth": [["MET", "UNMET"][n % 2], "MET"]} for n in range(30)]
    (tmp_path / "labels.jsonl").write_text("".join(json.dumps(row) + "\n" for row in labelled))
    words = {
        "synthesize": [str(tmp_path / "q.jsonl"), "--models", "openai/m", "--id-column", "id"],
        "select": [str(tmp_path / "q.jsonl"), "--sample", "openai/m", "--judge", "openai/m", "-k", "2"],
        "improve": [str(tmp_path / "rubric.yaml"), "--judge", "openai/m", "--writer", "openai/m"],
        "review": [str(tmp_path / "rubric.yaml"), "--reviewer", "openai/m"],
    }[command]
    if command == "improve":
        words += ["--labels", str(tmp_path / "labels.jsonl"), "--repeat", "3"]
    with serving(monkeypatch, replier=offline) as endpoint:
        out = tmp_path / "run"
        status = run([command, *words, "-o", str(out), "--batch", "--batch-poll", "0.05"])
        said, problem = capsys.readouterr()
        # A selection that keeps nothing has status 1.
        assert status == (command == "select"), said + problem
        assert "failed" not in said
        books, alone = endpoint.books.summarize(), endpoint.counts.requests
        if command != "improve":  # whose labels are used up
            words += ["-o", str(tmp_path / "other"), "--batch", "--batch-detach"]
            assert run([command, *words]) == 3
            assert "collect them with:" in "".join(capsys.readouterr())
    assert "batches: at least" in said
    assert books["paid"] > 0
    assert books["paid_twice"] == 0
    assert alone <= books["paid"] / 10 + 10
    if command == "synthesize":
        # References and responses, candidate rubrics, the merge, harder criteria: each reads what was written before.
        assert books["batches"] >= 4


def offline(body: dict[str, Any]) -> str:
    """What the offline model says to a request."""
    form = (body.get("response_format") or {}).get("json_schema")
    schema = None if form is None else ReplySchema(form.get("name", "reply"), form["schema"])
    asked = Request(tuple(Message(one["role"], one["content"]) for one in body["messages"]), "judge", schema)
    replying = OfflineModel().complete(asked)
    try:
        while True:  # it only lets others go first, and waits for nothing
            replying.send(None)
    except StopIteration as ended:
        return str(ended.value.text)


def test_a_provider_without_batches_is_refused_before_anything_is_spent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEEPSEEK_API_KEY", KEY)
    with pytest.raises(ConfigError, match="deepseek has no batch endpoint; leave out --batch"):
        graded(tmp_path, judge="deepseek/deepseek-chat")
    with BatchEndpoint().in_thread() as endpoint:
        # An address of one's own that knows no batches says so when the file comes.
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        with pytest.raises(InputError, match=r"HTTP 404: .*/nowhere/files"):
            graded(tmp_path, judge=f"judge@{endpoint.url}/nowhere")
    # Nothing listens there any more: no retries, as without batches.
    with pytest.raises(InputError, match="Connection refused; no response so far; check the address"):
        graded(tmp_path, judge=f"judge@{endpoint.url}/v1")
    assert not (tmp_path / "run").exists()


@each(
    ("given", "size"),
    [
        ({"batch": True}, 0),
        ({"batch": 500}, 500),
        ({"batch": "auto"}, 0),
        ({"batch": False}, None),
        ({}, None),
        ({"batch": 0.5}, "batch is 0.5"),
        ({"batch": -1}, "batch is -1"),
        ({"batch": "half"}, "batch is 'half'"),
        ({"batch_detach": True}, "batch_detach has no effect without batch; leave it out, or pass batch"),
        ({"batch_cancel": True}, "batch_cancel has no effect without batch; leave it out, or pass batch"),
    ],
)
def test_the_size_of_batches_is_checked(given: dict[str, Any], size: Any) -> None:
    if isinstance(size, str):
        with pytest.raises(ConfigError, match=size):
            GradeSettings.from_values({"judge": ["openai/m"], **given})
        return
    assert GradeSettings.from_values({"judge": ["openai/m"], **given}).batch == size


@pytest.mark.skipif(sys.platform == "win32", reason="Windows forks no process")
def test_kills_lose_nothing_and_pay_nothing_twice() -> None:
    """`make soak` kills 200 times."""
    words = [forked_python(), "-m", "benchmarks.soak.batches", "5"]
    done = subprocess.run(
        words, cwd=SOURCE.parent, env=environment(), capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert (found["kills"], found["lost"], found["paid_twice"], found["asked_twice"]) == (5, 0, 0, 0)
    assert found["paid"] == found["collected"] > 0
    assert found["over_budget"] == 0


def test_a_record_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    store = BatchStore(tmp_path)
    store.keep(store.begin("openai/m", "m", "https://api.openai.com/v1"))
    [path] = (tmp_path / "batches").glob("*.json")
    path.write_text("{")
    with pytest.raises(Exception, match="the record of a batch cannot be read"):
        store.read_records()
