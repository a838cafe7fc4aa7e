"""A file of JSON lines read line by line: memory is one offset a line."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from autorubric.view.page import Refusal

_CHUNK = 1 << 22


class JsonLines:
    """The rows of a file, by number from 0. A torn last line does not count.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._starts = array("Q", [0])
        with path.open("rb") as file:
            at = 0
            while chunk := file.read(_CHUNK):
                found = chunk.find(b"\n")
                while found >= 0:
                    self._starts.append(at + found + 1)
                    found = chunk.find(b"\n", found + 1)
                at += len(chunk)

    def __len__(self) -> int:
        return len(self._starts) - 1

    def rows(self, start: int, most: int) -> Iterator[tuple[int, dict[str, Any] | None]]:
        """Number and row of each line from `start` on; None for a damaged one."""
        with self.path.open("rb") as file:
            for number in range(start, min(start + most, len(self))):
                file.seek(self._starts[number])
                yield number, row_of(file.read(self._starts[number + 1] - self._starts[number]))

    def row(self, number: int) -> dict[str, Any]:
        """A row.

        Raises:
            Refusal: the row does not exist or is damaged.
        """
        if not 0 <= number < len(self):
            raise Refusal(404, f"row {number} does not exist; {self.path.name} has {len(self)}")
        found = next(self.rows(number, 1))[1]
        if found is None:
            raise Refusal(422, f"{self.path.name}: line {number + 1} is damaged", "Run the same command again.")
        return found


def row_of(line: bytes) -> dict[str, Any] | None:
    """The row in a line; None where there is none."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def same_row(path: Path, row: Mapping[str, Any]) -> dict[str, Any]:
    """The row of another step on the same query; empty where there is none.

    Args:
        path: a step file.
        row: of a final file.
    """
    wanted, question = str(row.get("id") or ""), str(row.get("question") or "").strip()
    if not path.is_file():
        return {}
    needle = json.dumps(wanted or question[:200], ensure_ascii=False)[1:-1].encode("utf-8", "surrogatepass")
    with path.open("rb") as file:
        for line in file:
            found = row_of(line) if needle in line else None
            if found is not None and str(found.get("id") or "") == wanted:
                asked = found.get("question")
                if wanted or (isinstance(asked, str) and asked.strip() == question):
                    return found
    return {}
