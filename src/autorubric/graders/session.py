"""Sessions: open models, the judge built from them, and the executor; one session per event loop.

If `LLMClient` was replaced, it is called instead of an endpoint, because programs for AutoRubric 1.6 patch it.
"""

import asyncio
import os
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import finalize

from pydantic import BaseModel

from autorubric.core.judgment import CriterionJudgment, MultiChoiceJudgment, RubricJudgment
from autorubric.core.usage import TokenUsage
from autorubric.errors import ConfigError
from autorubric.graders.assembly import Recipe
from autorubric.graders.judge_replies import classify_grading_error
from autorubric.graders.without_model import ChecksFirst
from autorubric.llm.budget import Budget
from autorubric.llm.client import LLMClient
from autorubric.llm.config import LLMConfig
from autorubric.llm.executor import Executor
from autorubric.llm.models import check_priced, open_models
from autorubric.llm.records.accounts import Spending
from autorubric.llm.records.ledger import Ledger
from autorubric.llm.records.stores import NoRecords, shared_ledger
from autorubric.llm.request import CallError, Failure, FailureKind, Message, Model, Reply, Request, Usage
from autorubric.testing.scripted import ScriptedModel

MAX_IN_FLIGHT = 256
"""Default maximum of concurrent calls, in Python and on the command line."""


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """The budget and concurrency of a grader.

    Attributes:
        usd: the budget in dollars, or None.
        tokens: the budget in tokens, or None.
        in_flight: the maximum concurrent calls of all judges together.
    """

    usd: float | None = None
    tokens: int | None = None
    in_flight: int = MAX_IN_FLIGHT

    def __post_init__(self) -> None:
        if isinstance(self.in_flight, bool) or not isinstance(self.in_flight, int) or self.in_flight < 1:
            raise ConfigError(f"max_in_flight={self.in_flight!r}; expected a whole number of at least 1")
        Budget(usd=self.usd, tokens=self.tokens)

    def make_budget(self, ledger: Ledger | None, spent: Spending | None = None) -> Budget | None:
        """Return the budget of a new session, minus the spending recorded in the ledger; None without limits.

        `spent` replaces the ledger's sum, for a budget that covers only part of it.
        """
        if self.usd is None and self.tokens is None:
            return None
        before = ledger.sum_spent() if spent is None and ledger is not None else spent
        return Budget(usd=self.usd, tokens=self.tokens, spent=before)

    def check_bounds(self, models: Mapping[str, Model]) -> None:
        """Raise an error if there is a budget and a model's replies have no maximum length.

        Raises:
            ConfigError: a model has no `max_tokens`.
        """
        budget = self.make_budget(None)
        if budget is None:
            return
        for model in models.values():
            budget.compute_worst_case(model, Request((Message("user", ""),), "judge"))


@dataclass(frozen=True, slots=True)
class Session:
    """Models opened in one event loop, the judge built from them, and the executor.

    `opened` closes the models when the loop shuts down its asynchronous generators, as `asyncio.run` does.
    """

    models: Mapping[str, Model]
    judge: ChecksFirst
    executor: Executor
    opened: AbstractAsyncContextManager[Mapping[str, Model]]


