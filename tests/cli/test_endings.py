"""How runs end: exit status, last words, `status`, and the command that resumes, pasted into a shell as printed."""

from __future__ import annotations

import io
import json
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from autorubric import Criterion, Rubric, evolve, grade, reward, status
from autorubric.cli.app import run
from autorubric.cli.command import KeyboardStop
from autorubric.errors import LedgerError
from autorubric.runs.stopping import StoppableRun
from autorubric.testing import Latency, LoopbackEndpoint
from tests.cli.test_serve import asked, posted, serving
from tests.jobs.test_finished_first import dataset
from tests.offenders import offenders
from tests.processes import environment, start, wait_until
from tests.training.evolution.scripted import ROLLOUTS, graded, models, scripted
from tests.warm_commands import warm_folder

NAME = "it's α run"
RUBRIC = Rubric([Criterion(name=f"c{n}", requirement=f"Names cause {n}.") for n in range(4)])
TEXTS = [f"The moon pulls, {number}." for number in range(20)]


def pasted(command: str) -> subprocess.CompletedProcess[str]:
    """How a command ends that is pasted into a shell."""
    path = f"{warm_folder()}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["sh", "-c", command], capture_output=True, text=True, env=environment(PATH=path), check=False
    )


@contextmanager
def begun(words: list[str], endpoint: LoopbackEndpoint, calls: int = 1) -> Iterator[subprocess.Popen[str]]:
    """The process of a command that has made some calls."""
    with start(words) as process:
        wait_until(lambda: endpoint.counts.requests >= calls or process.poll() is not None, "no call was made")
        yield process


def select_words(folder: Path, model: str) -> list[str]:
    rubrics = [{"criterion": "Names a cause.", "points": 1}]
    rows = [{"id": f"q{n}", "question": f"Why {n}?", "rubrics": rubrics} for n in range(8)]
    source = folder / "the quer'ies é.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return [
        "select",
        str(source),
        "--sample",
        model,
        "--judge",
        model,
        "-k",
        "2",
        "-o",
        str(folder / NAME),
        "-j",
        "2",
    ]


def synthesize_words(folder: Path, model: str) -> list[str]:
    source = folder / "the quer'ies é.jsonl"
    rows = [{"id": f"q{n}", "question": f"Why {n}?"} for n in range(6)]
    source.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return ["synthesize", str(source), "--models", model, "-o", str(folder / NAME), "-j", "2"]


def grade_words(folder: Path, model: str) -> list[str]:
    source = folder / "the ess'ays é.json"
    dataset(8).to_file(source)
    return ["grade", str(source), "--judge", model, "-o", str(folder / NAME), "-j", "2"]


