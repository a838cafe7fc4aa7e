"""A model with scripted replies, and the sections of a prompt for scripts."""

import inspect
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeAlias

from autorubric.errors import InputError
from autorubric.llm.limits import Limit
from autorubric.llm.request import CallError, Failure, Reply, Request, Usage
from autorubric.prompts.fences import MARKER
from autorubric.testing.completion import estimate_tokens

Line: TypeAlias = str | Reply | Failure
Script: TypeAlias = Callable[[Request], Line | Awaitable[Line]] | Mapping[str, Line | Sequence[Line]]


class ScriptedModel:
    """A model without a network that follows a script and records its requests.

    Args:
        script: a function (or coroutine function) of the request, or a mapping from role to replies:
            one for every request, or a list with one for each request in turn. A string becomes a reply, a `Reply` is
            returned unchanged, and a `Failure` is raised as a `CallError`.
        name: its `provider/model` string.
        price: dollars per million prompt and completion tokens; None if unknown.
        max_tokens: maximum completion tokens of a reply; None if there is no limit.

    Attributes:
        requests: all requests, in order.

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
        """Its name, as given."""
        return self._name

    def identity(self) -> tuple[Any, ...]:
        """Its name; scripted models with the same name count as the same model."""
        return ("scripted", self._name)

    @property
    def limit(self) -> Limit:
        """The maximum length of a reply; the script decides the actual one."""
        return Limit(self._max_tokens)

    def ceiling(self, request: Request) -> Usage | None:
        """Return the tokens of the request, and its or the model's `max_tokens`; None if neither is set."""
        most = request.max_tokens or self._max_tokens
        return None if most is None else Usage(_count_prompt_tokens(request), most)

    def cost(self, usage: Usage) -> float | None:
        """Dollars at its price; None if the price is unknown."""
        if self._price is None:
            return None
        prompt, completion = self._price
        return (usage.prompt_tokens * prompt + usage.completion_tokens * completion) / 1e6

    async def complete(self, request: Request) -> Reply:
        """Return the next reply of the script.

        Raises:
            CallError: it is a `Failure`.
            InputError: the script has no reply for this request.
        """
        self.requests.append(request)
        line = self._take_line(request)
        if inspect.isawaitable(line):
            line = await line
        if isinstance(line, Failure):
            raise CallError(line)
        if isinstance(line, Reply):
            return line
        usage = Usage(_count_prompt_tokens(request), estimate_tokens(len(line)))
        return Reply(line, model=self._name, usage=usage, cost=self.cost(usage))

    async def close(self) -> None:
        """Nothing to release."""

    def _take_line(self, request: Request) -> Line | Awaitable[Line]:
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
                f"the script of {self._name!r} has {len(lines)} lines for {role!r}; it was called once more"
            )
        return lines[turn]


def _count_prompt_tokens(request: Request) -> int:
    return estimate_tokens(sum(len(message.content) for message in request.messages))


class PromptSections(dict[str, str]):
    r"""The sections of a request's prompt by name, in order; empty if the prompt has none.

    Attributes:
        text: the user message with the sections, or the last one.

    Example:
        >>> from autorubric.llm.request import Message
        >>> shown = "<submission-0123456789ab>\nCoal.\n</submission-0123456789ab>"
        >>> PromptSections(Request((Message("user", shown),), role="judge"))
        {'submission': 'Coal.'}
    """

    def __init__(self, request: Request) -> None:
        texts = [message.content for message in request.messages if message.role == "user"]
        self.text = next((text for text in texts if MARKER.search(text)), texts[-1] if texts else "")
        first = MARKER.search(self.text)
        self._code = first[2] if first else "-"
        super().__init__(self.split(self.text))

    def split(self, text: str) -> dict[str, str]:
        """Return the sections in a text; in a conversation, the last turn of each role."""
        found = re.finditer(rf"<([a-z]\w*)-{self._code}>\n(.*?)\n</\1-{self._code}>", text, re.S)
        return {match[1]: match[2] for match in found}

    def find_numbered(self, name: str) -> list[str]:
        """Return the contents of the sections `name_1`, `name_2`, ..."""
        return [text for key, text in self.items() if re.fullmatch(rf"{name}_\d+", key)]

    @cached_property
    def turns(self) -> int:
        """How many turns the conversation has; 1 for a plain query."""
        asked = self.get("request") or self.get("conversation") or ""
        return len(re.findall(rf"</\w+-{self._code}>", asked)) or 1

    @cached_property
    def criteria(self) -> list[tuple[str, str, str]]:
        """Each listed criterion: its id, its requirement, and its options if it has any."""
        mark = rf"^(\S+?)(?:, a pitfall)?(?:, with options)?:\n<criterion_(\w+)-{self._code}>\n(.*?)\n</criterion_\2-"
        found = re.findall(mark, self.text, re.S | re.M)
        return [
            (criterion_id, requirement, self.get(f"options_{place}", ""))
            for criterion_id, place, requirement in found
        ]
