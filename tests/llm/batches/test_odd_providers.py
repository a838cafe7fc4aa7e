"""Runs against services that keep to what providers publish, and use every freedom that it leaves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from autorubric import grade
from autorubric.cli.app import run
from autorubric.errors import InputError
from autorubric.llm.batches import batch_queue
from autorubric.llm.batches.collecting import Collection
from autorubric.llm.http.retry import Fault
from tests.llm.batches.odd_provider import WORDS, OddProvider, served
from tests.llm.batches.test_batch_runs import ASKED, DIALECTS, ITEMS, RUBRIC, graded, offline, recorded
from tests.offenders import offenders

LATER = (429, {"Retry-After": "0"})


@contextmanager
def provider(monkeypatch: pytest.MonkeyPatch, dialect: str, **more: Any) -> Iterator[OddProvider]:
    variable, path = DIALECTS[dialect]
    with served(OddProvider(dialect, offline, **more)) as found:
        monkeypatch.setenv(f"{variable}_BASE_URL", found.url + path)
        monkeypatch.setenv(f"{variable}_API_KEY", "sk-planted")
        yield found


@pytest.mark.parametrize("dialect", WORDS)
def test_awkward_services_answer_each_request_once(
    dialect: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals = {
        "upload": [LATER, (500, {})],
        "create": [LATER, (503, {})],
        "find": [LATER, (502, {}), LATER],
        "results": [(503, {})],
    }
    with provider(monkeypatch, dialect, refusals=refusals, expires=3) as found:
        result = graded(tmp_path, dialect)
        assert len(result.get_scores()) == ITEMS
        assert max(found.paid.values()) == 1
        assert found.paid.total() + found.asked["chat"] == ASKED
        assert len(found.jobs) == 1
    assert recorded(tmp_path)[:2] == (ASKED, 0)


@pytest.mark.parametrize("dialect", ["openai", "anthropic", "together"])
def test_a_creation_whose_answer_says_nothing_of_a_batch_is_looked_for_and_not_repeated(
    dialect: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [
        (200, b"<html>"),
        (200, b""),
        (202, b"{}"),
        (200, b'{"id": null}'),
        (302, b""),
        (409, b"{}"),
        (500, b""),
    ]
    with provider(monkeypatch, dialect) as found:
        offenders = []
        for number, answer in enumerate(answers):
            found.creations, found.jobs = [answer], {}
            folder = tmp_path / str(number)
            folder.mkdir()
            result = graded(folder, dialect)
            if (len(result.get_scores()), len(found.jobs)) != (ITEMS, 1):
                offenders.append((answer, result.stopped, len(found.jobs)))
        assert not offenders


@pytest.mark.parametrize("dialect", ["openai", "together"])
def test_a_batch_whose_metadata_does_not_come_back_is_found_by_its_file(
    dialect: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with provider(monkeypatch, dialect, forgets_metadata=True) as found:
        graded(tmp_path, dialect, batch_detach=True)
        [path] = (tmp_path / "run/ledger/batches").glob("*.json")
        path.write_text(json.dumps(json.loads(path.read_text()) | {"state": "planned", "remote": ""}))
        assert len(graded(tmp_path, dialect).get_scores()) == ITEMS
        assert (len(found.jobs), found.paid.total()) == (1, ASKED)


@pytest.mark.parametrize("dialect", WORDS)
def test_results_that_lack_requests_are_said_before_these_are_sent_again(
    dialect: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with provider(monkeypatch, dialect, lost_lines=3) as found:
        assert len(graded(tmp_path, dialect).get_scores()) == ITEMS
        [job] = found.jobs
    [told] = [record.message for record in caplog.records if record.name == "autorubric.batches"]
    words = (
        f"batch {job} of {dialect}/judge: its results are incomplete. 3 requests without a reply will be sent again"
    )
    assert told.startswith(words)


def test_a_used_up_credit_in_a_result_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with provider(monkeypatch, "anthropic", refused_lines=1, refusal="billing_error") as found:
        assert "HTTP 402" in str(graded(tmp_path, "anthropic").stopped)
        assert (len(found.jobs), found.asked["chat"]) == (1, 0)


@pytest.mark.parametrize("dialect", WORDS)
def test_requests_that_are_all_refused_come_back_in_the_words_of_the_service(
    dialect: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with provider(monkeypatch, dialect, refused_lines=ASKED) as found:
        result = graded(tmp_path, dialect)
        assert result.failed_items == ITEMS
        assert "max_tokens is too large: 32768." in str(result.item_results[0].report.error)
        assert (found.paid.total(), len(found.jobs)) == (0, 1)


@pytest.mark.parametrize("command", ["synthesize", "select"])
@pytest.mark.parametrize("dialect", WORDS)
def test_commands_come_to_their_end_with_awkward_services(
    command: str, dialect: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rubric = '[{"criterion": "Names the moon.", "points": 6}, {"criterion": "Is brief.", "points": 4}]'
    rows = [f'{{"id": "q{n}", "query": "Why {n}?", "rubrics": {rubric}}}\n' for n in range(2)]
    (tmp_path / "q.jsonl").write_text("".join(rows))
    model = f"{dialect}/m"
    words = ["--models", model] if command == "synthesize" else ["--sample", model, "--judge", model, "-k", "2"]
    words = [
        command,
        str(tmp_path / "q.jsonl"),
        *words,
        "-o",
        str(tmp_path / "run"),
        "--batch",
        "--batch-poll",
        "0.05",
    ]
    with provider(monkeypatch, dialect, refusals={"find": [LATER], "create": [(500, {})]}, expires=1) as found:
        assert run([*words, "--batch-detach"]) == 3
        assert run(words) == (command == "select")  # a selection that keeps nothing has status 1
        assert "failed" not in capsys.readouterr().out
        assert max(found.paid.values()) == 1


@pytest.mark.parametrize("dialect", ["openai", "gemini", "mistral"])
def test_an_input_file_that_fails_its_validation_is_told_with_its_lines_and_sent_again_by_the_next_run(
    dialect: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    problems = [
        {"code": "invalid_json_line", "message": f"Line {n} is bad.", "line": n, "param": None} for n in (3, 5)
    ]
    with provider(monkeypatch, dialect, problems=[problems]) as found:
        failed = graded(tmp_path, dialect)
        told = str(failed.item_results[0].report.error)
        assert "failed: Line 3 is bad." in told
        if dialect == "openai":
            assert "Line 3 is bad. (invalid_json_line, line 3) and 1 more problem" in told
        assert (failed.failed_items, len(found.jobs), found.paid.total()) == (ITEMS, 1, 0)
        assert len(graded(tmp_path, dialect).get_scores()) == ITEMS
        assert (max(found.paid.values()), found.paid.total()) == (1, ASKED)


def test_a_run_larger_than_the_queue_of_the_provider_is_answered_in_batches_that_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = {"code": "token_limit_exceeded", "message": "Enqueued token limit reached for m.", "line": None}

    class Queue(OddProvider):
        """Takes at most 20 requests at a time."""

        def _create(self, body: Any) -> Any:
            working = [job for job in self.jobs.values() if job["looks"] < len(WORDS["openai"]) - 1]
            asked = sum(len(job["lines"]) for job in working) + self.files[body["input_file_id"]].count(b"\n")
            self.problems = [[full]] if asked > 20 else []
            return super()._create(body)

        def _find(self, name: str) -> Any:
            self.jobs[name]["looks"] += len(WORDS["openai"]) if self.jobs[name]["problem"] else 0
            return super()._find(name)

    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted")
    with offenders() as case:
        # 20, 20 and 20 of which one fits, then 20, 20 and 12; or 72 and 36, then 4 times 18.
        for size in (20, 72):
            with case(str(size)), served(Queue("openai", offline)) as found:
                monkeypatch.setenv("OPENAI_BASE_URL", f"{found.url}/v1")
                settings: dict[str, Any] = {"rubric": RUBRIC, "judge": "openai/judge", "calls": "per_item"}
                settings |= {"retry": 1, "batch": size, "batch_poll": 0.1, "out": tmp_path / f"{size}"}
                result = grade([f"Answer number {n}." for n in range(72)], **settings)
                assert (result.failed_items, len(found.jobs) <= 6) == (0, True)
                assert (max(found.paid.values()), found.paid.total(), found.asked["chat"]) == (1, 72, 0)


def test_a_batch_whose_requests_may_be_charged_was_not_refused_for_lack_of_room() -> None:
    for is_billed in (False, True):
        faults = {b"key": Fault("network", "not JSON", again=True, maybe_billed=is_billed)}
        assert Collection(None, None, {}, faults=faults, failed=True).is_refused is not is_billed  # type: ignore[arg-type]


def test_a_queue_that_stays_full_ends_the_run_and_loses_no_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = {"code": "token_limit_exceeded", "message": "Enqueued token limit reached for m.", "line": None}
    monkeypatch.setattr(batch_queue, "_MOST_REFUSED", 3)
    settings: dict[str, Any] = {"calls": "per_item", "batch_poll": 0.02, "retry": 1}
    with provider(monkeypatch, "openai", problems=[[full]] * 8) as found:
        result = graded(tmp_path, **settings)
        # 20, 10, 5, 2 and 1; that one is refused three times.
        assert [len(job["lines"]) for job in found.jobs.values()] == [20, 10, 5, 2, 1, 1, 1]
        assert "Enqueued token limit reached for m. (token_limit_exceeded); its queue stayed full" in str(
            result.stopped
        )
        found.problems = [[full]]
        assert len(graded(tmp_path, **settings).get_scores()) == ITEMS
        assert (max(found.paid.values()), found.paid.total(), found.asked["chat"]) == (1, ITEMS, 0)


@pytest.mark.parametrize(
    "status, words", [(401, "HTTP 401"), (404, "/v1/files: check it, or leave out --batch (in Python: batch)$")]
)
def test_what_refuses_every_batch_is_asked_once(
    status: int, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with provider(monkeypatch, "openai", refusals={"upload": [(status, {})] * 9}) as found:
        with pytest.raises(InputError, match=words.replace("(", "[(]").replace(")", "[)]")):
            graded(tmp_path)
        assert (found.asked["upload"], found.asked["chat"]) == (1, 0)


def test_batches_grow_again_once_others_have_left_the_queue_of_the_provider(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Queue(OddProvider):
        """Another run fills it until the fifth batch."""

        def _create(self, body: Any) -> Any:
            full = {"code": "token_limit_exceeded", "message": "Enqueued token limit reached for m.", "line": None}
            self.problems = [[full]] if len(self.jobs) < 4 else []
            return super()._create(body)

    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted")
    with served(Queue("openai", offline)) as found:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{found.url}/v1")
        settings: dict[str, Any] = {"rubric": RUBRIC, "judge": "openai/judge", "calls": "per_item", "retry": 1}
        answers = [f"Answer number {n}." for n in range(16)]
        result = grade(answers, **settings, batch=16, batch_poll=0.1, out=tmp_path / "run")
        assert (result.failed_items, max(found.paid.values()), found.paid.total()) == (0, 1, 16)
        # 16, 8, 4 and 2 are refused; then 1, 1, 1, 1, 2, 4 and the last 6.
        assert [len(job["lines"]) for job in found.jobs.values() if job["lines"]][-7:] == [1, 1, 1, 1, 2, 4, 6]


def test_a_creation_that_is_refused_while_others_are_with_the_provider_is_tried_again_after_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Busy(OddProvider):
        def answer(self, method: str, path: str, headers: Any, body: bytes) -> tuple[int, dict[str, str], bytes]:
            working = [job for job in self.jobs.values() if job["looks"] < len(WORDS["gemini"]) - 1]
            if path.endswith(":batchGenerateContent") and working:
                return 429, {"Retry-After": "0"}, b'{"error": {"message": "Resource exhausted, try again later."}}'
            return super().answer(method, path, headers, body)

    monkeypatch.setenv("GEMINI_API_KEY", "sk-planted")
    with served(Busy("gemini", offline)) as found:
        monkeypatch.setenv("GEMINI_BASE_URL", f"{found.url}/v1beta/openai")
        result = graded(tmp_path, "gemini", batch=ITEMS // 2, calls="per_item", batch_poll=3.0, retry=1)
        assert len(result.get_scores()) == ITEMS
        assert (max(found.paid.values()), found.paid.total() + found.asked["chat"]) == (1, ITEMS)


def test_a_wait_outlasts_an_endpoint_that_fails_for_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with provider(monkeypatch, "openai", refusals={"find": [(503, {"Retry-After": "0"})] * 7}) as found:
        assert len(graded(tmp_path, retry=1).get_scores()) == ITEMS
        assert max(found.paid.values()) == 1


def test_an_operation_that_ends_without_a_state_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stateless(OddProvider):
        def _gemini(self, job: Any, *given: Any) -> Any:
            shown = super()._gemini(job, *given)
            if shown.get("error"):
                shown |= {"done": True, "metadata": {"displayName": shown["metadata"]["displayName"]}}
            return shown

    monkeypatch.setenv("GEMINI_API_KEY", "sk-planted")
    with served(Stateless("gemini", offline, problems=[[{"message": "Unable to read the file."}]])) as found:
        monkeypatch.setenv("GEMINI_BASE_URL", f"{found.url}/v1beta/openai")
        assert "failed: Unable to read the file." in str(graded(tmp_path, "gemini").item_results[0].report.error)
        assert len(graded(tmp_path, "gemini").get_scores()) == ITEMS
