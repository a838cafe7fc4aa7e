"""`autorubric.synthesize`: queries in, rubrics out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, cast

from autorubric.errors import InputError
from autorubric.files import write_atomically
from autorubric.files.strict_json import dump_json
from autorubric.jobs.job import BatchSettings, blocking, job
from autorubric.jobs.sharding import ShardedSettings
from autorubric.jobs.upload import check_upload, upload_finished
from autorubric.settings import setting
from autorubric.synthesis.run_summary import SynthesisResult
from autorubric.synthesis.synthesis_settings import QUERY_FILE, Queries, SynthesisSettings, resolve_protocol


class SynthesizeSettings(SynthesisSettings, BatchSettings, ShardedSettings):
    """The settings of `autorubric.synthesize` and `autorubric synthesize`."""

    command: ClassVar[str] = "synthesize"
    export_only: bool = setting(False, "Write the files from saved replies; send no request.", group="Output")
    show: int = setting(0, "Print the first N finished rubrics.", group="Output", ge=0, le=10**9)
    notice: Callable[[str], object] | None = setting(None, "Called with each note on the input.", cli=False)

    def _passed(self) -> dict[str, Any]:
        # A shard has a directory of its own, which does not know the version of the run.
        return super()._passed() | {"protocol": resolve_protocol(self).protocol}


@job(SynthesizeSettings)
async def synthesize_async(queries: Queries | None, settings: SynthesizeSettings) -> SynthesisResult:
    """Turn queries into rubrics: reference, responses, candidate rubrics, merge, harder criteria, export.

    Calling it again with the same run directory resumes the run: saved replies are never paid for twice, and failed
    requests are sent again. The keyword arguments are the fields of `SynthesizeSettings`.

    Args:
        queries: the path of a file of rows, or queries as texts, conversations or rows.
        settings: the keyword arguments, as one model.

    Returns:
        Rubrics, counts and cost. With `dry_run=True` its `estimate` says what the run would cost.

    Raises:
        InputError: a setting, a file or a row is wrong, or a key or model was refused; nothing was spent.

    Example:
        >>> import asyncio, tempfile
        >>> run = synthesize_async(["Why is the sky blue?"], models="builtin/offline", out=tempfile.mkdtemp())
        >>> result = asyncio.run(run)
        >>> result.rows[0]["question"], result.complete
        ('Why is the sky blue?', True)
    """
    from autorubric.synthesis.synthesis_run import estimate_synthesis, run_synthesis

    if settings.processes or settings.engine:
        settings = settings.by_workers()
    with ExitStack() as stack:
        if not isinstance(queries, str | Path):
            queries = stack.enter_context(_as_file(cast(Any, queries)))
        run, division = settings.model_copy(update={"input": Path(queries)}), settings.division()
        if settings.log_json is not None:
            stack.enter_context(settings.attempts_logged())
        if settings.upload is not None:
            await check_upload(settings)
        if settings.dry_run:
            return await estimate_synthesis(run, division)
        result = await run_synthesis(run, division)
        if settings.upload is not None:
            await upload_finished(settings, complete=result.complete)
        return result


synthesize = blocking(synthesize_async)


@contextmanager
def _as_file(queries: Sequence[Any]) -> Iterator[Path]:
    """Queries as a file of rows, for the time of a run."""
    rows = [dict(one) if isinstance(one, Mapping) else {"question": one} for one in queries]
    with TemporaryDirectory(prefix="autorubric-") as folder:
        path = Path(folder) / QUERY_FILE
        write_atomically(path, (_line(row, f"item {index}") for index, row in enumerate(rows)))
        yield path


def _line(row: dict[str, Any], where: str) -> str:
    try:
        return dump_json(row) + "\n"
    except InputError as error:
        raise InputError(f"{where}: {problem}" for problem in error.problems) from None
