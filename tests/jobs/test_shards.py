"""Runs divided into shards and merged: the files of one process, no call paid twice, wrong shards refused."""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from autorubric import EvalResult, RubricDataset, grade, grade_async, merge, merge_async
from autorubric.cli.app import run
from autorubric.errors import RunLockedError
from autorubric.llm.records.lock import run_lock
from autorubric.runs.shard import Shard
from benchmarks.batch_services.books import BatchFaults
from benchmarks.batch_services.endpoint import BatchEndpoint
from tests.cli.in_process import NearEndpoint
from tests.offenders import offenders

ROOT = Path(__file__).parents[2]
ESSAYS = ROOT / "tests" / "data" / "essay_grading_dataset.json"
QUERIES = ROOT / "examples" / "queries.jsonl"
OFFLINE = "builtin/offline"

_DURATION = re.compile(rb'"duration_seconds":[\d.]+')


def rubrics(folder: Path) -> Path:
    """Five queries with a rubric each, two of them equal."""
    path = folder / "rubrics.jsonl"
    texts = [
        "Why is the sky blue?",
        "Why does ice float?",
        "Why is the sky blue?",
        "What is a noun?",
        "Who was Bach?",
    ]
    rubric = [{"criterion": "Contains at least 3 words.", "points": 3}, {"criterion": "Names a cause.", "points": 5}]
    rows = [{"question": text, "id": f"q{n}", "rubrics": rubric} for n, text in enumerate(texts)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def essays(folder: Path) -> Path:
    """The essays without ids, the first one twice."""
    data = json.loads(ESSAYS.read_text())
    data["items"] = [{key: item[key] for key in item if key != "id"} for item in data["items"][:6]]
    data["items"].append(data["items"][0])
    path = folder / "essays.json"
    path.write_text(json.dumps(data))
    return path


def written(directory: Path) -> dict[str, bytes]:
    """The files that users read, without what says when and how the run was made."""
    paths = [path for path in directory.rglob("*") if path.is_file() and "ledger" not in path.parts]
    files = {str(path.relative_to(directory)): path.read_bytes() for path in paths}
    return {
        name: _DURATION.sub(b"", content)
        for name, content in files.items()
        if name not in ("manifest.json", "run.lock", "run.holder")
    }


def different(one: Path, other: Path) -> list[str]:
    files, others = written(one), written(other)
    return sorted(name for name in files | others if files.get(name) != others.get(name))


def calls(directory: Path) -> list[Any]:
    with closing(sqlite3.connect(directory / "ledger" / "ledger.sqlite")) as connection:
        return sorted(connection.execute("SELECT item, role, key, status FROM calls").fetchall())


def jobs(folder: Path, url: str) -> dict[str, tuple[int, list[str]]]:
    graded = ["grade", str(essays(folder)), "-f", "csv", "-f", "parquet", "--judge", f"a@{url}", "--judge", OFFLINE]
    selected = ["select", str(rubrics(folder)), "--judge", OFFLINE, "--threshold", "0.1"]
    made = ["synthesize", str(QUERIES), "--models", OFFLINE, "--limit"]
    return {
        "panel": (2, graded),
        "cascade": (3, [*graded, "--escalate-to", f"strong@{url}"]),
        "checks": (3, ["grade", str(checked(folder))]),
        "sampled": (3, [*selected, "--sample", OFFLINE, "-k", "2", "--keep", "all"]),
        "basic": (2, [*made, "5"]),
        "full": (2, [*made, "3", "--profile", "full"]),
    }


def checked(folder: Path) -> Path:
    """Two items that a check decides: with three shards at least one is empty."""
    rubric = [
        {
            "name": "Short",
            "weight": 1,
            "requirement": "Contains at most 2 words.",
            "check": {"name": "word_count", "parameters": {"at_most": 2}},
        }
    ]
    items = [{"submission": text, "description": ""} for text in ("Two words.", "These are four words.")]
    path = folder / "checked.json"
    path.write_text(json.dumps({"prompt": "Answer.", "rubric": rubric, "items": items}))
    return path


@pytest.mark.parametrize("name", ["panel", "cascade", "checks", "sampled", "basic", "full"])
def test_merged_shards_are_the_run_of_one_process_byte_for_byte(tmp_path: Path, name: str) -> None:
    with NearEndpoint() as endpoint:
        shards, command = jobs(tmp_path, endpoint.base_url)[name]
        whole, merged = tmp_path / "whole" / "run", tmp_path / "merged" / "run"
        assert run([*command, "-o", str(whole)]) == 0
        asked = endpoint.stats()["requests"]
        parts = [str(tmp_path / f"part-{n}") for n in range(1, shards + 1)]
        for number, part in enumerate(parts, start=1):
            # A shard in which nothing was to be selected leaves with status 1.
            assert run([*command, "-o", part, "--shard", f"{number}/{shards}"]) in (0, 1)
        assert endpoint.stats()["requests"] == 2 * asked  # no request is sent by two shards
        for _ in range(2):  # the second time finds nothing new
            assert run(["merge", *reversed(parts), "-o", str(merged)]) == 0
            assert different(whole, merged) == []
            assert calls(merged) == calls(whole)
        assert run([*command, "-o", str(merged)]) == 0  # the ordinary command goes on from there
        assert calls(merged) == calls(whole)
        assert different(whole, merged) == []
        assert endpoint.stats()["requests"] == 2 * asked


def test_wrong_shards_are_refused_with_every_problem_and_leave_no_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, other = checked(tmp_path), tmp_path / "other.json"
    other.write_text(data.read_text().replace("Two words", "2 words"))

    def part(name: str, *flags: str, source: Path = data) -> str:
        assert run(["grade", str(source), "-o", str(tmp_path / name), *flags]) == 0
        return str(tmp_path / name)

    one, two, whole = part("one", "--shard", "1/2"), part("two", "--shard", "2/2"), part("whole")
    three = part("three", "--shard", "3/3")
    changed = part("changed", "--shard", "2/2", source=other)
    skipping = part("skipping", "--shard", "2/2", "--on-failure", "skip")
    unfinished = json.loads((tmp_path / "two" / "manifest.json").read_text())
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "manifest.json").write_text(
        json.dumps({**unfinished, "status": "failed", "completed_indices": [], "total_items": 1})
    )
    cases = {
        "missing": ([one], "missing: shard 2/2"),
        "twice": ([one, one, two], f"shard 1/2 is given twice: {one} and {one}"),
        "whole run": ([one, two, whole], f"{whole} is a whole run; expected a run with --shard I/N"),
        "another number": (
            [one, three],
            f"{three} is a shard of another run than {one}: number of shards 3, there 2",
        ),
        "another input": ([one, changed], f"{changed} is a shard of another run than {one}: its input of 2 rows"),
        "other settings": ([one, skipping], "on_failure: skip, there none"),
        "unfinished": (
            [one, str(tmp_path / "half")],
            f"shard 2/2 ({tmp_path / 'half'}) is not finished; finish it with: ",
        ),
        "no run": ([str(tmp_path)], f"{tmp_path} is not a run directory: it has no readable manifest.json"),
    }
    with offenders() as case:
        for name, (given, message) in cases.items():
            with case(name):
                assert run(["merge", *given, "-o", str(tmp_path / "merged")]) == 2
                assert message in capsys.readouterr().err
                assert not (tmp_path / "merged").exists()
    data.write_text(other.read_text())
    assert run(["merge", one, two, "-o", str(tmp_path / "merged")]) == 2
    assert "the input has changed since the shards ran" in capsys.readouterr().err
    assert not (tmp_path / "merged").exists()
    for text in ("0/2", "3/2", "1", "a/b", "1/0"):
        assert run(["grade", str(data), "--shard", text, "-o", str(tmp_path / "wrong")]) == 2
        assert "--shard" in capsys.readouterr().err
    assert run(["grade", str(data), "--shard", "1/2", "-o", whole]) == 2
    assert "shard: none before, now 1/2" in capsys.readouterr().err


