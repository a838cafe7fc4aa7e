"""Open models, the judge made of them, and the executor: one session for each event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import finalize

from autorubric.errors import ConfigError
from autorubric.graders.assembly import Recipe
from autorubric.graders.replaced_client import client_models, replaced_clients
from autorubric.graders.without_model import ChecksFirst
from autorubric.llm.budget import Budget, check_priced
from autorubric.llm.client import LLMClient
from autorubric.llm.executor import Executor
from autorubric.llm.models import open_models
from autorubric.llm.records.accounts import Spent
from autorubric.llm.records.ledger import Ledger
from autorubric.llm.records.stores import NoRecords, Records, shared_ledger
from autorubric.llm.request import Message, Model, Request

MAX_IN_FLIGHT = 256
"""Calls in flight where nobody says, in Python as on the command line."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a grader may spend and how much it asks at a time.

    Attributes:
        usd: the most dollars, or None.
        tokens: the most tokens, or None.
        in_flight: the limit of concurrent calls, all judges together.
    """

    usd: float | None = None
    tokens: int | None = None
    in_flight: int = MAX_IN_FLIGHT

    def __post_init__(self) -> None:
        if isinstance(self.in_flight, bool) or not isinstance(self.in_flight, int) or self.in_flight < 1:
            raise ConfigError(f"max_in_flight={self.in_flight!r}; expected a whole number of at least 1")
        Budget(usd=self.usd, tokens=self.tokens)

    def budget(self, ledger: Ledger | None, spent: Spent | None = None) -> Budget | None:
        """The budget of a new session, with what the ledger's earlier ones have spent; None without limits.

        `spent` replaces what the ledger says, for a budget that covers a part of it.
        """
        if self.usd is None and self.tokens is None:
            return None
        before = ledger.spent() if spent is None and ledger is not None else spent
        return Budget(usd=self.usd, tokens=self.tokens, spent=before)

    def check_prices(self, models: Mapping[str, Model]) -> None:
        """Refuse a budget in dollars for models without a price.

        Raises:
            ConfigError: a model's price is not known.
        """
        if self.usd is not None:
            check_priced(models)

    def check_bounds(self, models: Mapping[str, Model]) -> None:
        """Refuse a budget for models whose replies may be of any length.

        Raises:
            ConfigError: a model has no `max_tokens`.
        """
        budget = self.budget(None)
        if budget is None:
            return
        for model in models.values():
            budget.worst_case(model, Request((Message("user", ""),), "judge"))


@dataclass(frozen=True, slots=True)
class Session:
    """Models open in one event loop, the judge made of them, and who asks them.

    `opened` closes the models when the loop shuts its asynchronous generators down, as `asyncio.run` does.
    """

    models: Mapping[str, Model]
    judge: ChecksFirst
    executor: Executor
    opened: AbstractAsyncContextManager[Mapping[str, Model]]


class Sessions:
    """The sessions of one grader, and the records they share.

    `kind` is the class of clients where the grader is made; one that was replaced is asked instead of endpoints.
    """

    def __init__(
        self,
        recipe: Recipe,
        limits: Limits,
        run_dir: Path | None,
        ledger: Ledger | None,
        kind: Any = LLMClient,
    ) -> None:
        self.limits = limits
        self._recipe = recipe
        self._clients = replaced_clients(kind, recipe.configs())
        self.run_dir = run_dir
        self._ledger = ledger
        self._budget: Budget | None = None
        self._sessions: dict[asyncio.AbstractEventLoop, Session] = {}
        self._held = ExitStack()
        finalize(self, self._held.close)

    @property
    def records(self) -> bool:
        """Whether replies are recorded in a ledger of the grader's own."""
        return self._ledger is not None or self.run_dir is not None

    def ledger(self) -> Ledger | None:
        """The grader's own ledger, opened on first use; None where it has none."""
        if self._ledger is None and self.run_dir is not None:
            self._ledger = self._held.enter_context(shared_ledger(self.run_dir))
        return self._ledger

    async def open(self) -> Session:
        """The session of the running event loop."""
        loop = asyncio.get_running_loop()
        session = self._sessions.get(loop)
        if session is None:
            for gone in [known for known in self._sessions if known.is_closed()]:
                del self._sessions[gone]
            opened = self._opened()
            models = await opened.__aenter__()
            self.limits.check_prices(models)
            if self._recipe.llm_calls != "per_item":  # whole rubrics are asked for with limits of their own
                self.limits.check_bounds(models)
            if (ledger := self.ledger()) is not None:
                ledger.price(models.values())
            session = Session(models, self._recipe.made(models), self._executor(), opened)
            session = self._sessions.setdefault(loop, session)
        return session

    async def aclose(self) -> None:
        """Close the connections of the running event loop too."""
        session = self._sessions.pop(asyncio.get_running_loop(), None)
        if session is not None:
            await session.opened.__aexit__(None, None, None)
        self.close()

    def close(self) -> None:
        """Let go of the run directory; the next use takes it again."""
        if self.run_dir is not None:
            self._held.close()
            self._ledger = None
        self._sessions.clear()

    def _opened(self) -> AbstractAsyncContextManager[Mapping[str, Model]]:
        configs = self._recipe.configs()
        clients = self._clients or replaced_clients(LLMClient, configs)
        return client_models(clients, configs) if clients else open_models(configs, self.limits.in_flight)

    def _executor(self) -> Executor:
        ledger = self.ledger()
        if self._budget is None:
            self._budget = self.limits.budget(ledger)
        records: Records = NoRecords() if ledger is None else ledger
        return Executor(records, self._budget)
