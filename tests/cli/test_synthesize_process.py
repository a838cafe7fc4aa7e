"""The command as a process: interrupted, killed, locked, started by the script."""

from __future__ import annotations

import json
import random
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import processes
from tests.cli.in_process import Finished, NearEndpoint, finish
from tests.processes import environment, wait_until
from tests.warm_commands import forked_python

ROOT = Path(__file__).parents[2]
SLOTS = ("reference", "response-a", "response-b", "rubric-a", "rubric-b", "merge", "augment")


LIMITED = """
import resource
from autorubric.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, (120 * 1024, 120 * 1024))
main()
"""


def queries(folder: Path, count: int) -> Path:
    path = folder / "q.jsonl"
    rows = [{"id": f"q{i}", "question": f"Query number {i}?"} for i in range(count)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def command(source: Path, out: Path, base_url: str, *more: str) -> list[str]:
    flags = ["--id-column", "id", "-j", "8"]
    for slot in SLOTS:
        part, _, letter = slot.partition("-")
        flags += [f"--{part}-model" + (f"-{letter}" if letter else ""), slot, f"--{slot}-base-url", base_url]
    return [sys.executable, "-m", "autorubric", "synthesize", str(source), "--out", str(out), *flags, *more]


def start(arguments: list[str], **variables: str) -> subprocess.Popen[str]:
    return processes.start(arguments[3:], **variables)


def until_asked(endpoint: NearEndpoint, count: int) -> None:
    wait_until(lambda: endpoint.stats()["completed_calls"] >= count, "the endpoint was not asked")


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_bytes().split(b"\n") if line]


@pytest.fixture
def endpoint() -> Iterator[NearEndpoint]:
    with NearEndpoint("--latency", "lognormal:0.05,0.5", "--reply-chars", "600") as endpoint:
        yield endpoint


def in_shell(command: str) -> Finished:
    """The end of a printed command in a shell that knows no PATH."""
    bare = {key: value for key, value in environment().items() if key != "PATH"}
    ended = subprocess.run(["/bin/sh", "-c", command], env=bare, capture_output=True, text=True, check=False)
    return Finished(ended.returncode, ended.stdout, ended.stderr)


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_run_saves_what_it_has_and_says_how_to_resume(
    endpoint: NearEndpoint, tmp_path: Path, kind: signal.Signals
) -> None:
    folder = tmp_path / "my runs"
    folder.mkdir()
    source, out = queries(folder, 16), folder / "out"
    running = start(command(source, out, endpoint.base_url))
    until_asked(endpoint, 16)
    running.send_signal(kind)
    told, warned = running.communicate(timeout=600)
    assert running.returncode == 130
    assert ("stopping: waiting up to 25 s for" in warned) == (kind is signal.SIGTERM), warned
    assert f"resume with:\n  {forked_python()} -m autorubric synthesize" in told
    assert json.loads((out / "manifest.json").read_text())["status"] == "stopped"
    saved = lines(out / "step0_reference.jsonl")
    assert 0 < len(saved) <= 16
    before = endpoint.stats()
    assert before["completed_calls"] < 112
    printed = told.split("resume with:\n")[1].strip()
    is_typed = kind is signal.SIGINT
    again = in_shell(printed) if is_typed else finish(command(source, out, endpoint.base_url))
    assert again.returncode == 0, again.stderr
    after = endpoint.stats()
    assert after["completed_calls"] == 112
    assert after["repeated_calls"] == 0
    assert len(lines(out / "final.jsonl")) == 16


def test_a_second_interrupt_leaves_at_once_and_the_same_command_goes_on(tmp_path: Path) -> None:
    source, out = queries(tmp_path, 4), tmp_path / "out"
    with NearEndpoint("--latency", "fixed:0.05+0.5@30", "--reply-chars", "600") as endpoint:
        running = start(command(source, out, endpoint.base_url))
        until_asked(endpoint, 3)
        running.send_signal(signal.SIGINT)
        assert running.stderr is not None
        notice = r"stopping: waiting for \d calls? in flight; press Ctrl-C again"
        assert any(re.match(notice, line) for line in running.stderr)  # the first one was heard
        running.send_signal(signal.SIGINT)
        _, told = running.communicate(timeout=600)
        assert running.returncode == 130
        assert re.search(r"exiting now; abandoned \d calls? in flight; saved replies are kept", told)
    with NearEndpoint("--reply-chars", "600", "--port", endpoint.base_url.split(":")[2].split("/")[0]) as again:
        assert finish(command(source, out, again.base_url)).returncode == 0
        assert again.stats()["completed_calls"] <= 28 - 3
    assert len(lines(out / "final.jsonl")) == 4


