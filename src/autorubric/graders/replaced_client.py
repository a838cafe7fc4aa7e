"""A replaced `LLMClient` is asked instead of an endpoint: programs of AutoRubric 1.6 patch it in their tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from pydantic import BaseModel

from autorubric.core.judgment import CriterionJudgment, MultiChoiceJudgment, RubricJudgment
from autorubric.core.usage import TokenUsage
from autorubric.graders.asking import classify_grading_error
from autorubric.llm.client import LLMClient
from autorubric.llm.config import LLMConfig
from autorubric.llm.request import CallError, Failure, FailureKind, Model, Reply, Request, Usage

_GENERATE = LLMClient.generate
_FORMATS: Mapping[str, type[BaseModel]] = {
    "criterion_status": CriterionJudgment,
    "selected_option": MultiChoiceJudgment,
    "judgments": RubricJudgment,
}


def replaced_clients(kind: Any, configs: Mapping[str, LLMConfig]) -> dict[str, Any]:
    """The clients of judges if `kind` is not the package's `LLMClient`, or its `generate` was replaced; else none.

    Args:
        kind: what stands under the name `LLMClient` where the grader is made.
        configs: the model of every judge, by judge id.

    Example:
        >>> replaced_clients(LLMClient, {"default": LLMConfig("builtin/offline")})
        {}
    """
    if kind is LLMClient and LLMClient.generate is _GENERATE:
        return {}
    return {judge_id: kind(config) for judge_id, config in configs.items()}


@asynccontextmanager
async def client_models(
    clients: Mapping[str, Any], configs: Mapping[str, LLMConfig]
) -> AsyncIterator[dict[str, Model]]:
    """The clients as models; no connection is opened."""
    yield {judge_id: ClientModel(configs[judge_id].model, client) for judge_id, client in clients.items()}


class ClientModel:
    """A model whose replies come from the `generate` of a client.

    Args:
        name: of the model.
        client: has `generate` with the parameters of `LLMClient.generate`.
    """

    def __init__(self, name: str, client: Any) -> None:
        self.name = name
        self._client = client

    def identity(self) -> tuple[Any, ...]:
        """Its name; no reply of an endpoint is taken for one of it."""
        return ("client", self.name)

    def ceiling(self, request: Request) -> Usage | None:
        """Unknown."""
        return None

    def cost(self, usage: Usage) -> float | None:
        """Unknown."""
        return None

    async def complete(self, request: Request) -> Reply:
        """What `generate` returns; an exception is a failed call.

        Raises:
            CallError: `generate` raised.
        """
        system = [message.content for message in request.messages if message.role == "system"]
        others = [message.content for message in request.messages if message.role != "system"]
        try:
            found = await self._client.generate(
                system_prompt="\n\n".join(system),
                user_prompt="\n\n".join(others),
                response_format=_response_format(request),
                return_result=True,
            )
        except CallError:
            raise
        except Exception as error:
            kind: FailureKind = "unreadable" if classify_grading_error(error) == "parse" else "server"
            raise CallError(Failure(kind, f"LLMClient.generate: {type(error).__name__}: {error}")) from error
        return _reply(found)

    async def close(self) -> None:
        """Nothing to release."""


def _response_format(request: Request) -> type[BaseModel] | None:
    fields = {} if request.schema is None else request.schema.body.get("properties", {})
    return next((shape for field, shape in _FORMATS.items() if field in fields), None)


def _reply(found: Any) -> Reply:
    """The reply of a `GenerateResult`, of a value of the response format, or of a text."""
    parsed = getattr(found, "parsed", found)
    text = parsed if isinstance(parsed, str) else str(getattr(found, "content", ""))
    reasoning = getattr(found, "thinking", None)
    if isinstance(parsed, BaseModel):
        reasoning = reasoning or getattr(parsed, "reasoning", None)
        text = parsed.model_dump_json(exclude={"reasoning"}, exclude_none=True)
    used, cost = getattr(found, "usage", None), getattr(found, "cost", None)
    usage = Usage(used.prompt_tokens, used.completion_tokens) if isinstance(used, TokenUsage) else None
    return Reply(text, reasoning=reasoning, usage=usage, cost=cost if isinstance(cost, int | float) else None)
