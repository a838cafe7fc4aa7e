"""What a text contains: phrases, patterns, links, citations and numbers."""

import re
from decimal import Decimal
from typing import Annotated, Literal
from unicodedata import category, normalize
from urllib.parse import urlsplit

from annotated_types import Ge, MinLen
from pydantic import AllowInfNan

from autorubric.checks.check import CheckOutcome, check, judge_count, quote
from autorubric.checks.length import Count
from autorubric.checks.patterns import Pattern, find_all, has_full_match
from autorubric.core.wording import MARKS, UNSPACED, narrow

Phrase = Annotated[str, MinLen(1)]
Phrases = Phrase | Annotated[list[Phrase], MinLen(1)]


@check("contains")
def contains(
    text: str,
    *,
    phrases: Phrases,
    match: Literal["all", "any"] = "all",
    ignore_case: bool = False,
    whole_words: bool = False,
) -> CheckOutcome:
    """Passed when the text contains all (or any) of the phrases.

    Accents may be composed or not (NFC). With `whole_words`, a phrase must not be part of a longer word; Chinese,
    Japanese and Thai have no spaces, so there a phrase is found anywhere.

    Example:
        >>> contains("Take the metro.", phrases=["metro", "bus"], match="any")
        CheckOutcome(passed=True, reason="found 'metro'; not found 'bus'")
    """
    wanted = _as_list(phrases)
    there = [phrase for phrase in wanted if _has_phrase(text, phrase, ignore_case, whole_words)]
    missing = [phrase for phrase in wanted if phrase not in there]
    passed = bool(there) if match == "any" else not missing
    return CheckOutcome(passed, "; ".join(filter(None, (_join("found", there), _join("not found", missing)))))


@check("not_contains")
def not_contains(
    text: str, *, phrases: Phrases, ignore_case: bool = False, whole_words: bool = False
) -> CheckOutcome:
    """Passed when the text contains none of the phrases.

    Example:
        >>> not_contains("Take the metro.", phrases="car").passed
        True
    """
    there = [phrase for phrase in _as_list(phrases) if _has_phrase(text, phrase, ignore_case, whole_words)]
    return CheckOutcome(not there, _join("found", there) or _join("not found", _as_list(phrases)))


@check("starts_with")
def starts_with(text: str, *, prefix: Phrase, ignore_case: bool = False) -> CheckOutcome:
    """Passed when the text, without space around it, starts with the prefix.

    Example:
        >>> starts_with("  Dear Ada, ...", prefix="dear", ignore_case=True).passed
        True
    """
    passed = _fold_case(text.strip(), ignore_case).startswith(_fold_case(prefix, ignore_case))
    return CheckOutcome(passed, f"it starts with {quote(text.strip()[: len(prefix) + 10])}")


@check("ends_with")
def ends_with(text: str, *, suffix: Phrase, ignore_case: bool = False) -> CheckOutcome:
    r"""Passed when the text, without space around it, ends with the suffix.

    Example:
        >>> ends_with("Yours, Ada\n", suffix="Ada").passed
        True
    """
    passed = _fold_case(text.strip(), ignore_case).endswith(_fold_case(suffix, ignore_case))
    return CheckOutcome(passed, f"it ends with {quote(text.strip()[-len(suffix) - 10 :])}")


@check("exact_match")
def exact_match(text: str, *, expected: str | Annotated[list[str], MinLen(1)]) -> CheckOutcome:
    """Passed when the text is exactly (one of) what is expected, every space and line end included.

    Example:
        >>> exact_match("42 ", expected="42").passed
        False
    """
    passed = normalize("NFC", text) in [normalize("NFC", accepted) for accepted in _as_list(expected)]
    return CheckOutcome(passed, f"{quote(text)} is {'' if passed else 'not '}as expected")


