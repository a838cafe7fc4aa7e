"""The fenced sections of a prompt, for models that answer by what they are shown."""

from __future__ import annotations

import re
from functools import cached_property

from autorubric.llm.request import Request
from autorubric.prompts.fences import MARKER


class PromptSections(dict[str, str]):
    r"""The sections of a request's prompt by name, in order; empty if the prompt has none.

    Attributes:
        text: the message of the user that holds the sections, or the last one.

    Example:
        >>> from autorubric.llm.request import Message
        >>> shown = "<submission-0123456789ab>\nCoal.\n</submission-0123456789ab>"
        >>> PromptSections(Request((Message("user", shown),), role="judge"))
        {'submission': 'Coal.'}
    """

    def __init__(self, request: Request) -> None:
        said = [message.content for message in request.messages if message.role == "user"]
        self.text = next((text for text in said if MARKER.search(text)), said[-1] if said else "")
        first = MARKER.search(self.text)
        self._code = first[2] if first else "-"
        super().__init__(self.split(self.text))

    def split(self, text: str) -> dict[str, str]:
        """The sections inside a text; a conversation has one for each role, the last turn counts."""
        found = re.finditer(rf"<([a-z]\w*)-{self._code}>\n(.*?)\n</\1-{self._code}>", text, re.S)
        return {match[1]: match[2] for match in found}

    def numbered(self, name: str) -> list[str]:
        """The contents of the sections `name_1`, `name_2`, ..."""
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
        return [(one, requirement, self.get(f"options_{place}", "")) for one, place, requirement in found]
