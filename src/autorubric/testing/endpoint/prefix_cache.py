"""A prefix cache like the one of vLLM: blocks of 16 tokens, each keyed by itself and all that precedes it."""

from __future__ import annotations

from autorubric.testing.completion import estimated_tokens

_BLOCK_TOKENS = 16
_BLOCK_CHARACTERS = _BLOCK_TOKENS * 4  # at four characters a token


class PrefixCache:
    """How many tokens of a prompt a server with prefix caching would not compute again.

    Only whole blocks are shared, and a block can be found only after the call that computed it: calls that
    start together do not help each other. Nothing is ever evicted.

    Example:
        >>> cache = PrefixCache()
        >>> cache.cached_tokens("x" * 200)
        0
        >>> cache.store("x" * 200)
        >>> cache.cached_tokens("x" * 200 + "y")  # 200 characters hold three whole blocks of 64
        48
    """

    def __init__(self) -> None:
        self._blocks: set[int] = set()

    def cached_tokens(self, prompt: str) -> int:
        """Tokens at the start of `prompt` whose blocks are known."""
        found = 0
        for key in _block_keys(prompt):
            if key not in self._blocks:
                break
            found += 1
        return min(found * _BLOCK_TOKENS, estimated_tokens(len(prompt)))

    def store(self, prompt: str) -> None:
        """Make every whole block of `prompt` known."""
        self._blocks.update(_block_keys(prompt))


def _block_keys(prompt: str) -> list[int]:
    keys: list[int] = []
    key = 0
    for start in range(0, len(prompt) - _BLOCK_CHARACTERS + 1, _BLOCK_CHARACTERS):
        key = hash((key, prompt[start : start + _BLOCK_CHARACTERS]))
        keys.append(key)
    return keys
