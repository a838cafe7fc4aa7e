"""`--upload`, against a real S3 server on loopback."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from autorubric import grade
from autorubric.cli.app import run
from autorubric.errors import UploadError
from autorubric.testing import LoopbackEndpoint
from tests.remote.s3 import SECRET, Store

ROOT = Path(__file__).parents[2]
ESSAYS = str(ROOT / "examples" / "essays.json")
QUERIES = str(ROOT / "examples" / "queries.jsonl")
LOCAL = {"ledger", "spent.json", ".uploads.json"}


def files(out: Path) -> dict[str, bytes]:
    """The files of a run but for its ledger and what goes with it."""
    inner = [path.relative_to(out) for path in out.rglob("*") if path.is_file()]
    return {path.as_posix(): (out / path).read_bytes() for path in inner if path.parts[0] not in LOCAL}


def selection(folder: Path) -> list[str]:
    query = {"question": "Why?", "id": "q", "rubrics": [{"criterion": "Contains at most 5 words.", "points": 1}]}
    (folder / "final.jsonl").write_text(json.dumps(query) + "\n", encoding="utf-8")
    (folder / "answers.jsonl").write_text('{"id": "q", "answers": ["A.", "B."]}\n', encoding="utf-8")
    return ["select", str(folder / "final.jsonl"), "--candidates", str(folder / "answers.jsonl"), "--threshold", "0"]


def test_each_run_uploads_all_its_files_byte_by_byte_and_the_manifest_last(store: Store, tmp_path: Path) -> None:
    judge = ["--judge", "builtin/offline"]
    commands = {
        "synthesize": ["synthesize", QUERIES, "--models", "builtin/offline"],
        "grade": ["grade", ESSAYS, *judge, "-f", "csv"],
        "select": [*selection(tmp_path), *judge],
        "chosen": ["select", str(tmp_path / "grade"), "--threshold", "0.1"],
    }
    for name, command in commands.items():
        out = tmp_path / name
        store.gate.seen.clear()
        status = run([*command, "-o", str(out), "--upload", f"s3://{store.bucket}/runs/{name}/"])
        assert status == 0, name
        assert store.objects(f"runs/{name}/") == files(out), name
        assert store.gate.written(store.bucket)[-1] == f"runs/{name}/manifest.json"
        assert not any("ledger" in one for one in store.objects(f"runs/{name}/"))


def test_a_large_file_is_uploaded_in_parts(store: Store, tmp_path: Path) -> None:
    from autorubric.files.remote import put

    large = tmp_path / "large.bin"
    large.write_bytes(bytes(range(256)) * (2**20 // 8))  # 32 MiB, four parts
    put(large, f"s3://{store.bucket}/large.bin")
    assert store.objects()["large.bin"] == large.read_bytes()
    assert [method for method, path in store.gate.seen if path.endswith("large.bin")].count("PUT") == 4


def test_a_failed_upload_loses_nothing_and_the_same_command_finishes_it_without_a_call(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    with LoopbackEndpoint().in_thread() as endpoint:
        command = ["grade", ESSAYS, "--judge", f"judge@{endpoint.base_url}", "-o", str(out)]
        command += ["--upload", f"s3://{store.bucket}/run"]
        store.gate.refuses = lambda method, path: method == "PUT" and path.endswith("items.jsonl")
        assert run(command) == 1
        told = capsys.readouterr().err
        calls = endpoint.counts.requests
        assert calls > 0
        store.gate.open()
        before = files(out)
        store.gate.seen.clear()
        assert run(command) == 0
        again = store.gate.written(store.bucket)
        store.gate.seen.clear()
        assert run(command) == 0
        assert endpoint.counts.requests == calls
    assert f"s3://{store.bucket}/run/items.jsonl: cannot be written: " in told
    assert f"all results are in {out}; to retry the upload, run the same command again; it sends no requests" in told
    assert "dataset.json" in before
    assert "run/dataset.json" not in again  # it had arrived, and is unchanged
    assert "run/items.jsonl" in again
    # A finished run whose files are all there uploads nothing but what this session wrote anew.
    assert set(store.gate.written(store.bucket)) <= {"run/manifest.json"}
    assert store.objects("run/") == files(out)
    assert SECRET.encode() not in b"".join(path.read_bytes() for path in out.rglob("*") if path.is_file())


def test_an_object_that_somebody_changed_or_deleted_is_uploaded_again(store: Store, tmp_path: Path) -> None:
    command = ["grade", ESSAYS, "--judge", "builtin/offline", "-o", str(tmp_path / "out")]
    command += ["--upload", f"s3://{store.bucket}/run"]
    assert run(command) == 0
    store.put("run/items.jsonl", b"changed")
    store.client.delete_object(Bucket=store.bucket, Key="run/dataset.json")
    assert run(command) == 0
    assert store.objects("run/") == files(tmp_path / "out")


def test_each_destination_that_cannot_be_used_is_refused_before_anything_is_spent(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bucket = store.bucket
    store.put("other/manifest.json", b"{}")
    told = {
        "s3://no-such-bucket/run": "not found: s3://no-such-bucket/run: The specified bucket does not exist",
        f"s3://{bucket}/closed": f"s3://{bucket}/closed: cannot be written: ",
        f"s3://{bucket}/other": f"s3://{bucket}/other: contains the files of another run",
        "ftp://host/run": "unknown scheme 'ftp'; expected s3://, gs:// or hf://",
        "some/folder": "is not an address; expected s3://BUCKET/PATH or gs://BUCKET/PATH",
        "hf://datasets/me/set": "hf:// is only read; upload the run directory with `hf upload`",
        f"s3://key:hidden@{bucket}/run": "leave credentials out of the address",
    }
    wrong = []
    store.gate.refuses = lambda method, path: method == "PUT" and "/closed/" in path
    with LoopbackEndpoint().in_thread() as endpoint:
        judged = ["--judge", f"judge@{endpoint.base_url}"]
        commands = (
            ["grade", ESSAYS, *judged],
            ["synthesize", QUERIES, "--models", judged[1]],
            [*selection(tmp_path), *judged],
        )
        for command in commands:
            for address, message in told.items():
                status = run([*command, "-o", str(tmp_path / "out"), "--upload", address])
                said = capsys.readouterr().err
                if status != 2 or message not in said or "hidden" in said or SECRET in said:
                    wrong.append(f"{command[0]} {address}: {status}: {said}")
        assert endpoint.counts.requests == 0
    assert wrong == []
    assert not (tmp_path / "out").exists()
    assert store.objects() == {"other/manifest.json": b"{}"}


def test_another_run_at_the_destination_is_written_over_with_replace(store: Store, tmp_path: Path) -> None:
    store.put("run/manifest.json", b"{}")
    command = ["grade", ESSAYS, "--judge", "builtin/offline", "-o", str(tmp_path / "out")]
    command += ["--upload", f"s3://{store.bucket}/run"]
    assert run(command) == 2
    assert run([*command, "--replace"]) == 0
    assert store.objects("run/") == files(tmp_path / "out")


def test_where_deleting_is_not_allowed_the_write_test_stays(store: Store, tmp_path: Path) -> None:
    store.gate.refuses = lambda method, path: method == "DELETE"
    command = ["grade", ESSAYS, "--judge", "builtin/offline", "-o", str(tmp_path / "out")]
    assert run([*command, "--upload", f"s3://{store.bucket}/run"]) == 0
    store.gate.open()
    assert store.objects("run/") == {**files(tmp_path / "out"), ".autorubric-write-test": b""}


def test_a_run_that_is_not_complete_is_not_uploaded(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with LoopbackEndpoint(replier=lambda body: "no verdict").in_thread() as endpoint:
        command = ["grade", ESSAYS, "--judge", f"judge@{endpoint.base_url}", "-o", str(tmp_path / "out")]
        assert run([*command, "--upload", f"s3://{store.bucket}/run"]) == 1
    assert f"nothing was uploaded to s3://{store.bucket}/run: the run is not complete" in capsys.readouterr().err
    assert store.objects() == {}


def test_a_dry_run_writes_nothing_at_the_destination(store: Store, tmp_path: Path) -> None:
    command = ["grade", ESSAYS, "--judge", "builtin/offline", "-o", str(tmp_path / "out"), "--dry-run"]
    assert run([*command, "--upload", f"s3://{store.bucket}/run"]) == 0
    assert store.gate.written(store.bucket) == []
    assert store.objects() == {}


def test_a_remote_run_directory_is_refused_with_advice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with LoopbackEndpoint().in_thread() as endpoint:
        command = ["grade", ESSAYS, "--judge", f"judge@{endpoint.base_url}"]
        assert run([*command, "-o", "s3://bucket/run"]) == 2
        assert run([*command, "-o", str(tmp_path / "out"), "--log-json", "s3://bucket/log.jsonl"]) == 2
        assert endpoint.counts.requests == 0
    told = capsys.readouterr().err
    assert "a run and its ledger are local; pass a local directory, and --upload s3://bucket/run" in told
    assert "--log-json is 's3://bucket/log.jsonl'; expected a path on this machine" in told


def test_the_function_raises_and_uploads_as_the_command_does(store: Store, tmp_path: Path) -> None:
    out, address = tmp_path / "out", f"s3://{store.bucket}/run"
    store.gate.refuses = lambda method, path: method == "PUT" and path.endswith("manifest.json")
    with pytest.raises(UploadError, match="cannot be written"):
        grade(ESSAYS, judge="builtin/offline", out=out, upload=address)
    store.gate.open()
    assert grade(ESSAYS, judge="builtin/offline", out=out, upload=address).get_scores()
    assert store.objects("run/") == files(out)
