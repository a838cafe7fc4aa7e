"""A process that runs out of file descriptors on its way has not been given wrong input."""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from autorubric import Criterion, Rubric, RubricDataset
from autorubric.errors import InputError, LedgerError
from autorubric.files import write_atomically
from autorubric.llm.records.ledger import Ledger
from tests.cli.in_process import NearEndpoint
from tests.offenders import offenders
from tests.processes import LONG
from tests.warm_commands import WarmProcess


@contextmanager
def no_descriptors_left(but: int = 0) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest_free = os.open("/dev/null", os.O_RDONLY)
    os.close(lowest_free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free + but, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_being_out_of_descriptors_is_told_with_the_file_and_is_no_wrong_input(tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    with no_descriptors_left(), pytest.raises(OSError, match="Too many open files") as caught:
        write_atomically(path, ["{}"])
    assert not isinstance(caught.value, InputError)
    assert caught.value.filename == str(path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("left", range(4))
def test_a_ledger_for_which_there_are_too_few_descriptors_is_not_called_damaged(tmp_path: Path, left: int) -> None:
    Ledger.open(tmp_path).close()
    told = "Too many open files|cannot be opened: too many files are open; raise the limit"
    with no_descriptors_left(but=left), pytest.raises((OSError, LedgerError), match=told):
        Ledger.open(tmp_path)


def synthesized_with(folder: Path, descriptors: int) -> tuple[int, str]:
    """The status and the messages of a synthesis whose process may have so many files open."""
    words = ["synthesize", "queries.jsonl", "--models", "builtin/offline", "--out", "out"]
    status, _, told = ended(words, folder, descriptors, descriptors)
    return status, told


def ended(words: list[str], folder: Path, soft: int, hard: int) -> tuple[int, str, str]:
    """The status, the output and the messages of a command with these limits of open files."""
    pipe = subprocess.PIPE
    with WarmProcess(words, (soft, hard), cwd=folder, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe) as running:
        out, err = running.communicate(timeout=LONG)
    return running.returncode, out, err


def test_too_few_descriptors_are_told_with_what_to_do_and_cost_no_ledger(tmp_path: Path) -> None:
    (tmp_path / "queries.jsonl").write_text('{"question": "Why?"}\n{"question": "How?"}\n')
    with offenders() as case:
        # Too few for the event loop, for the ledger, and for what is read and written on the way.
        for descriptors in (8, 12, 16, 18):
            with case(str(descriptors)):
                status, told = synthesized_with(tmp_path, descriptors)
                assert status == 1, told
                assert "too many files are open; raise the limit, such as with 'ulimit -n 4096'" in told
                assert told.count("autorubric: ") == 1
                assert "Warning" not in told
                assert "from a copy" not in told
                assert "another run directory" not in told
    assert synthesized_with(tmp_path, 256)[0] == 0


def graded_with(folder: Path, soft: int, hard: int, url: str, *words: str) -> tuple[int, str, str]:
    dataset = RubricDataset("Explain.", Rubric([Criterion(requirement="Is kind.")]))
    for number in range(300):
        dataset.add_item(f"Essay number {number}.", f"essay {number}", id=f"e{number}")
    dataset.to_file(folder / "essays.json")
    return ended(["grade", "essays.json", "--judge", f"judge@{url}", "-o", "run", *words], folder, soft, hard)


@pytest.mark.parametrize(
    ("soft", "hard", "seconds", "least", "most"), [(128, 128, 0.3, 20, 128), (64, 1024, 3.0, 200, 256)]
)
def test_more_calls_at_a_time_than_files_may_be_open_lose_no_item(
    tmp_path: Path, soft: int, hard: int, seconds: float, least: int, most: int
) -> None:
    # A hard limit of 128 files leaves room for fewer connections than -j asks for; a soft one is raised.
    with NearEndpoint("--latency", f"fixed:{seconds}") as endpoint:
        status, out, err = graded_with(tmp_path, soft, hard, endpoint.base_url, "-j", "256", "--retry", "0")
        stats = endpoint.stats()
    assert status == 0, err
    assert "300 of 300 items graded" in out
    assert stats["requests"] == 300
    assert least <= stats["max_in_flight"] <= most