@check("normalized_match")
def normalized_match(text: str, *, expected: str | Annotated[list[str], MinLen(1)]) -> CheckOutcome:
    """Passed when the text is what is expected, ignoring case, punctuation, articles and space.

    The articles are English (a, an, the), as in SQuAD's answer matching.

    Example:
        >>> normalized_match("The  Eiffel-Tower!", expected="eiffel tower").passed
        True
    """
    ours = normalize_text(text)
    passed = any(ours == normalize_text(accepted) for accepted in _as_list(expected))
    return CheckOutcome(passed, f"it reads {quote(ours)} when normalized")


def normalize_text(text: str) -> str:
    """Return the text in NFKC, folded case, without punctuation and English articles, one space between words.

    Example:
        >>> normalize_text("An  APPLE, a day.")
        'apple day'
    """
    folded = normalize("NFKC", _fold_case(normalize("NFKC", text), True))
    spaced = "".join(" " if category(mark).startswith("P") else mark for mark in folded)
    return " ".join(word for word in spaced.split() if word not in {"a", "an", "the"})


@check("regex", packages=("regex",))
def regex(  # noqa: PLR0913 - each flag of the pattern language is a parameter of its own
    text: str,
    *,
    pattern: Pattern,
    whole: bool = False,
    ignore_case: bool = False,
    multiline: bool = False,
    dotall: bool = False,
    at_least: Count = 1,
    at_most: Count | None = None,
) -> CheckOutcome:
    r"""Passed when the pattern matches often enough; with `whole`, when it matches the entire text.

    Text and pattern are composed first (NFC). A search that takes longer than a second cannot be decided.

    Example:
        >>> regex("room 12 or 14", pattern=r"\d+", at_least=2).passed
        True
    """
    text, pattern = normalize("NFC", text), normalize("NFC", pattern)
    flags = (re.IGNORECASE if ignore_case else 0) | (re.MULTILINE if multiline else 0) | (re.DOTALL if dotall else 0)
    if whole:
        passed = has_full_match(pattern, text, flags)
        return CheckOutcome(passed, f"the whole text {'matches' if passed else 'does not match'}")
    matches = find_all(pattern, text, flags)
    outcome = judge_count(len(matches), "place", at_least=at_least, at_most=at_most)
    first = f", first {quote(matches[0])}" if matches else ""
    return CheckOutcome(outcome.passed, f"it matches at {outcome.reason}{first}")


def _as_list(phrases: str | list[str]) -> list[str]:
    return [phrases] if isinstance(phrases, str) else phrases


def _fold_case(text: str, ignore_case: bool) -> str:
    """Return the text in composed form; without case, the Turkish dotless and dotted i are one letter."""
    return normalize("NFC", text.casefold().replace("i\u0307", "i").replace("ı", "i") if ignore_case else text)


def _has_phrase(text: str, phrase: str, ignore_case: bool, whole_words: bool) -> bool:
    text, phrase = _fold_case(text, ignore_case), _fold_case(phrase, ignore_case)
    if not whole_words:
        return phrase in text
    # The pattern of a phrase has no classes of characters, which take 2 ms to compile.
    starts = (found.start() for found in re.finditer(f"(?={re.escape(phrase)})", text))
    return not all(
        _JOINS_BEFORE.match(phrase[0] + text[at - 1 : at]) or _JOINS_AFTER.match(text, at + len(phrase) - 1)
        for at in starts
    )


# A character that goes on with a word; those of scripts without spaces may be the next word.
_IN_WORD = rf"[^\W{UNSPACED}]"
_JOINS_BEFORE = re.compile(rf"[^{UNSPACED}](?![{UNSPACED}])[\w{MARKS}]")
_JOINS_AFTER = re.compile(rf"[^{UNSPACED}]{_IN_WORD}|.[{MARKS}]", re.DOTALL)


def _join(lead: str, phrases: list[str]) -> str:
    return f"{lead} {', '.join(map(quote, phrases))}" if phrases else ""


