"""The state of a run, from its manifest, its ledger and its lock."""

import json
import math
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from autorubric.errors import InputError, MissingFileError
from autorubric.llm.batches.batch_store import BatchRecord, BatchStore
from autorubric.llm.failure_groups import NOT_ASKED, FailureGroup, FailureGroups
from autorubric.llm.records.accounts import Spending, UsageTotals, read_spending_file
from autorubric.llm.records.ledger_view import CallPace, LedgerView, count_seconds_since, ledger_view
from autorubric.llm.records.lock import find_lock_holder
from autorubric.runs.items_file import StoredLines
from autorubric.runs.manifest import DATASET_FILE, ITEMS_FILE, describe_no_run, find_ledger_folder, read_manifest
from autorubric.runs.run_folder import LEDGER_FOLDER, SPENT_FILE
from autorubric.runs.shard import WORKERS_FOLDER, ShardPart
from autorubric.runs.status_text import format_status, merge_negotiated
from autorubric.runs.stopping import build_resume_command

State: TypeAlias = Literal["running", "died", "completed", "unfinished", "unknown"]


class RowCounts(NamedTuple):
    """The progress of a run's rows.

    Attributes:
        rows: rows to do; None if unknown.
        done: rows that are finished.
        failed: rows with something that failed.
        calls_per_row: expected calls per row; None to estimate it from the ledger.
        groups: the failures of rows by cause, as far as the run's files show.
        lost_votes: failed votes in panels that still have a verdict, by judge and cause.
        is_changed: whether `items.jsonl` has changed since the run wrote it.
    """

    rows: int | None
    done: int
    failed: int
    calls_per_row: float | None = None
    groups: tuple[FailureGroup, ...] = ()
    lost_votes: tuple[FailureGroup, ...] = ()
    is_changed: bool = False


CountRows: TypeAlias = Callable[[Path, Mapping[str, Any], LedgerView | None], RowCounts]


@dataclass(frozen=True, slots=True)
class RunStatus:
    """The state of a run; its `repr` is the text that `autorubric status` prints.

    Attributes:
        directory: the run's directory.
        kind: what the run does, as its manifest says.
        state: `running`, `died` (before a clean end), `completed`, `unfinished` (rows are left), or `unknown` (no
            manifest, such as the directory of a `Rewarder`).
        holder: the process that works in it, or None.
        row_counts: the progress of its rows.
        failures: the number of requests that failed and were not answered later, by kind of failure.
        unanswered: the same by role and cause, without failures that are in the groups of the row counts.
        spent: calls, tokens and dollars of all sessions, worst cases included.
        totals: the same by role and model.
        calls_per_second: over the last minute of work.
        idle: seconds since the last call ended.
        eta: estimated seconds until the end; None if it is not running or no estimate is possible.
        stopped: the run's message on why it stopped early.
        again: the command line that resumes it, if known.
        batches: the batches of the run, oldest first.
        is_ledger_missing: whether the manifest records calls but there is no ledger.
        negotiated: for each model, the parameters that its endpoint did not accept, if that may affect replies.
    """

    directory: str
    kind: str
    state: State
    holder: str | None
    row_counts: RowCounts
    failures: Mapping[str, int]
    unanswered: tuple[FailureGroup, ...]
    spent: Spending
    totals: tuple[UsageTotals, ...]
    calls_per_second: float | None
    idle: float | None
    eta: float | None
    stopped: str
    again: str
    is_ledger_missing: bool = False
    batches: tuple[BatchRecord, ...] = ()
    negotiated: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return "\n".join(format_status(self))

    @property
    def advice(self) -> str:
        """What to do next, in one sentence."""
        again = f"run:  {self.again}" if self.again else "run the same command again"
        if self.state == "running":
            return "wait; Ctrl-C in its terminal (or SIGTERM) stops it cleanly, and nothing is lost"
        if self.is_ledger_missing:
            return (
                "its ledger is missing, so the same command is refused: restore the ledger from a copy, or add "
                "--start-over, which pays again for the replies in the ledger"
            )
        if self.open_batches or self.state == "completed":
            return f"{self._batch_advice}; {again}" if self.open_batches else "nothing; the run is complete"
        if self.state == "died":
            return f"its process has ended; saved replies are kept; to resume it, {again}"
        how, command = build_resume_command(self.stopped, self.again)
        if how or "budget" in self.stopped:
            return f"resume it with{how}:  {command}" if command else f"run it again with{how or ' a higher budget'}"
        return f"saved replies are not paid for twice; to retry the rest, {again}"

    @property
    def _batch_advice(self) -> str:
        """What to do about open batches."""
        lost = [record.remote for record in self.open_batches if record.is_lost]
        if lost:
            return (
                f"{'batch' if len(lost) == 1 else 'batches'} {', '.join(lost)} cannot be collected; add "
                "--batch-cancel to give up what is lost, at its worst case, and to cancel what has no answer yet"
            )
        return (
            "open batches are charged whether or not they are collected; add --batch-cancel to cancel what has no "
            "answer yet, or collect them"
        )

    @property
    def open_batches(self) -> list[BatchRecord]:
        """The batches that are not yet collected."""
        return [record for record in self.batches if record.is_open]

    def to_dict(self) -> dict[str, Any]:
        """Return the status as JSON values."""
        whole = asdict(self)
        counts = self.row_counts._asdict()
        whole["failure_groups"] = [asdict(group) for group in counts.pop("groups")]
        whole["lost_votes"] = [asdict(group) for group in counts.pop("lost_votes")]
        whole["row_counts"] = counts
        whole["spent"] = self.spent._asdict()
        whole["totals"] = tuple(total.to_dict() for total in self.totals)
        whole["failures"] = dict(self.failures)
        return {**whole, "advice": self.advice}


