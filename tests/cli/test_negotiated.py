"""What endpoints do not take: sent otherwise, told once, and kept in the manifest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from autorubric import Criterion, Rubric, RubricDataset
from autorubric.cli.app import run
from autorubric.testing import LoopbackEndpoint
from tests.synthesis.conftest import model_flags, write_queries


def noted(out: Path) -> list[str]:
    manifest: dict[str, Any] = json.loads((out / "manifest.json").read_text())
    return [note.partition(" does not accept ")[2] for note in manifest["negotiated"]]


@pytest.mark.usefixtures("forked")
def test_grading_tells_it_once_and_a_later_session_keeps_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dataset = RubricDataset("Explain.", Rubric([Criterion(requirement="Is kind.")]))
    for number in range(5):
        dataset.add_item(f"Essay number {number}.", f"essay {number}")
    dataset.to_file(tmp_path / "essays.json")
    whole, divided = tmp_path / "run", tmp_path / "divided"
    with LoopbackEndpoint(rejects=["temperature", "response_format.json_schema"]).in_thread() as endpoint:
        command = ["grade", str(tmp_path / "essays.json"), "--judge", f"m@{endpoint.base_url}"]
        # In the summary and in `status`; the merge of shards keeps what they learned.
        for out, flags in ((whole, []), (whole, []), (divided, ["--processes", "2"])):
            assert run([*command, "-o", str(out), *flags]) == 0
            assert run(["status", str(out)]) == 0
            told = capsys.readouterr().out.splitlines()
            assert [
                line.split("does not accept ")[1] for line in told if f" m at {endpoint.base_url} does" in line
            ] == ["temperature (left out), a json_schema response_format (requested JSON without a schema)"] * 2, told
            assert sorted(noted(out)) == [
                "a json_schema response_format for m; requested JSON without a schema",
                "temperature for m; left out",
            ]


def test_synthesis_tells_only_what_may_change_replies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    queries = write_queries(tmp_path / "q.jsonl", "Why?", "How?")
    with LoopbackEndpoint(rejects=["max_tokens", "temperature"]).in_thread() as endpoint:
        flags = ["--id-column", "id", *model_flags(endpoint.base_url)]
        assert run(["synthesize", str(queries), "--out", str(tmp_path / "out"), *flags]) == 0
    told = capsys.readouterr().out
    assert (told.count("does not accept temperature (left out)\n"), told.count("max_tokens")) == (5, 0), told
    assert len(noted(tmp_path / "out")) == 12


def test_nothing_is_told_where_everything_was_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    queries = write_queries(tmp_path / "q.jsonl", "Why?")
    with LoopbackEndpoint().in_thread() as endpoint:
        flags = ["--id-column", "id", *model_flags(endpoint.base_url)]
        assert run(["synthesize", str(queries), "--out", str(tmp_path / "out"), *flags]) == 0
    assert "note:" not in capsys.readouterr().out
    assert noted(tmp_path / "out") == []


@pytest.mark.parametrize(
    ("file", "text", "constrained"),
    [
        ("rubric.jinja", 'Criteria for {{ query }}? Reply with a JSON array: [{"title": "..."}]', False),
        ("rubric.jinja", "{{ query }}: a list of objects with title, description and weight.", False),
        ("rubric.jinja", '{{ query }}? Reply with {"criteria": [{"title": "..."}]}', True),
        ("rubric.jinja", "Name criteria for {{ query }}. Reply as JSON.", True),
        ("rubric_generation.txt", "<<query>> <<reference>> Output a JSON array.", False),
        ("rubric_generation.txt", "<<query>> <<reference>> 请输出 JSON 数组", False),
    ],
)
def test_a_prompt_that_asks_for_a_list_is_sent_without_the_schema_of_an_object(
    file: str, text: str, constrained: bool, tmp_path: Path
) -> None:
    queries = write_queries(tmp_path / "q.jsonl", "Why?")
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / file).write_text(text)
    with LoopbackEndpoint().in_thread() as endpoint:
        flags = ["--id-column", "id", *model_flags(endpoint.base_url), "--prompts", str(tmp_path / "prompts")]
        run(["synthesize", str(queries), "--out", str(tmp_path / "out"), *flags, "--retry", "0"])
        forms = {received.body["model"]: "response_format" in received.body for received in endpoint.received}
    assert (forms["m-rubric-a"], forms["m-rubric-b"]) == (constrained, constrained)
    assert forms.get("m-merge", True)