_URL = re.compile(r"https?://[^\s<>\"'`\]\[{}|\\^]{1,2000}", re.IGNORECASE)
_YEAR = r"(?:1[5-9]|20)\d\d[a-z]?"
_NAME = r"[A-Z][\w'’-]{0,60}"
_CITATIONS = tuple(
    re.compile(pattern)
    for pattern in (
        # [3], [1, 2], [4-6] and the footnote [^1], but not the link [1](...)
        r"\[\^?\d{1,4}(?:\s?[,–-]\s?\d{1,4}){0,20}\](?!\()",
        # (Curie, 1911), (Curie et al. 1911, p. 3)
        rf"\([^()\n]{{1,120}}?,?\s{_YEAR}(?:,\s?pp?\.\s?[\d–-]{{1,12}})?\)",
        # Curie (1911), Curie and Curie (1898)
        rf"\b{_NAME}(?:\set\sal\.|\s(?:and|&)\s{_NAME})?\s\({_YEAR}\)",
        r"\b10\.\d{4,9}/[^\s<>\"]{1,200}",
        r"\barXiv:\s?\d{4}\.\d{4,5}",
    )
)


@check("url_present")
def url_present(
    text: str,
    *,
    domains: Annotated[list[str], MinLen(1)] | None = None,
    at_least: Count = 1,
    at_most: Count | None = None,
) -> CheckOutcome:
    """Passed when the number of different web addresses, of the given domains, is within the bounds.

    A domain includes its subdomains; nothing is fetched.

    Example:
        >>> url_present("See https://en.wikipedia.org/wiki/Ada.", domains=["wikipedia.org"]).passed
        True
    """
    addresses = {match.rstrip(".,;:!?)*_") for match in _URL.findall(text)}
    wanted = [address for address in addresses if domains is None or _is_within(address, domains)]
    noun = "web address" if len(wanted) == 1 else "web addresse"
    return judge_count(len(wanted), noun, at_least=at_least, at_most=at_most)


@check("citation_present")
def citation_present(text: str, *, at_least: Count = 1, at_most: Count | None = None) -> CheckOutcome:
    """Passed when the number of different citations is within the bounds.

    Citations are `[3]`, `[1, 2]`, `[^1]`, `(Curie, 1911)`, `Curie (1911)`, a DOI, an arXiv number.

    Example:
        >>> citation_present("Radium was isolated (Curie, 1911).").passed
        True
    """
    found = {match.group() for pattern in _CITATIONS for match in pattern.finditer(text)}
    return judge_count(len(found), "citation", at_least=at_least, at_most=at_most)


def _is_within(address: str, domains: list[str]) -> bool:
    try:
        host = (urlsplit(address).hostname or "").lower()
    except ValueError:
        return False
    return any(host == domain.lower() or host.endswith(f".{domain.lower()}") for domain in domains)


# Thousands groups first, Indian ones included: `1,234.5` is one number, as is `1,24,000`.
_NUMBER = re.compile(
    rf"(?<![^\W\uac00-\ud7af{UNSPACED}])(?<!\.)(?=[+-]?\.?\d)[+-]?"
    r"(?:(?:\d{1,3}(?:,\d{3})+|\d{1,2}(?:,\d\d){1,9},\d{3})(?!\d)|\d{1,400})?(?:\.\d{1,400})?(?:[eE][+-]?\d{1,3})?"
)
_SIGNS = str.maketrans("−–负負٫٬，", "----.,、")
_THIN = re.compile(r"(?<=\d)[\u00a0\u2009\u202f](?=\d{3}(?!\d))")  # only between the groups of a number
# Without backtracking (`++`), which would take minutes on a list of 20,000 numbers.
_GROUPED = re.compile(r"(?<![\d.,])([1-9]\d{0,2}([.'’ ])\d{3}(?!\d)(?:\2\d{3}(?!\d))*+)((?:[.,]\d++)?)(?![\d.,]*\d)")
# A decimal comma, but not that of a pair such as (1,2), of a date such as May 5,2024, or of a thousand.
_COMMA = re.compile(
    r"(?<![\d.,])(?!(?<=[(\[{])\d+,\d+[)\]}])(\d++),(?:(?<=\b0,)|(?!(?:\d|19|20)\d\d(?!\d)))(\d++)(?![\d.,]*\d)"
)
Finite = Annotated[float, AllowInfNan(False)]
Tolerance = Annotated[Finite, Ge(0)]
Unit = Annotated[str, MinLen(1)]


