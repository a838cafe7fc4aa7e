"""Finished rows on their way to the step files: on disk as they finish, found by their place in the input."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryFile
from types import TracebackType
from typing import Any, BinaryIO, cast

from pydantic_core import PydanticSerializationError, to_json

from autorubric.synthesis.plan import Plan
from autorubric.synthesis.runner import NO_CALL_MADE, Row


class Spool:
    """A scratch file of finished rows, gone when the process ends; memory is one offset a row.

    Each row is stored as one line of JSON members a step, so that the row of step file k is the first k + 1
    pieces in braces, and no text is encoded twice.

    Attributes:
        failed: the input places of rows with a failed stage.
    """

    def __init__(self, directory: Path, plan: Plan) -> None:
        self._file = cast(BinaryIO, TemporaryFile("w+b", dir=directory))  # noqa: SIM115 (closed by __exit__)
        self._plan = plan
        self._slots: dict[int, int] = {}
        self._starts = array("Q")
        self._end = 0
        self.failed: set[int] = set()

    def add(self, row: Row) -> None:
        """Keep a row."""
        data = "\n".join(_pieces(self._plan, row)).encode()
        if any(f.kind not in NO_CALL_MADE for f in row.failures().values()):
            self.failed.add(row.query.index)
        self._slots[row.query.index] = len(self._starts)
        self._starts.append(self._end)
        self._file.write(data + b"\n\n")
        self._end += len(data) + 2

    def pieces(self, index: int) -> list[str] | None:
        """The row of input place `index` as JSON members, one string a finished step; None if it is not here."""
        slot = self._slots.get(index)
        if slot is None:
            return None
        start = self._starts[slot]
        end = self._starts[slot + 1] if slot + 1 < len(self._starts) else self._end
        self._file.seek(start)
        text = self._file.read(end - start - 2).decode()
        self._file.seek(self._end)
        return text.split("\n") if text else []

    def __len__(self) -> int:
        return len(self._slots)

    def __enter__(self) -> Spool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


def _pieces(plan: Plan, row: Row) -> Iterator[str]:
    """The members of each step in turn, up to the first step that was not brought to an end."""
    stage_keys = {f"{s.name}{end}" for s in plan.stages for end in ("", "_model", "_error")}
    head = {key: value for key, value in row.query.fields.items() if key not in stage_keys}
    for step in range(plan.last_step + 1):
        stages = [stage for stage in plan.stages if stage.step == step]
        failed = [row.outcomes[stage.name].failure for stage in stages]
        if any(failure is not None and failure.kind in NO_CALL_MADE for failure in failed):
            return
        members = head if step == 0 else {}
        for stage in stages:
            for key in (stage.name, f"{stage.name}_model", f"{stage.name}_error"):
                if key in row.fields:
                    members = members | {key: row.fields[key]}
        yield _members(members)


def _members(fields: dict[str, Any]) -> str:
    try:
        return to_json(fields, inf_nan_mode="null")[1:-1].decode()
    except PydanticSerializationError:  # half characters
        return json.dumps(fields, ensure_ascii=False)[1:-1]
