"""What runs of `evolve`, `improve` and `review` share: a locked directory, a ledger and the manifest."""

from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from autorubric.errors import InputError
from autorubric.llm.executor import Executor
from autorubric.llm.models import check_priced, find_stand_in_note
from autorubric.llm.records.ledger import Ledger
from autorubric.llm.records.lock import LEDGER_FILE
from autorubric.llm.request import Model
from autorubric.runs.another_run import Opening, locked_ledger
from autorubric.runs.changes import find_run_changes
from autorubric.runs.manifest import MANIFEST_FILE, write_manifest
from autorubric.runs.progress import RunState, StageState
from autorubric.runs.run_folder import LEDGER_FOLDER, run_folder
from autorubric.runs.stopping import StoppableRun


@dataclass(kw_only=True)
class RecordedRun(StoppableRun):
    """A run whose manifest records its inputs and its progress.

    Attributes:
        kind: the kind of run in manifests.
        stage: the name of finished rows in the progress display.
        executor: makes the requests.
        settings: the settings of the run.
        ledger: records its replies.
        models: all models that it calls.
        made_of: entries that identify the run among others in its directory.
    """

    executor: Executor
    kind: ClassVar[str]
    stage: ClassVar[str]
    settings: Any
    ledger: Ledger
    models: Mapping[str, Model]
    made_of: Mapping[str, Any]

    @abstractmethod
    def count(self) -> tuple[int, int, int]:
        """Return the numbers of all, finished and failed rows."""

    @abstractmethod
    def build_entries(self) -> dict[str, Any]:
        """Further entries of the manifest, such as the prompts of this kind of run."""

    @property
    def out(self) -> Path:
        """The run directory."""
        return Path(self.settings.out)

    @property
    def stand_ins(self) -> Sequence[str]:
        """A sentence for each built-in model that stands in for a real one."""
        return find_stand_in_note(model.name for model in self.models.values())

    def build_state(self) -> RunState:
        """Return the state of the run, for progress displays."""
        (rows, finished, failed), activity = self.count(), self.activity
        stage = StageState(self.stage, finished, sum(activity.in_flight for activity in activity), failed)
        return RunState.of(rows, finished + failed, [stage], activity, self.stand_ins)

    async def carry_out(self) -> None:
        """Execute the run and keep its manifest up to date; the caller saves the final status.

        Raises:
            InputError: a key, model or address was refused; nothing was spent.
        """
        self.save("running")
        try:
            await self.run_to_end(self.settings.progress, self.settings.stop, self.build_state)
        except BaseException:
            self.save("stopped")
            raise
        if self.refused and not self.has_paid:
            raise InputError(self.stopped or "the endpoint refused the run", self.advice)

    def save(self, status: str) -> None:
        """Write the manifest."""
        rows, finished, failed = self.count()
        write_manifest(
            self.out,
            {
                "kind": self.kind,
                "status": status,
                "made_of": self.made_of,
                "settings": {**self.settings.to_manifest(), "again": self.settings.again},
                "stand_ins": list(self.stand_ins),
                "counts": {"rows": rows, "finished": finished, "failed": failed},
                "error": self.stopped,
                "calls": self.ledger.count,
                **self.build_entries(),
            },
        )


@asynccontextmanager
async def run_ledger(
    settings: Any,
    run: type[RecordedRun],
    files: Iterable[str],
    made_of: Mapping[str, Any],
    models: Mapping[str, Model],
    free: Callable[[Mapping[str, Any]], Collection[str]] = lambda manifest: (),
) -> AsyncIterator[Ledger]:
    """Lock the directory of a run against other processes, and yield its ledger.

    Args:
        settings: the settings of the run.
        run: the class of the run.
        files: the files that it writes, in addition to manifest and ledger.
        made_of: entries that identify the run among others in the directory.
        models: all models that it calls.
        free: returns, for a manifest, the names in `made_of` that may differ from it.

    Raises:
        InputError: the directory cannot be used or contains another run, or a dollar budget has no prices.
    """
    check_priced(models, settings.budget_usd)
    out, start_over = Path(settings.out), bool(getattr(settings, "start_over", False))
    with run_folder(out, (*files, MANIFEST_FILE), settings.list_sources(), start_over=start_over):
        async with locked_ledger(
            out,
            run.kind,
            lambda manifest: find_run_changes(manifest, made_of, free(manifest)),
            Opening(settings.wait, start_over, settings.replace),
        ) as ledger:
            ledger.set_costs(models.values())
            yield ledger


def open_estimate_ledger(out: Path) -> Ledger:
    """Return the ledger of a run directory, for a dry run; an empty one if there is none."""
    folder = out / LEDGER_FOLDER
    return Ledger.open(folder) if (folder / LEDGER_FILE).exists() else Ledger.in_memory()
