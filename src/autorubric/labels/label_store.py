"""The label store of a run: `labels/labels.sqlite` in the run directory, to which events are only ever added.

A `History` derives from its events the current labels, the drawn pairs, and the disagreements of annotators.
"""

import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any
from zlib import crc32

from autorubric.core.criterion import Criterion
from autorubric.dataset.ground_truth import choose_majority
from autorubric.errors import InputError, NotSavedError, RunLockedError, warn
from autorubric.files.atomic import check_inside
from autorubric.files.text import check_file
from autorubric.labels.event import KINDS, Event, LabelDraw, PairKey
from autorubric.llm.records.database import connect
from autorubric.llm.records.ledger_view import connect_read_only
from autorubric.llm.records.lock import create_private_file, find_lock_holder, run_lock


class History:
    """The events so far and the labels that count.

    Of one annotator's labels of a pair, the latest counts; an undo restores the one before it.
    """

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self.events: list[Event] = []
        self.draws: dict[PairKey, Event] = {}
        """The draw of each pair that was drawn, in the order in which pairs are shown."""
        self.batches: dict[int, list[Event]] = {}
        """The draws of each batch."""
        self._said: dict[PairKey, dict[str, list[Event]]] = {}
        self._decided: dict[PairKey, list[Event]] = {}
        self._by_annotator: dict[str, list[Event]] = {}
        for event in events:
            self.add(event)

    def add(self, event: Event) -> None:
        """Add the next event."""
        self.events.append(event)
        if event.kind == "draw":
            if event.draw is not None:
                self.draws.setdefault(event.key, event)
                self.batches.setdefault(event.draw.batch, []).append(event)
        elif event.kind == "undo":
            self._remove_undone(event)
        else:
            if event.kind == "adjudication":
                self._decided.setdefault(event.key, []).append(event)
            else:
                self._said.setdefault(event.key, {}).setdefault(event.annotator, []).append(event)
            self._by_annotator.setdefault(event.annotator, []).append(event)

    def _remove_undone(self, undo: Event) -> None:
        stacks = [
            self._by_annotator.get(undo.annotator, []),
            self._decided.get(undo.key, []),
            self._said.get(undo.key, {}).get(undo.annotator, []),
        ]
        for stack in stacks:
            stack[:] = [event for event in stack if event.id != undo.supersedes]

    @property
    def last(self) -> int:
        """The number of the last event; 0 for none."""
        return self.events[-1].id if self.events else 0

    def find_last(self, annotator: str) -> Event | None:
        """Return the annotator's latest label, skip or adjudication that is not undone."""
        stack = self._by_annotator.get(annotator)
        return stack[-1] if stack else None

    def own(self, key: PairKey, annotator: str) -> Event | None:
        """Return an annotator's current label or skip of a pair, or None."""
        stack = self._said.get(key, {}).get(annotator)
        return stack[-1] if stack else None

    def labels(self, key: PairKey) -> dict[str, Event]:
        """Return the label of each annotator who labelled a pair, first label first."""
        labels = self._said.get(key)
        if labels is None:
            return {}
        own = ((name, stack[-1]) for name, stack in labels.items() if stack)
        found = [(name, event) for name, event in own if event.kind == "label"]
        return dict(sorted(found, key=lambda pair: pair[1].id))

    def decision(self, key: PairKey) -> Event | None:
        """Return the current adjudication of a pair."""
        stack = self._decided.get(key)
        return stack[-1] if stack else None

    def labelled(self) -> Iterator[PairKey]:
        """Yield the pairs with a current label or adjudication."""
        for key in dict.fromkeys((*self._said, *self._decided)):
            if self.labels(key) or self.decision(key) is not None:
                yield key

    def annotators(self) -> dict[str, int]:
        """Return the number of current labels of each annotator, in alphabetical order."""
        return dict(sorted(Counter(name for key in self._said for name in self.labels(key)).items()))

    def differing(self, *, decided: bool = False) -> list[PairKey]:
        """Return the pairs on which annotators differ.

        Args:
            decided: include pairs with an adjudication.
        """
        return [
            key
            for key in self._said
            if len({event.verdict for event in self.labels(key).values()}) > 1
            and (decided or self.decision(key) is None)
        ]

    def verdict(self, key: PairKey, annotator: str | None = None, criterion: Criterion | None = None) -> str | None:
        """Return the verdict that counts: the adjudication, else that of `choose_majority`; None in an open tie.

        Args:
            key: the pair.
            annotator: the annotator whose label counts instead, ignoring adjudications.
            criterion: the criterion of the pair; without it, options have no order.
        """
        labels = self.labels(key)
        if annotator is not None:
            event = labels.get(annotator)
            return event.verdict if event else None
        decision = self.decision(key)
        if decision is not None:
            return decision.verdict
        words = [event.verdict for event in labels.values() if event.verdict is not None]
        return choose_majority(criterion, words)

    def count_kinds(self, annotator: str) -> Counter[str]:
        """Return the number of current labels, skips and adjudications of an annotator."""
        own = (stacks[annotator][-1] for stacks in self._said.values() if stacks.get(annotator))
        decided = (stack[-1] for stack in self._decided.values() if stack and stack[-1].annotator == annotator)
        return Counter(event.kind for event in (*own, *decided))

    def known_at(self, event: int) -> set[PairKey]:
        """Return the pairs that had a label or an adjudication right after the event of that number."""
        return set(History(one for one in self.events if one.id <= event).labelled())


