"""What each label counts for, where pairs were drawn with unequal probabilities.

A label stands for 1/π pairs, π the probability with which its pair was drawn (Horvitz and Thompson, JASA 47 (1952)
663-685); metrics are ratios of such sums (Hájek 1971; Särndal, Swensson and Wretman, Model Assisted Survey Sampling,
1992, section 5.7). Draws come in batches. To a batch, pairs that were labelled or drawn before are known and count
1, those that it drew count 1/π, later ones 0: each batch gives an unbiased sum over all pairs, whatever the earlier
labels led it to prefer. Batches are averaged by their number of labels. Where a part of a batch is labelled, that
part stands for the batch, which is shown in random order of items.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from autorubric.errors import InputError, pluralize
from autorubric.labels.drawing import select_scope
from autorubric.labels.event import Event, Pair, PairFinder, PairKey
from autorubric.labels.label_store import History
from autorubric.metrics.arrays import Flags, Floats
from autorubric.metrics.label_choice import JudgedPairs

_PART = ("criterion", "disagreements")
"""Policies that draw from a part of the pairs."""
_EXPORT = "`autorubric labels RUN --export labels.csv` writes the labels for use elsewhere"


@dataclass(frozen=True)
class WeightedLabels:
    """The labels that count, and for how much.

    Attributes:
        labels: the verdict of each pair that counts.
        weights: how many pairs each stands for, in the same order; all 1 where nothing was drawn.
        drawn: whether some pairs were drawn.
        partial: whether all were drawn from a part of the pairs, which the metrics are for.
        notes: what a reader must know.
    """

    labels: dict[Pair, str]
    weights: Floats
    drawn: bool
    partial: bool = False
    notes: tuple[str, ...] = ()

    def select(self, chosen: Flags) -> WeightedLabels:
        """Some of the labels."""
        kept = {pair: word for (pair, word), use in zip(self.labels.items(), chosen, strict=True) if use}
        return replace(self, labels=kept, weights=self.weights[chosen])


def weight_labels(
    history: History, finder: PairFinder, pairs: JudgedPairs, annotator: str | None = None
) -> WeightedLabels:
    """Return the labels of a run with their weights.

    Args:
        history: the events of the store.
        finder: finds the pairs of the run.
        pairs: the judged pairs of the run.
        annotator: the annotator whose labels count; None for those that stand after adjudication.

    Raises:
        InputError: the labels cannot be weighted: batches drew from different parts of the pairs, or from another
            state of the run.
    """
    verdicts = _collect_verdicts(history, finder, annotator)
    at = dict(zip(verdicts, pairs.find((pair.index, pair.place) for pair in verdicts).tolist(), strict=True))
    labels = {pair: verdict for pair, verdict in verdicts.items() if at[pair] >= 0}
    notes = list(_describe_lost(history, finder, len(verdicts) - len(labels), annotator))
    batches = _list_batches(history, labels)
    if not batches:
        return WeightedLabels(labels, np.ones(len(labels)), False, notes=tuple(notes))
    policy, scope, used = _find_scope(batches)
    inside = select_scope(pairs, policy, scope)
    labels = {pair: verdict for pair, verdict in labels.items() if inside[at[pair]]}
    weights = _average_weights(history, finder, (batches, used), labels, pairs, inside)
    late = int((weights == 0).sum())
    if late:
        batch = "batch" if policy in _PART else "batch from all pairs"
        notes.append(
            f"{pluralize(late, 'label')} {'does' if late == 1 else 'do'} not count until the next {batch}; "
            "no batch covers them yet"
        )
    if policy in _PART:
        notes.append(f"the metrics are for {_describe_scope(policy, scope)} only, from which all batches were drawn")
    return WeightedLabels(labels, weights, True, policy in _PART, tuple(notes)).select(weights > 0)


def _collect_verdicts(history: History, finder: PairFinder, annotator: str | None) -> dict[Pair, str]:
    found = {}
    for key in history.labelled():
        pair, verdict = finder.find_key(key), history.verdict(key, annotator, finder.find_criterion(key))
        if pair is not None and verdict is not None:
            found[pair] = verdict
    return found


def _describe_lost(history: History, finder: PairFinder, unjudged: int, annotator: str | None) -> Iterator[str]:
    changed = sum(finder.find_key(key) is None for key in history.labelled())
    if changed:
        yield (
            f"the query, submission or criterion of {pluralize(changed, 'labelled pair')} has changed since, or is "
            "no longer in the run; the labels are kept and not counted"
        )
    if unjudged:
        yield f"{pluralize(unjudged, 'labelled pair')} left out: the judge has no verdict, or the item has no score"
    open_ones = len(history.differing())
    if open_ones and annotator is None:
        yield (
            f"annotators differ on {pluralize(open_ones, 'pair')} without adjudication; the majority counts "
            "or, in a tie, the middle label of ordered options"
        )
        yield from describe_tied(history, finder)


def describe_tied(history: History, finder: PairFinder) -> Iterator[str]:
    """Yield a sentence on the pairs without a decision on which annotators are tied, if there are any."""
    open_ones = history.differing()
    tied = sum(
        finder.find_key(key) is not None and history.verdict(key, None, finder.find_criterion(key)) is None
        for key in open_ones
    )
    if tied:
        yield (
            f"annotators are tied on {tied} of {pluralize(len(open_ones), 'pair')} without adjudication; these are "
            "left out; adjudicate in `autorubric view`, or choose whose labels count with --annotator NAME"
        )


@dataclass(frozen=True)
class _Batch:
    """A batch with labels: its draws by pair, and the share of them that has a label."""

    number: int
    draws: dict[PairKey, Event]
    share: float
    labels: int

    @property
    def first(self) -> Event:
        return next(iter(self.draws.values()))


def _list_batches(history: History, labels: dict[Pair, str]) -> list[_Batch]:
    """Return the batches of which a pair has a label, in order."""
    have, found = {pair.key for pair in labels}, []
    for number, draws in sorted(history.batches.items()):
        got = sum(draw.key in have for draw in draws)
        if got:
            found.append(_Batch(number, {draw.key: draw for draw in draws}, got / len(draws), got))
    return found


def _find_scope(batches: list[_Batch]) -> tuple[str, str | None, list[_Batch]]:
    """Return the policy and criterion that define the pairs of the draws, and their batches.

    Where some were drawn from all pairs, it is these: to each of them, pairs that others drew earlier are known.
    """
    scopes: dict[tuple[str, str | None], list[_Batch]] = {}
    for batch in batches:
        draw = batch.first.draw
        if draw is None:
            raise InputError(f"batch {batch.number} has no probabilities, so its labels cannot be weighted", _EXPORT)
        scope = (draw.policy, draw.scope) if draw.policy in _PART else ("all", None)
        scopes.setdefault(scope, []).append(batch)
    if ("all", None) in scopes:
        return "all", None, scopes["all", None]
    if len(scopes) > 1:
        mixed = "; ".join(
            f"batch {', '.join(str(batch.number) for batch in some)} from {_describe_scope(*scope)}"
            for scope, some in scopes.items()
        )
        raise InputError(
            f"the labels were drawn from different parts of the run ({mixed}), so they cannot be weighted together",
            f"Label a batch from all pairs, such as with the policy random. {_EXPORT}",
        )
    [(policy, name)] = scopes
    return policy, name, batches


def _describe_scope(policy: str, scope: str | None) -> str:
    if policy == "criterion":
        return f"criterion {scope!r}"
    return "the pairs on which the judges differ" if policy == "disagreements" else "all pairs"


def _average_weights(
    history: History,
    finder: PairFinder,
    batches: tuple[list[_Batch], list[_Batch]],
    labels: dict[Pair, str],
    pairs: JudgedPairs,
    inside: Flags,
) -> Floats:
    """Return the weights that the batches (all, and those to use) give, averaged by their numbers of labels."""
    every, used = batches
    weights, total = np.zeros(len(labels)), sum(batch.labels for batch in used)
    shares = {key: batch.share for batch in every for key in batch.draws}
    for batch in used:
        draw = batch.first.draw
        assert draw is not None
        earlier = {d.key for n, draws in history.batches.items() if n < batch.number for d in draws}
        known = (history.known_at(draw.seen) | earlier) - batch.draws.keys()
        _refuse_other_state(batch, known, finder, pairs, inside)
        for place, pair in enumerate(labels):
            own = batch.draws.get(pair.key)
            if own is not None and own.draw is not None:
                amount = 1.0 / (own.draw.probability * batch.share)
            else:
                amount = 1.0 / shares.get(pair.key, 1.0) if pair.key in known else 0.0
            weights[place] += amount * batch.labels / total
    return weights


def _refuse_other_state(
    batch: _Batch, known: set[PairKey], finder: PairFinder, pairs: JudgedPairs, inside: Flags
) -> None:
    """Refuse labels that were drawn while other pairs were open than are now."""
    there = [pair for key in known if (pair := finder.find_key(key)) is not None]
    at = pairs.find((pair.index, pair.place) for pair in there)
    free = ~np.isnan(pairs.values) & inside & ~pairs.labelled
    free[at[at >= 0]] = False
    draw = batch.first.draw
    if draw is not None and int(free.sum()) != draw.open:
        raise InputError(
            f"batch {batch.number} was drawn from {draw.open} open pairs, and {int(free.sum())} are open to it now: "
            "other pairs were drawn before it, or the run has continued or was graded again since, so the "
            "probabilities do not apply",
            f"Draw again from the finished run. {_EXPORT}",
        )
