"""What the commands write, read by the library most trainers read data with."""

from __future__ import annotations

import json
from pathlib import Path

import datasets
import pytest

from autorubric.cli.app import run

QUERIES = ["Why does ice float on water?", "Write a haiku about rain in three lines.", "水为什么会结冰？"]


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    """A run of the full method."""
    source, out = tmp_path / "queries.jsonl", tmp_path / "out"
    source.write_text("".join(json.dumps({"question": query}) + "\n" for query in QUERIES))
    command = ["synthesize", str(source), "--out", str(out), "--profile", "full"]
    assert run([*command, "--models", "builtin/offline"]) == 0
    return out


def test_every_final_file_of_the_full_method_is_read(finished: Path, tmp_path: Path) -> None:
    for name in ("final.parquet", "final_full.parquet", "rubrichub/RuRL/*.parquet"):
        files = str(finished / name)
        read = datasets.load_dataset("parquet", data_files=files, split="train", cache_dir=str(tmp_path / "cache"))
        assert len(read) == len(QUERIES), name
    for name in ("final.jsonl", "final_full.jsonl"):
        files = str(finished / name)
        read = datasets.load_dataset("json", data_files=files, split="train", cache_dir=str(tmp_path / "cache"))
        assert len(read) == len(QUERIES), name


def test_the_card_names_the_files_that_are_read(finished: Path, tmp_path: Path) -> None:
    cache = str(tmp_path / "cache")
    assert len(datasets.load_dataset(str(finished), split="train", cache_dir=cache)) == len(QUERIES)
    release = datasets.load_dataset(str(finished), "rubrichub", split="train", cache_dir=cache)
    assert release[0]["reward_model"]["style"] == "rubric"


def test_selected_answers_are_read(finished: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    command = ["select", str(finished / "final.jsonl"), "--sample", "builtin/offline", "-k", "2", "--threshold", "0"]
    assert run([*command, "--judge", "builtin/offline", "-o", str(kept)]) == 0
    for name, reader in (("selected.parquet", "parquet"), ("chat.jsonl", "json"), ("trl_sft.jsonl", "json")):
        files = str(kept / name)
        read = datasets.load_dataset(reader, data_files=files, split="train", cache_dir=str(tmp_path / "cache"))
        assert len(read) > 0, name
