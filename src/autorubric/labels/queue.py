"""The labelling queue of a run: the next pair for an annotator, blind, and the annotator's labels."""

import hashlib
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from autorubric.core.criterion import Criterion
from autorubric.dataset import RubricDataset
from autorubric.errors import InputError
from autorubric.labels.drawing import Ask, Batch, Dispute, Progress, Task, draw_batch, is_large, list_known
from autorubric.labels.event import (
    Event,
    Items,
    Kind,
    LabelDraw,
    Pair,
    PairFinder,
    PairKey,
    check_annotator,
    check_seconds,
    check_text,
    check_verdict,
    find_pair,
    list_choices,
)
from autorubric.labels.label_store import History, LabelStore, label_store
from autorubric.runs.manifest import DATASET_FILE, load_manifest

SECOND_SHARE = 0.2
"""The share of pairs that a second annotator labels too."""
_ASK = Ask()


class _ComingBatch(NamedTuple):
    """A batch that is being drawn: the request, its number, and the last event before the draw."""

    ask: Ask
    batch: int
    seen: int
    drawing: Future[Batch]


class Queue:
    """The labelling queue of a run. Use `label_queue`. Every method may be called from any thread.

    Args:
        store: the label store, open for writing.
        run: the run directory.
        items: the graded items.
        ask: the request for the next batches; may be replaced at any time.
        second_share: the share of pairs that go to a second annotator; may be replaced at any time.
    """

    def __init__(
        self, store: LabelStore, run: Path, items: Items, ask: Ask = _ASK, second_share: float = SECOND_SHARE
    ) -> None:
        self.ask, self.second_share = ask, check_share(second_share)
        self._store, self._run, self._items = store, run, items
        self._lock = threading.RLock()
        self._finder = PairFinder(items)
        self._held: dict[PairKey, str] = {}
        self._again: dict[str, list[Pair]] = {}
        self._worker = ThreadPoolExecutor(1, "autorubric-draw")
        self._coming: _ComingBatch | None = None
        self._pending: list[Pair] = [
            pair for draw in store.history.draws.values() if (pair := self._finder.find(draw)) is not None
        ]

    @property
    def history(self) -> History:
        """The events so far, with all labels; do not show a pair's labels to an annotator who has not labelled it."""
        return self._store.history

    def next(self, annotator: str) -> Task | None:
        """Return an annotator's next pair, reserved until it is labelled or skipped; None if nothing is left.

        The probabilities of a batch are on disk before any of its pairs is shown. The next batch is drawn in the
        background while the current one is being labelled; of a large run as soon as the current one is stored.

        Raises:
            InputError: the name cannot be used, or nothing can be drawn from the run.
            NotSavedError: the draw could not be stored.
        """
        name = check_annotator(annotator)
        while True:
            with self._lock:
                pair = self._find_waiting(name)
                if pair is not None:
                    return self._hand_out(pair, name)
                coming = self._coming = self._start_batch()
            # Others can label while this one waits.
            wait([coming.drawing])
            with self._lock:
                if self._coming is coming and not self._store_batch(coming):
                    return None

    def prepare(self) -> None:
        """Draw the first batch, if there was no draw yet.

        Raises:
            InputError: the first draw finds no pair, or nothing can be drawn from the run.
        """
        with self._lock:
            if self.history.events:
                return
            self._coming = self._start_batch()
            if not self._coming.drawing.result().pairs:
                reason = "each pair has ground_truth in the dataset, has no verdict, or is excluded by the policy"
                if self.ask.policy == "disagreements":
                    reason = "no unlabelled pair has judges that differ; of a run with one judge, choose other pairs"
                raise InputError(f"there are no pairs to label: {reason}")

    def task(self, index: int, place: int) -> Task:
        """Return what an annotator sees of any pair.

        Raises:
            InputError: the run has no such pair.
        """
        return self._build_task(find_pair(self._items, index, place))

    def label(  # noqa: PLR0913 (a label is all of these)
        self,
        annotator: str,
        index: int,
        place: int,
        verdict: str,
        *,
        note: str = "",
        quote: str = "",
        seconds: float | None = None,
    ) -> Event:
        """Store a label; it is on disk when this returns. A second label of the same annotator replaces the first.

        Args:
            annotator: who gives the label.
            index: the item's place in the dataset (`task.pair.index`).
            place: the criterion's place in the rubric (`task.pair.place`).
            verdict: one of `task.choices`, in any case.
            note: free text.
            quote: what the annotator marked in the submission.
            seconds: time spent on the pair.

        Raises:
            InputError: the pair, the verdict, the name or a text is wrong; nothing was stored.
            NotSavedError: the disk is full or failed; nothing was stored.
        """
        pair = find_pair(self._items, index, place)
        word = check_verdict(self._find_criterion(pair), verdict)
        texts = check_text(note, "note"), check_text(quote, "quote")
        return self._store_event("label", check_annotator(annotator), pair, word, (*texts, check_seconds(seconds)))

    def skip(self, annotator: str, index: int, place: int, *, note: str = "", seconds: float | None = None) -> Event:
        """Store that an annotator skips a pair, which is not shown to this annotator again.

        Raises:
            InputError: as `label`.
            NotSavedError: as `label`.
        """
        pair = find_pair(self._items, index, place)
        details = check_text(note, "note"), "", check_seconds(seconds)
        return self._store_event("skip", check_annotator(annotator), pair, None, details)

    def undo(self, annotator: str) -> Task | None:
        """Undo the annotator's last label, skip or adjudication, also of an earlier session.

        Returns:
            The pair, which `next` also returns next; None if there is nothing to undo.

        Raises:
            NotSavedError: as `label`.
        """
        name = check_annotator(annotator)
        with self._lock:
            event = self.history.find_last(name)
            if event is None:
                return None
            self._store.undo(name, event)
            pair = self._finder.find(event)
            if pair is None:
                return None
            if event.kind != "adjudication":
                self._again.setdefault(name, []).append(pair)
                if pair.key in self.history.draws and pair not in self._pending:
                    self._pending.append(pair)
            return self._build_task(pair)

    def disputes(self) -> list[Dispute]:
        """Return the pairs on which annotators differ, without a current adjudication."""
        with self._lock:
            found = []
            for key in self.history.differing():
                labels = tuple(self.history.labels(key).values())
                pair = self._finder.find(labels[0])
                if pair is not None:
                    found.append(Dispute(self._build_task(pair), labels))
            return found

    def adjudicate(self, annotator: str, index: int, place: int, verdict: str, *, note: str = "") -> Event:
        """Decide a pair that annotators labelled; the decision is a separate event that overrides the labels.

        Raises:
            InputError: as `label`, or the pair has no label.
            NotSavedError: as `label`.
        """
        pair = find_pair(self._items, index, place)
        word, text = check_verdict(self._find_criterion(pair), verdict), check_text(note, "note")
        name = check_annotator(annotator)
        if not self.history.labels(pair.key):
            raise InputError(f"item {pair.item}, criterion {pair.criterion!r} has no labels to adjudicate")
        return self._store_event("adjudication", name, pair, word, (text, "", None))

    def may_show(self, annotator: str, index: int, place: int) -> bool:
        """Return whether an annotator may see others' verdicts and labels of a pair: only after labelling it."""
        own = self.history.own(find_pair(self._items, index, place).key, check_annotator(annotator))
        return own is not None and own.kind == "label"

    def progress(self, annotator: str) -> Progress:
        """Return the progress of an annotator."""
        name = check_annotator(annotator)
        with self._lock:
            kinds = self.history.count_kinds(name)
            left = sum(self._is_free(pair, name) for pair in self._pending)
            return Progress(kinds["label"], kinds["skip"], left, len(self.history.differing()))

    def close(self) -> None:
        """Stop drawing ahead; pairs drawn but not shown are discarded."""
        self._worker.shutdown(wait=True, cancel_futures=True)

    def _find_criterion(self, pair: Pair) -> Criterion:
        return self._items.get_item_rubric(pair.index)[pair.place]

    def _build_task(self, pair: Pair) -> Task:
        criterion, index = self._find_criterion(pair), pair.index
        return Task(
            pair,
            self._items.get_item_prompt(index),
            self._items[index].submission,
            self._items.get_item_reference_submission(index),
            criterion.requirement,
            criterion.weight,
            list_choices(criterion),
        )

    def _store_event(
        self, kind: Kind, name: str, pair: Pair, verdict: str | None, details: tuple[str, str, float | None]
    ) -> Event:
        with self._lock:
            earlier = self.history.decision(pair.key) if kind == "adjudication" else self.history.own(pair.key, name)
            draw = self.history.draws.get(pair.key)
            event = Event(
                0, 0.0, kind, pair.item, pair.criterion, pair.digest, name, verdict, *details,
                supersedes=None if earlier is None else earlier.id,
                draw=None if draw is None else draw.draw,
            )  # fmt: skip
            [made] = self._store.append([event])
            self._held.pop(pair.key, None)
            self._again[name] = [one for one in self._again.get(name, []) if one.key != pair.key]
            return made

    def _find_waiting(self, name: str) -> Pair | None:
        """Find a pair of the batches so far that waits for this annotator."""
        if self._again.get(name):
            return self._again[name][-1]
        self._pending = [pair for pair in self._pending if not self._is_done(pair)]
        return next((pair for pair in self._pending if self._is_free(pair, name)), None)

    def _is_done(self, pair: Pair) -> bool:
        labels = len(self.history.labels(pair.key))
        return labels > 1 or (labels == 1 and not self._needs_second(pair))

    def _is_free(self, pair: Pair, name: str) -> bool:
        if self.history.own(pair.key, name) is not None or self._held.get(pair.key, name) != name:
            return False
        return not self._is_done(pair)

    def _needs_second(self, pair: Pair) -> bool:
        """Return whether a second annotator labels the pair too; the result is the same in every process."""
        digest = hashlib.sha256(f"{pair.item}\0{pair.digest}".encode()).digest()
        return int.from_bytes(digest[:8]) < self.second_share * 2**64

    def _hand_out(self, pair: Pair, name: str) -> Task:
        for key in [key for key, holder in self._held.items() if holder == name]:
            del self._held[key]
        self._held[pair.key] = name
        left = sum(self._is_free(pair, name) for pair in self._pending[: self.ask.size])
        if is_large(self._run) or left <= self.ask.size // 2:
            self._coming = self._start_batch()
        return self._build_task(pair)

    def _start_batch(self) -> _ComingBatch:
        if self._coming is not None and self._coming.ask == self.ask:
            return self._coming
        batch = 1 + max(self.history.batches, default=-1)
        drawing = self._worker.submit(draw_batch, self._run, self.ask, list_known(self.history, self._finder), batch)
        return _ComingBatch(self.ask, batch, self.history.last, drawing)

    def _store_batch(self, coming: _ComingBatch) -> bool:
        """Store the batch that was drawn, and return whether it has pairs."""
        self._coming = None
        found, ask = coming.drawing.result(), coming.ask
        drawn = [
            (find_pair(self._items, request.item, request.criterion), request.probability) for request in found.pairs
        ]
        self._store.append(
            Event(
                0, 0.0, "draw", pair.item, pair.criterion, pair.digest,
                draw=LabelDraw(
                    coming.batch, ask.policy, ask.criterion, ask.seed + coming.batch, probability, found.open,
                    coming.seen,
                ),
            )
            for pair, probability in drawn
        )  # fmt: skip
        self._pending += [pair for pair, _ in drawn]
        return bool(drawn)


def check_share(share: float) -> float:
    """Return a share of pairs.

    Raises:
        InputError: it is not a number from 0 to 1.
    """
    if not 0.0 <= share <= 1.0:
        raise InputError(f"second_share={share!r}; expected a number from 0 to 1")
    return share


@contextmanager
def label_queue(
    run: Path | str, ask: Ask = _ASK, *, items: Items | None = None, second_share: float = SECOND_SHARE
) -> Iterator[Queue]:
    """Open the labelling queue of a run, which locks its label store for other processes.

    Args:
        run: the run directory.
        ask: what to draw.
        items: the graded items; by default the run's copy of the dataset, which is read completely.
        second_share: the share of pairs that a second annotator labels too, also blind.

    Raises:
        RunLockedError: another process labels this run; the message says which.
        InputError: the directory contains no run of `autorubric grade`, or the store cannot be written.
    """
    path = Path(run)
    manifest = load_manifest(path)
    found = RubricDataset.from_stored(path / DATASET_FILE) if items is None else items
    manifest.warn_of_change(path / DATASET_FILE)
    with label_store(path) as store:
        queue = Queue(store, path, found, ask, second_share)
        try:
            yield queue
        finally:
            queue.close()