async def test_a_merge_names_a_shard_that_runs_or_waits_for_it(tmp_path: Path) -> None:
    data, parts = checked(tmp_path), [tmp_path / "one", tmp_path / "two"]
    for number, part in enumerate(parts, 1):
        await grade_async(data, out=part, shard=f"{number}/2")
    manifest = parts[0] / "manifest.json"
    ended = manifest.read_text()
    with run_lock(parts[0] / "ledger"):
        manifest.write_text(json.dumps({**json.loads(ended), "status": "running"}))
        for partial in (False, True):
            with pytest.raises(RunLockedError, match="one/ledger is in use by another run of this process"):
                await merge_async(parts, out=tmp_path / "merged", partial=partial)
        merging = asyncio.create_task(merge_async(parts, out=tmp_path / "merged", wait=True))
        await asyncio.sleep(0.1)
        manifest.write_text(ended)
    result = await merging
    assert isinstance(result, EvalResult)
    assert result.successful_items == 2


def test_a_partial_merge_keeps_failures_and_takes_in_later_shards(tmp_path: Path) -> None:
    """A row that the first merge lacks, and one whose calls failed, are in the second."""
    command = ["synthesize", str(QUERIES), "--limit", "4", "--models", OFFLINE]
    whole, merged = tmp_path / "whole" / "run", tmp_path / "merged" / "run"
    parts = [str(tmp_path / f"part-{n}") for n in (1, 2)]
    assert run([*command, "-o", str(whole)]) == 0
    assert run([*command, "-o", parts[0], "--shard", "1/2"]) == 0
    assert run(["merge", parts[0], "-o", str(merged), "--partial"]) == 1
    held = len(calls(merged))
    assert held == len(calls(Path(parts[0]))) < len(calls(whole))
    assert run([*command, "-o", parts[1], "--shard", "2/2"]) == 0
    assert run(["merge", *parts, "-o", str(merged)]) == 0
    assert calls(merged) == calls(whole)
    assert different(whole, merged) == []


