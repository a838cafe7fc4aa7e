"""One cache directory, used by several graders of a process and by several processes at the same time."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import threading
import time
from contextlib import closing
from pathlib import Path

from autorubric import Criterion, Rubric
from autorubric.graders import CriterionGrader
from autorubric.llm.config import LLMConfig
from autorubric.testing import LoopbackEndpoint
from tests.warm_commands import WarmPython

KIND = Rubric([Criterion(requirement="Is kind")])

# Grades a text for each line on standard input; argv: cache directory, address of the judge.
GRADES = """
import sys
from autorubric import Criterion, Rubric
from autorubric.graders import CriterionGrader
from autorubric.llm.config import LLMConfig
config = LLMConfig("judge", api_base=sys.argv[2], cache_enabled=True, cache_dir=sys.argv[1])
grader = CriterionGrader(judge_model_config=config)
for line in sys.stdin:
    print(Rubric([Criterion(requirement="Is kind")]).grade_sync(line.strip(), grader).score, flush=True)
"""

# Records `argv[3]` calls from 16 tasks, numbered from `argv[2]`; the index moves to its table every 50 keys.
RECORDS = """
import asyncio, sys
from pathlib import Path
from autorubric.llm.records import key_index
from autorubric.llm.records.call_rows import CallRow
from autorubric.llm.records.stores import shared_ledger
from autorubric.llm.request import Reply
key_index._LEAST_INDEXED = 50

async def write(ledger, numbers):
    for number in numbers:
        await ledger.record(CallRow(number.to_bytes(16, "big"), "q", "judge", "m", 0, 0, Reply(f"answer {number}")))
        assert ledger.find(number.to_bytes(16, "big")).fresh

async def main(ledger, first, count):
    numbers = iter(range(first, first + count))
    await asyncio.gather(*(write(ledger, numbers) for _ in range(16)))

with shared_ledger(Path(sys.argv[1])) as ledger:
    asyncio.run(main(ledger, int(sys.argv[2]), int(sys.argv[3])))
