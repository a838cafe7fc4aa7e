"""Each attempt at a model, told to whoever watches: logs and spans."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

from autorubric.llm.request import Failure, Reply, Request


@dataclass(frozen=True, slots=True)
class Attempt:
    """One HTTP request for one call, when it has ended.

    Attributes:
        request: what was asked.
        model: the canonical `provider/model` string.
        served: the model's name as the endpoint knows it.
        base_url: where it was sent; empty for a model in this process.
        number: which attempt of its call this was, from 1.
        ended: seconds since the epoch.
        seconds: from sending to the last byte.
        outcome: the reply, or what went wrong.
        retry_in: seconds until the next attempt of the call; None where this was the last.
    """

    request: Request
    model: str
    served: str
    base_url: str
    number: int
    ended: float
    seconds: float
    outcome: Reply | Failure
    retry_in: float | None = None


Watcher: TypeAlias = Callable[[Attempt], None]

watchers: list[Watcher] = []
"""Everybody who is told. Models look whether it is empty, and make no `Attempt` while it is."""


@contextmanager
def watched_by(watcher: Watcher) -> Iterator[None]:
    """Tell `watcher` of every attempt of this process while the context is open.

    Example:
        >>> import asyncio
        >>> from autorubric.testing.offline import OfflineModel
        >>> seen = []
        >>> with watched_by(seen.append):
        ...     reply = asyncio.run(OfflineModel().complete(Request(messages=(), role="response")))
        >>> [(attempt.model, attempt.number, attempt.outcome is reply) for attempt in seen]
        [('builtin/offline', 1, True)]
    """
    watchers.append(watcher)
    try:
        yield
    finally:
        watchers.remove(watcher)


def tell(attempt: Attempt) -> None:
    """Pass an attempt on to everybody who watches.

    Example:
        >>> tell(Attempt(Request(messages=(), role="judge"), "a/b", "b", "", 1, 0.0, 0.1, Reply("MET")))
    """
    for watcher in tuple(watchers):
        watcher(attempt)
