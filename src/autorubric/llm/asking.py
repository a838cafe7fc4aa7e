"""Asking again after a reply that could not be used."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from autorubric.llm.request import Message, Reply, Request, Unreadable

_MOST_QUOTED = 8000  # characters of the unusable reply that its model is shown


def ask_again(request: Request, reply: Reply, problem: Unreadable, correction: Iterable[Message]) -> Request:
    """The request after an unusable reply: the reply, and what is wrong with it.

    A reply that was cut off or empty has nothing to correct; the same request is sent once more.

    Example:
        >>> asked = Request((Message("user", "Is it met?"),), role="judge")
        >>> problem = Unreadable("unreadable", "the reply holds no JSON object")
        >>> again = ask_again(asked, Reply("Yes."), problem, [Message("user", "Reply as JSON.")])
        >>> [message.content for message in again.messages]
        ['Is it met?', 'Yes.', 'Reply as JSON.']
    """
    if problem.kind != "unreadable":
        return request
    said = Message("assistant", reply.text[:_MOST_QUOTED])
    return replace(request, messages=(*request.messages, said, *correction))
