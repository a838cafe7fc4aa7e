"""The batches of a run on disk: planned, sent and collected ones."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from hashlib import sha256
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias, get_args
from uuid import uuid4

from autorubric.errors import ConfigError, LedgerError, pluralize
from autorubric.files.atomic import write_atomically
from autorubric.files.descriptors import open_descriptor
from autorubric.files.strict_json import decode_json, encode_json
from autorubric.llm.batches.setting import GONE, UNKNOWN, Batching
from autorubric.llm.request import Usage
from autorubric.llm.sharing import Amount

FOLDER = "batches"
State: TypeAlias = Literal["planned", "sent", "collected", "dropped"]
_DRAFT = ".draft"


class Entry(NamedTuple):
    """One request of a batch, without its text: what its row in the ledger needs.

    Attributes:
        key: of the request.
        item: the record it is for.
        role: the part the model plays.
        draw: which independent sample.
        asked_before: re-asks and raised limits before it.
        limit: the completion limit that is sent; 0 if none.
        prompt: the most tokens that its prompt can be billed for; -1 without a bound.
        completion: likewise of its reply.
        characters: of the prompt.
    """

    key: bytes
    item: str
    role: str
    draw: int
    asked_before: int
    limit: int
    prompt: int
    completion: int
    characters: int

    @property
    def ceiling(self) -> Usage | None:
        """The most tokens that the request can be billed for, or None without a bound."""
        return None if self.prompt < 0 else Usage(self.prompt, self.completion)


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """One batch of a run.

    Attributes:
        id: our name of it, in its metadata at the provider.
        run: of all batches in the folder.
        model: who answers, as summaries show it.
        served: the name that is sent.
        base_url: the address of chat completions.
        state: `planned` before the provider is known to have it, `sent` while it is open there, `collected` once
            its results are in the ledger or given up, `dropped` if it was never created.
        count: requests.
        sha: of the file.
        rows: the SHA-256 of the file of rows.
        tokens: the most tokens that it can be billed for; `cost` likewise in dollars.
        file: the uploaded file; empty before.
        remote: the provider's name of it; empty before.
        guessed: whether it was found by its time and size, so that its results have to confirm it.
        planned_at: seconds since the epoch, as is `sent_at`.
        word: the last state in the provider's own word.
        replies: results with a reply.
        strangers: batches at the provider that looked like this one, and whose results belong to others.
        trouble: why it could not be collected the last time; empty if nothing is known to be wrong.
    """

    id: str
    run: str
    model: str
    served: str
    base_url: str
    state: State = "planned"
    count: int = 0
    sha: str = ""
    rows: str = ""
    tokens: int = 0
    cost: float = 0.0
    file: str = ""
    remote: str = ""
    guessed: bool = False
    planned_at: float = field(default_factory=time.time)
    sent_at: float = 0.0
    word: str = ""
    replies: int = 0
    strangers: Sequence[str] = ()
    trouble: str = ""

    @property
    def most(self) -> Amount:
        """Its maximum cost."""
        return Amount.from_dollars(self.tokens, self.cost)

    @property
    def metadata(self) -> dict[str, str]:
        """The metadata that the provider keeps with the batch, by which a later session finds it."""
        return {"autorubric_run": self.run, "autorubric_batch": self.id, "autorubric_sha": self.sha}

    @property
    def lost_entry(self) -> dict[str, Entry]:
        """One request that can cost as much as all of the batch, for a batch whose rows are lost."""
        unbounded = self.count and not self.tokens
        key, most = sha256(self.id.encode()).digest(), (-1, 0) if unbounded else (0, self.tokens)
        return {self.id: Entry(key, "", "batch", 0, 0, 0, *most, 0)}

    @property
    def is_open(self) -> bool:
        """Whether the provider may still answer it, or hold answers that are not in the ledger."""
        return self.state in ("planned", "sent")

    @property
    def is_lost(self) -> bool:
        """Whether it is open, and the provider no longer has it or its results."""
        return self.is_open and self.trouble.startswith((GONE, UNKNOWN))


class BatchStore:
    """The batches in the ledger's folder. Each change is on the disk before it is acted upon.

    Example:
        >>> import tempfile
        >>> store = BatchStore(Path(tempfile.mkdtemp()))
        >>> record = store.begin("openai/gpt-5.1", "gpt-5.1", "https://api.openai.com/v1")
        >>> record = store.keep(replace(record, state="sent", remote="batch_1"))
        >>> [(one.state, one.remote) for one in store.read_records()]
        [('sent', 'batch_1')]
    """

    def __init__(self, ledger: Path) -> None:
        self._folder = ledger / FOLDER
        self._run = ""

    def read_records(self) -> list[BatchRecord]:
        """Return all batches, oldest first; a `LedgerError` for one that cannot be read, or has lost its record."""
        names = {path.stem for kind in ("json", "rows") for path in self._folder.glob(f"*.{kind}")}
        return sorted(map(self.find, names), key=lambda record: record.planned_at)

    def find(self, id: str) -> BatchRecord:
        """Return the batch of this name as it is on the disk."""
        path = self._folder / f"{id}.json"
        rows = path.with_suffix(".rows")
        if rows.exists() and not path.exists():
            raise LedgerError(
                f"{path} is missing, the record of a batch that the provider may still charge; restore it from a "
                f"copy. If you remove {rows.name} too, the batch is given up, and its requests are sent again"
            )
        return _read(path)

    def begin(self, model: str, served: str, base_url: str) -> BatchRecord:
        """Return a new batch, to be kept once its file is complete."""
        if not self._run:
            self._run = next((record.run for record in self.read_records()), uuid4().hex[:16])
        self._folder.mkdir(mode=0o700, exist_ok=True)
        return BatchRecord(uuid4().hex[:16], self._run, model, served, base_url)

    def keep(self, record: BatchRecord) -> BatchRecord:
        """Put a batch's state on the disk; returns it."""
        content = json.dumps(asdict(record), indent=1)
        write_atomically(self._folder / f"{record.id}.json", [content, "\n"], permissions=0o600)
        if not record.is_open:
            for path in self._locate_files(record):
                path.unlink(missing_ok=True)
        return record

    def locate_requests(self, record: BatchRecord) -> Path:
        """Return the file that is sent."""
        return self._folder / f"{record.id}.requests"

    def _locate_files(self, record: BatchRecord) -> tuple[Path, Path]:
        return self.locate_requests(record), self._folder / f"{record.id}.rows"

    def read_entries(self, record: BatchRecord) -> dict[str, Entry]:
        """Return the requests of a batch, by custom id; a `LedgerError` if the file has changed."""
        _, path = self._locate_files(record)
        try:
            content = path.read_bytes()
            found = {key: Entry(bytes.fromhex(key), *rest) for key, *rest in map(decode_json, content.splitlines())}
        except (OSError, ValueError, TypeError, RecursionError) as error:
            raise LedgerError(f"{path} cannot be read: {error}") from error
        if len(found) != record.count or record.rows != sha256(content).hexdigest():
            raise LedgerError(f"{path} has changed since the batch was planned")
        return found

    def open_writer(self, record: BatchRecord) -> PlanWriter:
        """Return a writer for the requests of a batch."""
        return PlanWriter(record, *map(_locate_draft, self._locate_files(record)))

    def keep_plan(self, record: BatchRecord) -> BatchRecord:
        """Put a planned batch on the disk, whose files are complete; returns its record."""
        record = self.keep(record)
        for path in self._locate_files(record):
            _locate_draft(path).replace(path)
        return record

    def clear_drafts(self) -> None:
        """Remove files of batches whose plan was never completed."""
        for path in self._folder.glob(f"*{_DRAFT}"):
            path.unlink(missing_ok=True)


