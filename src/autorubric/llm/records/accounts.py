"""What the calls of a ledger cost, over all sessions of a run."""

from __future__ import annotations

import contextlib
import json
import math
import os
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from autorubric.errors import ConfigError, InputError, LedgerError
from autorubric.files.descriptors import is_exhausted, open_descriptor, write_at
from autorubric.llm.records.call_rows import unpack_reply, unseal
from autorubric.llm.records.database import read_note
from autorubric.llm.request import Usage


@dataclass(frozen=True, slots=True)
class UsageTotals:
    """The calls of one role to one model.

    `cost` sums the calls with a known price. `unpriced` calls may have been billed at an unknown price; `unmetered`
    replies have no plausible token counts; their worst cases, and those of attempts that may have been billed without
    a reply, are `bound_tokens` and `bound_cost`. `now` is the part of this session; None without an earlier session.
    """

    role: str
    model: str
    calls: int
    failed: int
    usage: Usage
    cost: float
    unpriced: int
    unmetered: int = 0
    bound_tokens: int = 0
    bound_cost: float = 0.0
    now: UsageTotals | None = field(default=None, compare=False)

    def plus(self, more: UsageTotals) -> UsageTotals:
        """Return the sum with further calls of the same role to the same model."""
        sums = (getattr(self, name) + getattr(more, name) for name in self.__slots__[2:-1])
        return UsageTotals(self.role, self.model, *sums)

    def to_dict(self) -> dict[str, Any]:
        """Return the sums of all sessions as JSON values, without worst cases."""
        return {name: value for name, value in asdict(self).items() if not name.startswith(("now", "bound"))}


class Spending(NamedTuple):
    """What a run has cost so far, worst cases included where an endpoint may have billed without a reply.

    `unpriced` calls may have been billed at an unknown price; the records of `lost` calls are gone, tokens included.
    """

    calls: int = 0
    tokens: int = 0
    cost: float = 0.0
    unpriced: int = 0
    lost: int = 0

    def plus(self, other: Spending) -> Spending:
        """Return the sum of both."""
        return Spending._make(mine + theirs for mine, theirs in zip(self, other, strict=True))

    def compute_excess(self, other: Spending) -> Spending:
        """By how much this exceeds `other`, field by field."""
        return Spending._make(max(mine - theirs, 0) for mine, theirs in zip(self, other, strict=True))

    def check_limits(self, usd: float | None, tokens: int | None) -> None:
        """Refuse a budget that is not a number, or that cannot count these calls.

        Raises:
            ConfigError: says all that is wrong.
        """
        problems = [
            f"a budget of {limit} {unit} is not a limit; expected a finite number from 0 up"
            for limit, unit in ((usd, "dollars"), (tokens, "tokens"))
            if limit is not None and not 0 <= limit < math.inf
        ]
        if usd is not None and self.unpriced:
            problems.append(
                f"{self.unpriced:,} recorded calls have no known price, so a budget in dollars cannot count "
                "them; give the budget in tokens, or start in a new run directory"
            )
        if self.lost and (usd is not None or tokens is not None):
            problems.append(
                f"what {self.lost:,} calls cost is not known, because their records are lost, so a budget cannot "
                "count them; restore the ledger from a copy, or start in a new run directory"
            )
        if problems:
            raise ConfigError(problems)


_SPENT = """
    SELECT ifnull(max(id), 0), count(*), total(prompt_tokens) + total(completion_tokens) + total(token_bound),
        total(cost) + total(cost_bound),
        total(cost IS NULL AND cost_bound IS NULL AND (status = 'ok' OR token_bound > 0))
    FROM calls WHERE id > :after AND (:role IS NULL OR role = :role)"""
LOST = "lost spending"
"""The note with the cost of calls whose records are lost, field by field."""


