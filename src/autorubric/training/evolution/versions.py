"""Versions of rubrics, in an append-only log: a version is on disk before anything is graded by it.

The newest versions are also written as a dataset, with their history.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from zlib import crc32

from autorubric.core.criterion import Criterion
from autorubric.core.rubric import Rubric
from autorubric.errors import InputError, NotSavedError
from autorubric.files import write_atomically
from autorubric.files.descriptors import sync_folder
from autorubric.files.strict_json import encode_json, parse_json
from autorubric.graders.judge import Query
from autorubric.rows.record import as_text
from autorubric.training.observations import digest_group, digest_rubric

VERSIONS_FILE = "rubric_versions.jsonl"
EVOLVED = "evolved"
"""The metadata key with the version that added a criterion."""


@dataclass(frozen=True, slots=True)
class RubricVersion:
    """One version of the rubric of a query.

    Attributes:
        query: the query that the rollouts answer.
        number: the version number; 0 for the rubric that the run began with.
        rubric: the criteria that are graded.
        inactive: criteria that retired and may return.
        from_step: the first training step that it grades; 0 without steps.
    """

    query: Query | None
    number: int
    rubric: Rubric
    inactive: tuple[Criterion, ...] = ()
    from_step: int = 0

    @property
    def digest(self) -> str:
        """The digest of the rubric, as reward rows contain it."""
        return digest_rubric(self.rubric)


@dataclass(frozen=True, slots=True)
class Change:
    """The outcome of one evolution of a rubric, as the log keeps it.

    Attributes:
        rollouts: the digest of the rollouts on which it was decided.
        added: new criteria, by name.
        returned: inactive criteria that are graded again.
        retired: criteria without variance over the window, now inactive.
        rejected: proposals that did not pass, each with `description`, `gate` and `reason`.
        note: why there are no proposals; empty if there are.
        evidence: the gates' evidence, by criterion.
        split: criteria that were split, each with `criterion` and the names of its `parts`.
    """

    rollouts: str
    added: tuple[str, ...] = ()
    returned: tuple[str, ...] = ()
    retired: tuple[str, ...] = ()
    rejected: tuple[Mapping[str, str], ...] = ()
    note: str = ""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    split: tuple[Mapping[str, Any], ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether the rubric does not change."""
        return not (self.added or self.returned or self.retired or self.split)

    def to_dict(self) -> dict[str, Any]:
        """Return the change as JSON values."""
        fields = {name: value for name, value in asdict(self).items() if name != "split" or value}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()}


@dataclass(slots=True)
class Lineage:
    """The versions of the rubric of one query, the decisions on it, and the last training step that began."""

    group: str
    versions: list[RubricVersion]
    changes: list[dict[str, Any]] = field(default_factory=list)
    last_step: int = -1

    @property
    def newest(self) -> RubricVersion:
        """The last version."""
        return self.versions[-1]

    def has_decided(self, rollouts: str) -> bool:
        """Return whether an evolution on these rollouts, given by their digest, is recorded."""
        return any(change["rollouts"] == rollouts for change in self.changes)

    def find_version(self, step: int) -> RubricVersion:
        """Return the version that grades the rollouts of a training step."""
        return next(version for version in reversed(self.versions) if version.from_step <= step or not version.number)