FOLDER = "labels"
FILE = "labels.sqlite"
STORE = Path(FOLDER, FILE)
"""The path of the label store in a run directory."""
_VERSION = 1
_APPLICATION = 0x6172_6C62  # "arlb", in the header of the file

_NO_ROOM = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)

_COLUMNS = (
    "id", "at", "kind", "item", "criterion", "digest", "annotator", "verdict", "note", "quote", "seconds",
    "supersedes", "batch", "policy", "scope", "seed", "probability", "open", "seen",
)  # fmt: skip
_PLAIN = 12
"""Columns before those of the draw."""
_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS events(
    id INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ({", ".join(f"'{kind}'" for kind in KINDS)})),
    item TEXT NOT NULL, criterion TEXT NOT NULL, digest TEXT NOT NULL, annotator TEXT NOT NULL, verdict TEXT,
    note TEXT NOT NULL, quote TEXT NOT NULL, seconds REAL, supersedes INTEGER REFERENCES events(id),
    batch INTEGER, policy TEXT, scope TEXT, seed TEXT, probability REAL, open INTEGER, seen INTEGER, crc INTEGER,
    CHECK ((verdict IS NULL) = (kind IN ('draw', 'skip', 'undo'))),
    CHECK (kind != 'draw' OR (batch IS NOT NULL AND probability > 0 AND probability <= 1)),
    CHECK (kind = 'draw' OR annotator != ''),
    CHECK (kind != 'undo' OR supersedes IS NOT NULL));
CREATE TRIGGER IF NOT EXISTS no_update BEFORE UPDATE ON events
    BEGIN SELECT RAISE(ABORT, 'events are only added'); END;
CREATE TRIGGER IF NOT EXISTS no_delete BEFORE DELETE ON events
    BEGIN SELECT RAISE(ABORT, 'events are only added'); END;
"""
_INSERT = f"INSERT INTO events({', '.join(_COLUMNS)}, crc) VALUES ({', '.join('?' * (len(_COLUMNS) + 1))})"
_SELECT = f"SELECT crc, {', '.join(_COLUMNS)} FROM events WHERE id > ? ORDER BY id"


class LabelStore:
    """The store of a run, open for writing. Use `label_store`. Every method may be called from any thread."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self.history = History(_read_events(connection, 0, path))
        self._connection = connection
        self._lock = threading.RLock()

    def append(self, events: Iterable[Event]) -> list[Event]:
        """Add events in one transaction; they are on disk when this returns.

        Args:
            events: the events to add; `id` is replaced, and an `at` of 0 becomes the current time.

        Raises:
            NotSavedError: none of them was saved: the disk is full or failed.
        """
        with self._lock:
            now, made = time.time(), []
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                for number, event in enumerate(events, _read_last_number(self._connection) + 1):
                    made.append(replace(event, id=number, at=event.at or now))
                    values = _build_row(made[-1])
                    self._connection.execute(_INSERT, (*values, _compute_checksum(values)))
                self._connection.execute("COMMIT")
            except BaseException as error:
                with suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")
                if isinstance(error, sqlite3.IntegrityError):
                    raise InputError(f"{self.path}: an event is not valid: {error}; nothing was stored") from error
                if isinstance(error, sqlite3.Error):
                    raise _build_save_error(self.path, error) from error
                raise
            for event in made:
                self.history.add(event)
            return made

    def undo(self, annotator: str, event: Event) -> Event:
        """Undo a label, skip or adjudication of an annotator; the event itself stays in the store.

        Raises:
            InputError: the event is another annotator's, or is undone already.
            NotSavedError: the disk is full or failed.
        """
        stands = (self.history.own(event.key, annotator), self.history.decision(event.key))
        if event.annotator != annotator or event.id not in {stand.id for stand in stands if stand is not None}:
            raise InputError(f"event {event.id} cannot be undone by {annotator!r}: it is not this annotator's last")
        undo = Event(0, 0.0, "undo", event.item, event.criterion, event.digest, annotator, supersedes=event.id)
        return self.append([undo])[0]


