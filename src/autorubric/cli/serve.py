"""`autorubric serve`: rewards over HTTP, for trainers on other machines."""

from autorubric.cli.command import command, run
from autorubric.cli.spending import print_early_end
from autorubric.errors import pluralize
from autorubric.jobs.serve import ServeSettings, serve_async
from autorubric.runs.progress import ProgressDisplay

_EXAMPLES = """
autorubric serve --judge qwen@http://localhost:8000/v1 -o rewards
autorubric serve --judge openai/gpt-5.1-mini --host 0.0.0.0 --token-env REWARD_TOKEN --gate Safe
"""


@command(ServeSettings, _EXAMPLES)
def serve(settings: ServeSettings) -> int:
    """Serve rewards to trainers over HTTP.

    Endpoints: POST /v1/reward, GET /healthz, GET /metrics. All clients share one rate limit, one budget and one
    ledger; identical requests are sent only once. If a judgment fails, the reward is null, not 0. On SIGTERM, the
    service finishes open requests, then exits.
    """

    def announce(sentence: str) -> None:
        print(f"stop with Ctrl-C or SIGTERM; {sentence}", flush=True)

    with ProgressDisplay(announce=print) as display:
        engine = run(serve_async(settings, progress=display, announce=announce))
    activity = list(engine.executor.snapshot().values())
    paid, hits = sum(a.paid for a in activity), sum(a.hits for a in activity)
    failed = sum(a.failures for a in activity)
    print(f"stopped; {pluralize(paid, 'judge call')}, {hits:,} answered from the ledger, {failed:,} failed")
    print(f"  see how rewards changed:  autorubric drift {settings.out}")
    return print_early_end(engine.stopped, settings.again, interrupted=engine.stopped == "interrupted") or 0