class VersionLog:
    r"""The log of a run directory, open for appending; the caller holds the lock of the directory.

    A killed process leaves at most one incomplete line at the end, which is removed when the log is opened. If the
    disk is full, a partly written event is removed at once and does not count.

    Example:
        >>> import tempfile
        >>> from contextlib import closing
        >>> path = Path(tempfile.mkdtemp()) / VERSIONS_FILE
        >>> with closing(VersionLog(path)) as log:
        ...     first = log.begin("Why?", Rubric.from_dict([{"requirement": "Says why."}]))
        >>> _ = path.write_bytes(path.read_bytes() + b'{"event": "vers')
        >>> with closing(VersionLog(path)) as log:
        ...     [lineage] = log.lineages.values()
        >>> lineage.newest.number, path.read_bytes().endswith(b"}\n")
        (0, True)
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lineages: dict[str, Lineage] = {}
        self._by_rubric: dict[str, Lineage] = {}
        self._size = self._checksum = 0
        for event, self._size, self._checksum in _read_events(path):
            self._apply(event)
        is_new = not path.exists()
        self._file = path.open("ab", buffering=0)
        self._file.truncate(self._size)
        if is_new:
            sync_folder(path.parent)

    def begin(self, query: Query | None, rubric: Rubric) -> Lineage:
        """Return the lineage that begins with a rubric; record it if it is new."""
        key = digest_group(query, rubric)
        if key not in self.lineages:
            self._append([{"event": "begin", "group": key, **_describe_version(RubricVersion(query, 0, rubric))}])
        return self.lineages[key]

    def record_steps(self, begun: Iterable[tuple[Query | None, Rubric, int]]) -> list[Lineage]:
        """Record new training steps and new rubrics; return the lineages whose step is new."""
        events, steps = list[dict[str, Any]](), dict[str, int]()
        for query, rubric, step in begun:
            key = digest_group(query, rubric)
            if key not in self.lineages and key not in steps:
                events.append({"event": "begin", "group": key, **_describe_version(RubricVersion(query, 0, rubric))})
            last = self.lineages[key].last_step if key in self.lineages else -1
            steps[key] = max(steps.get(key, last), step)
        found = {
            key: step
            for key, step in steps.items()
            if key not in self.lineages or step > self.lineages[key].last_step
        }
        self._append([*events, *({"event": "step", "group": key, "step": step} for key, step in found.items())])
        return [self.lineages[key] for key in found]

    def find(self, query: Query | None, rubric: Rubric) -> Lineage | None:
        """Return the lineage that has this rubric as one of its versions; None if there is none."""
        return self._by_rubric.get(digest_group(query, rubric))

    def add(self, lineage: Lineage, version: RubricVersion | None, change: Change) -> None:
        """Record a decision and the resulting version, which is None if the rubric does not change."""
        made = {} if version is None else _describe_version(version)
        event = "same" if version is None else "version"
        self._append([{"event": event, "group": lineage.group, **made, "change": change.to_dict()}])

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _append(self, events: Sequence[dict[str, Any]]) -> None:
        """Write events durably, then apply them.

        Raises:
            NotSavedError: the disk is full or failed; none of the events is in the log.
        """
        if not events:
            return
        lines, total = b"", self._checksum
        for event in events:
            body = encode_json(event)[:-1]
            total = crc32(body, total)
            lines += body + _CHECKSUM + b"%d}\n" % total
        try:
            written = 0
            while written < len(lines):
                written += self._file.write(lines[written:])
            os.fsync(self._file.fileno())
        except OSError as error:
            self._file.truncate(self._size)
            raise NotSavedError(f"{self.path}: not saved: {error.strerror}; check the disk and try again") from error
        self._size, self._checksum = self._size + len(lines), total
        for event in events:
            self._apply(event)

    def _apply(self, event: Mapping[str, Any]) -> None:
        group = str(event["group"])
        if event["event"] == "begin":
            self.lineages[group] = Lineage(group, [])
        lineage = self.lineages[group]
        if "step" in event:
            lineage.last_step = event["step"]
        if "change" in event:
            lineage.changes.append({**event["change"], "version": len(lineage.versions) - (event["event"] == "same")})
        if "rubric" in event:
            version = _read_version(event)
            lineage.versions.append(version)
            self._by_rubric.setdefault(digest_group(version.query, version.rubric), lineage)


def read_log(path: Path) -> VersionLog:
    """Read a log that another process may be writing; empty if there is none.

    Raises:
        InputError: the log is damaged.
    """
    reader = VersionLog.__new__(VersionLog)
    reader.lineages, reader._by_rubric = {}, {}
    for event, _, _ in _read_events(path):
        reader._apply(event)
    return reader


def count_changes(lineages: Iterable[Lineage]) -> dict[str, int]:
    """Count all rubrics, those that `changed`, and criteria by what happened to them in all changes."""
    found = list(lineages)
    changes = [change for lineage in found for change in lineage.changes]
    counts = {
        what: sum(len(change.get(what, ())) for change in changes)
        for what in ("split", "added", "returned", "retired", "rejected")
    }
    return {"rubrics": len(found), "changed": sum(lineage.newest.number > 0 for lineage in found), **counts}


_CHECKSUM = b',"crc32":'
"""The end of each line: the CRC-32 of all lines so far, which detects changed, missing and moved lines."""


def _read_events(path: Path) -> Iterator[tuple[dict[str, Any], int, int]]:
    """Yield the events of a log, each with its end offset and the checksum up to there."""
    end = total = 0
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return
    for number, line in enumerate(data.splitlines(keepends=True), 1):
        if not line.endswith(b"\n"):
            return
        end += len(line)
        try:
            event = parse_json(line.decode("utf-8", "surrogatepass"), "the line")
            _check_event(event)
            total = crc32(line.rpartition(_CHECKSUM)[0], total)
            if event["crc32"] != total:
                raise InputError("it or a line before it has changed or is missing")
        except (UnicodeDecodeError, InputError, KeyError, TypeError) as error:
            raise InputError(
                f"{path}, line {number}: not an event of a rubric's history ({error}); restore the file from a copy, "
                "or pass another --out; `autorubric evolve` rebuilds the file if you remove it"
            ) from None
        yield event, end, total


def _check_event(event: Any) -> None:
    kind = event["event"]
    if kind not in ("begin", "step", "version", "same"):
        raise InputError(f"unknown event {kind!r:.40}")
    if kind in ("begin", "version"):
        _read_version(event)
    if kind in ("version", "same") and not isinstance(event["change"]["rollouts"], str):
        raise InputError("'rollouts' is not a string")
    if kind == "step" and type(event["step"]) is not int:
        raise InputError("'step' is not a whole number")


def _describe_version(version: RubricVersion) -> dict[str, Any]:
    return {
        "query": version.query,
        "number": version.number,
        "from_step": version.from_step,
        "digest": version.digest,
        "rubric": version.rubric.to_dict(),
        "inactive": Rubric(list(version.inactive)).to_dict() if version.inactive else [],
    }


def _read_version(event: Mapping[str, Any]) -> RubricVersion:
    inactive = event["inactive"]
    query = event["query"]
    return RubricVersion(
        tuple(query) if isinstance(query, list) else query,
        int(event["number"]),
        Rubric.from_dict(event["rubric"]),
        tuple(Rubric.from_dict(inactive)) if inactive else (),
        int(event["from_step"]),
    )


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
                "inactive": [criterion.requirement for criterion in lineage.newest.inactive],
                "history": lineage.changes,
            },
        }
        for lineage in lineages
    ]
    record = {"name": out.name, "prompt": None, "rubric": None, "items": items}
    write_atomically(out / EVOLVED_FILE, [json.dumps(record, ensure_ascii=False, indent=1), "\n"])