def test_an_interruption_while_the_command_loads_ends_it_without_a_traceback() -> None:
    code = (
        "import sys\n"
        "from autorubric.cli import main\n"
        "class Interrupted:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'autorubric.cli.app':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupted())\n"
        "main(['--help'])"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")


def test_a_service_whose_budget_ended_says_so_and_the_printed_command_goes_on(tmp_path: Path) -> None:
    with offenders() as case, LoopbackEndpoint().in_thread() as endpoint:
        for processes in ("1", "2"):
            with case(f"{processes} processes"):
                out = tmp_path / processes / NAME
                flags = ["--judge", f"j@{endpoint.base_url}", "-o", str(out), "--processes", processes]
                with serving(*flags, "--budget-tokens", "12000") as (process, url):
                    given = [asked(url, f"text {number}")[1]["reward"] for number in range(20)]
                    assert given[0] == 1.0 and given[-1] is None
                    process.terminate()
                    told, _ = process.communicate(timeout=600)
                    assert process.returncode == 1
                found = status(out)
                assert (found.kind, found.state) == ("service", "unfinished")
                assert found.stopped.startswith("budget of 12,000 tokens reached")
                command = told.splitlines()[-1].strip()
                assert "resume with a budget of 24,000 tokens:\n" in told and found.advice.endswith(command)
                refused = pasted(f"{command} --port 70000")  # the last one counts; all others are read
                assert refused.returncode == 2 and "--port is 70000" in refused.stderr


def test_a_service_keeps_rewards_audits_and_evolution_within_one_limit(tmp_path: Path) -> None:
    with LoopbackEndpoint(latency="fixed:0.02").in_thread() as endpoint:
        judge, second = f"judge@{endpoint.base_url}", f"second@{endpoint.base_url}"
        flags = ["--judge", judge, "--audit", second, "--audit-share", "1", "-j", "2", "-o", str(tmp_path / "run")]
        with serving(*flags) as (process, url):
            rubric = [{"requirement": one.requirement} for one in RUBRIC]
            items = [{"query": "Why?", "submission": text, "rubric": rubric} for text in TEXTS[:6]]
            code, found = posted(url, json.dumps({"items": items}).encode())
            assert (code, [one["reward"] for one in found["rewards"]]) == (200, [1.0] * 6)
            process.terminate()  # audits that are open have the grace
            process.communicate(timeout=600)
        assert endpoint.counts.requests == 2 * 6 * 4
        assert endpoint.counts.max_in_flight == 2


def test_a_full_disk_ends_a_service_with_status_1_and_stops_its_calls(tmp_path: Path) -> None:
    out = tmp_path / "run"
    with LoopbackEndpoint(latency="fixed:0.2").in_thread() as endpoint:
        with serving("--judge", f"j@{endpoint.base_url}", "-o", str(out), "-j", "4") as (process, url):
            rubric = [{"requirement": one.requirement} for one in RUBRIC]
            items = [{"query": "Why?", "submission": text, "rubric": rubric} for text in TEXTS]
            body = json.dumps({"items": items}).encode()
            caller = threading.Thread(target=lambda: posted(url, body))
            caller.start()
            wait_until(lambda: endpoint.counts.requests >= 8, "no call was made")
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
            caller.join()
            assert posted(url, body)[0] == 503
            made = endpoint.counts.requests
            # The calls in flight, those begun while their replies could not be written, and those before.
            assert made <= 8 + 3 * 4
            process.terminate()
            told, _ = process.communicate(timeout=600)
        assert process.returncode == 1
        assert "stopped: the ledger cannot be written" in told


def test_rewards_make_no_further_calls_on_a_full_disk(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(body: dict[str, Any]) -> None:
        if endpoint.counts.requests == 8:
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))

    with LoopbackEndpoint(latency="fixed:0.2", faults=fill).in_thread() as endpoint:
        judge, out = f"m@{endpoint.base_url}", tmp_path / "rewards"
        try:
            with pytest.raises(LedgerError, match="the ledger cannot be written"):
                reward(TEXTS, rubric=RUBRIC, judge=judge, out=out, concurrency=4)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert endpoint.counts.requests <= 8 + 3 * 4
        assert [one.value for one in reward(TEXTS, rubric=RUBRIC, judge=judge, out=out)] == [1.0] * len(TEXTS)
        assert 0 <= endpoint.counts.requests - len(TEXTS) * len(RUBRIC) <= 3 * 4