def test_a_killed_run_goes_on_and_pays_again_for_nothing_that_was_recorded(
    endpoint: NearEndpoint, tmp_path: Path
) -> None:
    source, out = queries(tmp_path, 20), tmp_path / "out"
    rng = random.Random(7)
    kills = 0
    for _ in range(3):
        running = start(command(source, out, endpoint.base_url))
        until_asked(endpoint, min(130, endpoint.stats()["completed_calls"] + rng.randrange(10, 40)))
        if running.poll() is None:
            running.kill()
            kills += 1
        running.communicate(timeout=600)
    assert kills >= 2
    assert finish(command(source, out, endpoint.base_url)).returncode == 0
    stats = endpoint.stats()
    # Each kill can cost the 8 calls in flight; a reply that had arrived is found though it was not committed.
    assert stats["distinct_bodies"] == 140
    assert stats["repeated_calls"] <= kills * 8
    ids = [row["id"] for row in lines(out / "final.jsonl")]
    assert ids == [f"q{i}" for i in range(20)]


def test_step_files_grow_while_the_run_goes_on(tmp_path: Path) -> None:
    """One call of the last row never ends, so whatever is in the step files was written before the end."""
    source, out = queries(tmp_path, 9), tmp_path / "out"
    last = out / "step4_augmented.jsonl"
    with NearEndpoint("--latency", "fixed:0.05+0.02@600", "--reply-chars", "600") as endpoint:
        running = start(command(source, out, endpoint.base_url, "--save-every", "2"))
        wait_until(lambda: last.exists() and len(lines(last)) >= 2, "no row was written")
        running.kill()
        running.communicate(timeout=600)
    held = lines(last)
    assert len(held) >= 2
    assert all(row["augmented_rubrics"] for row in held)


def test_drafts_of_a_killed_run_are_removed_and_the_users_own_files_stay(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    draft, own = out / ".step0_reference.jsonl.0123456789ab.tmp", out / ".notes.tmp"
    draft.write_text("{", encoding="utf-8")
    own.write_text("mine", encoding="utf-8")
    words = ["synthesize", str(queries(tmp_path, 1)), "--models", "builtin/offline", "--out", str(out)]
    assert finish([sys.executable, "-m", "autorubric", *words]).returncode == 0
    assert not draft.exists()
    assert own.read_text(encoding="utf-8") == "mine"


def test_a_second_process_is_told_who_works_in_the_directory(tmp_path: Path) -> None:
    source, out = queries(tmp_path, 8), tmp_path / "out"
    with NearEndpoint("--latency", "fixed:0.3", "--reply-chars", "600") as endpoint:
        running = start(command(source, out, endpoint.base_url))
        until_asked(endpoint, 1)
        second = finish(command(source, out, endpoint.base_url))
        assert second.returncode == 1
        assert f"in use by process {running.pid}" in second.stderr
        assert running.poll() is None
        assert finish(command(source, out, endpoint.base_url, "--wait")).returncode == 0
        assert running.communicate(timeout=600) and running.returncode == 0
        assert endpoint.stats()["completed_calls"] == 56


def test_a_full_disk_is_told_and_what_is_recorded_is_not_lost(endpoint: NearEndpoint, tmp_path: Path) -> None:
    source, out = queries(tmp_path, 30), tmp_path / "out"
    arguments = command(source, out, endpoint.base_url)
    # A file may grow to 120 kB: enough for the ledger, too little for the last step file.
    limited = subprocess.run(
        [forked_python(), "-c", LIMITED, *arguments[3:]],
        capture_output=True,
        text=True,
        env=environment(),
        check=False,
        timeout=600,
    )
    assert limited.returncode == 1
    assert "Traceback" not in limited.stderr
    assert "progress is saved" in limited.stderr or "its contents are safe" in limited.stderr
    assert finish(arguments).returncode == 0
    assert len(lines(out / "final.jsonl")) == 30
    # Lost are the batch that could not be written and the calls in flight behind it: at most 8 each.
    assert endpoint.stats()["repeated_calls"] <= 16
