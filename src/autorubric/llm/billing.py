"""What a finished call cost, and what it may have cost beyond that."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from autorubric.llm.model import Model
from autorubric.llm.request import Failure, Reply, Request, Usage
from autorubric.llm.reservations import Amount, Reservation

# An endpoint that refuses a request like this has not run the model; one that answers 200 may have run it.
_NEVER_BILLED = frozenset({"auth", "quota", "no_model", "unreachable", "rejected", "rate_limit", "server"})


class Bill(NamedTuple):
    """What the ledger and the budget have to know of one call's price.

    Attributes:
        usage: tokens as the endpoint counted them.
        cost: dollars of these tokens; None where the price is not known.
        token_bound: tokens that may have been billed besides, for attempts without a count; None where there is none.
        cost_bound: dollars of these; None where nothing was, or where the price is not known.
    """

    usage: Usage
    cost: float | None
    token_bound: int | None
    cost_bound: float | None

    @property
    def most(self) -> Amount:
        """The most that the call can have cost."""
        tokens = self.usage.total_tokens + (self.token_bound or 0)
        return Amount(tokens, (self.cost or 0.0) + (self.cost_bound or 0.0))


def bill(model: Model, request: Request, outcome: Reply | Failure, reservation: Reservation) -> Bill:
    """The bill of a call: every attempt that may have been billed without a token count is charged its worst case.

    Example:
        >>> class Priced:
        ...     def ceiling(self, request):
        ...         return Usage(100, 900)
        ...     def cost(self, usage):
        ...         return usage.total_tokens / 1000
        >>> ask = Request(messages=(), role="judge")
        >>> bill(Priced(), ask, Reply("MET", usage=Usage(100, 20), cost=0.12), Reservation()).most
        Amount(tokens=120, cost=0.12)
        >>> bill(Priced(), ask, Failure("timeout", "no answer in 60 s"), Reservation()).most
        Amount(tokens=1000, cost=1.0)
    """
    reply = outcome.reply if isinstance(outcome, Failure) else outcome
    usage = reply.usage if reply is not None else None
    cost = reply.cost if reply is not None else None
    silent = reservation.resends + (usage is None and _may_be_billed(outcome))
    ceiling = (reservation.ceiling or model.ceiling(request)) if silent else None
    if ceiling is None:
        return Bill(usage or Usage(), cost, None, None)
    price = model.cost(ceiling)
    return Bill(usage or Usage(), cost, silent * ceiling.total_tokens, None if price is None else silent * price)


def priced(model: Model, outcome: Reply | Failure) -> Reply | Failure:
    """The outcome, with the price of its reply where the model knows it and has not said it."""
    if isinstance(outcome, Failure):
        if outcome.reply is None:
            return outcome
        return replace(outcome, reply=_priced(model, outcome.reply))
    return _priced(model, outcome)


def _priced(model: Model, reply: Reply) -> Reply:
    if reply.cost is not None or reply.usage is None:
        return reply
    cost = model.cost(reply.usage)
    return reply if cost is None else replace(reply, cost=cost)


def _may_be_billed(outcome: Reply | Failure) -> bool:
    if isinstance(outcome, Reply):
        return True
    return outcome.sent and (outcome.kind not in _NEVER_BILLED or outcome.status == 200)
