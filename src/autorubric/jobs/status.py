"""Functions that only read: `autorubric.status`, `drift`, `show` and `doctor`."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeAlias

from pydantic import model_validator

from autorubric.errors import ConfigError, InputError, pluralize
from autorubric.jobs.job import RunSource, blocking, job, run_job
from autorubric.llm.http.key_owners import check_key_owners
from autorubric.llm.http.secrets import VariableName, read_environment, split_address
from autorubric.llm.records.ledger_view import ledger_view
from autorubric.runs.manifest import describe_no_run, find_ledger_folder, read_manifest, require_manifest
from autorubric.runs.run_status import RunStatus, count_graded, read_run_status
from autorubric.settings import LocalName, Names, NewDirectory, Settings, setting

if TYPE_CHECKING:
    from autorubric.runs.doctor import DoctorFinding
    from autorubric.runs.shown_item import ShownItem
    from autorubric.training.reward_drift import Drift

RunDirectory: TypeAlias = Path | str


class StatusSettings(Settings):
    """The settings of `autorubric.status` and `autorubric status`.

    Example:
        >>> StatusSettings(run="graded").run.name
        'graded'
    """

    run: RunSource = setting(..., "Run directory of any command.", argument=True, group="Input")
    as_json: bool = setting(False, "Print everything as JSON.", flag="--json", group="Output")


@run_job(StatusSettings)
def status(run: Path, settings: StatusSettings) -> RunStatus:
    """Report the state of a run: rows done, failures with reasons, cost, pace, time left, and what to do next.

    Only reads the run, so it can be called at any time, also after a crash.

    Args:
        run: the run directory.
        settings: the keyword arguments, as a settings object.

    Raises:
        InputError: there is no run.

    Example:
        >>> status("no-such-run")
        Traceback (most recent call last):
        autorubric.errors.InputError: no-such-run does not exist; expected a run directory
    """
    from autorubric.synthesis.run_summary import find_progress

    return read_run_status(Path(run), {"evaluation": count_graded, "synthesis": find_progress})


class DriftSettings(Settings):
    """The settings of `autorubric.drift` and `autorubric drift`.

    Example:
        >>> DriftSettings(run="served").run.name
        'served'
    """

    run: LocalName = setting(..., "Run directory of `autorubric serve`.", argument=True, group="Input", reads=True)
    windows: int = setting(8, "Number of windows that the rewards are divided into.", ge=1, le=1000)
    criteria: int = setting(10, "Maximum saturated criteria to list.", group="Output", ge=0, le=10**6)
    as_json: bool = setting(False, "Print all metrics as JSON.", flag="--json", group="Output")
    as_csv: bool = setting(False, "Print the table of windows as CSV.", flag="--csv", group="Output")
    as_markdown: bool = setting(False, "Print the table as Markdown.", flag="--md", group="Output")

    @model_validator(mode="after")
    def _check_forms(self) -> Self:
        if len(self.list_forms()) > 1:
            raise InputError(f"--{' and --'.join(self.list_forms())} are mutually exclusive; pass one of them")
        return self

    def list_forms(self) -> list[str]:
        """Return the output forms that were chosen, other than text."""
        chosen = (("json", self.as_json), ("csv", self.as_csv), ("md", self.as_markdown))
        return [name for name, given in chosen if given]


@job(DriftSettings)
def drift(run: RunDirectory, settings: DriftSettings) -> Drift:
    """Report how the rewards of a service changed: saturation, length, judge failures, groups and audit.

    Only reads the run, so it can be called while the service is running.

    Args:
        run: the run directory of `serve`.
        settings: the keyword arguments, as a settings object.

    Raises:
        InputError: there is no run, or it has no rewards yet.

    Example:
        >>> drift("no-such-run")
        Traceback (most recent call last):
        autorubric.errors.InputError: no-such-run does not exist; expected a run directory
    """
    from autorubric.training import observations as kinds
    from autorubric.training.reward_drift import measure_drift

    folder = find_ledger_folder(Path(run))
    if folder is None:
        raise InputError(describe_no_run(Path(run), "no ledger"))
    manifest = read_manifest(Path(run)) or {}
    tolerance = (manifest.get("audit") or {}).get("tolerance", 0.0)
    with ledger_view(folder) as view:
        count, evaluations = map(view.count_observations, (kinds.REWARD, kinds.EVALUATION))
        if not count:
            only = f" but {pluralize(evaluations, 'reward')} of evaluations" if evaluations else ""
            raise InputError(f"{run} contains no rewards yet{only}; drift is measured on runs of `autorubric serve`")
        rewards = ((at, kinds.RewardRecord(**value)) for at, value in view.list_observations(kinds.REWARD))
        rubrics = [value for _, value in view.list_observations(kinds.RUBRIC)]
        repeats = [kinds.Repeat(**value) for _, value in view.list_observations(kinds.REPEAT)]
        found = measure_drift(
            rewards,
            count,
            rubrics,
            view.list_observations(kinds.AUDIT),
            settings.windows,
            tolerance=tolerance,
            repeats=repeats,
            unanswered=[since for _, since in view.list_observations(kinds.UNANSWERED)],
            queued=view.list_observations(kinds.QUEUED),
        )
        return replace(found, evaluations=evaluations)


class ShowSettings(Settings):
    """The settings of `autorubric.show` and `autorubric show`.

    Example:
        >>> ShowSettings(run="graded", item="a").item
        'a'
    """

    run: RunSource = setting(..., "Run directory of grade, select or synthesize.", argument=True, group="Input")
    item: str | int | None = setting(
        None, "Id of the item, or its number from 0 (default: the first).", argument=True, group="Input"
    )
    criterion: str | None = setting(None, "Show this criterion only, by its name or id.", group="Output")
    brief: bool = setting(False, "Leave out prompts and raw replies.", group="Output")
    as_json: bool = setting(False, "Print everything as JSON.", flag="--json", group="Output")


@run_job(ShowSettings)
async def show_async(run: Path, settings: ShowSettings) -> ShownItem:
    """Show one item of a run in full: verdicts, votes, reasons, quotes, prompts and raw replies, also failed ones.

    For a synthesis run, the item is a query: its rubric, and the history of each criterion. It only reads, so it can
    be called during the run. Ledgers keep replies, not prompts: prompts are rebuilt from the dataset and the
    templates; if that fails, a note says why.

    Args:
        run: a run directory, or the result of a run that has one.
        settings: the keyword arguments, as a settings object.

    Raises:
        InputError: the run or the item does not exist.

    Example:
        >>> import tempfile
        >>> from autorubric import Criterion, Rubric, grade, show
        >>> rubric = Rubric([Criterion(name="Kind", requirement="Is kind.")])
        >>> found = show(grade(["Dear reader"], rubric=rubric, judge="builtin/offline", out=tempfile.mkdtemp()))
        >>> found.texts["submission"], [(one.judge, one.about) for one in found.exchanges]
        ('Dear reader', [('builtin/offline', 'Kind')])
    """
    from autorubric.runs.shown_item import filter_criterion, show_graded
    from autorubric.synthesis.shown_query import show_query

    manifest = require_manifest(run)
    kind = manifest.get("kind", "evaluation")
    item = None if settings.item is None else str(settings.item)
    if kind not in ("evaluation", "synthesis"):
        raise InputError(f"{run} is a run of {kind}; expected a run of grade, select or synthesize")
    found = await (show_query(run, manifest, item) if kind == "synthesis" else show_graded(run, item))
    if settings.brief:
        found = replace(found, exchanges=(), others=())
    return found if settings.criterion is None else filter_criterion(found, settings.criterion)


show = blocking(show_async)


class DoctorSettings(Settings):
    """The settings of `autorubric.doctor` and `autorubric doctor`.

    Example:
        >>> DoctorSettings(model=["qwen@http://localhost:8000/v1"]).model
        ['qwen@http://localhost:8000/v1']
    """

    base_url: Names = setting((), "Endpoint to check without generating anything; repeatable.", group="Endpoint")
    model: Names = setting(
        (),
        "MODEL or MODEL@BASE_URL to check; repeatable.",
        group="Endpoint",
    )
    api_key_env: VariableName | None = setting(
        None, "Environment variable with the API key of --base-url or --model.", group="Endpoint", secret=True
    )
    allow_plain_http: bool = setting(
        False, "Allow API keys over plain HTTP outside private networks.", group="Endpoint"
    )
    out: NewDirectory = setting(".", "Directory for runs, whose disk is checked.", short="-o", group="Run")
    as_json: bool = setting(False, "Print all findings as JSON.", flag="--json", group="Output")

    @model_validator(mode="after")
    def _check_key(self) -> Self:
        if self.api_key_env is not None and not self.base_url and not self.model:
            raise ConfigError("--api-key-env is the key of an endpoint; pass --base-url URL or --model MODEL as well")
        return self


@job(DoctorSettings)
async def doctor_async(_: None, settings: DoctorSettings) -> list[DoctorFinding]:
    """Check versions, API keys (by name), disk, SQLite, endpoints and models.

    Args:
        settings: the keyword arguments, as a settings object.

    Returns:
        Findings; the `verdict` of each is `ok`, `note` or `problem`.

    Raises:
        ConfigError: a setting is wrong.

    Example:
        >>> [finding.subject for finding in asyncio.run(doctor_async())][:3]
        ['autorubric', 'python', 'system']
    """
    from autorubric.runs.doctor import check_disk, check_endpoint, check_environment, check_sqlite

    places = _group_by_address(list(settings.base_url), [split_address(name) for name in settings.model])
    key, plain = settings.api_key_env, settings.allow_plain_http
    if key is not None:
        check_key_owners(key, [(names[0] if names else "m", url) for url, names in places])
    reached = await asyncio.gather(*(check_endpoint(url, names, key, plain_http=plain) for url, names in places))
    endpoints = (finding for findings in reached for finding in findings)
    return [*check_environment(read_environment(key)), check_sqlite(), *check_disk(Path(settings.out)), *endpoints]


doctor = blocking(doctor_async)


def _group_by_address(urls: list[str], named: list[tuple[str, str | None]]) -> list[tuple[str | None, list[str]]]:
    """Return each address with the models to look for there; None stands for the address of a model's provider."""
    found: dict[str, list[str]] = {url: [] for url in urls}
    at_providers: list[tuple[str | None, list[str]]] = []
    for name, own in named:
        for url in [own] if own else urls:
            found.setdefault(url, []).append(name)
        if not own and not urls:
            at_providers.append((None, [name]))
    return [*found.items(), *at_providers]
