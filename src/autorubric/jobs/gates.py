"""`autorubric.gates`: the gates on recorded replies, compared with human labels."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

from pydantic import model_validator

from autorubric.errors import ConfigError
from autorubric.files import write_atomically
from autorubric.jobs.job import RunSource, blocking, refuse_existing, run_job
from autorubric.settings import LocalName, Settings, setting

if TYPE_CHECKING:
    from autorubric.synthesis.replayed_gates import GatesReplay


class GatesSettings(Settings):
    """The settings of `autorubric.gates` and `autorubric gates`.

    Example:
        >>> GatesSettings(replay="replies.jsonl").replay.name
        'replies.jsonl'
    """

    run: RunSource | None = setting(
        None, "Run directory of `synthesize --profile full`, for --record.", argument=True, group="Input"
    )
    replay: LocalName | None = setting(
        None, "Run the gates on the recorded replies in FILE.", metavar="FILE", group="Input", reads=True
    )
    record: LocalName | None = setting(
        None,
        "Write the replies of a run, with empty labels, to FILE (.jsonl).",
        metavar="FILE",
        group="Output",
    )
    force: bool = setting(False, "Replace the file of --record if it exists.", group="Output")
    sample: int | None = setting(None, "Queries to record, drawn at random (default: all).", group="Input", ge=1)
    seed: int = setting(0, "Seed of --sample.", group="Input")
    least_error: float = setting(0.08, "Assumed minimum error rate of a vote.", ge=0)
    least_sure: float = setting(0.95, "Minimum probability that a rejection is right.", ge=0.5)
    as_json: bool = setting(False, "Print the table as JSON.", flag="--json", group="Output")

    @model_validator(mode="after")
    def _check_modes(self) -> Self:
        if (self.replay is None) == (self.record is None):
            raise ConfigError("pass either --replay FILE or RUN with --record FILE")
        if self.record is not None and self.run is None:
            raise ConfigError("--record needs the run directory, as the first argument")
        if self.replay is not None and self.run is not None:
            raise ConfigError("--replay reads only the file; leave out the run directory")
        if self.replay is None:
            self.refuse_unused(("least_error", "least_sure", "as_json"), "--replay FILE")
        else:
            self.refuse_unused(("sample", "seed", "force"), "--record FILE")
        if not (self.least_error < 0.5 and self.least_sure < 1):
            raise ConfigError("--least-error must be below 0.5, and --least-sure below 1")
        return self


@dataclass(frozen=True)
class GatesResult:
    """What `autorubric.gates` returns.

    Attributes:
        recorded: queries written by `record`.
        replayed: the table of `replay`; None for `record`.

    Example:
        >>> GatesResult(recorded=3)
        GatesResult(recorded=3)
    """

    recorded: int = 0
    replayed: GatesReplay | None = field(default=None, repr=False)


@run_job(GatesSettings)
async def gates_async(run: Path | None, settings: GatesSettings) -> GatesResult:
    """Run the gates on recorded replies and compare them with human labels, or record the replies of a run.

    No request is sent in either case.

    Args:
        run: for `record`, the run directory of a full synthesis.
        settings: the keyword arguments, as a settings object.

    Raises:
        InputError: a setting, the run or the file is wrong.

    Example:
        >>> import tempfile
        >>> from autorubric import gates, synthesize
        >>> folder = Path(tempfile.mkdtemp())
        >>> run = synthesize(["Why is the sky blue?"], models="builtin/offline", profile="full", out=folder / "run")
        >>> gates(folder / "run", record=folder / "replies.jsonl").recorded
        1
        >>> replayed = gates(replay=folder / "replies.jsonl").replayed
        >>> replayed.queries, len(replayed.labelled)
        (1, 0)
    """
    from autorubric.synthesis.replayed_gates import read_recorded, record_replies, replay_gates
    from autorubric.synthesis.thresholds import GateSettings

    if settings.replay is not None:
        used = GateSettings(least_error=settings.least_error, least_sure=settings.least_sure)
        return GatesResult(replayed=replay_gates(read_recorded(Path(settings.replay)), used))
    target = Path(str(settings.record))
    refuse_existing(target, force=settings.force)
    assert run is not None
    rows = await record_replies(Path(run), settings.sample, settings.seed)
    write_atomically(target, (json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    return GatesResult(recorded=len(rows))


gates = blocking(gates_async)
