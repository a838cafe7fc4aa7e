"""`autorubric.synthesize`: queries in, rubrics out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, ClassVar, Self, TypeAlias, cast

from pydantic import PlainValidator, PrivateAttr, model_validator

from autorubric.errors import ConfigError, InputError
from autorubric.files import write_atomically
from autorubric.files.remote import path_of
from autorubric.jobs.batching import BatchSettings
from autorubric.jobs.engines import workers_of
from autorubric.jobs.job import ShardedSettings, blocking, job
from autorubric.jobs.upload import check_upload, upload_finished
from autorubric.llm.attempts import attempt_log
from autorubric.settings import setting
from autorubric.synthesis.protocol import resolve_protocol
from autorubric.synthesis.run_summary import SynthesisResult
from autorubric.synthesis.synthesis_settings import (
    FULL_ONLY,
    ROLE_FLAGS,
    SynthesisOptions,
    SynthesisSettings,
    lay_settings,
    settings_from,
)

Queries: TypeAlias = Path | str | Sequence[str | Mapping[str, Any] | Sequence[Mapping[str, str]]]
"""A file of rows, or queries: texts, conversations as lists of messages, or rows with a question."""

QUERY_FILE = "queries.jsonl"


def _check_queries(value: Any) -> Any:
    if isinstance(value, str | Path):
        return path_of(value)
    if isinstance(value, list | tuple) and value and all(isinstance(one, str | list | Mapping) for one in value):
        return value
    raise ValueError("expected the path of a file, or a list of texts, conversations or rows")


def _full(help: str) -> Any:
    return setting(None, help, group="Full profile")


def _model(slot: str) -> Any:
    return setting(None, f"Model of {slot}, or MODEL@BASE_URL.", group="Models")


def _address(slot: str) -> Any:
    return setting(None, f"Endpoint of {slot}.", group="Models", hidden=True)


class SynthesizeSettings(SynthesisOptions, BatchSettings, ShardedSettings):
    """The settings of `autorubric.synthesize` and `autorubric synthesize`."""

    command: ClassVar[str] = "synthesize"
    input: Annotated[Queries, PlainValidator(_check_queries)] | None = setting(
        None,
        "Queries: CSV, TSV, JSON, JSONL, YAML, Parquet, Arrow, a dataset directory, or - for standard input.",
        flag="INPUT",
        argument=True,
        group="Input",
        reads=True,
    )
    models: str | None = setting(
        None, "Model, or MODEL@BASE_URL, of every role that is not named.", short="-m", group="Models"
    )
    roles: Mapping[str, Any] = setting({}, "The models by role; see SynthesisSettings.roles.", cli=False)
    reference_model: str | None = _model("reference")
    reference_base_url: str | None = _address("reference")
    response_model_a: str | None = _model("response_a")
    response_a_base_url: str | None = _address("response_a")
    response_model_b: str | None = _model("response_b")
    response_b_base_url: str | None = _address("response_b")
    rubric_model_a: str | None = _model("rubric_a")
    rubric_a_base_url: str | None = _address("rubric_a")
    rubric_model_b: str | None = _model("rubric_b")
    rubric_b_base_url: str | None = _address("rubric_b")
    merge_model: str | None = _model("merge")
    merge_base_url: str | None = _address("merge")
    augment_model: str | None = _model("augment")
    augment_base_url: str | None = _address("augment")
    judge_model_a: str | None = _model("judge_a")
    judge_a_base_url: str | None = _address("judge_a")
    judge_model_b: str | None = _model("judge_b")
    judge_b_base_url: str | None = _address("judge_b")
    judge_model_c: str | None = _model("judge_c")
    judge_c_base_url: str | None = _address("judge_c")
    full: Mapping[str, Any] = setting({}, "Settings of the full profile; see FullSettings.", cli=False)
    pool: int | None = _full("Responses per query, from all response models in turn (6).")
    grounding: str | None = _full("Ground rubrics in each model's own response, or in one reference.")
    rounds: int | None = _full("Maximum rounds of evolution, 0 to 4 (1).")
    judging: str | None = _full("One judge call per rubric, or one per criterion.")
    pitfalls: str | None = _full("keep pitfalls in final_full, drop them there, or off.")
    evolved_share: float | None = _full("Maximum share of points that evolved criteria may hold.")
    dry_run: bool = setting(False, "Print requests, tokens and cost; spend nothing.", group="Budget")
    start_over: bool = setting(
        False, "Ignore saved replies and start over; what was spent still counts in a budget.", group="Run"
    )
    export_only: bool = setting(False, "Write the files from saved replies; send no request.", group="Output")
    show: int = setting(0, "Print the first N finished rubrics.", group="Output", ge=0, le=10**9)
    notice: Callable[[str], object] | None = setting(None, "Called with each note on the input.", cli=False)

    _resolved: SynthesisSettings | None = PrivateAttr(None)

    @model_validator(mode="after")
    def _check(self) -> Self:
        self._resolved = self._resolve(self.input if isinstance(self.input, Path) else Path(QUERY_FILE))
        return self

    def _resolve(self, source: Path) -> SynthesisSettings:
        """The settings with the models of all roles in their places."""
        if self.input is None:
            raise InputError("no queries; pass INPUT (--config: input), or queries as the first argument")
        own = SynthesisSettings.model_fields
        names = [name for name in type(self).model_fields if name in self.model_fields_set]
        tree = {name: getattr(self, name) for name in names if name in own}
        tree |= {"input": source, "out": self.out, "full": self.full, **({"roles": self.roles} if self.roles else {})}
        flat = {name: getattr(self, name) for name in names if name in ROLE_FLAGS}
        flags = type(self).flags()

        def named(name: str) -> str:
            return flags[name].name if self.again is not None and name in flags else name

        unused = [flags[name].name for name in names if name in FULL_ONLY and getattr(self, name) is not None]
        if unused and self.profile != "full":
            verb = "needs" if len(unused) == 1 else "need"
            raise ConfigError(f"{', '.join(unused)} {verb} the full profile; pass --profile full")
        return settings_from(lay_settings(tree, flat, self.models), named)

    def resolved(self, source: Path) -> SynthesisSettings:
        """The settings of a run that reads `source`."""
        assert self._resolved is not None
        return self._resolved.model_copy(update={"input": source})

    def _passed(self) -> dict[str, Any]:
        # A shard has a directory of its own, which does not know the version of the run.
        return super()._passed() | {"protocol": resolve_protocol(self.resolved(Path(QUERY_FILE))).protocol}


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
    from autorubric.runs.another_run import Opening
    from autorubric.synthesis.synthesis_run import Session

    settings = settings.by_workers(partial(workers_of, settings))
    with ExitStack() as stack:
        source = stack.enter_context(_as_file(cast(Queries, queries)))
        run = settings.resolved(source)
        log = None if settings.log_json is None else Path(settings.log_json)
        stack.enter_context(attempt_log(log, str(run.out), prompts=settings.log_prompts))
        session = Session(run, settings.progress, settings.stop, settings.notice, settings.division())
        await check_upload(settings, dry_run=settings.dry_run)
        if settings.dry_run:
            return await session.estimate()
        result = await session.run(
            opening=Opening(settings.wait, settings.start_over, settings.replace, settings.parts),
            export_only=settings.export_only,
            again=settings.again or "",
            sources=settings.sources(),
        )
        await upload_finished(settings, complete=result.complete)
        return result


synthesize = blocking(synthesize_async)


@contextmanager
def _as_file(queries: Queries) -> Iterator[Path]:
    """Queries as a file of rows, for the time of a run."""
    if isinstance(queries, str | Path):
        yield Path(queries)
        return
    rows = [dict(one) if isinstance(one, Mapping) else {"question": one} for one in queries]
    with TemporaryDirectory(prefix="autorubric-") as folder:
        path = Path(folder) / QUERY_FILE
        write_atomically(path, (json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
        yield path
