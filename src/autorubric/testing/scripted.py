"""A model that says what you wrote for it."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias

from autorubric.errors import InputError
from autorubric.llm.limits import Limit
from autorubric.llm.request import CallError, Failure, Reply, Request, Usage
from autorubric.testing.completion import estimated_tokens

Line: TypeAlias = str | Reply | Failure
Script: TypeAlias = Callable[[Request], Line | Awaitable[Line]] | Mapping[str, Line | Sequence[Line]]


class ScriptedModel:
    """A model without a network that follows a script and remembers what it was asked.

    Args:
        script: a function (or coroutine function) of the request, or a mapping from role to what is said:
            one line for every request, or a list with one line for each request in turn. A text becomes a
            reply, a `Reply` is passed on as it is, and a `Failure` is raised as a `CallError`.
        name: the `provider/model` string it goes by.
        price: dollars per million prompt and completion tokens; None means that the price is unknown.
        max_tokens: the most completion tokens a reply can have; None means that nothing bounds it.

    Attributes:
        requests: every request, in the order it came.

    Example:
        >>> import asyncio
        >>> from autorubric.llm.request import Message
        >>> model = ScriptedModel({"response": ["First.", "Second."]})
        >>> ask = Request((Message("user", "Which one?"),), role="response")
        >>> [asyncio.run(model.complete(ask)).text for _ in range(2)]
        ['First.', 'Second.']
        >>> len(model.requests)
        2
    """

    def __init__(
        self,
        script: Script,
        name: str = "scripted",
        *,
        price: tuple[float, float] | None = None,
        max_tokens: int | None = None,
    ) -> None:
        self.requests: list[Request] = []
        self._script = script
        self._name = name
        self._price = price
        self._max_tokens = max_tokens
        self._spoken: Counter[str] = Counter()

    @property
    def name(self) -> str:
        """The name it was given."""
        return self._name

    def identity(self) -> tuple[Any, ...]:
        """Its name: two scripted models of one name count as the same model."""
        return ("scripted", self._name)

    @property
    def limit(self) -> Limit:
        """How long a reply may be; the script decides how long it is."""
        return Limit(self._max_tokens)

    def ceiling(self, request: Request) -> Usage | None:
        """The request's own tokens, and the request's or the model's `max_tokens`; None where neither is set."""
        most = request.max_tokens or self._max_tokens
        return None if most is None else Usage(_prompt_tokens(request), most)

    def cost(self, usage: Usage) -> float | None:
        """Dollars at the price it was given."""
        if self._price is None:
            return None
        prompt, completion = self._price
        return (usage.prompt_tokens * prompt + usage.completion_tokens * completion) / 1e6

    async def complete(self, request: Request) -> Reply:
        """Say the next line.

        Raises:
            CallError: the line is a `Failure`.
            InputError: the script has no line for this request.
        """
        self.requests.append(request)
        line = self._line(request)
        if inspect.isawaitable(line):
            line = await line
        if isinstance(line, Failure):
            raise CallError(line)
        if isinstance(line, Reply):
            return line
        usage = Usage(_prompt_tokens(request), estimated_tokens(len(line)))
        return Reply(line, model=self._name, usage=usage, cost=self.cost(usage))

    async def close(self) -> None:
        """Nothing to release."""

    def _line(self, request: Request) -> Line | Awaitable[Line]:
        if callable(self._script):
            return self._script(request)
        role = request.role
        if role not in self._script:
            known = ", ".join(repr(name) for name in self._script)
            raise InputError(f"the script of {self._name!r} has no lines for role {role!r}; it has {known}")
        lines = self._script[role]
        if isinstance(lines, str | Reply | Failure):
            return lines
        turn = self._spoken[role]
        self._spoken[role] += 1
        if turn >= len(lines):
            raise InputError(
                f"the script of {self._name!r} has {len(lines)} lines for {role!r}; it was asked once more"
            )
        return lines[turn]


def _prompt_tokens(request: Request) -> int:
    return estimated_tokens(sum(len(message.content) for message in request.messages))