"""


def a_grader(cache: Path, endpoint: LoopbackEndpoint) -> CriterionGrader:
    config = LLMConfig("judge", api_base=endpoint.base_url, cache_enabled=True, cache_dir=cache)
    return CriterionGrader(judge_model_config=config)


def test_graders_of_one_process_share_the_replies_of_one_cache(tmp_path: Path) -> None:
    with LoopbackEndpoint().in_thread() as endpoint:
        first, second = a_grader(tmp_path, endpoint), a_grader(tmp_path, endpoint)
        assert KIND.grade_sync("Hello.", first).score == 1.0
        assert KIND.grade_sync("Hello.", second).score == 1.0
        first.close()
        assert KIND.grade_sync("Good day.", second).score == 1.0
        assert KIND.grade_sync("Good day.", first).score == 1.0  # it opens the cache again
        assert endpoint.counts.requests == 2
        for grader in (first, second):
            grader.close()
    assert {path.name for path in tmp_path.iterdir()} == {"ledger.sqlite", "write.lock", "claims.lock"}


def test_processes_find_what_the_others_recorded_in_one_cache(tmp_path: Path) -> None:
    with LoopbackEndpoint().in_thread() as endpoint:
        words = ["-c", GRADES, str(tmp_path), endpoint.base_url]
        here = a_grader(tmp_path, endpoint)
        assert KIND.grade_sync("one", here).score == 1.0
        with WarmPython(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as there:
            assert there.stdin is not None
            assert there.stdout is not None
            for said, requests in (("one", 1), ("two", 2), ("three", 3)):
                print(said, file=there.stdin, flush=True)
                assert there.stdout.readline() == "1.0\n"
                assert endpoint.counts.requests == requests
            assert KIND.grade_sync("two", here).score == 1.0
            assert endpoint.counts.requests == 3
            assert KIND.grade_sync("four", here).score == 1.0
            assert endpoint.counts.requests == 4
            print("four", file=there.stdin, flush=True)
            assert there.stdout.readline() == "1.0\n"
            assert endpoint.counts.requests == 4
            there.kill()
        assert KIND.grade_sync("three", here).score == 1.0
        assert endpoint.counts.requests == 4
        here.close()


async def test_graders_of_one_process_that_ask_the_same_at_the_same_time_pay_once(tmp_path: Path) -> None:
    with LoopbackEndpoint(latency="fixed:0.3").in_thread() as endpoint:
        graders = [a_grader(tmp_path, endpoint) for _ in range(3)]
        reports = await asyncio.gather(*(KIND.grade("Hello.", grader) for grader in graders for _ in range(2)))
        assert [report.score for report in reports] == [1.0] * 6
        # In another thread, under a loop of its own:
        again, other = await asyncio.gather(
            KIND.grade("Good day.", graders[0]), asyncio.to_thread(KIND.grade_sync, "Good day.", graders[1])
        )
        assert again.score == other.score == 1.0
        assert endpoint.counts.requests == 2
        for grader in graders:
            grader.close()


async def test_where_the_first_of_two_equal_calls_fails_the_second_is_made(tmp_path: Path) -> None:
    with LoopbackEndpoint(latency="fixed:0.2", faults=["500"]).in_thread() as endpoint:
        config = LLMConfig("judge", api_base=endpoint.base_url, cache_enabled=True, cache_dir=tmp_path, max_retries=0)
        graders = [CriterionGrader(judge_model_config=config) for _ in range(2)]
        reports = await asyncio.gather(*(KIND.grade("Hello.", grader) for grader in graders))
        assert sorted(report.error is None for report in reports) == [False, True]
        assert endpoint.counts.requests == 2
        for grader in graders:
            grader.close()


def test_processes_that_ask_the_same_at_the_same_time_pay_once(tmp_path: Path) -> None:
    with LoopbackEndpoint(latency="fixed:0.2").in_thread() as endpoint:
        words = ["-c", GRADES, str(tmp_path), endpoint.base_url]
        texts = "".join(f"text {number}\n" for number in range(8))
        pipe = subprocess.PIPE
        children = [WarmPython(words, stdin=pipe, stdout=pipe) for _ in range(3)]
        for child in children:  # all have imported the package and opened the cache
            assert child.stdin is not None and child.stdout is not None
            print("warm", file=child.stdin, flush=True)
            assert child.stdout.readline() == "1.0\n"
        for child in children:
            assert child.stdin is not None
            child.stdin.write(texts)
            child.stdin.flush()
        assert [child.communicate()[0] for child in children] == ["1.0\n" * 8] * 3
        assert endpoint.counts.requests == 9


def test_a_killed_process_lets_go_of_the_request_that_it_had_under_way(tmp_path: Path) -> None:
    with LoopbackEndpoint(latency="fixed:3").in_thread() as endpoint:
        words = ["-c", GRADES, str(tmp_path), endpoint.base_url]
        with WarmPython(words, stdin=subprocess.PIPE) as there:
            assert there.stdin is not None
            print("Hello.", file=there.stdin, flush=True)
            while endpoint.counts.requests == 0:
                time.sleep(0.01)
            here = a_grader(tmp_path, endpoint)
            threading.Timer(0.2, there.kill).start()
            assert KIND.grade_sync("Hello.", here).score == 1.0
            here.close()
        assert endpoint.counts.requests == 2


def test_processes_that_write_at_the_same_time_lose_and_corrupt_nothing(tmp_path: Path) -> None:
    children = [WarmPython(["-c", RECORDS, str(tmp_path), str(first), "400"]) for first in (0, 400, 800)]
    assert [child.wait() for child in children] == [0, 0, 0]
    with closing(sqlite3.connect(tmp_path / "ledger.sqlite")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        rows = connection.execute("SELECT key FROM calls ORDER BY key").fetchall()
        assert rows == [(number.to_bytes(16, "big"),) for number in range(1200)]
        # All but the last few are in the index, each under its own call.
        indexed = connection.execute("SELECT replies.key, calls.key FROM replies JOIN calls ON id = call").fetchall()
        assert len(indexed) > 1000
        assert all(key == of_call for key, of_call in indexed)


# Grades in a child and in its parent with one grader; argv: cache directory, address of the judge.
FORKS = """
import os, sys
from pathlib import Path
from autorubric import Criterion, CriterionGrader, LLMConfig, Rubric
from autorubric.errors import LedgerError
from autorubric.llm.records.ledger import Ledger
kind = Rubric([Criterion(requirement="Is kind")])
config = LLMConfig("judge", api_base=sys.argv[2])
def in_child(grader, text):
    kind.grade_sync("one", grader)
    child = os.fork()
    if child == 0:
        try:
            print(kind.grade_sync(text, grader).score, flush=True)
        except LedgerError as error:
            print(error, flush=True)
        os._exit(0)
    os.waitpid(child, 0)
own = CriterionGrader(judge_model_config=config, run_dir=Path(sys.argv[1], "own"))
in_child(own, "two")
print(kind.grade_sync("two", own).score, kind.grade_sync("three", own).score, flush=True)
with Ledger.open(Path(sys.argv[1], "given")) as ledger:
    in_child(CriterionGrader(judge_model_config=config, ledger=ledger), "two")
"""


def test_a_forked_child_opens_the_cache_of_a_grader_again_and_refuses_a_ledger_of_its_parent(tmp_path: Path) -> None:
    with LoopbackEndpoint().in_thread() as endpoint:
        words = ["-c", FORKS, str(tmp_path), endpoint.base_url]
        with WarmPython(words, stdout=subprocess.PIPE) as forks:
            said = forks.communicate(timeout=600)[0].splitlines()
        refused = "the ledger was opened in another process; open it in this one"
        assert said == ["1.0", "1.0 1.0", refused]
        # Of the first grader three texts; of the second one text, and one whose reply could not be recorded.
        assert endpoint.counts.requests == 5