def read_run_status(directory: Path, counters: Mapping[str, CountRows]) -> RunStatus:
    """Read the state of the run in `directory`, which may be in progress, finished or dead. Nothing is written.

    Args:
        directory: the run's directory.
        counters: functions that count rows, by the manifest's kind; `count_rows` counts those of other kinds.

    Raises:
        InputError: there is no run, or its ledger is damaged.

    Example:
        >>> read_run_status(Path("no-such-run"), {})
        Traceback (most recent call last):
        autorubric.errors.InputError: no-such-run does not exist; expected a run directory
    """
    whole, parts = _read_status(directory, counters), []
    for folder in sorted((directory / LEDGER_FOLDER / WORKERS_FOLDER).glob("*")):
        with suppress(InputError):  # nothing is recorded yet
            parts.append(_read_status(folder, counters))
    return _merge_statuses(whole, parts) if parts else whole


def _read_status(directory: Path, counters: Mapping[str, CountRows]) -> RunStatus:
    """Return the state of a run from the files of its own directory."""
    manifest, folder = read_manifest(directory), find_ledger_folder(directory)
    if manifest is None and folder is None:
        raise InputError(describe_no_run(directory, "neither manifest.json nor a ledger"))
    manifest = manifest or {}
    holder = None if folder is None else find_lock_holder(folder)
    with ExitStack() as stack:
        view = None
        try:
            view = None if folder is None else stack.enter_context(ledger_view(folder))
        except MissingFileError:
            if manifest.get("status") != "running":  # a run that died at its start has written nothing yet
                raise
        kind = str(manifest.get("kind") or "unknown")
        row_counts = counters.get(kind, count_rows)(directory, manifest, view)
        if view is not None:
            view.freeze()  # so the counts of calls below agree and are as recent as those of rows
        views = [] if view is None else [view]
        if view is not None and folder is not None and holder is None:
            views.append(stack.enter_context(view.open_unrecorded(folder)))
        pace = CallPace(None, None) if view is None else view.measure_pace()
        state = _determine_state(manifest, holder, row_counts)
        known = [*row_counts.groups, *row_counts.lost_votes]
        failing = FailureGroups() if view is None else view.group_unanswered()
        if state == "completed" and not (known or row_counts.failed):
            # A request whose token limit was raised has another key, so its earlier failure looks unanswered.
            # Candidates that were not sampled are not among the rows.
            failing = FailureGroups(group for group in failing if (kind, group.where) == ("evaluation", "response"))
        by_kind = Counter(kind for group in failing for kind in [group.kind] * group.count)
        return RunStatus(
            str(directory),
            kind,
            state,
            holder,
            row_counts,
            dict(by_kind.most_common()),
            tuple(failing.exclude(known)),
            reduce(Spending.plus, (one.sum_spent() for one in views))
            if views
            else read_spending_file(directory / SPENT_FILE) or Spending(),
            _merge_totals(total for one in views for total in one.add_up()),
            pace.calls_per_second,
            None if pace.last is None else count_seconds_since(pace.last),
            _estimate_seconds_left(row_counts, pace, view) if state == "running" else None,
            _find_stop_reason(manifest) or (_describe_full_disk(directory) if state == "died" else ""),
            _find_command(manifest),
            folder is None and bool(read_count(manifest.get("calls"))),
            () if folder is None else tuple(BatchStore(folder).read_records()),
            tuple(merge_negotiated(manifest.get("negotiated"))),
        )


