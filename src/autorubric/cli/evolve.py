"""`autorubric evolve`: rubrics that discriminate between rollouts."""

from autorubric.cli import EXIT_UNFINISHED
from autorubric.cli.command import command, run_with_display
from autorubric.cli.spending import print_early_end, print_estimate, print_spending
from autorubric.errors import pluralize
from autorubric.jobs.evolve import EvolveResult, EvolveSettings, evolve_async

_EXAMPLES = """
autorubric evolve graded --writer openai/gpt-5.1 --judge openai/gpt-5.1-mini -o evolved
autorubric convert evolved/evolved.json rubrics.parquet --to verl
"""


@command(EvolveSettings, _EXAMPLES)
def evolve(settings: EvolveSettings) -> int:
    """Evolve rubrics: add criteria that discriminate, retire those that do not.

    For each query, a model proposes criteria and pitfalls. Proposals are graded on the rollouts; those that pass the
    gates are added. rubric_versions.jsonl records each version. To resume a run, run the same command again.
    """
    result = run_with_display(evolve_async, settings)
    if result.estimate is not None:
        return print_estimate("no request was sent", result.estimate, settings, settings.out)
    _print(result)
    ended = print_early_end(result.stopped, settings.again, interrupted=result.interrupted)
    if ended is not None:
        return ended
    if result.undecided:
        print(f"retry with:\n  {settings.again}")
    return EXIT_UNFINISHED if result.undecided else 0


def _print(result: EvolveResult) -> None:
    print(f"\n{result}")
    counts = {name: result.count(name) for name in ("split", "added", "returned", "retired", "rejected")}
    print(f"  criteria: {', '.join(f'{count} {name}' for name, count in counts.items() if count or name != 'split')}")
    for reason, count in result.undecided.items():
        print(f"  {pluralize(count, 'rubric')} unchanged, because a call failed: {reason}")
    print_spending(result.totals)
    print(f"  rubrics: {result.file}; versions: {result.out / 'rubric_versions.jsonl'}")
