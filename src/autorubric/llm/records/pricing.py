"""The cost of calls that were recorded before their price was known."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TypeAlias

from autorubric.errors import LedgerError
from autorubric.llm.records.call_rows import unpack_reply, unseal
from autorubric.llm.request import Usage

Price: TypeAlias = Callable[[Usage], float | None]
"""Dollars of a call by its tokens."""

_UNPRICED = """
    SELECT id, key, status, data, digest, token_bound FROM calls JOIN payloads USING (id)
    WHERE model = ? AND id > ? AND cost IS NULL AND (
        (status = 'ok' AND prompt_tokens IS NOT NULL) OR (status != 'ok' AND cost_bound IS NULL AND token_bound > 0))
    ORDER BY id LIMIT 500"""

_COST, _BOUND = (f"UPDATE calls SET {column} = ? WHERE id = ?" for column in ("cost", "cost_bound"))


def price_calls(prices: Mapping[str, Price], connection: sqlite3.Connection) -> None:
    """Give a cost to the calls of some models that have none: by their tokens, or by the most they can have taken.

    Args:
        prices: by the name of a model.
        connection: in a transaction.
    """
    for model, price in prices.items():
        last = 0
        while page := connection.execute(_UNPRICED, (model, last)).fetchall():
            for last, key, status, data, digest, tokens in page:
                if status != "ok":
                    connection.execute(_BOUND, (_most(price, tokens), last))
                    continue
                with suppress(LedgerError):  # a damaged reply is requested again
                    usage = unpack_reply(unseal(key, data, digest), fresh=False).usage
                    connection.execute(_COST, (None if usage is None else price(usage), last))


def _most(price: Price, tokens: int) -> float | None:
    """The most dollars that a number of tokens can cost."""
    both = [price(Usage(tokens, 0)), price(Usage(0, tokens))]
    return None if None in both else max(cost for cost in both if cost is not None)