@check("numeric_value")
def numeric_value(
    text: str,
    *,
    expected: Finite,
    tolerance: Tolerance = 0,
    relative_tolerance: Tolerance = 0,
    unit: Unit | Annotated[list[Unit], MinLen(1)] | None = None,
    which: Literal["any", "first", "last", "only"] = "any",
) -> CheckOutcome:
    """Passed when the text gives the expected number, in one of the units if units are given.

    A number is close enough within `tolerance`, or within `relative_tolerance` times the expected value,
    whichever is wider. Units are compared as written and never converted; they stand after the number, or right
    before it (`$5`). `which` says which of the numbers (with a unit, if units are given) is the answer.

    Example:
        >>> numeric_value("It takes 1,250 km.", expected=1240, relative_tolerance=0.01, unit=["km"])
        CheckOutcome(passed=True, reason='found 1,250 km; expected 1240 ± 12.4 km')
    """
    units = [unit] if isinstance(unit, str) else unit or []
    numbers = _find_numbers(_write_plainly(text, bool(units)), [*map(narrow, units)])
    target = _as_decimal(expected)
    margin = max(_as_decimal(tolerance), _as_decimal(relative_tolerance) * abs(target))
    candidates = {"first": numbers[:1], "last": numbers[-1:]}.get(which, numbers)
    close = [abs(value - target) <= margin for value, _ in candidates]
    passed = any(close) if which == "any" else bool(close) and all(close)
    shown = ", ".join(written for _, written in candidates[:5]) or "no number"
    spread = f" ± {margin.normalize():f}" if margin else ""
    named = f" {' or '.join(units)}" if units else ""
    return CheckOutcome(passed, f"found {shown}; expected {expected:g}{spread}{named}")


def _write_plainly(text: str, has_unit: bool) -> str:
    """Write numbers as in English: `1.234,5`, `1 234,5` and `1'234.5` become `1234.5`, and `2,5` becomes `2.5`.

    A single group after a dot stays a decimal (`1.234`); a plain space groups digits only if a unit is expected.
    """

    def join_groups(found: re.Match[str]) -> str:
        mark, fraction = found[2], found[3]
        is_decimal = mark == "." and (fraction[:1] == "." or (not fraction and found[1].count(".") == 1))
        is_apart = mark == " " and not has_unit
        return found[0] if is_decimal or is_apart else found[1].replace(mark, "") + fraction.replace(",", ".")

    plain = narrow(_THIN.sub("'", text).translate(_SIGNS))
    return _COMMA.sub(r"\1.\2", _GROUPED.sub(join_groups, plain))


def _find_numbers(text: str, units: list[str]) -> list[tuple[Decimal, str]]:
    found = ((match[0], _find_unit(text, *match.span(), units)) for match in _NUMBER.finditer(text))
    return [
        (Decimal(number.replace(",", "")), f"{number} {unit}".strip()) for number, unit in found if unit is not None
    ]


def _as_decimal(number: float) -> Decimal:
    # From its shortest spelling, so that 0.1 is a tenth and 0.3 is within 0.1 of 0.2.
    return Decimal(repr(number))


def _find_unit(text: str, start: int, end: int, units: list[str]) -> str | None:
    """Return the unit next to a number; empty if no unit is required, None if the number has none of them."""
    if not units:
        return ""
    after = text[end : end + 80].lstrip(" ")
    before = text[max(0, start - 80) : start].rstrip(" ")
    for unit in sorted(units, key=len, reverse=True):
        if after.startswith(unit) and not re.match(_IN_WORD * 2, after[len(unit) - 1 :]):
            return unit
        if before.endswith(unit) and not re.search(rf"{_IN_WORD}\Z", before[: -len(unit)] * unit[0].isalnum()):
            return unit
    return None
