"""The main commands against servers that we did not write: results, or the server's own words; never a guess."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests_servers.conftest import Up
from tests_servers.servers import KEY, SAID

SECONDS = 300
KEY_ENV = "TEST_SERVERS_KEY"
QUERIES = ("Why does ice float on water?", "What is a prime number?", "Name the capital of France.")
SUBMISSIONS = ("Ice is less dense than water.", "Because of hydrogen bonds.", "I do not know.", "Ice is cold.")
CRITERIA = ("Says that ice is less dense than water.", "Names hydrogen bonds.")


def autorubric(*flags: str, cwd: Path) -> tuple[int, str]:
    """Status and output of a command; an unhandled error or a command that does not end fails the test."""
    environment = {**os.environ, KEY_ENV: KEY, "VLLM_API_KEY": KEY, "COLUMNS": "200"}
    command = [sys.executable, "-m", "autorubric", *flags]
    ended = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    told = ended.stdout + ended.stderr
    assert "Traceback" not in told and "internal error" not in told, told
    assert KEY not in told, "the key is shown"
    return ended.returncode, told


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def findings(told: str, subject: str) -> list[dict[str, str]]:
    return [finding for finding in json.loads(told) if finding["subject"] == subject]


def test_doctor_finds_nothing_wrong_with_a_server_that_works(up: Up, tmp_path: Path) -> None:
    models = [flag for model in dict.fromkeys(up.judges) for flag in ("--model", model)]
    status, told = autorubric(
        "doctor", "--json", "--base-url", up.base_url, "--api-key-env", KEY_ENV, *models, cwd=tmp_path
    )
    assert [finding["verdict"] for finding in findings(told, "endpoint")] == ["ok"], told
    problems = [finding for finding in findings(told, "model") if finding["verdict"] == "problem"]
    # `transformers serve` lists nothing and refuses a revision in the name; everything else answers.
    assert len(problems) == up.judges[1].endswith("@main"), told
    assert status == bool(problems)


def test_doctor_tells_a_model_that_is_not_there(up: Up, tmp_path: Path) -> None:
    flags = ("--base-url", up.base_url, "--api-key-env", KEY_ENV, "--model", "no-such-model-here")
    status, told = autorubric("doctor", "--json", *flags, cwd=tmp_path)
    [found] = findings(told, "model")
    if up.server.answers_any_name:
        assert status == 0 and "answers" in found["value"], told
    else:
        assert status == 1 and found["verdict"] == "problem", told


def test_a_forgotten_v1_is_told(up: Up, tmp_path: Path) -> None:
    status, told = autorubric("doctor", "--json", "--base-url", up.address, "--api-key-env", KEY_ENV, cwd=tmp_path)
    [found] = findings(told, "endpoint")
    if status == 0:  # llama.cpp, litellm and others answer without it too
        assert found["verdict"] == "ok"
        return
    assert found["advice"] == f"the base URL is probably {up.base_url}, which answers"
    dataset = written_dataset(tmp_path)
    flags = ("--judge", f"{up.judges[0]}@{up.address}", "--judge-key-env", KEY_ENV)
    status, told = autorubric("grade", str(dataset), "-o", "graded", *flags, cwd=tmp_path)
    assert status == 2
    assert "HTTP 404" in told and f"{up.address}/chat/completions" in told and "usually end in /v1" in told


def written_dataset(folder: Path) -> Path:
    path = folder / "dataset.json"
    rubric = [{"weight": weight, "requirement": text} for weight, text in zip((3, 2), CRITERIA, strict=True)]
    items = [{"submission": text, "description": text} for text in SUBMISSIONS]
    path.write_text(json.dumps({"name": "ice", "prompt": QUERIES[0], "rubric": rubric, "items": items}))
    return path


def graded(up: Up, folder: Path, *judges: str, retry: int = 1) -> tuple[int, str]:
    seats = [flag for judge in judges for flag in ("--judge", f"{judge}@{up.base_url}")]
    limits = ("--judge-key-env", KEY_ENV, "-j", "4", "--max-tokens", "200", "--max-tokens-ceiling", "400")
    log = ("--retry", str(retry), "--log-json", "calls.jsonl", "--log-prompts")
    return autorubric("grade", str(written_dataset(folder)), "-o", "graded", *seats, *limits, *log, cwd=folder)


def votes(folder: Path) -> list[dict[str, Any]]:
    """Every judge's vote on every criterion of every item."""
    found = []
    for row in rows(folder / "graded" / "items.jsonl"):
        reports = row["report"]["criterion_reports"]
        found += [vote for report in reports for vote in report.get("votes") or [report]]
    return found


