"""A model to ask directly, with the names of AutoRubric 1.6: `LLMClient`, `generate` and `GenerateResult`."""

from __future__ import annotations

import asyncio
import dataclasses
from contextlib import AbstractAsyncContextManager, ExitStack
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Any, TypeAlias, TypeVar

from pydantic import BaseModel, ValidationError

from autorubric.core.usage import TokenUsage
from autorubric.errors import ConfigError
from autorubric.files.remote import make_path
from autorubric.llm.config import LLMConfig
from autorubric.llm.executor import Executor
from autorubric.llm.models import open_models
from autorubric.llm.records.ledger import Ledger
from autorubric.llm.records.stores import NoRecords, shared_ledger
from autorubric.llm.request import Answer, CallError, Failure, Message, Model, Reply, ReplySchema, Request, Unreadable
from autorubric.llm.structured import read_json, read_text

T = TypeVar("T", bound=BaseModel)
_Place: TypeAlias = tuple[asyncio.AbstractEventLoop, str, str | None]
_ROLE = "generate"
_CLEARED = "generate: cleared"
_MOST_IN_FLIGHT = 64


@dataclass
class GenerateResult:
    """A reply with what it cost.

    Attributes:
        content: the text.
        thinking: the reasoning, where the endpoint sent it.
        raw_response: the reply as the client read it.
        usage: its tokens; None if the endpoint sent no counts.
        cost: its price in dollars; None if it is unknown.
        parsed: the value, where a response format was given.

    Example:
        >>> GenerateResult("Yes.", cost=0.001).content
        'Yes.'
    """

    content: str
    thinking: str | None = None
    raw_response: Any = None
    usage: TokenUsage | None = None
    cost: float | None = None
    parsed: Any = None


