"""The runs of a view: their files and their current state."""

from __future__ import annotations

import json
import os
import re
import sqlite3
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeVar

from autorubric.core.display import tell_apart
from autorubric.errors import InputError, warn
from autorubric.files.atomic import check_inside
from autorubric.files.text import check_file
from autorubric.jobs.label_source import LabelChoice
from autorubric.llm.records.lock import LEDGER_FILE
from autorubric.runs.items_file import StoredLines
from autorubric.runs.manifest import (
    DATASET_FILE,
    ITEMS_FILE,
    LEDGER_FOLDER,
    MANIFEST_FILE,
    describe_no_run,
    find_ledger_folder,
    load_manifest,
    read_manifest,
    warn_of_change,
)
from autorubric.view.index.schema import FILE_NAME, read_notes, reading
from autorubric.view.page import PageRefusal

if TYPE_CHECKING:
    from autorubric.view.index.dataset_lines import DatasetLines


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

    def read_rows(self, start: int, most: int) -> Iterator[tuple[int, dict[str, Any] | None]]:
        """Number and row of each line from `start` on; None for a damaged one."""
        with self.path.open("rb") as file:
            for number in range(start, min(start + most, len(self))):
                file.seek(self._starts[number])
                yield number, parse_row(file.read(self._starts[number + 1] - self._starts[number]))

    def read_row(self, number: int) -> dict[str, Any]:
        """Return a row.

        Raises:
            Refusal: the row does not exist or is damaged.
        """
        if not 0 <= number < len(self):
            raise PageRefusal(404, f"row {number} does not exist; {self.path.name} has {len(self)}")
        found = next(self.read_rows(number, 1))[1]
        if found is None:
            raise PageRefusal(422, f"{self.path.name}: line {number + 1} is damaged", "Run the same command again.")
        return found


