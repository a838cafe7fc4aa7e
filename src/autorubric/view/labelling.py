"""Labelling in a view: one queue per run, and its requests.

While a queue is open, its run is blind: the view shows only the pairs to label.
"""

import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import asdict
from typing import Any, cast

from autorubric.charts.html import escape_hidden
from autorubric.errors import InputError
from autorubric.labels import Ask, Dispute, Policy, Queue, Task
from autorubric.labels.label_store import FOLDER
from autorubric.llm.records.lock import create_private_file
from autorubric.view.index.dataset_lines import LazyItems
from autorubric.view.page import PageRefusal
from autorubric.view.sources import Source

_MARK = "open"  # a file with the labels, from the start of labelling until its end
_deciding = threading.Lock()
_RECENT = 600.0  # seconds over which labels a minute are counted
POLICIES = {
    "label_next": "most informative for the mean score",
    "random": "at random",
    "uncertain": "where the judge is unsure",
    "criterion": "one criterion",
    "disagreements": "where judges disagree",
}


class LabelQueues:
    """The queues that are open in this view. Every method may be called from any thread.

    Args:
        sources: the runs; those whose labelling an earlier view started and nobody ended stay hidden.
    """

    def __init__(self, sources: Iterable[Source]) -> None:
        self._open: dict[int, tuple[Queue, ExitStack]] = {}
        self._blind = {source.number: (source, _identify_content(source)) for source in sources if is_unended(source)}
        self._lock = threading.Lock()

    def is_hidden(self, source: Source) -> bool:
        """Return whether a run's pages would unblind an annotator of it or of a run on the same items."""
        if self.is_open(source) or is_unended(source):
            return True
        blind = [content for one, content in list(self._blind.values()) if self.is_open(one) or is_unended(one)]
        return bool(blind) and not _identify_content(source).isdisjoint(set().union(*blind))

    def is_open(self, source: Source) -> bool:
        """Return whether the run is being labelled here."""
        return source.number in self._open

    def find_queue(self, source: Source) -> Queue:
        """Return the queue of a run.

        Raises:
            Refusal: it is not open.
        """
        found = self._open.get(source.number)
        if found is None:
            raise PageRefusal(
                409, "labelling of this run has not been started in this view; start it on the page Label"
            )
        return found[0]

    def open(self, source: Source, ask: Ask, second_share: float) -> None:
        """Open the queue of a run, or change what an open one draws.

        Args:
            source: the run.
            ask: what to draw.
            second_share: the share of pairs that a second annotator labels too.

        Raises:
            RunLockedError: another process labels it.
            InputError: its label store cannot be written, or the first draw finds no pair.
        """
        from autorubric.labels import label_queue

        with self._lock:
            if source.number in self._open:
                queue = self._open[source.number][0]
                queue.ask, queue.second_share = ask, second_share
                return
            lines = source.open_dataset()
            if lines is None:
                raise PageRefusal(404, "dataset.json is missing, so there is nothing to label")
            with ExitStack() as stack:
                made = label_queue(source.directory, ask, second_share=second_share, items=LazyItems(lines))
                queue = stack.enter_context(made)
                queue.prepare()
                create_private_file(source.directory / FOLDER, _MARK)
                self._blind[source.number] = source, _identify_content(source)
                self._open[source.number] = queue, stack.pop_all()

    def close(self, source: Source) -> None:
        """End labelling: close the queue of a run and show its pages again."""
        with self._lock:
            (source.directory / FOLDER / _MARK).unlink(missing_ok=True)
            found = self._open.pop(source.number, None)
        if found is not None:
            found[1].close()

    def close_all(self) -> None:
        """Close every queue; labelling is not ended, so the pages stay hidden in the next view."""
        with self._lock:
            opened, self._open = list(self._open.values()), {}
        for _, stack in opened:
            stack.close()

    def carry_out(self, source: Source, action: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Perform the action of a request.

        Args:
            source: the run.
            action: one of `ACTIONS`.
            body: of the request.

        Raises:
            InputError: a value is wrong; nothing was stored.
            NotSavedError: the disk is full; nothing was stored.
            RunLockedError: another process labels the run.
        """
        if action == "open":
            from autorubric.labels.event import check_annotator
            from autorubric.labels.queue import SECOND_SHARE, check_share

            if "annotator" in body:
                check_annotator(_read_text(body, "annotator"))
            percent = _read_whole(body, "second_percent", round(100 * SECOND_SHARE))
            self.open(source, _read_ask(body), check_share(percent / 100))
            return {"open": True}
        if action == "close":
            self.close(source)
            return {"open": False}
        queue, annotator = self.find_queue(source), _read_text(body, "annotator")
        return ACTIONS[action](queue, annotator, body) | {"progress": _describe_progress(queue, annotator)}


def is_unended(source: Source) -> bool:
    """Return whether labelling of a run was started and not ended, in this view or an earlier one."""
    return (source.directory / FOLDER / _MARK).exists()


def _send_next(queue: Queue, annotator: str, body: Mapping[str, Any]) -> dict[str, Any]:
    return {"task": describe_task(queue.next(annotator))}


def _label(queue: Queue, annotator: str, body: Mapping[str, Any]) -> dict[str, Any]:
    index, place = _read_whole(body, "index"), _read_whole(body, "place")
    verdict, note, quote = (_read_text(body, name) for name in ("verdict", "note", "quote"))
    event = queue.history.own(queue.task(index, place).pair.key, annotator)
    # A label is sent again if it was saved but the disk was too full to draw the next pair.
    if event is None or (event.kind, event.verdict, event.note, event.quote) != ("label", verdict, note, quote):
        event = queue.label(annotator, index, place, verdict, note=note, quote=quote, seconds=body.get("seconds"))
    return {"saved": event.id, "task": describe_task(queue.next(annotator))}


def _skip(queue: Queue, annotator: str, body: Mapping[str, Any]) -> dict[str, Any]:
    place = _read_whole(body, "index"), _read_whole(body, "place")
    event = queue.skip(annotator, *place, note=_read_text(body, "note"), seconds=body.get("seconds"))
    return {"saved": event.id, "task": describe_task(queue.next(annotator))}


def _undo(queue: Queue, annotator: str, body: Mapping[str, Any]) -> dict[str, Any]:
    undone = queue.undo(annotator)
    return {"undone": undone is not None, "task": describe_task(undone or queue.next(annotator))}


def _adjudicate(queue: Queue, annotator: str, body: Mapping[str, Any]) -> dict[str, Any]:
    place = _read_whole(body, "index"), _read_whole(body, "place")
    with _deciding:  # of two annotators at the same time, the second one is refused
        earlier = queue.history.decision(queue.task(*place).pair.key)
        if earlier is not None and earlier.annotator != annotator:
            raise PageRefusal(
                409, f"{earlier.annotator} has decided this pair already: {earlier.verdict}; reload the page"
            )
        event = queue.adjudicate(annotator, *place, _read_text(body, "verdict"), note=_read_text(body, "note"))
    return {"saved": event.id}


ACTIONS: dict[str, Callable[[Queue, str, Mapping[str, Any]], dict[str, Any]]] = {
    "next": _send_next,
    "label": _label,
    "skip": _skip,
    "undo": _undo,
    "adjudicate": _adjudicate,
}
"""The actions that a request to a queue can name, other than `open` and `close`."""


def describe_task(task: Task | None) -> dict[str, Any] | None:
    """Return a pair as the page shows it, with nothing from any judge or annotator."""
    if task is None:
        return None
    return {
        "index": task.pair.index,
        "place": task.pair.place,
        "item": escape_hidden(task.pair.item),
        "criterion": escape_hidden(task.pair.criterion),
        "query": escape_hidden(task.query),
        "submission": escape_hidden(task.submission),
        "reference": escape_hidden(task.reference or ""),
        "requirement": escape_hidden(task.requirement),
        "weight": task.weight,
        "choices": [escape_hidden(choice) for choice in task.choices],
    }


def describe_dispute(dispute: Dispute) -> dict[str, Any]:
    """Return a pair that annotators differ on: their labels side by side, and no judge's."""
    labels = [
        {"annotator": event.annotator, "verdict": event.verdict, "note": event.note, "quote": event.quote}
        for event in dispute.labels
    ]
    return {"task": describe_task(dispute.task), "labels": labels}


def _describe_progress(queue: Queue, annotator: str) -> dict[str, Any]:
    since = time.time() - _RECENT
    own = [event.at for event in queue.history.events[-5000:] if event.annotator == annotator and event.at >= since]
    rate = 60.0 * (len(own) - 1) / max(own[-1] - own[0], 1.0) if len(own) > 1 else None
    return {**asdict(queue.progress(annotator)), "a_minute": rate}


def _read_ask(body: Mapping[str, Any]) -> Ask:
    from autorubric.labels import Ask

    policy = cast("Policy", _read_text(body, "policy") or "label_next")
    size, seed = _read_whole(body, "size", 20), _read_whole(body, "seed", 0)
    return Ask(policy, _read_text(body, "criterion") or None, size, seed)


def _read_text(body: Mapping[str, Any], name: str) -> str:
    value = body.get(name, "")
    if not isinstance(value, str):
        raise InputError(f"{name} is of type {type(value).__name__}; expected a string")
    return value


def _read_whole(body: Mapping[str, Any], name: str, default: int | None = None) -> int:
    value = body.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(f"{name}={value!r:.60}; expected a whole number")
    return value


def _identify_content(source: Source) -> set[str]:
    """Return keys shared by runs on the same items: the dataset, or its first submission if labels differ."""
    found = {str(source.manifest.get("dataset_hash") or f"run {source.number}")}
    with suppress(PageRefusal, InputError, ValueError):
        lines = source.open_dataset()
        if lines is not None and len(lines):
            found.add(f"submission {json.dumps(lines.read_item(0).get('submission'))}")
    return found
