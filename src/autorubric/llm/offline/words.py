"""Words of a text without a language model: its language, its content words, its key phrases."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from functools import cache
from typing import Literal, TypeAlias

from autorubric.llm.offline.tables import words

Language: TypeAlias = Literal["en", "zh"]

_CJK = "\u3400-\u9fff"
_TOKEN = re.compile(rf"[^\W\d_{_CJK}][\w'’+#-]*|\d[\d.,]*%?|[{_CJK}]+|[^\w\s]")
_SUFFIX = re.compile(r"(?:ations?|ings?|ments?|edly|ed|es|s|ly)$")
_MOST_PHRASE_WORDS = 3
_MOST_CHUNK = 8


def language_of(text: str) -> Language:
    """`zh` where a good part of the letters are Chinese characters, else `en`.

    Example:
        >>> language_of("用 Python 写一个排序函数"), language_of("What does 你好 mean?")
        ('zh', 'en')
    """
    chinese = len(re.findall(rf"[{_CJK}]", text))
    words = len(re.findall(r"[A-Za-z]+", text))
    return "zh" if chinese > 2 * words else "en"


def terms(text: str) -> frozenset[str]:
    """The content words of a text, cut to their stems; pairs of characters where the text is Chinese.

    Example:
        >>> sorted(terms("It explains the warning signs. 发烧了"))
        ['explai', 'sign', 'warn', '发烧', '烧了']
    """
    found: set[str] = set()
    for token in _TOKEN.findall(text):
        if "\u3400" <= token[0] <= "\u9fff":
            found.update(token[i : i + 2] for i in range(len(token) - 1))
        elif token[0].isdigit():
            found.add(token.rstrip(".,"))
        elif len(token) > 2 and token.lower() not in words("function_words"):
            found.add(_stem(token.lower()))
    return frozenset(found)


def likeness(first: frozenset[str], second: frozenset[str]) -> float:
    """The share of terms that two sets have in common, 0 to 1 (Jaccard).

    Example:
        >>> likeness(frozenset("abc"), frozenset("bcd"))
        0.5
    """
    union = len(first | second)
    return len(first & second) / union if union else 1.0


def key_phrases(text: str, most: int = 6) -> tuple[str, ...]:
    """The phrases a text is about, the best first, in its own words.

    Runs of content words between function words and punctuation, with an article where they had one; those
    that come back, are longer, begin with a capital or stand early count for more.

    Example:
        >>> key_phrases("How does photosynthesis differ from cellular respiration in plant cells?", most=2)
        ('cellular respiration', 'plant cells')
    """
    chinese = language_of(text) == "zh"
    runs = list(_chinese_runs(text) if chinese else _runs(text))
    keys = [run.lower().removeprefix("the ") for run in runs]
    counts = Counter(keys)
    place: dict[str, tuple[int, str]] = {}
    for index, (key, run) in enumerate(zip(keys, runs, strict=True)):
        place.setdefault(key, (index, run))

    def worth(key: str) -> float:
        index, run = place[key]
        size = len(key) / 2 if chinese else float(len(key.split()))
        named = 0.5 * run[:1].isupper()
        return min(size, 3) + counts[key] + named - 0.05 * index

    chosen: list[str] = []
    for key in sorted(place, key=worth, reverse=True):
        if not any(key in other or other in key for other in chosen):
            chosen.append(key)
        if len(chosen) == most:
            break
    return tuple(place[key][1] for key in chosen)


def _stem(word: str) -> str:
    word = word.replace("’", "'").removesuffix("'s")
    short = _SUFFIX.sub("", word)
    return (short if len(short) > 2 else word)[:6]


def _runs(text: str) -> Iterable[str]:
    run: list[str] = []
    before = ""
    for token in [*_TOKEN.findall(text), "."]:
        if not _breaks(token):
            run.append(token)
            continue
        phrase = _phrase(run, before)
        if phrase:
            yield phrase
        run, before = [], token.lower()


def _phrase(run: list[str], before: str) -> str:
    """The phrase in a run of content words after the word `before`; empty where there is likely none."""
    if before in words("before_verbs") and run and run[0].islower():
        run = run[1:]
    elif len(run) == 1 and not _is_noun(run[0], before):
        return ""
    run = run[-_MOST_PHRASE_WORDS:]
    if before in ("be", "been") or not any(2 < len(word) < 40 for word in run):
        return ""
    article = "the " if before in words("determiners") and run[0].islower() else ""
    return article + " ".join(run)


def _is_noun(word: str, before: str) -> bool:
    """Whether a lone word is likely a noun: a name, or after an article or a preposition."""
    if before in words("determiners") or word[1:2].isupper():
        return True
    return before in words("before_nouns") and not word.endswith(("ing", "ed", "ly"))


def _breaks(token: str) -> bool:
    if not (token[0].isalpha() or token[0].isdigit()):
        return True
    if token[0].isdigit():
        return True
    word = token.lower().split("'")[0].split("’")[0]
    return word in words("function_words") or word in words("task_words")


def _chinese_runs(text: str) -> Iterable[str]:
    clauses = re.findall(rf"[{_CJK}A-Za-z0-9+#]+", text)
    runs = [run for clause in clauses for run in _chinese_breaks().split(clause)]
    runs = [run.lstrip("为从到与") for run in runs if not re.search(r"\d", run)]
    runs = [run for run in runs if len(run) > 1]
    # A longer run is seldom one phrase, and a cut one is none.
    return [run for run in runs if len(run) <= _MOST_CHUNK] or [run[:_MOST_CHUNK] for run in runs]


@cache
def _chinese_breaks() -> re.Pattern[str]:
    longest_first = sorted(words("chinese_breaks"), key=lambda word: (-len(word), word))
    return re.compile("|".join(longest_first))
