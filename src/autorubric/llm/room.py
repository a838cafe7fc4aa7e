"""How many completion tokens a reply needs, from what its prompt asks for."""

from __future__ import annotations

from collections.abc import Iterable

_REASONING = 2048  # tokens before the answer
_ENTRY = 120  # tokens of a criterion of 40 words, or of a verdict with two sentences, as JSON
_FRAME = 40  # tokens of the title, keys and ids around a text that is taken over
_BYTES_A_TOKEN = 3  # one token for a Chinese character; English takes fewer

MOST_CRITERIA = 25
"""The most criteria that the prompts ask one reply for."""


def room_for(*, entries: int = 0, copied: Iterable[str] = ()) -> int:
    """The completion tokens of a list, with room for reasoning before it.

    Args:
        entries: how many entries the model writes itself.
        copied: texts that it may take over, each in an entry of its own.

    Example:
        >>> room_for(entries=25)
        5048
        >>> room_for(copied=["Names the dose."])
        2093
    """
    texts = list(copied)
    taken_over = sum(len(text.encode("utf-8", "surrogatepass")) for text in texts) // _BYTES_A_TOKEN
    return _REASONING + entries * _ENTRY + len(texts) * _FRAME + taken_over