class PlanWriter:
    """Writes the two files of a batch: the requests, and the data of each for the ledger."""

    def __init__(self, record: BatchRecord, requests: Path, rows: Path) -> None:
        self._record = record
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        self._requests = os.fdopen(open_descriptor(requests, flags), "wb", 2**20)
        self._rows = os.fdopen(open_descriptor(rows, flags), "wb", 2**20)
        self._sha, self._rows_sha = sha256(), sha256()
        self.count = self.size = 0
        self.most = Amount()

    def add(self, line: bytes, entry: Entry, most: Amount) -> None:
        """Add a request, its line with its end, and the most that it can cost."""
        self._requests.write(line)
        row = encode_json([entry.key.hex(), *entry[1:]]) + b"\n"
        self._rows.write(row)
        self._sha.update(line)
        self._rows_sha.update(row)
        self.count += 1
        self.size += len(line)
        self.most = self.most.plus(most)

    def close(self) -> BatchRecord:
        """Put both files on the disk, and return the record with their sums."""
        for file in (self._requests, self._rows):
            with file:
                file.flush()
                os.fsync(file.fileno())
        made = replace(self._record, count=self.count, sha=self._sha.hexdigest(), rows=self._rows_sha.hexdigest())
        return replace(made, tokens=int(self.most.tokens), cost=self.most.cost)


def _locate_draft(path: Path) -> Path:
    """Return the path of a file of a batch until the batch is planned completely."""
    return path.with_name(path.name + _DRAFT)


def _read(path: Path) -> BatchRecord:
    try:
        found = decode_json(path.read_bytes())
        known = {field.name for field in fields(BatchRecord)}
        record = BatchRecord(**{name: value for name, value in found.items() if name in known})
        if record.id != path.stem or record.state not in get_args(State):
            raise ValueError(f"id {record.id!r}, state {record.state!r}")
        return record
    except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise LedgerError(
            f"{path}: the record of a batch cannot be read ({error}); restore it from a copy. If you remove it, what "
            "the batch has cost no longer counts, and those of its requests without a saved reply are sent again"
        ) from error


def open_batches(ledger: Path) -> list[BatchRecord]:
    """Return the batches of a run that are open, or not collected yet."""
    return [record for record in BatchStore(ledger).read_records() if record.is_open]


def check_collectable(records: Iterable[BatchRecord], how: Batching) -> None:
    """Refuse to send anything while a batch is open that no model of this run can collect.

    Raises:
        ConfigError: a batch was sent to another model or address.
    """
    problems = [
        f"batch {record.remote or '(being created)'} is open: {pluralize(record.count, 'request')} to {record.model} "
        f"at {record.base_url}, which will be charged. This command does not call that model. Collect the batch by "
        "the command that sent it (autorubric status prints it), or add --batch-cancel to that command (in Python: "
        "batch_cancel=True) to cancel it"
        for record in records
        if how.find_model(record) is None
    ]
    if problems:
        raise ConfigError(problems)
