"""What the offline model finds in a text: its language, terms, key phrases and explicit constraints."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any

from autorubric.core.wording import MARKS
from autorubric.files.strict_yaml import parse_yaml

_CJK = "\u3400-\u9fff"
_TOKEN = re.compile(rf"[^\W\d_{_CJK}][\w'’+#{MARKS}-]*|\d[\d.,]*%?|[{_CJK}]+|[^\w\s]")
_SUFFIX = re.compile(r"(?:'s|ations?|ings?|ments?|edly|ed|es|s|ly)$")


def load_table(name: str) -> Any:
    """Return one part of `offline.yaml`."""
    return _load_tables()[name]


@cache
def _load_tables() -> dict[str, Any]:
    return dict(parse_yaml(files(__package__).joinpath("offline.yaml").read_text("utf-8"), "offline.yaml"))


@cache
def _load_words(name: str) -> frozenset[str]:
    return frozenset(load_table(name).split())


@cache
def _load_patterns(name: str) -> list[tuple[str, re.Pattern[str]]]:
    return [(key, re.compile(pattern, re.I)) for key, pattern in load_table(name).items()]


def _find_first(name: str, text: str, default: str) -> str:
    return next((key for key, pattern in _load_patterns(name) if pattern.search(text)), default)


def find_language(text: str) -> str:
    """`zh` if there are more than twice as many Chinese characters as Latin words, else `en`."""
    chinese = len(re.findall(rf"[{_CJK}]", text))
    return "zh" if chinese > 2 * len(re.findall(r"[A-Za-z]+", text)) else "en"


@lru_cache(maxsize=4096)
def find_terms(text: str) -> frozenset[str]:
    """Return the content words of a text, cut to their stems; pairs of characters for Chinese."""
    found: set[str] = set()
    for token in _TOKEN.findall(text.lower()):
        if "\u3400" <= token[0] <= "\u9fff":
            found.update(token[i : i + 2] for i in range(len(token) - 1))
        elif token[0].isdigit() or (len(token) > 2 and token not in _load_words("function_words")):
            found.add(token.rstrip(".,") if token[0].isdigit() else (_SUFFIX.sub("", token) or token)[:6])
    return frozenset(found)


@dataclass(frozen=True, slots=True)
class Constraint:
    """An explicit demand on the form of an answer, in the words of the text; counts have bounds and a unit."""

    kind: str
    value: str
    low: int = 0
    high: int = 10**9
    unit: str = ""

    def holds(self, text: str) -> bool | None:
        """Return whether a text satisfies it; None if a pattern cannot tell."""
        if self.kind == "count":
            return self.low <= len(re.findall(load_table("unit_marks")[self.unit], text, re.M)) <= self.high
        if self.kind == "avoid":
            return self.value.lower() not in text.lower()
        marks = load_table("format_marks").get(self.value) if self.kind == "format" else None
        return bool(re.search(marks, text, re.M)) if marks else None


@lru_cache(maxsize=1024)
def find_constraints(text: str) -> tuple[Constraint, ...]:
    """Return the distinct constraints in a text, in order."""
    found = list(_find_counts(text))
    for kind, pattern in _load_patterns("demands"):
        name, _, value = kind.partition(":")
        for match in pattern.finditer(text):
            phrase = value or next(group for group in match.groups() if group)
            quoted = re.findall(r"[\"“「]([^\"”」]+)[\"”」]", phrase)
            found += [(match.start(), Constraint(name, value)) for value in quoted or [phrase.split(",")[0].strip()]]
    return tuple(dict.fromkeys(constraint for _, constraint in sorted(found, key=lambda entry: entry[0])))


def _find_counts(text: str) -> Iterator[tuple[int, Constraint]]:
    for match in (match for _, pattern in _load_patterns("counts") for match in pattern.finditer(text)):
        start = max(text.rfind(mark, 0, match.start()) for mark in ".!?。！？\n")
        relation = _find_first("relations", f"{match['rel']} {match['tail']}", "")
        unit = _find_first("units", match["unit"], "items")
        if unit != "items" and _find_first("parts", text[start + 1 : match.end() + 5], ""):
            continue  # it limits only a part of the answer
        number = _read_number(match["n"])
        low, high = number, _read_number(match["m"]) if match["m"] else number
        if relation == "about" or (not relation and low == high and unit in ("words", "characters")):
            low, high = number * 4 // 5, -(-number * 6 // 5)  # 20 % either way
        low = 0 if relation in ("most", "below") else low + (relation == "above")
        high = 10**9 if relation in ("least", "above") else high - (relation == "below")
        yield match.start(), Constraint("count", match[0].strip(), low, high, unit)


def _read_number(text: str) -> int:
    return load_table("numbers").get(text.lower()) or int(text.replace(",", ""))


@lru_cache(maxsize=512)
def find_phrases(text: str) -> list[str]:
    """Return the key phrases of a text, at most six, the best first."""
    chinese = find_language(text) == "zh"
    runs = _split_chinese(text) if chinese else list(_split_english(text))
    keys = [run.lower().removeprefix("the ") for run in runs]
    counts, first = Counter(keys), {key: index for index, key in reversed(list(enumerate(keys)))}
    sizes = {key: len(key) / 2 if chinese else len(key.split()) for key in first}
    chosen: list[str] = []
    for key in sorted(first, key=lambda key: 0.05 * first[key] - min(sizes[key], 3) - counts[key]):
        if not any(key in other or other in key for other in chosen):
            chosen.append(key)
    return [runs[first[key]] for key in chosen[:6]]


def _split_english(text: str) -> Iterator[str]:
    """Runs of content words; a word after a subject counts as a verb, and a single word must look like a noun."""
    run: list[str] = []
    before = ""
    for token in [*_TOKEN.findall(text), "."]:
        if token[0].isalpha() and re.split("['’]", token.lower())[0] not in _load_words("function_words"):
            run.append(token)
            continue
        if before in _load_words("before_verbs") and run and run[0].islower():
            del run[0]
        noun = before in _load_words("before_nouns") and run and not run[0].endswith(("ing", "ed", "ly"))
        run = run[-3:]
        if any(2 < len(word) < 40 for word in run) and (len(run) > 1 or noun or run[0][1:2].isupper()):
            article = "the " if before in _load_words("determiners") and run[0].islower() else ""
            yield article + " ".join(run)
        run, before = [], token.lower()


def _split_chinese(text: str) -> list[str]:
    breaks = "|".join(sorted(_load_words("chinese_breaks"), key=lambda word: (-len(word), word)))
    clauses = re.findall(rf"[{_CJK}A-Za-z0-9+#]+", text)
    runs = [run.lstrip("为从到与") for clause in clauses for run in re.split(breaks, clause)]
    runs = [run for run in runs if len(run) > 1 and not re.search(r"\d", run)]
    return [run for run in runs if len(run) <= 8] or [run[:8] for run in runs]


@dataclass(frozen=True, slots=True)
class OfflineQuery:
    """A query as the offline model understands it."""

    text: str
    language: str
    kind: str
    domain: str
    constraints: tuple[Constraint, ...]
    phrases: list[str]
    turns: int


@lru_cache(maxsize=512)
def read_query(text: str, turns: int = 1) -> OfflineQuery:
    """Return the parts of a query.

    Example:
        >>> query = read_query("Why is bread dough slower in a cold kitchen? Use at most 80 words.")
        >>> query.kind, query.domain, [one.value for one in query.constraints], query.phrases
        ('why', 'chat', ['at most 80 words'], ['bread dough slower', 'the cold kitchen'])
    """
    text = f"{text[:3000]}\n{text[-3000:]}" if len(text) > 6000 else text
    bare, language = text, find_language(text)
    for _, pattern in (*_load_patterns("demands"), *_load_patterns("counts")):
        bare = pattern.sub(" . ", bare)
    start = text.strip()[:12] if language == "zh" else " ".join(re.findall(r"\w+", text)[:3])[:40]
    phrases = find_phrases(bare) or find_phrases(text) or [start.strip() or load_table(language)["fallback"]]
    hits = {name: len({*map(str.lower, pattern.findall(text))}) for name, pattern in _load_patterns("domains")}
    domain = max(hits, key=lambda name: hits[name]) if any(hits.values()) else "chat"
    return OfflineQuery(
        text, language, _find_first("kinds", text, "other"), domain, find_constraints(text), phrases, turns
    )