def test_a_run_that_a_signal_ended_says_how_to_resume_it(tmp_path: Path) -> None:
    table: dict[str, tuple[Callable[[Path, str], list[str]], int]] = {
        "select": (select_words, 8 * 2 * 2),
        "synthesize": (synthesize_words, 6 * 7),
        "grade": (grade_words, 8 * 3),
    }
    with offenders() as case:
        for name, (words, calls) in table.items():
            for ended in ("killed", "interrupted twice"):
                with (
                    case(f"{name}, {ended}"),
                    LoopbackEndpoint(latency="fixed:0.3").in_thread() as endpoint,
                ):
                    folder = tmp_path / f"{name} {ended}"
                    folder.mkdir()
                    with begun(words(folder, f"m@{endpoint.base_url}"), endpoint) as process:
                        if ended == "killed":
                            process.kill()
                        else:
                            process.send_signal(signal.SIGINT)
                            assert process.stderr is not None
                            assert any("stopping" in line for line in process.stderr)
                            process.send_signal(signal.SIGINT)
                        process.communicate(timeout=600)
                    endpoint._service._latency = Latency()  # only the signal needs calls that take a while
                    found = status(folder / NAME)
                    state, why = ("died", "") if ended == "killed" else ("unfinished", "interrupted")
                    kind = "synthesis" if name == "synthesize" else "evaluation"
                    assert (found.kind, found.state, found.stopped) == (kind, state, why)
                    again = pasted(found.advice.partition("run:  ")[2])
                    assert again.returncode in (0, 1), again.stderr  # 1: nothing was kept
                    assert status(folder / NAME).state == "completed"
                    # Only calls in flight are repeated.
                    assert calls <= endpoint.counts.requests <= calls + 2


class ClosedTerminal(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError


class IdleRun(StoppableRun):
    async def execute(self) -> None:
        pass


def test_a_second_interrupt_ends_a_run_whose_terminal_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    stop = KeyboardStop()
    monkeypatch.setattr(sys, "stderr", ClosedTerminal())
    stop._announce_and_stop(IdleRun())
    with pytest.raises(KeyboardInterrupt):
        stop._announce_and_stop(IdleRun())


@pytest.mark.usefixtures("forked")
def test_processes_that_a_refused_key_ended_say_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THE_KEY", "sk-right")

    def revoke(body: dict[str, Any]) -> None:
        if endpoint.counts.requests == 12:
            endpoint.key = "sk-other"

    with LoopbackEndpoint(key="sk-right", latency="fixed:0.05", faults=revoke).in_thread() as endpoint:
        words = [*synthesize_words(tmp_path, f"m@{endpoint.base_url}"), "--api-key-env", "THE_KEY"]
        assert run([*words, "--processes", "2"]) == 1
    told = capsys.readouterr().out.splitlines()
    assert told[-4] == "stopped: m: HTTP 401: 'Incorrect API key provided.'"
    assert told[-3] == "check the key and what it may use; --api-key-env (in Python: api_key_env) names its variable"


def test_rewards_of_a_program_have_a_state_and_leave_the_directory_to_other_runs(tmp_path: Path) -> None:
    out = tmp_path / "rewards"
    with LoopbackEndpoint().in_thread() as endpoint:
        judge = f"m@{endpoint.base_url}"
        reward(TEXTS[:4], rubric=RUBRIC, judge=judge, out=out, budget_tokens=12_000)
        found = status(out)
        assert (found.kind, found.state) == ("rewards", "unfinished")
        assert found.stopped.startswith("budget of 12,000 tokens reached")
        assert found.advice == "run it again with a budget of 31,000 tokens (estimated: 1 of 4 are done)"
        reward(TEXTS[:4], rubric=RUBRIC, judge=judge, out=out, budget_tokens=31_000)
        assert (status(out).state, status(out).row_counts[:3]) == ("completed", (4, 4, 0))
        grade(dataset(1), judge=judge, out=out)
        reward(TEXTS[:4], rubric=RUBRIC, judge=judge, out=out)
        assert status(out).kind == "evaluation"


def test_an_evolution_whose_budget_ended_names_a_budget_that_works(tmp_path: Path) -> None:
    with scripted().in_thread() as endpoint:
        source, out = graded(endpoint, tmp_path / "run", ROLLOUTS), tmp_path / "evolved"
        again = "autorubric evolve run"
        first = evolve(source, **models(endpoint), out=out, budget_tokens=20_000, again=again)
        assert (first.stopped or "").startswith("budget of 20,000 tokens reached")
        assert status(out).advice.startswith("resume it with a budget of ")
        assert f":  {again} --budget-tokens " in status(out).advice
