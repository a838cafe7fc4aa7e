"""What stands beside the final files: the layout of the RubricHub release, and the dataset card."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from autorubric.core.criterion import Criterion
from autorubric.formats.record import Record
from autorubric.formats.release_folder import write_release
from autorubric.synthesis.card import count_facts, run_facts, write_card
from autorubric.synthesis.steps import read_rows

RELEASE_FOLDER = "rubrichub"
_ABILITIES = {
    "medical": "Medical",
    "science": "Science",
    "writing": "Writing",
    "instruction_following": "Instruction_Following",
}


def publish_release(directory: Path) -> dict[str, int]:
    """Write `final_full.jsonl` in the layout of the RubricHub release, one file a domain; how many rows in which."""
    records = map(release_record, read_rows(directory / "final_full.jsonl"))
    return dict(write_release(directory / RELEASE_FOLDER, records))


def release_record(row: Mapping[str, Any]) -> Record:
    """The rubric of a `final_full` row as formats know it, under the release's name of its domain.

    Example:
        >>> row = {"prompt": [{"role": "user", "content": "Why?"}], "id": "q1", "domain": "medical",
        ...     "criteria": [{"description": "Says why.", "weight": 5, "check": None}]}
        >>> release_record(row).domain
        'Medical'
    """
    criteria = tuple(
        Criterion(
            weight=one["weight"],
            requirement=one["description"],
            check=json.loads(one["check"]) if one["check"] else None,
        )
        for one in row["criteria"]
    )
    domain = _ABILITIES.get(row["domain"], row["domain"])
    return Record(criteria, list(row["prompt"]), row["id"], domain=domain)


def publish_card(directory: Path, manifest: Mapping[str, Any], license: str, released: bool) -> None:
    """Write `README.md` with its plots from `final_full.jsonl` and what the manifest says of the run."""
    files = {"default": "final_full.parquet"}
    if released:
        files["rubrichub"] = f"{RELEASE_FOLDER}/RuRL/*.parquet"
    rows: Iterator[dict[str, Any]] = read_rows(directory / "final_full.jsonl")
    write_card(directory, count_facts(rows, run_facts(manifest, directory.resolve().name, license, files)))