def parse_row(line: bytes) -> dict[str, Any] | None:
    """Return the row in a line; None if there is none."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    lists = [found.get(name) or [] for name in ("criteria", "rubrics")]
    sound = all(isinstance(rows, list) and all(isinstance(entry, dict) for entry in rows) for rows in lists)
    return found if sound else None


T = TypeVar("T")
INDEX_FOLDER = ".view"
RUBRIC_FILES = ("final_full.jsonl", "final.jsonl")
_UNREADABLE = (
    " cannot be read, so the kind, the status and the settings of the run are unknown; run the same command again: "
    "saved replies are not paid for twice"
)


@dataclass
class Source:
    """One run.

    Attributes:
        number: its place on the command line, from 0; URLs name it by this.
        directory: of the run.
        place: the folder of its index.
        name: the directory's name, with folders around it where several runs share one.
        choice: which labels count; by default those that `autorubric agree` uses.
        has_text: whether names may quote requirements.
    """

    number: int
    directory: Path
    place: Path
    name: str
    choice: LabelChoice = field(default_factory=LabelChoice)
    has_text: bool = True
    _kept: dict[str, tuple[Any, Any]] = field(default_factory=dict)

    @property
    def is_gone(self) -> bool:
        """Whether the directory was deleted."""
        return not self.directory.is_dir()

    @property
    def items(self) -> Path:
        """The file of its items."""
        return self.directory / ITEMS_FILE

    @property
    def manifest(self) -> Mapping[str, Any]:
        """Its manifest as it is now; empty if it cannot be read."""
        mark = stat_file(self.directory / MANIFEST_FILE)
        return self._remember("manifest", mark, lambda: read_manifest(self.directory) or {})

    @property
    def status(self) -> str:
        """`running` while a process works on it, `died` if that was killed, else as `autorubric status` says."""
        from autorubric.llm.records.lock import find_lock_holder

        folder = self.ledger
        if folder is not None and find_lock_holder(folder) is not None:
            return "running"
        states = {"completed": "completed", "running": "died", "None": "unknown"}
        return states.get(str(self.manifest.get("status")), "unfinished")

    @property
    def change(self) -> str:
        """Sentences on files that changed after the run wrote them; empty if none did, or before `check`."""
        return "" if self.status == "running" else self._kept.get("change", (None, ""))[1]

    def check(self) -> None:
        """Warn of files that changed after the run wrote them, once per state; large ones take a second to read."""
        if self.status != "running":
            mark = [stat_file(self.directory / name) for name in (ITEMS_FILE, MANIFEST_FILE, DATASET_FILE)]
            self._remember("change", mark, self._find_change)

    def _find_change(self) -> str:
        changes, path, lines = list[str](), self.directory / MANIFEST_FILE, StoredLines(self.items)
        if path.is_file() and not self.manifest:
            changes = [path.name + _UNREADABLE]
            warn(f"{path}{_UNREADABLE}")
        if lines.is_changed:
            changes.append(warn_of_change(self.items, lines.missing))
        with suppress(InputError):  # not a graded run, or the pages say what is wrong with it
            changes.append(load_manifest(self.directory).warn_of_change(self.directory / DATASET_FILE))
        return ". ".join(filter(None, changes))

    @property
    def kind(self) -> str:
        """What the run does: `evaluation`, `synthesis`, `service`, or what its manifest says."""
        # A `Rewarder` with a `run_dir` keeps its ledger there and writes no manifest.
        is_bare = not self.manifest and not self.has_items and self.ledger == self.directory
        guess = "service" if is_bare else "synthesis" if self.rubrics is not None else "evaluation"
        return str(self.manifest.get("kind") or guess)

    @property
    def rubrics(self) -> Path | None:
        """The file of synthesized rubrics, the one with provenance first; None if there is none."""
        return next((path for name in RUBRIC_FILES if (path := self.directory / name).is_file()), None)

    @property
    def has_versions(self) -> bool:
        """Whether rubrics may have evolved."""
        return (self.directory / "rubric_versions.jsonl").is_file()

    @property
    def has_items(self) -> bool:
        """Whether submissions were graded."""
        return self.items.is_file() or (self.directory / DATASET_FILE).is_file()

    @property
    def ledger(self) -> Path | None:
        """The folder of its ledger, or None."""
        return find_ledger_folder(self.directory)

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection that reads the index.

        Raises:
            Refusal: the run is gone, it graded nothing, or nothing is indexed yet.
        """
        if self.is_gone:
            raise PageRefusal(410, f"{self.name}: the run directory was deleted")
        with reading(self.place / FILE_NAME) as connection:
            if connection is None and not self.has_items:
                raise PageRefusal(404, f"{self.name} has no graded items")
            if connection is None or (self.items.is_file() and "mark" not in read_notes(connection)):
                raise PageRefusal(503, f"{self.name}: the index is being started; this page reloads itself")
            yield connection

    def open_dataset(self) -> DatasetLines | None:
        """Return the graded dataset; None if it is missing.

        Raises:
            Refusal: it cannot be read.
        """
        from autorubric.view.index.dataset_lines import DatasetLines

        path = self.directory / DATASET_FILE
        mark = stat_file(path)
        if mark is None:
            return None
        try:
            return self._remember("dataset", mark, lambda: DatasetLines(path, self.place / DATASET_FILE))
        except InputError as error:
            raise PageRefusal(500, f"{DATASET_FILE} cannot be read: {error}") from None

    def cache(
        self, connection: sqlite3.Connection, name: str, make: Callable[[sqlite3.Connection], T], asked: str = ""
    ) -> T:
        """Return a value from the whole index, computed once for each state of it and the last `asked`."""
        notes = read_notes(connection)
        mark = (notes.get("mark"), notes.get("offset"), notes.get("labels_at"), asked)
        return self._remember(name, mark, lambda: make(connection))

    def name_apart(
        self, connection: sqlite3.Connection, criteria: Iterable[Any], *, in_full: bool = False
    ) -> list[dict[str, Any]]:
        """Rows on criteria with distinct names: those of `autorubric agree` if `in_full` or if names may quote."""
        rows = [dict(row) for row in criteria]
        may_quote = in_full or self.has_text

        def make(opened: sqlite3.Connection) -> Mapping[int, str]:
            known = opened.execute("SELECT criterion, name, requirement FROM criteria").fetchall()
            names = tell_apart((name, requirement * may_quote) for _, name, requirement in known)
            return dict(zip((number for number, *_ in known), names, strict=True))

        names = self.cache(connection, "names", make, str(may_quote))
        return [row | {"name": names.get(row["criterion"], row["name"])} for row in rows]

    def _remember(self, name: str, mark: object, make: Callable[[], T]) -> T:
        """Return a value, computed again only when `mark` changes."""
        found = self._kept.get(name)
        if found is None or found[0] != mark:
            found = self._kept[name] = mark, make()
        value: T = found[1]
        return value

    def has_new_labels(self, connection: sqlite3.Connection) -> bool:
        """Return whether the index does not have the labels that count yet, as just after labelling."""
        from autorubric.view.index.shown_labels import compute_label_mark

        mark = str(read_notes(connection).get("label_mark") or "")
        return compute_label_mark(self.directory, self.choice, mark) != mark

    def open_rubrics(self) -> JsonLines:
        """Return the synthesized rubrics.

        Raises:
            Refusal: there are none.
        """
        path = self.rubrics
        if path is None:
            raise PageRefusal(404, f"{self.name} has no rubrics: it contains no {' or '.join(RUBRIC_FILES)}")
        return self._remember("rubrics", stat_file(path), lambda: JsonLines(path))

    def cache_files(self, name: str, paths: Iterable[Path], make: Callable[[], T]) -> T:
        """Return a value, computed again only when one of the files or the status changes."""
        return self._remember(name, (self.status, [(path, stat_file(path)) for path in paths]), make)


