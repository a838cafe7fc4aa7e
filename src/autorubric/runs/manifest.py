"""The manifest of a run directory: what was run, with which models and templates, and how far it came."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from autorubric.files import atomic_writer, read_document

MANIFEST_FILE = "manifest.json"


def write_manifest(directory: Path, content: Mapping[str, Any]) -> None:
    """Replace the manifest of `directory`, keeping the moment of its first writing."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    created = (read_manifest(directory) or {}).get("created_at", now)
    whole = {"created_at": created, "updated_at": now, **content}
    with atomic_writer(directory / MANIFEST_FILE) as file:
        json.dump(whole, file, ensure_ascii=False, indent=2)
        file.write("\n")


def read_manifest(directory: Path) -> dict[str, Any] | None:
    """The manifest of a run directory; None where there is none or where it cannot be read.

    A manifest is a view: a damaged one costs nothing but its history.
    """
    path = directory / MANIFEST_FILE
    try:
        content = read_document(path)
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None
