"""Criteria that repeat each other.

The wording alone decides, so synonyms are not found. A number, a unit, a negation, a pair of opposites or one
exchanged word is a difference.
"""

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import chain
from math import ceil

from autorubric.core.wording import NUMBER_WORDS, count_negations
from autorubric.linting.criterion_words import Phrasing
from autorubric.linting.finding import Hit, RawCriterion, RawRubric, Rule

# Words about the criterion rather than the submission, and words without content.
_EMPTY = frozenset(
    """
    a an the of to in on at by for with from as and or that this these those it its is are be been being was were has
    have had do does should must will would can could may might there their they which who what how so such than then
    also clearly explicitly correctly accurately specifically directly properly both all any each
    response answer submission text model assistant essay output user
    state mention note explain describe provide include give list identify indicate say specify discuss present
    point define known call refer cover advise recommend suggest encourage remind need view approach reserve
    consider involve out offer name outline contain highlight emphasize emphasise clarify acknowledge inform
    tell show make express
    """.split()  # noqa: SIM905 - a list of words reads best as words
)
_EMPTY_ZH = frozenset(
    "的了是建议推荐在和与及并应需要该此对地得中里其所以为有将会可能把被让给就也都还回答复案明确清楚指出说解释提到列供描述包含括"
)
_PAIRS = """
    increase/decrease more/less high/low higher/lower before/after left/right minimum/maximum least/most above/below
    start/stop begin/end first/last first/second second/third men/women male/female advantage/disadvantage pro/con
    benefit/risk cause/effect internal/external acute/chronic short/long early/late positive/negative up/down
    upper/lower old/new import/export buy/sell adult/child systolic/diastolic
    左/右 上/下 前/后 高/低 多/少 增/减 升/降 男/女 早/晚 大/小 长/短 内/外 急/慢 优/缺 利/弊 因/果 东/西 南/北
"""
_WITH_OPPOSITE = frozenset(_PAIRS.replace("/", " ").split())
_FEWEST_KEPT = Fraction(5, 6)


class Gist:
    """The parts of criteria that are compared.

    Attributes:
        content: the stems of the words with content.
        pitfall: whether the weight is negative.
    """

    def __init__(self, wording: Phrasing, pitfall: bool) -> None:
        self._wording = wording
        self.pitfall = pitfall
        self.content = frozenset(filter(None, map(_reduce_to_content, wording.vocabulary)))

    @cached_property
    def guards(self) -> tuple[bool, tuple[str, ...]]:
        """Whether it negates, and its numbers and units, sorted."""
        tokens = (NUMBER_WORDS.get(token, token) for token in self._wording.tokens)
        numbers = tuple(sorted(token for token in tokens if token[0].isdigit() or token in "%‰°$€£¥"))
        return count_negations(self._wording.text) % 2 == 1, numbers

    @property
    def fixed(self) -> Hashable:
        """The key that near duplicates share: sign, negation, numbers, and words that have an opposite."""
        return self.pitfall, self.guards, self.content & _WITH_OPPOSITE


def _has_added_words(gist: Gist, other: Gist) -> bool:
    """Return whether one of the two contains all words of the other and at most a few more."""
    # Words on one side only were added; words on both sides were exchanged, which changes the demand.
    fewer, more = sorted((gist.content, other.content), key=len)
    return bool(fewer) and fewer <= more and len(fewer) >= _FEWEST_KEPT * len(more)


@lru_cache(maxsize=20_000)
def _reduce_to_content(token: str) -> str:
    """Return the stem of a token with content, such as a unit; empty for a token without content."""
    if token in _EMPTY or token in _EMPTY_ZH or token in NUMBER_WORDS or token[0].isdigit():
        return ""
    stem = _stem_word(token)
    return "" if stem in _EMPTY or f"{stem}e" in _EMPTY else stem


def _stem_word(word: str) -> str:
    """Return the word without a plural or verb ending, approximately."""
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 4 and word.endswith(("sses", "ches", "shes", "xes")):
        return word[:-2]
    for ending in ("ing", "ed"):
        if len(word) > 6 and word.endswith(ending):
            return word[: -len(ending)]
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


_ADVICE = "Keep the better wording only: a repeated requirement counts twice"


def _find_duplicates(rubric: RawRubric) -> Iterator[Hit]:
    first: dict[tuple[str, ...], tuple[int, RawCriterion]] = {}
    for position, criterion in rubric.judged:
        key = criterion.wording.tokens
        if key in first:
            there, earlier = first[key]
            yield Hit(position, f"criterion {there} ({earlier.label}) says the same, word for word", _ADVICE)
        else:
            first[key] = position, criterion


def _find_near_duplicates(rubric: RawRubric) -> Iterator[Hit]:
    read = rubric.judged
    gists = [Gist(criterion.wording, criterion.weight < 0) for _, criterion in read]
    frequency = Counter(word for gist in gists for word in gist.content)
    by_word: dict[Hashable, list[int]] = {}
    seen = set()
    for later, (gist, (position, criterion)) in enumerate(zip(gists, read, strict=True)):
        fixed, tokens = gist.fixed, criterion.wording.tokens
        places = [by_word.setdefault((fixed, word), []) for word in _list_rare_words(gist.content, frequency)]
        for earlier in sorted({*chain.from_iterable(places)}):
            there, other = read[earlier]
            if _has_added_words(gists[earlier], gist) and tokens != other.wording.tokens:
                yield Hit(position, f"criterion {there} ({other.label}) asks for nearly the same", _ADVICE)
                break
        if (fixed, tokens) not in seen:  # of equal wordings, the first is named
            seen.add((fixed, tokens))
            for place in places:
                place.append(later)


def _list_rare_words(content: frozenset[str], frequency: Mapping[str, int]) -> list[str]:
    """Return a criterion's rarest words; every near duplicate has one of them among its own rarest words.

    Two sets that share at least k words share one of the first n - k + 1 of each, in any common order (prefix
    filtering: Chaudhuri, Ganti and Kaushik 2006).
    """
    words = sorted(content, key=lambda word: (frequency[word], word))
    return words[: len(words) - ceil(_FEWEST_KEPT * len(words)) + 1]


DUPLICATE = Rule("duplicate", "error", "two criteria have the same words", _find_duplicates)
NEAR_DUPLICATE = Rule(
    "near-duplicate",
    "warning",
    "two criteria ask for nearly the same, with the same numbers, units and negations",
    _find_near_duplicates,
)
