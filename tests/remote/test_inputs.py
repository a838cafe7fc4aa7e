"""Inputs at s3:// addresses, against a real S3 server on loopback."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from autorubric import RubricDataset, extras
from autorubric.cli.app import run
from autorubric.cli.command import read_config
from autorubric.files.remote import make_path
from autorubric.rows import read_rows
from autorubric.testing import LoopbackEndpoint
from tests.remote.s3 import SECRET, Store

ROOT = Path(__file__).parents[2]
ESSAYS = ROOT / "examples" / "essays.json"
QUERIES = ROOT / "examples" / "queries.jsonl"
ROWS = [{"id": f"q{n}", "question": f"Why {n}?"} for n in range(5)]
JSONL = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
CSV = b"id,question\n" + b"".join(f"{row['id']},{row['question']}\n".encode() for row in ROWS)


def parquet(rows: list[dict[str, Any]]) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows), sink)
    return bytes(sink.getvalue())


def fields(path: str) -> list[dict[str, Any]]:
    return [record.fields for record in read_rows(path, [])]


def test_every_kind_of_rows_reads_as_its_local_file_does(store: Store) -> None:
    kinds = {
        "rows.jsonl": JSONL,
        "rows.jsonl.gz": gzip.compress(JSONL),
        "rows.csv": CSV,
        "rows": CSV.decode().encode("utf-16"),
        "deep/in/folders/rows.json": json.dumps(ROWS).encode(),
        "rows.parquet": parquet(ROWS),
    }
    assert [name for name, content in kinds.items() if fields(store.put(name, content)) != ROWS] == []


def test_a_file_of_many_blocks_comes_whole(store: Store) -> None:
    rows = [{"id": f"q{n}", "question": f"{n}" * 4000} for n in range(1500)]
    content = "".join(json.dumps(row) + "\n" for row in rows).encode()
    assert len(content) > 16 * 2**20
    assert fields(store.put("many.jsonl", content)) == rows


def test_shards_and_splits_of_a_remote_folder_are_found(store: Store) -> None:
    for split, rows in (("train", ROWS[:4]), ("test", ROWS[4:])):
        half = len(rows) // 2
        for number, part in enumerate((rows[:half], rows[half:])):
            store.put(
                f"set/data/{split}-0000{number}-of-00002.jsonl", b"".join(f"{json.dumps(r)}\n".encode() for r in part)
            )
    base = f"s3://{store.bucket}/set"
    assert fields(f"{base}/train") == ROWS[:4]
    assert fields(f"{base}/test") == ROWS[4:]
    with pytest.raises(
        ValueError, match=rf"{base}: the folder has the splits test, train; name one, such as {base}/test"
    ):
        fields(base)
    store.client.delete_object(Bucket=store.bucket, Key="set/data/train-00000-of-00002.jsonl")
    with pytest.raises(ValueError, match="1 of 2 shards are missing, such as train-00000-of-00002"):
        fields(f"{base}/train")


def test_an_object_is_copied_once_and_again_when_it_changes(store: Store) -> None:
    address = store.put("rows.jsonl", JSONL)
    assert fields(address) == fields(address) == ROWS
    assert len([one for one in store.gate.seen if one[0] == "GET" and one[1].endswith("rows.jsonl")]) == 1
    store.put("rows.jsonl", b'{"id": "new", "question": "New?"}\n')
    assert fields(address) == [{"id": "new", "question": "New?"}]


def test_remote_inputs_give_the_same_results_as_local_ones(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    essays, queries = store.put("in/essays.json", ESSAYS), store.put("in/queries.jsonl", QUERIES)
    commands = {
        "grade": (["--judge", "builtin/offline"], str(ESSAYS), essays, "results.jsonl", "dataset.json"),
        "synthesize": (["--models", "builtin/offline"], str(QUERIES), queries, "final.jsonl", "final.parquet"),
    }
    for name, (options, local, remote, *files) in commands.items():
        more = ["-f", "jsonl"] if name == "grade" else []
        for source, out in ((local, f"{name}-local"), (remote, f"{name}-remote")):
            assert run([name, source, *options, *more, "-o", out]) == 0, capsys.readouterr().err
        for file in files:
            assert Path(f"{name}-local", file).read_bytes() == Path(f"{name}-remote", file).read_bytes(), file
    manifest = Path("synthesize-remote/manifest.json").read_text("utf-8")
    assert queries in manifest
    every = b"".join(path.read_bytes() for path in Path().rglob("*") if path.is_file())
    assert SECRET.encode() not in every
    assert b"planted-key" not in every


def test_every_flag_that_names_a_file_takes_an_address(store: Store, tmp_path: Path) -> None:
    rubric = store.put("rubric.yaml", b"- name: Short\n  requirement: Contains at most 5 words.\n")
    answers = store.put("answers.csv", b"id,submission\na,Ice floats.\nb,Because water expands when it freezes.\n")
    labels = store.put("labels.csv", b"id,criterion,label\na,Short,MET\nb,Short,UNMET\n")
    prices = store.put("prices.yaml", b"builtin/offline: {input: 1, output: 2}\n")
    out = tmp_path / "run"
    grade = ["grade", answers, "--rubric", rubric, "--labels", labels, "--prices", prices]
    assert run([*grade, "--judge", "builtin/offline", "-o", str(out)]) == 0
    assert [item.ground_truth for item in RubricDataset.from_file(out / "dataset.json").items] == [["MET"], ["UNMET"]]
    assert run(["agree", str(out), "--labels", labels]) == 0
    assert run(["lint", rubric, "--fail-on", "never"]) == 0
    query = {"question": "Why?", "id": "q", "rubrics": [{"criterion": "Is right.", "points": 1}]}
    final = store.put("final.jsonl", json.dumps(query).encode())
    candidates = store.put("candidates.jsonl", b'{"id": "q", "answers": ["A.", "B."]}\n')
    chosen = ["select", final, "--candidates", candidates, "--judge", "builtin/offline", "-o", str(tmp_path / "kept")]
    assert run([*chosen, "--threshold", "0"]) in {0, 1}
    assert (tmp_path / "kept" / "decisions.jsonl").exists()
    assert run(["convert", final, str(tmp_path / "rows.jsonl"), "--to", "verl"]) == 0


def test_an_address_in_a_file_of_settings_stays_an_address(tmp_path: Path) -> None:
    from autorubric.jobs.grade import GradeSettings

    config = tmp_path / "grade.yaml"
    config.write_text("data: s3://bucket/essays.json\nrubric: rubric.yaml\n")
    values = read_config(config, GradeSettings)
    assert values == {"data": "s3://bucket/essays.json", "rubric": str(tmp_path / "rubric.yaml")}
    assert GradeSettings(data=values["data"]).to_manifest()["data"] == "s3://bucket/essays.json"


def grade(source: str, out: Path, *more: str) -> int:
    return run(["grade", source, "--judge", "builtin/offline", "-o", str(out), *more])


def test_each_address_that_cannot_be_read_has_one_clear_error(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store.put("folder/notes.bin", b"no rows")
    bucket = f"s3://{store.bucket}"
    told = {
        f"{bucket}/none.json": f"Dataset file not found: {bucket}/none.json",
        "s3://no-such-bucket/a.json": "not found: s3://no-such-bucket/a.json: The specified bucket does not exist",
        f"{bucket}/folder": f"{bucket}/folder: cannot be read: it is a folder; expected a file",
        "s3://": "s3://: the address has no bucket; expected s3://BUCKET/PATH",
        f"{bucket}/a//b.json": "the address has an empty part, '.' or '..'",
        "ftp://host/a.json": "unknown scheme 'ftp'; expected s3://, gs:// or hf://",
        "https://host/a.json?Signature=hidden": "http addresses are not read; download the file",
        f"s3://key:hidden@{store.bucket}/a.json": "leave credentials out of the address",
    }
    wrong = []
    for address, message in told.items():
        status, said = grade(address, tmp_path / "out"), capsys.readouterr().err
        if status != 2 or message not in said or "hidden" in said or (tmp_path / "out").exists():
            wrong.append(f"{address}: {status}: {said}")
    assert wrong == []


def test_a_refused_or_cut_object_is_found_before_anything_is_spent(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    address = store.put("essays.json", ESSAYS)
    with LoopbackEndpoint().in_thread() as endpoint:
        command = ["grade", address, "--judge", f"judge@{endpoint.base_url}", "-o", str(tmp_path / "out")]
        store.gate.refuses = lambda method, path: path.endswith("essays.json")
        assert run(command) == 2
        refused = capsys.readouterr().err
        store.gate.refuses = lambda method, path: False
        store.gate.cuts = lambda method, path: method == "GET" and path.endswith("essays.json")
        assert run(command) == 2
        cut = capsys.readouterr().err
        assert endpoint.counts.requests == 0
    assert f"{address}: cannot be read: " in refused
    assert f"{address}: cannot be read: " in cut
    assert SECRET not in refused + cut
    assert not (tmp_path / "out").exists()


def test_without_the_extra_the_message_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "s3fs", None)
    extras._is_installed.cache_clear()
    try:
        with pytest.raises(ValueError, match=r"s3:// needs s3fs; run: pip install 'autorubric-hub\[remote\]'"):
            make_path("s3://bucket/rows.csv")
    finally:
        monkeypatch.undo()
        extras._is_installed.cache_clear()
