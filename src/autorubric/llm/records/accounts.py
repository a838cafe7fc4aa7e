"""What the ledger's calls add up to, over all sessions of a run."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from autorubric.errors import LedgerError
from autorubric.llm.records.rows import unpacked_failure, unseal
from autorubric.llm.request import Failure, Usage


@dataclass(frozen=True, slots=True)
class Totals:
    """The calls of one role to one model.

    Attributes:
        role: the part the model played.
        model: the model's canonical `provider/model` string.
        calls: calls made, the failed ones included.
        failed: calls that brought no reply.
        usage: tokens as counted by the endpoint.
        cost: dollars of the calls whose price is known.
        unpriced: calls that may have been billed, and whose price is not known.
        unmetered: replies without token counts that can be right, charged at their worst case where it is known.
    """

    role: str
    model: str
    calls: int
    failed: int
    usage: Usage
    cost: float
    unpriced: int
    unmetered: int = 0


class Spent(NamedTuple):
    """What a run has cost so far, with the worst case wherever an endpoint may have billed in silence.

    Attributes:
        calls: calls made, those whose records are lost included.
        tokens: prompts and completions together.
        cost: dollars of the calls whose price is known.
        unpriced: calls that may have been billed, and whose price is not known.
        lost: calls whose records are lost, and of which not even the tokens are known.
    """

    calls: int = 0
    tokens: int = 0
    cost: float = 0.0
    unpriced: int = 0
    lost: int = 0

    def plus(self, other: Spent) -> Spent:
        """Both together.

        Example:
            >>> Spent(1, 15, 0.5).plus(Spent(2, 30, 0.25, 1))
            Spent(calls=3, tokens=45, cost=0.75, unpriced=1, lost=0)
        """
        calls, tokens, cost, unpriced, lost = (mine + theirs for mine, theirs in zip(self, other, strict=True))
        return Spent(int(calls), int(tokens), cost, int(unpriced), int(lost))

    def beyond(self, other: Spent) -> Spent:
        """What this has more than `other`.

        Example:
            >>> Spent(3, 45, 0.75).beyond(Spent(1, 60, 0.5))
            Spent(calls=2, tokens=0, cost=0.25, unpriced=0, lost=0)
        """
        calls, tokens, cost, unpriced, lost = (
            max(mine - theirs, 0) for mine, theirs in zip(self, other, strict=True)
        )
        return Spent(int(calls), int(tokens), cost, int(unpriced), int(lost))


class FailedCall(NamedTuple):
    """A call that brought no reply, and where it belonged."""

    item: str
    role: str
    model: str
    failure: Failure


_TOTALS = """
    SELECT role, model, count(*), sum(status != 'ok'), total(prompt_tokens), total(completion_tokens),
        total(cached_tokens), total(reasoning_tokens), total(cost),
        sum(cost IS NULL AND (status = 'ok' OR (cost_bound IS NULL AND ifnull(token_bound, 0) > 0))),
        sum(status = 'ok' AND prompt_tokens IS NULL)
    FROM calls GROUP BY role, model ORDER BY role, model"""
_SPENT = """
    SELECT ifnull(max(id), 0), count(*), total(prompt_tokens) + total(completion_tokens) + total(token_bound),
        total(cost) + total(cost_bound),
        total(cost IS NULL AND cost_bound IS NULL AND (status = 'ok' OR token_bound > 0))
    FROM calls WHERE id > ?"""
LOST = "lost spending"
"""The note of what calls cost whose records are lost: the fields of `Spent`."""
_FAILED = """
    SELECT id, key, item, role, model, status, http_status, attempts, data, digest
    FROM calls JOIN payloads USING (id) WHERE status NOT IN ('ok', 'damaged') AND id > ? ORDER BY id LIMIT 500"""


def totals(connection: sqlite3.Connection) -> list[Totals]:
    """Calls, tokens and cost by role and model."""
    return [
        Totals(role, model, calls, failed, Usage(*map(int, tokens)), cost, unpriced, unmetered)
        for role, model, calls, failed, *tokens, cost, unpriced, unmetered in connection.execute(_TOTALS).fetchall()
    ]


def spent(connection: sqlite3.Connection) -> Spent:
    """All calls, tokens and dollars together, worst cases and lost calls included."""
    lost = connection.execute("SELECT value FROM meta WHERE name = ?", (f"note:{LOST}",)).fetchall()
    _, recorded = spent_since(connection, 0)
    return recorded.plus(Spent(*json.loads(lost[0][0]))) if lost else recorded


def spent_since(connection: sqlite3.Connection, call: int) -> tuple[int, Spent]:
    """The number of the last call, and what the calls behind number `call` have spent."""
    last, calls, tokens, cost, unpriced = connection.execute(_SPENT, (call,)).fetchall()[0]
    return last, Spent(calls, int(tokens), cost, int(unpriced))


def failed_calls(connection: sqlite3.Connection) -> Iterator[FailedCall]:
    """The calls that brought no reply, oldest first, a page at a time."""
    last = 0
    # Each page is fetched whole: an open cursor would keep the write-ahead log from being folded in.
    while page := connection.execute(_FAILED, (last,)).fetchall():
        for call, key, item, role, model, status, http_status, attempts, data, digest in page:
            try:
                failure = unpacked_failure(unseal(key, data, digest), status, http_status, attempts)
            except LedgerError:
                failure = Failure(status, "what the endpoint said is damaged in the ledger", http_status, attempts)
            yield FailedCall(item, role, model, failure)
            last = call