class Sessions:
    """The sessions of one grader, and the records they share.

    `kind` is the `LLMClient` of the grader's module; if it was replaced, it is called instead of endpoints.
    """

    def __init__(
        self,
        recipe: Recipe,
        limits: SessionLimits,
        run_dir: Path | None,
        ledger: Ledger | None,
        kind: Any = LLMClient,
    ) -> None:
        self.limits = limits
        self._recipe = recipe
        self._kind = kind
        self._clients = find_replaced_clients(kind, recipe.collect_configs())
        self.run_dir = run_dir
        self._ledger = ledger
        self._budget: Budget | None = None
        self._sessions: dict[asyncio.AbstractEventLoop, Session] = {}
        self._held = ExitStack()
        self._process = os.getpid()
        finalize(self, self._held.close)

    def __reduce__(self) -> tuple[Any, ...]:
        """Return a copy has the same settings and directory; it opens its own connections and records.

        Raises:
            TypeError: copies could spend the budget several times, or the ledger belongs to the caller.
        """
        if self.limits.make_budget(None) is not None:
            raise TypeError(
                "a grader with a budget cannot be pickled or deep-copied: each copy could spend the whole budget; "
                "make one grader per process, each with its share (budget_usd, budget_tokens)"
            )
        if self._ledger is not None and self.run_dir is None:
            raise TypeError(
                "a grader with an open ledger cannot be pickled or deep-copied; pass run_dir instead of ledger"
            )
        return Sessions, (self._recipe, self.limits, self.run_dir, None, self._kind)

    @property
    def records(self) -> bool:
        """Whether replies are recorded in a ledger of the grader's own."""
        return self._ledger is not None or self.run_dir is not None

    def open_ledger(self) -> Ledger | None:
        """Return the grader's own ledger, opened on first use; None if it has none."""
        if self._process != os.getpid() and self.run_dir is not None:
            # A forked child opens the ledger again, because it inherits the ledger but not the thread that writes.
            self._process, self._held, self._ledger, self._budget = os.getpid(), ExitStack(), None, None
            finalize(self, self._held.close)
        if self._ledger is None and self.run_dir is not None:
            self._ledger = self._held.enter_context(shared_ledger(self.run_dir))
        return self._ledger

    async def open(self, spent: Spending | None = None) -> Session:
        """Return the session of the running event loop; `spent` as in `SessionLimits.make_budget`."""
        loop = asyncio.get_running_loop()
        session = self._sessions.get(loop)
        if session is None:
            for gone in [known for known in self._sessions if known.is_closed()]:
                del self._sessions[gone]
            opened = self._open_models()
            models = await opened.__aenter__()
            check_priced(models, self.limits.usd)
            if self._recipe.llm_calls != "per_item":  # requests on whole rubrics have their own limits
                self.limits.check_bounds(models)
            if (ledger := self.open_ledger()) is not None:
                ledger.set_costs(models.values())
            if self._budget is None:
                self._budget = self.limits.make_budget(ledger, spent)
            executor = Executor(NoRecords() if ledger is None else ledger, self._budget)
            session = Session(models, self._recipe.build_judge(models), executor, opened)
            session = self._sessions.setdefault(loop, session)
        return session

    async def aclose(self) -> None:
        """Release the run directory, and close the connections of the running event loop."""
        session = self._sessions.pop(asyncio.get_running_loop(), None)
        if session is not None:
            await session.opened.__aexit__(None, None, None)
        self.close()

    def close(self) -> None:
        """Release the run directory; the next use opens it again."""
        if self.run_dir is not None:
            self._held.close()
            self._ledger = None
        self._sessions.clear()

    def _open_models(self) -> AbstractAsyncContextManager[Mapping[str, Model]]:
        configs = self._recipe.collect_configs()
        clients = self._clients or find_replaced_clients(LLMClient, configs)
        if clients:
            return nullcontext({name: ClientModel(configs[name].model, client) for name, client in clients.items()})
        return open_models(configs, self.limits.in_flight)


_GENERATE = LLMClient.generate
_FORMATS: Mapping[str, type[BaseModel]] = {
    "criterion_status": CriterionJudgment,
    "selected_option": MultiChoiceJudgment,
    "judgments": RubricJudgment,
}


def find_replaced_clients(kind: Any, configs: Mapping[str, LLMConfig]) -> dict[str, Any]:
    """Return clients for the judges if `kind` is not the package's `LLMClient` or its `generate` was replaced.

    Args:
        kind: the `LLMClient` of the grader's module.
        configs: the model of every judge, by judge id.

    Example:
        >>> find_replaced_clients(LLMClient, {"default": LLMConfig("builtin/offline")})
        {}
    """
    if kind is LLMClient and LLMClient.generate is _GENERATE:
        return {}
    return {judge_id: kind(config) for judge_id, config in configs.items()}


class ClientModel(ScriptedModel):
    """A model whose replies come from a client's `generate`.

    Args:
        name: the model's name.
        client: has `generate` with the parameters of `LLMClient.generate`.
    """

    def __init__(self, name: str, client: Any) -> None:
        super().__init__(self._generate, name)
        self._client = client

    def identity(self) -> tuple[Any, ...]:
        """Return the model's name, marked so that a client's replies are never confused with an endpoint's."""
        return ("client", self.name)

    async def _generate(self, request: Request) -> Reply | Failure:
        """Call `generate` and return its reply; an exception becomes a failed call."""
        system = [message.content for message in request.messages if message.role == "system"]
        others = [message.content for message in request.messages if message.role != "system"]
        try:
            found = await self._client.generate(
                system_prompt="\n\n".join(system),
                user_prompt="\n\n".join(others),
                response_format=_find_response_format(request),
                return_result=True,
            )
        except CallError:
            raise
        except Exception as error:
            kind: FailureKind = "unreadable" if classify_grading_error(error) == "parse" else "server"
            return Failure(kind, f"LLMClient.generate: {type(error).__name__}: {error}")
        return _read_reply(found)


def _find_response_format(request: Request) -> type[BaseModel] | None:
    fields = {} if request.schema is None else request.schema.body.get("properties", {})
    return next((shape for field, shape in _FORMATS.items() if field in fields), None)


def _read_reply(found: Any) -> Reply:
    """Build the reply from a `GenerateResult`, an instance of the response format, or a text."""
    parsed = getattr(found, "parsed", found)
    text = parsed if isinstance(parsed, str) else str(getattr(found, "content", ""))
    reasoning = getattr(found, "thinking", None)
    if isinstance(parsed, BaseModel):
        reasoning = reasoning or getattr(parsed, "reasoning", None)
        text = parsed.model_dump_json(exclude={"reasoning"}, exclude_none=True)
    used, cost = getattr(found, "usage", None), getattr(found, "cost", None)
    usage = Usage(used.prompt_tokens, used.completion_tokens) if isinstance(used, TokenUsage) else None
    return Reply(text, reasoning=reasoning, usage=usage, cost=cost if isinstance(cost, int | float) else None)