def read_spending(
    connection: sqlite3.Connection, *, after: int | None = None, role: str | None = None
) -> tuple[int, Spending]:
    """Return the number of the last call, and what calls cost, worst cases included.

    Args:
        connection: to a ledger.
        after: the number of a call; only the later ones count.
        role: only its calls count. Lost calls count only where all calls do.
    """
    values = {"after": after or 0, "role": role}
    last, calls, tokens, cost, unpriced = connection.execute(_SPENT, values).fetchall()[0]
    spent = Spending(calls, int(tokens), cost, int(unpriced))
    if after is None and role is None:
        spent = spent.plus(Spending(*read_note(connection, LOST) or ()))
    return last, spent


Price: TypeAlias = Callable[[Usage], float | None]
"""Dollars of a call by its tokens."""

_UNPRICED = """
    SELECT id, key, status, data, digest, token_bound FROM calls JOIN payloads USING (id)
    WHERE model = ? AND id > ? AND cost IS NULL AND (
        (status = 'ok' AND prompt_tokens IS NOT NULL) OR (status != 'ok' AND cost_bound IS NULL AND token_bound > 0))
    ORDER BY id LIMIT 500"""

_COST, _BOUND = (f"UPDATE calls SET {column} = ? WHERE id = ?" for column in ("cost", "cost_bound"))


def price_calls(prices: Mapping[str, Price], connection: sqlite3.Connection) -> None:
    """Set the missing cost of the calls of some models: from their tokens, or from the most they can have used.

    Args:
        prices: by the name of a model.
        connection: in a transaction.
    """
    for model, price in prices.items():
        last = 0
        while page := connection.execute(_UNPRICED, (model, last)).fetchall():
            for last, key, status, data, digest, tokens in page:
                if status != "ok":
                    connection.execute(_BOUND, (_compute_highest_cost(price, tokens), last))
                    continue
                with contextlib.suppress(LedgerError):  # a damaged reply is requested again
                    usage = unpack_reply(unseal(key, data, digest), fresh=False).usage
                    connection.execute(_COST, (None if usage is None else price(usage), last))


def _compute_highest_cost(price: Price, tokens: int) -> float | None:
    """Return the most dollars that a number of tokens can cost."""
    both = [price(Usage(tokens, 0)), price(Usage(0, tokens))]
    return None if None in both else max(cost for cost in both if cost is not None)


_LENGTH = 256  # bytes; longer than any five numbers, and written at once


def read_spending_file(path: Path) -> Spending | None:
    """Return the sums in the file of a `SpendingFile`, or None if it is missing or unreadable."""
    try:
        content = json.loads(path.read_bytes())
        calls, tokens, cost, unpriced, lost = (content[name] for name in Spending._fields)
        return Spending(int(calls), int(tokens), float(cost), int(unpriced), int(lost))
    except (OSError, ValueError, LookupError, TypeError, OverflowError):
        return None


class SpendingFile:
    """The sums of a ledger's calls in a file outside the ledger's directory, so that a budget outlives the ledger.

    Overwritten after each commit; a kill loses nothing. It is synced at the start and the end of a session; the
    ledger itself makes up for what a power cut loses in between.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self._last, self._spent = 0, Spending()
        try:
            self._file: int | None = open_descriptor(path, os.O_RDWR | os.O_CREAT)
            self.update(connection, whole=True)
            os.fsync(self._file)
        except OSError as error:
            if is_exhausted(error):
                raise OSError(error.errno, os.strerror(error.errno or 0), str(path)) from error
            raise InputError(f"cannot write {path}: {error.strerror}; choose another run directory") from error

    def update(self, connection: sqlite3.Connection, *, whole: bool = False) -> None:
        """Add the calls committed since the last update; compute the `whole` again if recorded calls have changed.

        Call it on the thread that uses the connection. After an `OSError` the ledger still has the calls, and the
        next session writes the sums.
        """
        last, more = read_spending(connection, after=None if whole else self._last)
        if self._file is None or (last == self._last and not whole):
            return
        self._last, self._spent = last, more if whole else self._spent.plus(more)
        line = json.dumps(self._spent._asdict()).encode()
        write_at(self._file, line.ljust(_LENGTH - 1) + b"\n", 0)

    def close(self) -> None:
        """Sync and close the file; closing twice is harmless."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                os.fsync(self._file)
            os.close(self._file)
            self._file = None
