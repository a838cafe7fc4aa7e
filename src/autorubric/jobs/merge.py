"""`autorubric.merge`: merges the shards of a run."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeAlias, cast

from autorubric.errors import InputError, format_first, pluralize
from autorubric.jobs.job import blocking, job
from autorubric.jobs.selection_run import SelectionResult
from autorubric.jobs.sharding import ShardedSettings, load_job
from autorubric.llm.batches.batch_store import open_batches
from autorubric.runs.another_run import locked
from autorubric.runs.changes import describe_difference, find_value_changes
from autorubric.runs.manifest import require_manifest
from autorubric.runs.result import EvalResult
from autorubric.runs.run_folder import LEDGER_FOLDER
from autorubric.runs.shard import Shard, ShardPart, ShardParts
from autorubric.settings import FileNames, NewDirectory, Settings, setting
from autorubric.synthesis.run_summary import SynthesisResult

Merged: TypeAlias = EvalResult | SynthesisResult | SelectionResult
"""The result of the run whose shards were merged."""


class MergeSettings(Settings):
    """The settings of `autorubric.merge` and `autorubric merge`.

    Example:
        >>> MergeSettings(shards=["part-1", "part-2"], out="whole").out.name
        'whole'
    """

    shards: FileNames = setting(
        ..., "Run directories of the shards.", flag="SHARDS", argument=True, many=True, group="Input", reads=True
    )
    partial: bool = setting(False, "Merge even if shards are missing or unfinished.", group="Input")
    out: NewDirectory = setting("run", "Run directory of the whole run.", short="-o", group="Run")
    replace: bool = setting(False, "Replace another run; its files move to replaced-N.", group="Run")
    wait: bool = setting(False, "Wait if another process is using a run directory.", group="Run")
    again: str | None = setting(None, "The command that merges again, for the run's manifest.", cli=False)


@job(MergeSettings)
async def merge_async(shards: Path | Sequence[Path | str], settings: MergeSettings) -> Merged:
    """Merge the finished shards of a run into one run directory, as if one process had run it. No request is sent.

    Merging again adds what the shards have finished since.

    Args:
        shards: the run directories of all shards, in any order.
        settings: the keyword arguments, as a settings object.

    Returns:
        The result of the run: that of `synthesize`, `grade` or `select`.

    Raises:
        InputError: a shard is of another run, missing, unfinished, given twice, equal to `out`, or has open batches.
        RunLockedError: a shard is still running.

    Example:
        >>> import asyncio
        >>> asyncio.run(merge_async(["no-such-run"]))
        Traceback (most recent call last):
        autorubric.errors.MissingFileError: no-such-run does not exist; expected a run directory
    """
    result, _ = await merge_run(settings)
    return result


merge = blocking(merge_async)


async def merge_run(settings: MergeSettings) -> tuple[Merged, ShardedSettings]:
    """Merge the shards of a run; return its result and its settings."""
    folders = cast("Sequence[Path]", settings.shards)
    if any(Path(folder).resolve() == Path(settings.out).resolve() for folder in folders):
        raise InputError(f"{settings.out} is one of the shards; pass another directory with --out (in Python: out)")
    async with locked(folders, wait=settings.wait):
        first, parts = find_parts(folders, partial=settings.partial)
        model, run = load_job(first.command)
        own = {"out": settings.out, "replace": settings.replace, "wait": settings.wait, "again": settings.again}
        of_run = model.from_values({**first.settings, **own}).with_parts(parts)
        return await run(of_run), of_run


def find_parts(folders: Sequence[Path], *, partial: bool) -> tuple[ShardPart, ShardParts]:
    """Return the common settings of the shards, and the directory of each.

    Args:
        folders: the run directories of all shards, in any order.
        partial: whether shards may be missing or unfinished.

    Raises:
        InputError: a directory is not a shard, shards belong to different runs, or one is given twice, missing or
            unfinished; reports all problems together.
    """
    found = [_ShardRun.read(folder) for folder in folders]
    problems = [f"{run.folder} is a whole run; expected a run with --shard I/N" for run in found if run.part is None]
    shards = [(run, run.part) for run in found if run.part is not None]
    if not shards:
        raise InputError(problems or "no run directories", _ADVICE)
    (start, first), held = shards[0], dict[Shard, Path]()
    for run, part in shards:
        changes = list(_find_differences(first, part))
        problems += [f"{run.folder} is a shard of another run than {start.folder}: {change}" for change in changes]
        if part.shard in held and not changes:
            problems.append(f"shard {part.shard} is given twice: {held[part.shard]} and {run.folder}")
        held.setdefault(part.shard, run.folder)
        problems += (
            [] if changes else list(_check_open(run)) or ([] if partial else list(_check_ended(part.shard, run)))
        )
    problems += [] if partial else _find_missing(first.shard.of, held)
    if problems:
        raise InputError(problems, "" if partial else _ADVICE)
    return first, ShardParts(
        dict(sorted(held.items())), first.whole, first.rows, by_prompt=first.command == "select", is_partial=partial
    )


def _find_missing(of: int, found: Collection[Shard]) -> Iterator[str]:
    names = [str(shard) for index in range(1, of + 1) if (shard := Shard(index, of)) not in found]
    if names:
        yield f"missing: {'shard' if len(names) == 1 else 'shards'} {format_first(names, _MOST_LISTED)}"


class _ShardRun(NamedTuple):
    """A run directory, its manifest, and the shard that it is, if any."""

    folder: Path
    manifest: Mapping[str, Any]
    part: ShardPart | None

    @classmethod
    def read(cls, folder: Path) -> Self:
        manifest = require_manifest(folder)
        return cls(folder, manifest, ShardPart.from_manifest(manifest))

    @property
    def again(self) -> str | None:
        """The command that resumes it."""
        return self.manifest.get("again") or (self.manifest.get("eval_config") or {}).get("again")


_ADVICE = (
    "pass each shard of one run once, finished; or --partial (in Python: partial=True) to merge the shards that exist"
)
_MOST_LISTED = 20


def _find_differences(first: ShardPart, part: ShardPart) -> Iterator[str]:
    names = (("command", first.command, part.command), ("number of shards", first.shard.of, part.shard.of))
    yield from (f"{name} {now}, there {before}" for name, before, now in names if before != now)
    if first.command == part.command:
        yield from find_value_changes(first.settings, part.settings, describe=describe_difference)
    if first.whole != part.whole:
        yield f"its input of {part.rows:,} rows differs from the input there ({first.rows:,} rows)"


def _check_ended(shard: Shard, found: _ShardRun) -> Iterator[str]:
    if found.manifest.get("status") != "completed":
        how = f"; finish it with: {found.again}" if found.again else ""
        yield f"shard {shard} ({found.folder}) is not finished{how}"


def _check_open(found: _ShardRun) -> Iterator[str]:
    """Yield a problem if a shard has open batches: the merged run would pay for their requests again."""
    records = open_batches(found.folder / LEDGER_FOLDER)
    if records:
        requests = pluralize(sum(record.count for record in records), "request")
        how = f": {found.again}" if found.again else " with the command that sent them"
        batches = pluralize(len(records), "open batch")
        yield f"{found.folder}: {requests} in {batches} would be paid for twice; collect them first{how}"