def find_runs(directories: Iterable[Path]) -> list[Path]:
    """Return the directories, each once; a folder of runs is replaced by its runs, by name."""
    found: dict[Path, Path] = {}
    for path in directories:
        inside = [] if _is_run(path) else sorted(filter(_is_run, path.glob("*/")), key=_split_numbers)
        found.update((run.resolve(), run) for run in inside or [path])
    return list(found.values())


def _split_numbers(path: Path) -> list[tuple[int, str]]:
    """Return a sort key of a name: `run-2` comes before `run-10`."""
    return [(int(part) if part.isdecimal() else 0, part) for part in re.split("([0-9]+)", path.name)]


def _is_run(path: Path) -> bool:
    names = (MANIFEST_FILE, ITEMS_FILE, *RUBRIC_FILES, LEDGER_FOLDER, LEDGER_FILE)
    return any(os.path.lexists(path / name) for name in names)


def open_sources(directories: list[Path]) -> list[Source]:
    """Return the runs of some directories; the folders of their indexes are not made.

    Raises:
        InputError: there is no run in one of them, all are named; or the results of one are not a plain file.
    """
    lacks = "neither manifest.json nor results nor a ledger"
    wrong = [path for path in directories if not (os.path.isdir(path) and _is_run(path))]  # noqa: PTH112 (of any length)
    if wrong:
        raise InputError(describe_no_run(path, lacks) for path in wrong)
    for path in directories:
        if (path / ITEMS_FILE).exists():
            check_file(path / ITEMS_FILE)
    paths = [path.resolve() for path in directories]
    return [
        Source(number, path, path / INDEX_FOLDER, _name_run(paths[number], paths))
        for number, path in enumerate(directories)
    ]


def _name_run(path: Path, all_runs: Sequence[Path]) -> str:
    """Return the name of a directory, with as many of the folders around it as tell it from the others."""
    ends = (path.parts[-depth:] for depth in range(1, len(path.parts)))
    own = (end for end in ends if sum(one.parts[-len(end) :] == end for one in all_runs) == 1)
    return Path(*next(own, path.parts)).as_posix()


def make_index_folder(run: Path, stack: ExitStack, *, in_run: bool) -> Path:
    """Create the folder of a run's index; a temporary one, until `stack` ends, if it is not `in_run` or cannot be."""
    place = run / INDEX_FOLDER
    with suppress(OSError, InputError):
        if in_run:
            place.mkdir(exist_ok=True)
            check_inside(run.absolute(), (place.absolute(), *place.absolute().iterdir()))
            (place / ".gitignore").write_text("*\n", encoding="utf-8")  # fails too if another user made the folder
            return place
    return Path(stack.enter_context(TemporaryDirectory(prefix="autorubric-view-", ignore_cleanup_errors=True)))


def read_index_state(connection: sqlite3.Connection) -> dict[str, Any]:
    """Return the progress of the index: bytes read, and bytes in all."""
    notes = read_notes(connection)
    offset, size = notes.get("offset") or 0, notes.get("size") or 0
    return {"read": offset, "size": size, "share": offset / size if size else 1.0}


def stat_file(path: Path) -> tuple[int, int, int] | None:
    """Inode, size and time of a file; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