def test_shards_with_open_batches_and_a_shard_as_output_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The merged run would not know of the batches, and send their requests a second time."""
    with BatchEndpoint(batches=BatchFaults(endless=1)).in_thread() as endpoint:
        monkeypatch.setenv("OPENAI_BASE_URL", endpoint.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-planted")
        command = ["grade", str(essays(tmp_path)), "--limit", "2", "--judge", "openai/m"]
        command += ["--batch", "--batch-detach", "--batch-poll", "0.05"]
        part = str(tmp_path / "part")
        assert run([*command, "-o", part, "--shard", "1/1"]) == 3
        assert run(["merge", part, "-o", str(tmp_path / "merged"), "--partial"]) == 2
        said = capsys.readouterr().err
        assert re.search(rf"{part}: \d+ requests in 1 open batch would be paid for twice; collect them first: ", said)
        assert not (tmp_path / "merged").exists()
    assert run(["merge", part, "-o", part, "--partial"]) == 2
    assert f"{part} is one of the shards; pass another directory with --out" in capsys.readouterr().err


def test_shards_may_differ_in_whether_they_send_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with BatchEndpoint(batches=BatchFaults()).in_thread() as endpoint:
        monkeypatch.setenv("OPENAI_BASE_URL", endpoint.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-planted")
        command = ["grade", str(essays(tmp_path)), "--judge", "openai/m"]
        parts = [str(tmp_path / f"part-{index}") for index in (1, 2)]
        batch = ["--batch", "--batch-poll", "0.05"]
        for index, more in ((1, batch), (2, []), (1, [*batch, "--batch-cancel"])):
            assert run([*command, *more, "-o", parts[index - 1], "--shard", f"{index}/2"]) == 0
    assert run(["merge", *parts, "-o", str(tmp_path / "merged")]) == 0


def test_a_shard_without_its_ledger_or_with_changed_verdicts_is_refused_until_it_has_run_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = ["synthesize", str(QUERIES), "--limit", "4", "--models", OFFLINE]
    commands = {"graded": ["grade", str(essays(tmp_path)), "--judge", OFFLINE], "made": made}
    with offenders() as case:
        for name, command in commands.items():
            first, second, merged = (tmp_path / f"{name}-{part}" for part in ("first", "second", "merged"))
            merging = ["merge", str(first), str(second), "-o", str(merged)]
            assert run([*command, "-o", str(first), "--shard", "1/2"]) == 0
            assert run([*command, "-o", str(second), "--shard", "2/2"]) == 0
            ledger = first / "ledger" / "ledger.sqlite"
            whole = ledger.read_bytes()
            ledger.unlink()
            with case(f"{name} without a ledger"):
                assert run(merging) == 1
                assert f"{ledger} is missing, but manifest.json records" in capsys.readouterr().err
            ledger.write_bytes(whole)
            items = first / "items.jsonl"
            if items.exists():
                text = items.read_text()
                items.write_text(text.replace('"score":0', '"score":1', 1))
                assert items.read_text() != text
                with case(f"{name} with a changed score"):
                    assert run(merging) == 2
                    assert f"{items} has changed since the shard wrote it; run the" in capsys.readouterr().err
                assert run([*command, "-o", str(first), "--shard", "1/2"]) == 0
            assert run(merging) == 0
            assert run([*command, "-o", str(tmp_path / name / merged.name)]) == 0
            with case(f"{name} merged in the end"):
                assert different(tmp_path / name / merged.name, merged) == []


def test_a_partial_merge_of_grades_asks_for_shards(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, part = str(essays(tmp_path)), str(tmp_path / "part")
    assert run(["grade", data, "--judge", OFFLINE, "-o", part, "--shard", "1/2"]) == 0
    assert run(["merge", part, "-o", str(tmp_path / "merged"), "--partial"]) == 1
    said = capsys.readouterr().out
    assert "finish or add the missing shards, then merge again with:" in said
    assert "retry what failed" not in said


def test_the_shards_of_python_callers_are_merged_too(tmp_path: Path) -> None:
    data = checked(tmp_path)
    for index in (1, 2):
        grade(data, shard=f"{index}/2", out=tmp_path / f"part-{index}")
    result = merge([tmp_path / "part-1", tmp_path / "part-2"], out=tmp_path / "merged")
    assert isinstance(result, EvalResult)
    assert result.get_scores() == [1.0, 0.0]
    with pytest.raises(ValueError, match="data: expected the path of a file or a string, got a Python object"):
        grade(RubricDataset.from_file(data), shard="1/2", out=tmp_path / "no")


def test_every_record_is_in_exactly_one_shard() -> None:
    texts = [f"query {n}" for n in range(200)]
    for of in (1, 2, 7):
        shards = [Shard(index, of) for index in range(1, of + 1)]
        held = [[text for text in texts if shard.has(text)] for shard in shards]
        assert sorted(text for some in held for text in some) == sorted(texts)
        # With 200 records, a share of 1/7 has a mean of 28.6 and a standard deviation of 4.9.
        assert min(map(len, held)) >= 200 / of / 2
