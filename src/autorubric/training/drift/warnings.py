"""What somebody who trains on a reward should look at."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

from autorubric.training.drift.course import Drift
from autorubric.training.drift.windows import Window

LONGER = 1.5
"""Growth of the mean length from the first window to the last that is worth a warning."""

MANY_FAILED = 0.05
"""Share of rewards without a judgment that is worth a warning."""

MANY_SILENT = 0.5
"""Share of groups with equal rewards that is worth a warning."""


def warnings_of(drift: Drift) -> Iterator[str]:
    """What somebody who trains on this reward should look at, one sentence each.

    Example:
        >>> list(warnings_of(Drift([], [], None)))
        []
    """
    yield from _criterion_warnings(drift)
    if not drift.windows:
        return
    first, last = drift.windows[0], drift.windows[-1]
    if len(drift.windows) > 1 and first.characters and last.characters >= LONGER * first.characters:
        told = f"; within groups length and reward correlate by {last.length_effect or 0.0:.2f}"
        effect = "" if last.length_effect is None else told
        yield (
            f"submissions grew from {first.characters:,.0f} to {last.characters:,.0f} characters{effect}: "
            "consider a length penalty, or a criterion on length"
        )
    if last.failed >= MANY_FAILED:
        kinds = ", ".join(f"{kind} {count}" for kind, count in Counter(last.failures).most_common(3))
        yield f"{last.failed:.0%} of the last submissions have no reward ({kinds}): look after the judge"
    if last.silent is not None and last.silent >= MANY_SILENT:
        yield (
            f"in {last.silent:.0%} of the last groups all rewards are equal, so they teach nothing: "
            "harder criteria or other queries are needed"
        )
    yield from _gap_warnings(first, last)


def _criterion_warnings(drift: Drift) -> Iterator[str]:
    saturated = [criterion for criterion in drift.criteria if criterion.saturated]
    if not saturated:
        return
    share = "" if drift.saturated_weight is None else f", {drift.saturated_weight:.0%} of the weight"
    met = sum(criterion.saturated == "met" for criterion in saturated)
    yield (
        f"{len(saturated)} of {len(drift.criteria)} criteria are saturated{share} ({met} met by nearly all, "
        f"{len(saturated) - met} by nearly none): they no longer tell submissions apart"
    )


def _gap_warnings(first: Window, last: Window) -> Iterator[str]:
    if first is last or first.gap is None or last.gap is None:
        return
    if first.gap.half is None or last.gap.half is None:
        return
    moved = last.gap.mean - first.gap.mean
    half = math.hypot(first.gap.half, last.gap.half)
    if moved - half > 0:
        yield (
            f"the training judge's lead over the second judge grew by {moved:.3f} ± {half:.3f}: "
            "the policy may have learnt what pleases this judge alone"
        )
