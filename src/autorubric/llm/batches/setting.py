"""Whether the models opened in this context send batches, and how."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autorubric.llm.batches.batch_queue import BatchQueue
    from autorubric.llm.batches.batch_store import BatchRecord
    from autorubric.llm.batches.model import BatchModel
    from autorubric.llm.billing import Tally
    from autorubric.llm.budget import Budget
    from autorubric.llm.records.stores import Records
    from autorubric.llm.request import Failure

POLL = 30.0
"""Seconds before a batch is first checked."""

DETACHED = "waiting for the provider: "
"""Start of the stop reason of a run that left its batches with the provider."""

_WINDOW = 20_000
"""Minimum number of items that a run keeps open, so that their requests can share a batch."""

CANCELLED = "batches cancelled: "
"""Start of the stop reason of a run that cancelled its batches."""

GONE = "the results are gone at the provider: "
"""Start of the stop reason of a run if the results of a batch are lost."""

UNKNOWN = "the provider no longer knows "
"""Start of the stop reason of a run if the provider does not know a batch."""

BROKEN_OFF = "the download broke off: "
"""Start of the stop reason of a run that has only a part of a batch's results."""

DAMAGED = "a file of a batch is damaged: "
"""Start of the stop reason of a run that cannot read the requests of a batch."""


@dataclass(slots=True)
class Batching:
    """How batches are sent.

    Attributes:
        size: the most requests in one batch; 0 for the provider's limit.
        detach: leave once the batches are created; the next run collects them.
        poll: seconds before a batch is first checked; the interval grows from there.
        notice: called with a sentence about each wave.
        stages: waves that the run takes at least, because some requests need the replies to others.
        told: batches of this session that were announced.
        cancel: cancel the open batches of earlier sessions, collect what they have answered, and send nothing.
        models: the models opened in this context, by which batches of earlier sessions are collected.

    Example:
        >>> with use_batches(Batching(size=500)):
        ...     batching.get().size
        500
        >>> batching.get() is None
        True
    """

    size: int = 0
    detach: bool = False
    poll: float = POLL
    notice: Callable[[str], object] = lambda sentence: None
    stages: int = 1
    told: int = 0
    cancel: bool = False
    models: list[BatchModel] = field(default_factory=list)

    @property
    def outlook(self) -> str:
        """How long the run may take, in one sentence.

        Example:
            >>> Batching(stages=3).outlook
            'batches: at least 3 waves, one after the other, each up to 24 hours; replies that cannot be read ...'
        """
        waves = "1 wave of" if self.stages == 1 else f"{self.stages} waves, one after the other, each"
        return f"batches: at least {waves} up to 24 hours; replies that cannot be read take another wave"

    def find_model(self, record: BatchRecord) -> BatchModel | None:
        """Return the open model that can collect a batch, or None."""
        found = (model for model in self.models if model.endpoint.base_url == record.base_url)
        return next((model for model in found if model.endpoint.model == record.served), None)


def is_left_open(failure: Failure) -> bool:
    """Whether a call was not made because the run leaves its batches with the provider, cancelled or lost them."""
    reasons = (DETACHED, CANCELLED, GONE, UNKNOWN, BROKEN_OFF, DAMAGED)
    return failure.kind == "stopped" and failure.message.startswith(reasons)


batching: ContextVar[Batching | None] = ContextVar("batching", default=None)
"""How batches are sent in this context; None where requests are sent one by one."""


def open_batch_queue(how: Batching, records: Records, budget: Budget | None, tally: Tally) -> BatchQueue | None:
    """Return the queue for batches of a new executor; None where its records are not in a run directory."""
    from autorubric.llm.batches.batch_queue import BatchQueue  # what sends batches is loaded only where it is needed
    from autorubric.llm.records.ledger import Ledger

    if not isinstance(records, Ledger) or records.folder is None:
        return None
    return BatchQueue(records, records.folder, budget, how, tally)


def widen_window(window: int) -> int:
    """Items to keep open: `window`, or as many as can share a batch."""
    how = batching.get()
    return window if how is None else max(window, how.size, _WINDOW)


@contextmanager
def use_batches(how: Batching) -> Iterator[None]:
    """Let models that are opened in the block send batches."""
    token = batching.set(how)
    try:
        yield
    finally:
        batching.reset(token)
