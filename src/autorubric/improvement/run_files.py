"""The files of an improvement's run directory; the test set is opened once, with recorded finalists."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autorubric.core.rubric import Rubric
from autorubric.errors import InputError, MissingFileError
from autorubric.files import read_document, read_text, write_atomically
from autorubric.improvement.improvement_page import render_page
from autorubric.improvement.improvement_record import build_improved_rubric
from autorubric.improvement.samples import SampleSplit, UsedItems, UseKind
from autorubric.improvement.study import Finalists, UseRecorder

SPLIT_FILE = "split.json"
FINALISTS_FILE = "finalists.json"
RECORD_FILE = "improvement.json"
LOG_FILE = "log.jsonl"
PAGE_FILE = "report.html"
ORIGINAL_FILE = "original.json"
RUBRIC_FILE = "rubric.json"
FILES = (SPLIT_FILE, FINALISTS_FILE, RECORD_FILE, LOG_FILE, PAGE_FILE, ORIGINAL_FILE, RUBRIC_FILE)


def read_record(directory: Path, name: str) -> dict[str, Any] | None:
    """Return a file of the run directory; None if there is none.

    Raises:
        InputError: it is damaged.
    """
    try:
        found = read_document(directory / name)
    except (MissingFileError, FileNotFoundError):
        return None
    if not isinstance(found, dict):
        raise InputError(f"{directory / name}: expected an object; restore it, or pass another --out")
    return found


@contextmanager
def intact(path: Path) -> Iterator[None]:
    """Report a file as damaged if the `with` block cannot read it."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{path}: damaged ({error!r}); restore it, or pass another --out") from None


def write_record(directory: Path, name: str, record: Mapping[str, Any]) -> None:
    """Replace a file of the run directory atomically."""
    write_atomically(directory / name, [json.dumps(record, ensure_ascii=False, indent=1, allow_nan=False), "\n"])


@dataclass(frozen=True)
class DrawnSplit:
    """A split and the id of the run that drew it.

    Attributes:
        run_id: the id made when the split was drawn; marks the items that this run uses.
        split: the teaching, choosing and test sets.
        labels: a digest of the labelled items.
    """

    run_id: str
    split: SampleSplit
    labels: str

    @classmethod
    def read(cls, directory: Path, labels: str) -> DrawnSplit | None:
        """Return the split of these labels in a directory; None if there is none."""
        record = read_record(directory, SPLIT_FILE)
        if record is None or record.get("labels") != labels:
            return None
        with intact(directory / SPLIT_FILE):
            return cls(str(record["run_id"]), SampleSplit.from_dict(record), labels)

    def write(self, directory: Path) -> None:
        """Store the split, so that a resumed run has the same sets."""
        write_record(directory, SPLIT_FILE, {"run_id": self.run_id, "labels": self.labels, **self.split.to_dict()})


@dataclass
class FileUseRecorder(UseRecorder):
    """Records durably that the test set is opened, and with which finalists, before a judge sees it.

    Attributes:
        directory: of the run.
        run_id: see `DrawnSplit`.
        used: the record of used items, next to the labels.
        digests: of all items.
        rubric: a digest of the rubric.
    """

    __test__ = False

    directory: Path
    run_id: str
    used: UsedItems
    digests: Sequence[str]
    rubric: str

    def read_finalists(self) -> Finalists | None:
        """Return the finalists of an earlier session of this run."""
        record = read_record(self.directory, FINALISTS_FILE)
        return None if record is None else Finalists.from_dict(record)

    def record(self, use: UseKind, items: Sequence[int], finalists: Finalists | None = None) -> None:
        """Record finalists and items; earlier records stay."""
        if finalists is not None and self.read_finalists() is None:
            write_record(self.directory, FINALISTS_FILE, finalists.to_dict())
        self.used.add([self.digests[item] for item in items], use, self.run_id, self.directory, self.rubric)


def write_results(
    directory: Path, rubric: Rubric, record: Mapping[str, Any], events: Sequence[Mapping[str, Any]]
) -> Rubric:
    """Write record, log, report and the improved rubric; return the rubric."""
    made = build_improved_rubric(rubric, record)
    write_record(directory, RECORD_FILE, record)
    write_atomically(directory / LOG_FILE, (json.dumps(event, ensure_ascii=False) + "\n" for event in events))
    write_page(directory, record)
    made.to_file(directory / RUBRIC_FILE)
    return made


def write_page(directory: Path, record: Mapping[str, Any]) -> None:
    """Replace the report of an improvement."""
    write_atomically(directory / PAGE_FILE, [render_page(record)])


def read_undone_names(directory: Path) -> list[str]:
    """Read the criteria whose changes were reverted in this directory from its log.

    Raises:
        InputError: a line of the log is damaged.
    """
    log = directory / LOG_FILE
    lines = read_text(log).splitlines() if log.exists() else []
    with intact(log):
        events = [json.loads(line) for line in lines if '"undone"' in line]
        return [name for event in events if event.get("event") == "undone" for name in event["criteria"]]


def list_events(record: Mapping[str, Any], notes: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the log: the split, every candidate, every test and decision, in order."""
    events: list[dict[str, Any]] = [
        {"event": "split", "kind": record["split"], **record["items"], "groups": record["groups"]},
        *({"event": "noise", "criterion": name, "share": share} for name, share in record["noise"].items()),
        *(dict(note) for note in notes),
        *({"event": "candidate", **trial} for trial in record["tried"]),
        *({"event": "test", **test} for test in record["tests"]),
    ]
    if record["weights"]:
        events.append({"event": "weights", **record["weights"]})
    return [
        *events,
        {
            "event": "end",
            "at": record["at"],
            "accepted": [test["name"] for test in record["tests"] if test["accepted"]],
        },
    ]
