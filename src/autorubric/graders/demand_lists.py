"""Whether a list of demands says what its criterion says, by their words."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|(?:(?![\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af])\w)+")
_NEGATIONS = frozenset(
    """
    no not never none neither nor without cannot
    nicht kein keine ohne pas jamais sans sin nunca 不 没 無 无 未 非
    """.split()  # noqa: SIM905 - a list of words reads best as words
)
_JOINERS = frozenset(
    """
    about also then while both with that this from into their they them these those must should well does have
    response answer submission essay text assistant output reply
    sowie auch oder dass antwort ainsi aussi elle mais réponse además también pero respuesta
    并 且 和 与 及 以 同 时 还 也 的 地 得 了 是 在 其 该 应 需 要 而 又 既 回 答 它
    """.split()  # noqa: SIM905
)
_SHORT = 4
"""Letters from which a word counts, and from which two words with the same beginning are forms of one."""

_OWN = 2 / 3


def find_list_fault(requirement: str, demands: Sequence[str]) -> str:
    """Why a list of demands does not say what the criterion says; empty if no difference is found.

    The words of the criterion have to occur in the demands, in any form, and most words of each demand in the
    criterion. Numbers and negations have to be the same. Short words, joining words and words for the submission do
    not count.

    Example:
        >>> both = "States the dose and warns about liver damage."
        >>> find_list_fault(both, ["States the dose.", "The response is warning about liver damage."])
        ''
        >>> find_list_fault(both, ["States the dose.", "Warns about damage."])
        "the list leaves out 'liver'"
        >>> find_list_fault(both, ["States the dose and warns about liver damage.", "Names a doctor."])
        "'Names a doctor.' is not a part of the criterion"
        >>> find_list_fault("Names 2 causes and 3 effects.", ["Names 2 causes.", "Names 4 effects."])
        "the list leaves out '3'"
        >>> find_list_fault(both, ["States the dose.", "Does not warn about liver damage."])
        "'Does not warn about liver damage.' adds 'not'"
    """
    own = _words(requirement)
    each = [_words(one) for one in demands]
    said = {word for words in each for word in words}
    if left := [word for word in own if _counts(word) and not _occurs(word, said)]:
        return f"the list leaves out {', '.join(map(repr, dict.fromkeys(left)))}"
    for demand, words in zip(demands, each, strict=True):
        if added := [word for word in words if _is_fixed(word) and word not in own]:
            return f"{demand!r:.80} adds {', '.join(map(repr, added))}"
        counted = [word for word in words if _counts(word)]
        if sum(_occurs(word, own) for word in counted) < max(1, _OWN * len(counted)):
            return f"{demand!r:.80} is not a part of the criterion"
    return ""


def _words(text: str) -> list[str]:
    return _WORD.findall(re.sub(r"n['’]t\b", " not", text.casefold()))


def _is_fixed(word: str) -> bool:
    """Whether the word may neither be added nor left out."""
    return word in _NEGATIONS or any(letter.isdigit() for letter in word)


def _counts(word: str) -> bool:
    if word in _JOINERS:
        return False
    return len(word) >= _SHORT or _is_fixed(word) or (not word.isascii() and len(word) == 1)


def _occurs(word: str, words: Collection[str]) -> bool:
    if word in words or _is_fixed(word):
        return word in words
    return len(word) >= _SHORT and _begins_like(word, words)


def _begins_like(word: str, words: Iterable[str]) -> bool:
    return any(one.startswith(word[:_SHORT]) for one in words)