@contextmanager
def label_store(run: Path) -> Iterator[LabelStore]:
    """Open the label store of a run for writing; create it if there is none.

    One process writes at a time. `read_history` needs no lock and never waits.

    Raises:
        RunLockedError: another process has it open; the message says which.
        InputError: it cannot be written, or is another program's file.
    """
    folder = run / FOLDER
    check_inside(run, [run / STORE])
    with ExitStack() as stack:
        try:
            stack.enter_context(run_lock(folder))
        except RunLockedError:
            holder = find_lock_holder(folder) or "another process"
            raise RunLockedError(
                f"{folder} is open for labelling in {holder}; label there, or close it. Reading needs no lock"
            ) from None
        path = create_private_file(folder, FILE)
        check_file(path, what="Label store")
        yield LabelStore(path, stack.enter_context(closing(_open_connection(path))))


def _open_connection(path: Path) -> sqlite3.Connection:
    connection: sqlite3.Connection | None = None
    try:
        connection = connect(path)
        _check_header(connection, path)
        header = f"PRAGMA application_id = {_APPLICATION}; PRAGMA user_version = {_VERSION};"
        connection.executescript(f"BEGIN IMMEDIATE; {header} {_SCHEMA} COMMIT;")
    except BaseException as error:
        if connection is not None:
            connection.close()
        if isinstance(error, sqlite3.DatabaseError):
            is_full = getattr(error, "sqlite_errorcode", 0) & 0xFF in _NO_ROOM
            raise (_build_save_error(path, error) if is_full else _build_read_error(path, error)) from error
        raise
    return connection


def _check_header(connection: sqlite3.Connection, path: Path) -> None:
    application, version = (
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
    )
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if tables and application != _APPLICATION:
        raise InputError(f"{path} is not a label store; move it away")
    if version > _VERSION:
        raise InputError(f"{path} was written by a newer autorubric (version {version}); use that version")


def _build_save_error(path: Path, error: sqlite3.Error) -> NotSavedError:
    return NotSavedError(f"{path}: not saved: {error}; check the disk and try again")


def _build_read_error(path: Path, error: sqlite3.Error) -> InputError:
    return InputError(f"{path} cannot be read as a label store: {error}; restore it from a copy, or move it away")


def find_labelled_run(path: Path) -> Path | None:
    """Return the run directory of a label store, given as its folder or file; None for any other path.

    Example:
        >>> find_labelled_run(Path("labels.csv")) is None
        True
    """
    folder = path.parent if path.name == FILE else path
    return folder.parent if folder.name == FOLDER and (folder / FILE).exists() else None


def read_history(run: Path, known: History | None = None) -> History:
    """Return the labels of a run, without a lock; empty if it has no store.

    Args:
        run: the run directory.
        known: what an earlier call returned, to which new events are added.

    Raises:
        InputError: the store is damaged, or another program's file.
    """
    path, history = run / STORE, History() if known is None else known
    if not path.exists():
        return history
    check_file(path, what="Label store")
    try:
        with closing(connect_read_only(path)) as connection:
            _check_header(connection, path)
            if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'events'").fetchall():
                return history
            for event in _read_events(connection, history.last, path):
                history.add(event)
    except sqlite3.DatabaseError as error:
        raise _build_read_error(path, error) from error
    return history


def _read_events(connection: sqlite3.Connection, after: int, path: Path) -> Iterator[Event]:
    """Yield the events after number `after`; damaged ones are left out, with a warning."""
    # Text that is not valid UTF-8 was damaged after it was written, so its checksum does not match.
    connection.text_factory = lambda text: text.decode("utf-8", "replace")
    connection.execute("BEGIN")  # both queries see the same state
    try:
        rows = connection.execute(_SELECT, (after,)).fetchall()
        end = max(after, _read_last_number(connection))
    finally:
        connection.execute("COMMIT")
    whole = 0
    for found, *row in rows:
        if row[0] > end or row[2] not in KINDS or found != _compute_checksum(row):
            continue
        batch, policy, scope, seed, probability, n_open, seen = row[_PLAIN:]
        draw = None if batch is None else LabelDraw(batch, policy, scope, int(seed), probability, n_open, seen)
        yield replace(Event(*row[:_PLAIN]), draw=draw)
        whole += 1
    if lost := end - after - whole:
        warn(
            f"{path}: {lost} events of {end - after} are damaged or missing, so labels may be lost; restore "
            "the file from a copy, or label these pairs again"
        )


def _read_last_number(connection: sqlite3.Connection) -> int:
    """Return the number of the last event that was ever added, which SQLite keeps."""
    number: int = connection.execute("SELECT coalesce(max(seq), 0) FROM sqlite_sequence").fetchone()[0]
    return number


def _compute_checksum(values: Iterable[Any]) -> int:
    return crc32(ascii([float(one) if isinstance(one, int) else one for one in values]).encode())


def _build_row(event: Event) -> tuple[Any, ...]:
    drawn = (None,) * 7 if event.draw is None else astuple(event.draw)
    plain = tuple(getattr(event, name) for name in _COLUMNS[:_PLAIN])
    # SQLite integers have 64 bits; the seed of a later batch may be larger.
    return (*plain, *drawn[:3], None if drawn[3] is None else str(drawn[3]), *drawn[4:])
