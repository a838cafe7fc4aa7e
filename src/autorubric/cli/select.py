"""`autorubric select`: answers in, training data out."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autorubric.cli import judge_flags as flags
from autorubric.cli.call_log import LogJson, LogPrompts, call_log
from autorubric.cli.event_loop import run
from autorubric.cli.flags import folder_named
from autorubric.cli.graded_selection import is_run_directory, select_graded
from autorubric.errors import ConfigError, InputError

if TYPE_CHECKING:
    from autorubric.cli.selection_session import SelectionSession
    from autorubric.training.candidates import CandidateAnswer
    from autorubric.training.queries import RubricQuery

_Data = Annotated[
    Path,
    typer.Argument(
        metavar="DATA", help="Queries with rubrics (a dataset, or rows of any kind), or a run of `autorubric grade`."
    ),
]
_Out = Annotated[
    Path,
    typer.Option(
        "--out", "-o", parser=folder_named, help="Run directory; the same command again goes on from there."
    ),
]
_Candidates = Annotated[
    Path | None, typer.Option("--candidates", help="Rows of any kind: id or query, and answer or answers.")
]
_Sample = Annotated[
    list[str] | None,
    typer.Option("--sample", help="MODEL or MODEL@BASE_URL that writes the candidates; repeatable."),
]
_Column = Annotated[
    list[str] | None,
    typer.Option("--column", metavar="ROLE=NAME", help="Column of rows: query, rubric, id or answer; repeatable."),
]
_K = Annotated[int, typer.Option("-k", min=1, max=1000, help="Candidates a query from each --sample model.")]
_Threshold = Annotated[float, typer.Option(help="Keep scores strictly above this; in [0, 1].")]
_Keep = Annotated[str, typer.Option(help="best, all, top-N, or pairs (best and a worse one, for DPO).")]
_Margin = Annotated[float, typer.Option(help="Of a pair: how much better the best has to be at least.")]
_Trainer = Annotated[
    list[str] | None, typer.Option("--trainer", help="Write for: ruft, chat, llamafactory, trl; all by default.")
]
_Skip = Annotated[bool, typer.Option("--skip-bad-rows", help="Leave out rows that cannot be used, and say so.")]
_Limit = Annotated[int | None, typer.Option("--limit", "-n", min=1, max=10**9, help="Take the first N queries only.")]
_SampleTemperature = Annotated[float, typer.Option(help="Of the --sample models.")]
_SampleMaxTokens = Annotated[int, typer.Option(min=1, max=10_000_000, help="Longest candidate.")]
_SampleKeyEnv = Annotated[str | None, typer.Option(help="Variable that holds the key of every --sample model.")]


def select(
    context: typer.Context,
    data: _Data,
    out: _Out = Path("selection"),
    candidates: _Candidates = None,
    sample: _Sample = None,
    column: _Column = None,
    k: _K = 6,
    threshold: _Threshold = 0.6,
    keep: _Keep = "best",
    margin: _Margin = 0.1,
    trainer: _Trainer = None,
    judge: flags.Judge = None,
    base_url: flags.BaseUrl = None,
    api_key_env: flags.ApiKeyEnv = None,
    judge_key_env: flags.JudgeKeyEnv = None,
    allow_plain_http: flags.PlainHttp = False,
    aggregation: flags.Aggregation = "majority",
    ordinal_aggregation: flags.Ordinal = "mean",
    nominal_aggregation: flags.Nominal = "mode",
    quorum: flags.Quorum = None,
    calls: flags.Calls = "per_criterion",
    escalate_to: flags.EscalateTo = None,
    escalate_below: flags.EscalateBelow = None,
    evidence: flags.Evidence = False,
    few_shot: flags.FewShot = 0,
    training_data: flags.Training = None,
    limit: _Limit = None,
    skip_bad_rows: _Skip = False,
    start_over: flags.StartOver = False,
    wait: flags.Wait = False,
    dry_run: flags.DryRun = False,
    budget_usd: flags.Usd = None,
    budget_tokens: flags.Tokens = None,
    prices: flags.Prices = None,
    concurrency: flags.Concurrency = 256,
    cannot_assess: flags.Abstain = "skip",
    temperature: flags.Temperature = 0.0,
    max_tokens: flags.MaxTokens = 2048,
    max_tokens_ceiling: flags.Ceiling = 32_768,
    sample_temperature: _SampleTemperature = 1.0,
    sample_max_tokens: _SampleMaxTokens = 8192,
    sample_key_env: _SampleKeyEnv = None,
    timeout: flags.Timeout = 300.0,
    retry: flags.Retry = 5,
    seed: flags.Seed = 0,
    prompts: flags.Prompts = None,
    prefix_first: flags.PrefixFirst = True,
    repeat: flags.Repeat = 1,
    share_equal: flags.ShareEqual = False,
    log_json: LogJson = None,
    log_prompts: LogPrompts = False,
) -> int:
    """Select answers to train on: score candidates by their rubric, keep the best above a threshold.

    A finished run directory of `autorubric grade` is selected from with its own scores; nothing is graded again.
    The same command again resumes the run, asks once more for what failed, and pays for nothing twice.
    """
    return _carried_out({**locals(), "typed": flags.typed(context)}, context.obj or sys.argv[1:])


def _carried_out(given: dict[str, Any], arguments: Sequence[str]) -> int:
    if is_run_directory(given["data"]):
        return select_graded(given)
    session = _session(given, arguments)
    with call_log(given["log_json"], given["log_prompts"], given["out"]):
        return run(session.estimate() if given["dry_run"] else session.run())


_READ = ("data", "candidates", "training_data", "prices", "prompts")


def _session(given: dict[str, Any], arguments: Sequence[str]) -> SelectionSession:
    """The session that the flags describe; everything that can be wrong is found here."""
    from autorubric.cli.judge_flags import grader_of
    from autorubric.cli.selection_session import Sampling, SelectionSession
    from autorubric.graders.desks import Limits
    from autorubric.runs.resuming import command_again
    from autorubric.training.export import check_trainers
    from autorubric.training.selection import keep_of

    keep = keep_of(given["keep"], given["threshold"], given["margin"])
    trainers = check_trainers(given["trainer"] or ())
    if given["sample"] and given["candidates"] is not None:
        raise InputError("--candidates and --sample exclude each other; pass one of them")
    if given["sample_key_env"] and not given["sample"]:
        raise InputError("--sample-key-env is the key of --sample models; pass --sample MODEL too")
    grader = grader_of({**given, "typed": _typed_of_judges(given), "on_failure": "none", "length_penalty": None})
    sampling = Sampling(_samplers(given), given["k"]) if given["sample"] else None
    queries, candidates, skipped = _inputs(given)
    return SelectionSession(
        queries,
        candidates if sampling is None else sampling,
        grader,
        keep,
        given["out"],
        limits=Limits(given["budget_usd"], given["budget_tokens"], given["concurrency"]),
        trainers=trainers,
        again=command_again(arguments, without=("--start-over",)),
        resume=not given["start_over"],
        wait=given["wait"],
        prefix_first=given["prefix_first"],
        share_equal=given["share_equal"],
        skipped=skipped,
        settings={
            "command": "select",
            "threshold": keep.threshold,
            "keep": given["keep"],
            "margin": keep.margin,
            "k": given["k"] if sampling else None,
            "sample": given["sample"],
            "limit": given["limit"],
            "concurrency": given["concurrency"],
        },
        sources=tuple(path for name in _READ if (path := given[name]) is not None),
    )


def _typed_of_judges(given: dict[str, Any]) -> frozenset[str]:
    """What was typed of judges; where checks decide what models wrote, some flags are about the models that write."""
    typed: frozenset[str] = given["typed"]
    return typed - set(flags.OF_MODELS) if given["sample"] else typed


def _samplers(given: dict[str, Any]) -> dict[str, Any]:
    """The configuration of each model that writes candidates, by its name."""
    from autorubric.jobs.judges import judge_specs as judges_of

    common = {
        **flags.reached(given, "sample_key_env"),
        "temperature": given["sample_temperature"],
        "max_tokens": given["sample_max_tokens"],
        "max_tokens_ceiling": given["max_tokens_ceiling"],
        "timeout": given["timeout"],
        "max_retries": given["retry"],
        "max_parallel_requests": given["concurrency"],
    }
    configs: dict[str, Any] = {}
    for spec in judges_of(given["sample"], common, given["prices"], "sample-"):
        if spec.judge_id in configs:
            raise ConfigError(f"--sample names {spec.judge_id!r} twice; for more answers of one model raise -k")
        configs[spec.judge_id] = spec.llm_config
    return configs


def _inputs(given: dict[str, Any]) -> tuple[list[RubricQuery], list[CandidateAnswer], list[str]]:
    """The queries that can be used, their candidates, and why others cannot."""
    from autorubric.jobs.grading_inputs import check_weighed
    from autorubric.jobs.submissions import columns_named
    from autorubric.training.candidates import check_candidates, own_answers, read_candidates
    from autorubric.training.queries import read_queries

    columns = columns_named(given["column"], ("query", "rubric", "id", "answer"))
    answer = {"answer": columns.pop("answer")} if "answer" in columns else {}
    found = read_queries(given["data"], columns)
    problems, queries = found.problems, found.queries
    candidates: list[CandidateAnswer] = []
    if not given["sample"]:
        file = given["candidates"]
        candidates = (
            own_answers(queries) if file is None else read_candidates(file, queries, problems, answer, found.notes)
        )
        if file is None and queries and not candidates:
            raise InputError("nothing to select from; pass --candidates FILE, or --sample MODEL")
        origin = str(file or given["data"])
    for note in found.notes:
        typer.echo(f"note: {note}", err=True)
    queries = queries[: given["limit"]]
    if not given["sample"]:
        queries, missing = check_candidates(queries, candidates, origin)
        problems = [*problems, *missing]
    if problems and not given["skip_bad_rows"]:
        raise InputError(problems, "correct these rows, or pass --skip-bad-rows to leave them out")
    if not queries:
        raise InputError([f"{given['data']}: no query can be used", *problems])
    _check_judged(given, queries)
    check_weighed((query.where or query.id, query.rubric) for query in queries)
    wanted = {query.id for query in queries}
    return queries, [candidate for candidate in candidates if candidate.query in wanted], problems


def _check_judged(given: dict[str, Any], queries: Sequence[RubricQuery]) -> None:
    """Without a judge every criterion needs a check; said once, not once a criterion."""
    bare = [query for query in queries if any(criterion.check is None for criterion in query.rubric)]
    if bare and not given["judge"]:
        count = f"{len(bare)} of {len(queries)} queries"
        raise InputError(f"{count} have criteria without a check, the first in {bare[0].where}; pass --judge MODEL")