def _merge_statuses(whole: RunStatus, parts: Sequence[RunStatus]) -> RunStatus:
    """Return the state of a run merged with its shards that are in progress or not merged yet.

    Shards also count the rows that earlier sessions finished, so the finished rows are not summed with the run's own.
    """
    paces = [part.calls_per_second for part in parts if part.state == "running" and part.calls_per_second is not None]
    left = [part.eta for part in parts if part.eta is not None]
    failures: Counter[str] = Counter(whole.failures)
    for part in parts:
        failures.update(part.failures)
    return replace(
        whole,
        again=whole.again or parts[0].again,
        kind=parts[0].kind if whole.kind == "unknown" else whole.kind,
        state=whole.state if whole.state == "running" else "died",
        row_counts=_merge_row_counts(whole.row_counts, parts),
        failures=failures,
        unanswered=tuple(FailureGroups(group for status in (whole, *parts) for group in status.unanswered)),
        spent=reduce(Spending.plus, (part.spent for part in parts), whole.spent),
        totals=_merge_totals([*whole.totals, *(total for part in parts for total in part.totals)]),
        calls_per_second=math.fsum(paces) if paces else whole.calls_per_second,
        idle=min((status.idle for status in (whole, *parts) if status.idle is not None), default=None),
        eta=max(left) if left and whole.state == "running" else None,
    )


def _merge_row_counts(whole: RowCounts, parts: Sequence[RunStatus]) -> RowCounts:
    part = ShardPart.from_manifest(read_manifest(Path(parts[0].directory)) or {})
    counts = [part.row_counts for part in parts]
    return RowCounts(
        (whole.rows or counts[0].rows) if part is None else part.rows,
        max(whole.done, sum(counts.done for counts in counts)),
        sum(counts.failed for counts in counts),
        groups=tuple(FailureGroups(group for part in counts for group in part.groups)),
        lost_votes=tuple(FailureGroups(group for part in counts for group in part.lost_votes)),
    )


def _merge_totals(totals: Iterable[UsageTotals]) -> tuple[UsageTotals, ...]:
    found: dict[tuple[str, str], UsageTotals] = {}
    for one in totals:
        known = found.get((one.role, one.model))
        found[one.role, one.model] = one if known is None else known.plus(one)
    return tuple(total for _, total in sorted(found.items()))


def count_rows(directory: Path, manifest: Mapping[str, Any], view: LedgerView | None) -> RowCounts:
    """Read the row counts from a manifest whose `counts` has `rows`, `finished` and `failed`.

    Example:
        >>> count_rows(Path("run"), {"counts": {"rows": 9, "finished": 4, "failed": 1}}, None)[:3]
        (9, 4, 1)
    """
    counts = manifest.get("counts") or {}
    return RowCounts(
        read_count(counts.get("rows")), read_count(counts.get("finished")) or 0, read_count(counts.get("failed")) or 0
    )