def test_every_judgment_is_what_the_server_said_or_a_failure_that_says_why(up: Up, tmp_path: Path) -> None:
    status, told = graded(up, tmp_path, *up.judges)
    if up.judges[1].endswith("@main"):  # refused by name: the run ends before anything is paid, or fails each call
        assert "requested" in told or "does not exist" in told, told
        status, told = graded(up, tmp_path, up.judges[0])
    calls = rows(tmp_path / "calls.jsonl")
    replies = [" ".join(call["reply"].split()) for call in calls if call.get("reply")]
    statuses = {f"HTTP {call['http_status']}" for call in calls if call["http_status"]}
    found = votes(tmp_path)
    assert len(found) >= len(SUBMISSIONS) * len(CRITERIA)
    for vote in found:
        said = vote.get("verdict")
        if said is not None:
            assert any(f'"{said}"' in reply for reply in replies), vote
            continue
        error = vote["error"]
        quoted = any(reply[:20] in error for reply in replies if len(reply) >= 20)
        cut_off = "the reply was cut off at" in error
        assert quoted or cut_off or any(status in error for status in statuses), vote
        assert not error.startswith("unknown"), vote
    failed = [vote for vote in found if vote.get("verdict") is None]
    assert status == (1 if failed else 0), told
    if up.server.says_what_it_is_told:
        assert sorted(vote["verdict"] for vote in found) == ["MET"] * 8 + ["UNMET"] * 8


def test_a_server_that_fails_is_quoted(up: Up, tmp_path: Path) -> None:
    for model, words in up.server.failing.items():
        folder = tmp_path / model
        folder.mkdir()
        # A rate limit is waited for, up to minutes, where retries are allowed.
        retry = 0 if model == "limited" else 1
        status, told = graded(up, folder, model, retry=retry)
        assert status == 1, told
        assert all(vote["verdict"] is None and words in vote["error"] for vote in votes(folder)), votes(folder)
        attempts = {call["attempt"] for call in rows(folder / "calls.jsonl")}
        assert attempts == {*range(1, retry + 2)}
        kinds = {call["status"] for call in rows(folder / "calls.jsonl")}
        assert kinds == {"rate_limit" if model == "limited" else "server"}


def test_synthesis_ends_in_rubrics_or_in_reasons(up: Up, tmp_path: Path) -> None:
    (tmp_path / "queries.jsonl").write_text("".join(json.dumps({"question": text}) + "\n" for text in QUERIES))
    roles = {
        "reference": "",
        "response-a": "",
        "response-b": "",
        "rubric-a": "",
        "rubric-b": "",
        "merge": "",
        "augment": "",
    }
    flags: list[str] = []
    for role in roles:
        kind, _, letter = role.partition("-")
        model = up.server.writer if kind in ("reference", "response") else up.server.drafter
        flags += [f"--{kind}-model{'-' + letter if letter else ''}", f"vllm/{up.name(model)}"]
        flags += [f"--{role}-base-url", up.base_url]
    for kind in ("ref", "response", "rubric", "merge", "augment"):
        flags += [f"--{kind}-max-tokens", "200"]
    flags += ["--max-tokens-ceiling", "400", "--retry", "1", "-j", "4"]
    status, told = autorubric("synthesize", "queries.jsonl", "--out", "out", *flags, cwd=tmp_path)
    finished, unfinished = rows(tmp_path / "out" / "final.jsonl"), rows(tmp_path / "out" / "unfinished.jsonl")
    assert len(finished) + len(unfinished) == len(QUERIES), told
    for row in unfinished:
        assert row["failures"] and all(row["failures"].values()), row
    assert status == (1 if unfinished else 0), told
    if up.server.says_what_it_is_told:
        assert status == 0, told
        asked = {item["description"] for item in json.loads(SAID["drafter"])["criteria"]}
        assert all({item["criterion"] for item in row["rubrics"]} == asked for row in finished), finished


@pytest.mark.parametrize("path", ["/openai/deployments/gpt-x?api-version=2025-04-01-preview", "/openai/v1"])
def test_azure_addresses_keep_their_query_and_take_the_key(up: Up, path: str, tmp_path: Path) -> None:
    if up.server.name != "llm-katan":
        pytest.skip("only llm-katan speaks Azure's protocol")
    flags = ("--base-url", up.address + path, "--model", "gpt-x", "--api-key-env", KEY_ENV)
    status, told = autorubric("doctor", "--json", *flags, cwd=tmp_path)
    assert status == 0, told
    assert "answers" in findings(told, "model")[0]["value"]
