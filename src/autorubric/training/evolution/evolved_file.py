"""The dataset of the newest rubrics, with their history."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from autorubric.files import write_atomically
from autorubric.rows.record import as_text
from autorubric.training.evolution.versions import Lineage

EVOLVED_FILE = "evolved.json"


def write_evolved(out: Path, lineages: Iterable[Lineage]) -> None:
    """Write the newest rubric of each query with its history, as a dataset that other commands read."""
    items = [
        {
            "id": lineage.group,
            "submission": "",
            "description": "",
            "prompt": as_text(lineage.newest.query or ""),
            "rubric": lineage.newest.rubric.to_dict(),
            "metadata": {
                "rubric_version": lineage.newest.number,
                "inactive": [one.requirement for one in lineage.newest.inactive],
                "history": lineage.changes,
            },
        }
        for lineage in lineages
    ]
    record = {"name": out.name, "prompt": None, "rubric": None, "items": items}
    write_atomically(out / EVOLVED_FILE, [json.dumps(record, ensure_ascii=False, indent=1), "\n"])
