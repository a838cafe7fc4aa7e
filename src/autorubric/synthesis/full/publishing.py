"""What stands beside the final files: the dataset card."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from autorubric.synthesis.card import count_facts, run_facts, write_card
from autorubric.synthesis.steps import read_rows


def publish_card(directory: Path, manifest: Mapping[str, Any], license: str) -> None:
    """Write `README.md` with its plots from `final_full.jsonl` and what the manifest says of the run."""
    rows: Iterator[dict[str, Any]] = read_rows(directory / "final_full.jsonl")
    write_card(directory, count_facts(rows, run_facts(manifest, directory.resolve().name, license)))
