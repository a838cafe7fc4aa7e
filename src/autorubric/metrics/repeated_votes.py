"""Judges that vote twice on one criterion of one item, so that nobody knows which vote counts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from autorubric.core.report import EnsembleCriterionReport
from autorubric.errors import InputError
from autorubric.metrics.joining import Pair


def refuse_repeated_votes(pairs: Iterable[Pair]) -> None:
    """Votes of one judge on one criterion must all be superseded but the last.

    Raises:
        InputError: a judge has two votes that count; the message names it with the item and the criterion.

    Example:
        >>> refuse_repeated_votes([])
    """
    problems = [problem for pair in pairs for problem in _repeated(pair)]
    if problems:
        more = len(problems) - 5
        raise InputError([*problems[:5], *([f"and {more} more votes that are repeated"] if more > 0 else [])])


def _repeated(pair: Pair) -> Iterator[str]:
    for place, entry in enumerate(pair.entries):
        if not isinstance(entry, EnsembleCriterionReport):
            continue
        votes = entry.votes or entry.multi_choice_votes
        if len({vote.judge_id for vote in votes}) == len(votes):
            continue
        counts: set[str] = set()
        for vote in votes:
            if vote.judge_id in counts:
                yield (
                    f"item {pair.item.id or pair.index}: judge {vote.judge_id!r} voted more than once on "
                    f"{entry.criterion.name or f'C{place + 1}'!r}; expected one vote of each judge that is not "
                    "superseded"
                )
                break
            if not vote.superseded:
                counts.add(vote.judge_id)