def read_count(value: Any) -> int | None:
    """Return a number of rows from a manifest; None if it is not a valid count (a manifest may have been edited).

    Example:
        >>> read_count(9), read_count("many"), read_count(-1), read_count(True)
        (9, None, None, None)
    """
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _determine_state(manifest: Mapping[str, Any], holder: str | None, row_counts: RowCounts) -> State:
    if holder is not None:
        return "running"
    status = manifest.get("status")
    if status == "completed":
        # Failed judgments, votes that a stopped run left out, and rows missing from its files are requested again.
        is_whole = row_counts.rows is None or row_counts.done + row_counts.failed >= row_counts.rows
        is_whole = is_whole and not (row_counts.groups or row_counts.is_changed or _find_stop_reason(manifest))
        return "completed" if is_whole else "unfinished"
    return "unknown" if status is None else "died" if status == "running" else "unfinished"


def _find_stop_reason(manifest: Mapping[str, Any]) -> str:
    return str(manifest.get("error") or (manifest.get("counts") or {}).get("stopped") or "")


_LITTLE_SPACE = 4 * 2**20
"""Free bytes on the disk; a run that died with less could not record why."""


def _describe_full_disk(directory: Path) -> str:
    free = shutil.disk_usage(directory).free
    return f"its disk is full ({free / 1e6:.1f} MB left); free some space first" if free < _LITTLE_SPACE else ""


def _find_command(manifest: Mapping[str, Any]) -> str:
    """Return the command that resumes a run; its place in the manifest depends on the kind of run."""
    places = (manifest.get("eval_config"), manifest, manifest.get("settings"))
    return next((str(place["again"]) for place in places if place and place.get("again")), "")


def _estimate_seconds_left(row_counts: RowCounts, pace: CallPace, view: LedgerView | None) -> float | None:
    if view is None or row_counts.rows is None or not pace.calls_per_second:
        return None
    calls, items = view.count_replies()
    each = row_counts.calls_per_row or (calls / items if items else 0.0)
    if row_counts.calls_per_row is not None:
        return max(0.0, row_counts.rows * each - calls) / pace.calls_per_second
    return max(0, row_counts.rows - row_counts.done - row_counts.failed) * each / pace.calls_per_second


_HEAD = 400  # bytes of a line that contain its error
_FINE = re.compile(rb', ?"error": ?null, ?"report":')
_FAILED = re.compile(rb'"error": ?"')
_NOT_ASKED = tuple(words.encode() for words in NOT_ASKED)


def count_graded(directory: Path, manifest: Mapping[str, Any], view: LedgerView | None) -> RowCounts:
    """Count the graded and failed items in the lines that are written as items end.

    Example:
        >>> count_graded(Path("no-such-run"), {"total_items": 3}, None)
        RowCounts(rows=3, done=0, failed=0, calls_per_row=None, groups=(), lost_votes=(), is_changed=False)
    """
    lines = StoredLines(directory / ITEMS_FILE)
    items: list[Any] | None = None
    done = failed = 0
    groups, lost_votes = FailureGroups(), FailureGroups()
    for index, (_, line) in lines.items():
        head = line[:_HEAD]
        is_fine = _FINE.search(head) is not None
        done += is_fine
        if not is_fine or _FAILED.search(line):
            with suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError):  # not a result
                items = _read_items(directory) if items is None else items
                name = (items[index].get("id") if index < len(items) else None) or str(index)
                _add_failures(groups, lost_votes, name, json.loads(line))
                failed += not is_fine and not any(words in head for words in _NOT_ASKED)
    total = read_count(manifest.get("total_items"))
    return RowCounts(total, done, failed, None, tuple(groups), tuple(lost_votes), lines.is_changed)


def _read_items(directory: Path) -> list[Any]:
    """Return the stored items of a run, for their ids; empty without a readable dataset."""
    with suppress(OSError, ValueError, KeyError, RecursionError):
        return list(json.loads((directory / DATASET_FILE).read_bytes())["items"])
    return []


def _add_failures(groups: FailureGroups, lost_votes: FailureGroups, item: str, record: dict[str, Any]) -> None:
    """Add an item's failed judgments to `groups` and its failed votes to `lost_votes`."""
    entries = record["report"].get("criterion_reports")
    for entry in [record] if entries is None else entries:
        if isinstance(entry.get("error"), str):
            groups.add_text(entry["error"], item)
            continue
        for vote in entry.get("votes") or entry.get("multi_choice_votes") or ():
            if isinstance(vote.get("error"), str):
                lost_votes.add_text(vote["error"], item, str(vote["judge_id"]))
