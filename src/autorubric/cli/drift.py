"""`autorubric drift`: how the reward of a run moved over training time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autorubric.errors import InputError

if TYPE_CHECKING:
    from autorubric.training.drift import CriterionDrift, Drift, Window

_Run = Annotated[Path, typer.Argument(metavar="RUN", help="Run directory of `autorubric serve`.")]
_Windows = Annotated[int, typer.Option("--windows", min=1, max=1000, help="Stretches that the rewards are cut into.")]
_Criteria = Annotated[int, typer.Option("--criteria", min=0, max=10**6, help="Saturated criteria to list.")]
_Json = Annotated[bool, typer.Option("--json", help="All figures as JSON.")]
_Csv = Annotated[bool, typer.Option("--csv", help="The table of windows as CSV.")]
_Markdown = Annotated[bool, typer.Option("--md", help="The table as Markdown.")]

_MOST_WORDS = 70


def drift(
    run: _Run,
    windows: _Windows = 8,
    criteria: _Criteria = 10,
    json: _Json = False,
    csv: _Csv = False,
    md: _Markdown = False,
) -> int:
    """Show how the reward of a service moved: saturation, length, judge failures, group variance, second judge.

    Reads only, so that it can be asked while the service runs.
    """
    from autorubric.cli.agreement_report import Shown

    forms = [name for name, given in (("json", json), ("csv", csv), ("md", md)) if given]
    if len(forms) > 1:
        raise InputError(f"--{' and --'.join(forms)} exclude each other; give one of them")
    found = drift_in(run, windows)
    below = ["", *_told(found, criteria)]
    shown = Shown([_row(number, w) for number, w in enumerate(found.windows, 1)], _whole(found), below=below)
    print(shown.text(forms[0] if forms else "text"), end="" if csv else "\n")
    return 0


def drift_in(run: Path, windows: int) -> Drift:
    """The drift of the run in a directory.

    Raises:
        InputError: there is no run, or it has given no reward.
    """
    from autorubric.llm.records.view import ledger_view
    from autorubric.runs.status import ledger_folder
    from autorubric.training.drift import drift_of
    from autorubric.training.observations import REWARD, RUBRIC, SECOND, Rewarded

    folder = ledger_folder(run)
    if folder is None:
        raise InputError(f"{run} holds no run: there is no ledger in it")
    with ledger_view(folder) as view:
        count = view.count_observations(REWARD)
        if not count:
            raise InputError(f"{run} has given no reward yet; drift is seen in the runs of `autorubric serve`")
        rewards = ((at, Rewarded.from_dict(value)) for at, value in view.observations(REWARD))
        rubrics = [value for _, value in view.observations(RUBRIC)]
        return drift_of(rewards, count, rubrics, view.observations(SECOND), windows)


def _row(number: int, window: Window) -> dict[str, Any]:
    gap = window.gap
    steps = "" if window.steps is None else "–".join(str(step) for step in dict.fromkeys(window.steps))
    return {
        "window": number,
        "from": datetime.fromtimestamp(window.start, UTC).strftime("%m-%d %H:%M:%S"),
        "steps": steps,
        "rewards": window.rewards,
        "failed": f"{window.failed:.1%}",
        "mean": _shown(window.reward),
        "characters": f"{window.characters:.0f}",
        "length effect": _shown(window.length_effect, 2),
        "group variance": _shown(window.variance, 4),
        "silent groups": "–" if window.silent is None else f"{window.silent:.0%}",
        "over second judge": "–" if gap is None else _with_half(gap.mean, gap.half),
        "pairs": 0 if gap is None else gap.pairs,
    }


def _with_half(mean: float, half: float | None) -> str:
    return f"{mean:+.3f}" + ("" if half is None else f" ± {half:.3f}")


def _told(found: Drift, most: int) -> Iterator[str]:
    from autorubric.training.drift import warnings_of

    saturated = [criterion for criterion in found.criteria if criterion.saturated]
    if saturated and most:
        yield "saturated criteria, the heaviest first:"
        yield from (f"  {_criterion_line(criterion)}" for criterion in saturated[:most])
        if len(saturated) > most:
            yield f"  and {len(saturated) - most} more (--criteria, --json)"
        yield ""
    told = list(warnings_of(found))
    yield from (f"warning: {sentence}" for sentence in told)
    if not told:
        yield "nothing to warn of"


def _criterion_line(criterion: CriterionDrift) -> str:
    words = criterion.requirement
    words = words if len(words) <= _MOST_WORDS else f"{words[: _MOST_WORDS - 1]}…"
    return (
        f"{criterion.saturated}: {criterion.name} (weight {criterion.weight:g}): mean {criterion.before:.2f} before, "
        f"{criterion.recent:.2f} lately, {criterion.count} verdicts: {words}"
    )


def _whole(found: Drift) -> Mapping[str, Any]:
    from autorubric.training.drift import warnings_of

    windows = [
        {**asdict(window), "failed": window.failed, "gap": window.gap._asdict() if window.gap else None}
        for window in found.windows
    ]
    return {
        "windows": windows,
        "criteria": [asdict(criterion) for criterion in found.criteria],
        "saturated_weight": found.saturated_weight,
        "warnings": list(warnings_of(found)),
    }


def _shown(number: float | None, places: int = 3) -> str:
    return "–" if number is None else f"{number:.{places}f}"
