from typing import Any

from autorubric.checks import CheckFailure, CheckOutcome, run_check
from tests.offenders import each


def passes(name: str, text: str, **parameters: Any) -> bool:
    said = run_check(name, parameters, text)
    assert isinstance(said, CheckOutcome), said
    return said.passed


@each(
    ("text", "parameters", "expected"),
    [
        ("The answer is 42.", {"expected": 42}, True),
        ("The answer is 42.", {"expected": 41}, False),
        ("about 1,234.5 m", {"expected": 1234.5}, True),
        ("(1,2)", {"expected": 2}, True),  # a pair
        ("1,2", {"expected": 2}, False),  # a decimal comma
        ("0,125 or 2,5", {"expected": 0.125}, True),
        ("2,5 l", {"expected": 5, "unit": "l"}, False),
        ("1.234.567,5", {"expected": 1234567.5, "which": "only"}, True),
        ("1.240", {"expected": 1.24, "which": "only"}, True),
        ("1.234.5", {"expected": 1234.5}, False),  # a version
        ("May 5,2024", {"expected": 5, "which": "first"}, True),
        ("0.125,5", {"expected": 0.125, "which": "first"}, True),  # no number is grouped after a zero
        # Lists that a pattern with backtracking reads for minutes: of numbers, digits and groups.
        ("11" + ",22" * 33_000, {"expected": 11, "which": "first"}, True),
        (f"1,{'2' * 100_000},1", {"expected": 1, "which": "first"}, True),
        (f"1{'.000' * 25_000},1,1", {"expected": 1, "which": "first"}, True),
        ("1\u202f240,5", {"expected": 1240.5, "which": "only"}, True),
        ("1’240.5 km", {"expected": 1240.5, "unit": "km", "which": "only"}, True),
        ("1 240 km", {"expected": 1240, "unit": "km", "which": "only"}, True),
        ("100 200 300", {"expected": 200}, True),  # a list, if no unit joins the groups
        ("१,२४,०००", {"expected": 124000, "which": "only"}, True),  # Indian groups, Devanagari digits
        ("٣٫١٤", {"expected": 3.14, "which": "only"}, True),
        ("距离约1240公里。", {"expected": 1240, "unit": "公里"}, True),
        ("約5時間かかる", {"expected": 5, "unit": "時間"}, True),
        ("－５，５０％", {"expected": 50, "unit": "%", "which": "only"}, True),
        ("－５", {"expected": -5, "which": "only"}, True),
        ("负5度", {"expected": -5, "which": "only"}, True),
        ("1.5e3", {"expected": 1500}, True),
        ("−5 °C", {"expected": -5}, True),  # a typographic minus
        ("3–5", {"expected": 5}, True),
        ("3-5", {"expected": -5}, False),  # a range, no minus
        (".5", {"expected": 0.5}, True),
        ("v2", {"expected": 2}, False),  # part of a name
        ("1.2.3", {"expected": 3}, False),
        ("no number", {"expected": 0}, False),
        ("", {"expected": 0}, False),
        ("0.3", {"expected": 0.2, "tolerance": 0.1}, True),  # exact in decimals, not in binary
        ("0.31", {"expected": 0.2, "tolerance": 0.1}, False),
        ("98", {"expected": 100, "relative_tolerance": 0.02}, True),
        ("97.9", {"expected": 100, "relative_tolerance": 0.02}, False),
        ("-98", {"expected": -100, "relative_tolerance": 0.02}, True),
        ("5 km", {"expected": 5, "unit": "km"}, True),
        ("5km/h", {"expected": 5, "unit": "km/h"}, True),
        ("5 kmh", {"expected": 5, "unit": "km"}, False),
        ("5 miles", {"expected": 5, "unit": ["km", "kilometres"]}, False),
        ("$5", {"expected": 5, "unit": "$"}, True),
        ("5\u00a0%", {"expected": 5, "unit": "%"}, True),
        ("3 apples and 5 km", {"expected": 5, "unit": "km", "which": "only"}, True),
        ("3 or 5", {"expected": 5, "which": "first"}, False),
        ("3 or 5", {"expected": 5, "which": "last"}, True),
        ("3 or 5", {"expected": 5, "which": "only"}, False),
        ("5 and 5.0", {"expected": 5, "which": "only"}, True),
    ],
)
def test_numeric_value(text: str, parameters: dict[str, Any], expected: bool) -> None:
    assert passes("numeric_value", text, **parameters) is expected


@each(
    ("text", "parameters", "expected"),
    [
        ("See https://example.org/a.", {}, True),
        ("[site](http://example.org)", {}, True),
        ("example.org", {}, False),
        ("ftp://example.org", {}, False),
        ("", {}, False),
        ("https://en.wikipedia.org/x", {"domains": ["wikipedia.org"]}, True),
        ("https://notwikipedia.org/x", {"domains": ["wikipedia.org"]}, False),
        ("https://wikipedia.org.evil.com/", {"domains": ["wikipedia.org"]}, False),
        ("https://a.org https://a.org", {"at_least": 2}, False),  # the same one twice
        ("https://a.org\r\nhttps://b.org", {"at_least": 2}, True),
        ("https://[::bad", {"domains": ["a.org"]}, False),
    ],
)
def test_url_present(text: str, parameters: dict[str, Any], expected: bool) -> None:
    assert passes("url_present", text, **parameters) is expected


@each(
    ("text", "expected"),
    [
        ("as shown [3].", True),
        ("as shown [1, 2] and [4–6]", True),
        ("a note[^1]", True),
        ("a link [1](https://a.org)", False),
        ("(Curie, 1911)", True),
        ("(Curie et al. 1911, p. 3)", True),
        ("Curie and Curie (1898) found", True),
        ("in (about 12) cases", False),
        ("doi 10.1000/xyz123", True),
        ("arXiv:2601.08430", True),
        ("[name]", False),
        ("", False),
    ],
)
def test_citation_present(text: str, expected: bool) -> None:
    assert passes("citation_present", text) is expected


@each(
    ("text", "code"),
    [
        ("The quick brown fox jumps over the lazy dog near the river.", "en"),
        ("El rápido zorro marrón salta sobre el perro perezoso.", "es"),
        ("Der schnelle braune Fuchs springt über den faulen Hund.", "de"),
        ("敏捷的棕色狐狸跳过了懒惰的狗,然后跑进了森林。", "zh"),
        ("すばやい茶色の狐がのろまな犬を飛び越える。", "ja"),
        ("Быстрая коричневая лиса прыгает через ленивую собаку.", "ru"),
    ],
)
def test_language(text: str, code: str) -> None:
    assert passes("language", text, code=code)
    assert passes("language", text, code=code.upper() if code == "zh" else f"{code}-XX")
    assert not passes("language", text, code="fr")


@each("text", ["", "123 456", "😀😀", "https://example.org"])
def test_a_text_without_words_has_no_language(text: str) -> None:
    assert isinstance(run_check("language", {"code": "en"}, text), CheckFailure)


def test_the_language_is_the_same_on_every_call_whatever_others_seeded() -> None:
    from langdetect import DetectorFactory

    from autorubric.checks.language import _run_detector

    text = "OUR ODD OUTINGS, OUR OLD OASIS"
    answers = set()
    for seed in range(4):
        DetectorFactory.seed = seed
        _run_detector.cache_clear()
        said = run_check("language", {"code": "en"}, text)
        assert isinstance(said, CheckOutcome)
        answers.add(said.reason)
    DetectorFactory.seed = None
    assert len(answers) == 1