class LLMClient:
    """One model, asked directly: retries, rate limits and records are those of judges.

    With `cache_enabled` each reply is recorded in `cache_dir`, and an equal request is not sent again.
    `cache_ttl` has no effect: a recorded reply stays valid until `clear_cache`.

    Args:
        config: the model.
        cache_namespace: clients with different ones share no replies.

    Example:
        >>> async def hello():
        ...     return await LLMClient(LLMConfig("builtin/offline")).generate("Answer briefly.", "Why do tides rise?")
        >>> isinstance(asyncio.run(hello()), str)
        True
    """

    def __init__(self, config: LLMConfig, *, cache_namespace: str | None = None) -> None:
        self.config = config
        self._seat = _compute_seat(cache_namespace)
        self._ledger: Ledger | None = None
        self._held = ExitStack()
        self._open: dict[_Place, tuple[AbstractAsyncContextManager[Any], Model]] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Return the settings: a copy opens its own connections and records."""
        return {**self.__dict__, "_ledger": None, "_held": ExitStack(), "_open": {}}

    async def generate(
        self,
        system_prompt: str,
        user_prompt: str,
        response_format: type[T] | None = None,
        use_cache: bool | None = None,
        return_thinking: bool = False,
        return_result: bool = False,
        **kwargs: Any,
    ) -> str | T | GenerateResult:
        """Return the reply of the model: its text, or a value of the response format.

        Args:
            system_prompt: the system message.
            user_prompt: the user message.
            response_format: a pydantic model class; a reply that does not fit is requested again, at most twice.
            use_cache: record this reply, or not; None follows `cache_enabled`.
            return_thinking: return a `GenerateResult`.
            return_result: likewise.
            kwargs: fields of `LLMConfig` that differ for this request.

        Raises:
            CallError: the call failed, or no reply fits the response format.
        """
        config = dataclasses.replace(self.config, **kwargs)
        model = await self._open_model(config)
        records = self._open_records() if (config.cache_enabled if use_cache is None else use_cache) else None
        draw = 0 if records is None else (records.find_note(_CLEARED) or {}).get("times", 0)
        asked = Request(
            (Message("system", system_prompt), Message("user", user_prompt)),
            _ROLE,
            schema=build_reply_schema(response_format),
            draw=draw,
            seat=self._seat,
        )

        def read(reply: Reply) -> Answer[Any] | Unreadable:
            return read_text(reply) if response_format is None else _read_format(reply, response_format)

        found = await Executor(records or NoRecords()).ask_for(model, asked, read)
        if isinstance(found, Failure):
            raise CallError(found)
        if not (return_result or return_thinking):
            value: str | T = found.value
            return value
        return _build_result(found, None if response_format is None else found.value)

    def clear_cache(self) -> int:
        """Ignore the saved replies from now on, and return how many there were.

        The records of what was spent stay in the folder.
        """
        if not self._folder.exists():
            return 0
        count, ledger = self._count_replies(), self._open_records()
        times = (ledger.find_note(_CLEARED) or {}).get("times", 0) + 1
        ledger.keep_note(_CLEARED, {"times": times, "calls": ledger.count})
        return count

    def cache_stats(self) -> dict[str, Any]:
        """Size in bytes, number of replies and folder of the cache."""
        if not self._folder.exists():
            return {"size": 0, "count": 0, "directory": None}
        size = sum(path.stat().st_size for path in self._folder.rglob("*") if path.is_file())
        return {"size": size, "count": self._count_replies(), "directory": str(self._folder)}

    def close(self) -> None:
        """Release the cache folder; the next request opens it again."""
        self._held.close()
        self._ledger = None
        self._open.clear()

    def __enter__(self) -> LLMClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def _folder(self) -> Path:
        return make_path(self.config.cache_dir)

    def _open_records(self) -> Ledger:
        if self._ledger is None:
            self._ledger = self._held.enter_context(shared_ledger(self._folder))
        return self._ledger

    def _count_replies(self) -> int:
        ledger = self._open_records()
        return ledger.count - int((ledger.find_note(_CLEARED) or {}).get("calls", 0))

    async def _open_model(self, config: LLMConfig) -> Model:
        """Return the model, opened in the running event loop."""
        key = (asyncio.get_running_loop(), repr(config), config.api_key)
        if key not in self._open:
            self._open = {k: v for k, v in self._open.items() if not k[0].is_closed()}
            opened = open_models({_ROLE: config}, _MOST_IN_FLIGHT)
            self._open[key] = opened, (await opened.__aenter__())[_ROLE]
        return self._open[key][1]


async def generate(
    system_prompt: str, user_prompt: str, model: str, response_format: type[T] | None = None, **kwargs: Any
) -> str | T:
    """Return one reply of a model; `LLMClient` keeps connections open over several.

    Args:
        system_prompt: the system message.
        user_prompt: the user message.
        model: its name.
        response_format: a pydantic model class, or None for text.
        kwargs: further fields of `LLMConfig`.

    Example:
        >>> isinstance(asyncio.run(generate("Answer briefly.", "Why do tides rise?", "builtin/offline")), str)
        True
    """
    with LLMClient(LLMConfig(model, **kwargs)) as client:
        found = await client.generate(system_prompt, user_prompt, response_format)
    assert not isinstance(found, GenerateResult)
    return found


def _compute_seat(namespace: str | None) -> int:
    """Return the number that separates the replies of a namespace in the keys of the ledger."""
    return 1 + int.from_bytes(sha256(namespace.encode()).digest()[:3]) if namespace else 0


def build_reply_schema(response_format: type[BaseModel] | None) -> ReplySchema | None:
    """Return the schema of a user's pydantic class; None for plain text."""
    if response_format is None:
        return None
    if not (isinstance(response_format, type) and issubclass(response_format, BaseModel)):
        raise ConfigError(f"response format {response_format!r} is not a pydantic model class")
    return ReplySchema(response_format.__name__, response_format.model_json_schema())


def _read_format(reply: Reply, response_format: type[T]) -> Answer[T] | Unreadable:
    fields = response_format.model_fields
    found = read_json(reply, "object", (*fields, *(each.alias for each in fields.values() if each.alias)))
    if isinstance(found, Unreadable):
        return found
    values = found.value
    if reply.reasoning and "reasoning" in response_format.model_fields:
        values = {**values, "reasoning": reply.reasoning}
    try:
        return Answer(response_format.model_validate(values), reply, found.notes)
    except ValidationError as error:
        return Unreadable("unreadable", f"the reply does not fit {response_format.__name__}: {error}")


def _build_result(found: Answer[Any], parsed: Any) -> GenerateResult:
    reply, used = found.reply, found.reply.usage
    usage = None
    if used is not None:
        cached = used.cache_write_tokens, used.cached_tokens
        usage = TokenUsage(used.prompt_tokens, used.completion_tokens, used.total_tokens, *cached)
    return GenerateResult(reply.text, reply.reasoning, reply, usage, reply.cost, parsed)
