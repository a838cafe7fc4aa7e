from typing import Any

from autorubric.checks import CheckOutcome, run_check
from tests.offenders import each


def counts(name: str, text: str, number: int, **more: Any) -> bool:
    said = run_check(name, {"at_least": number, "at_most": number, **more}, text)
    assert isinstance(said, CheckOutcome), said
    return said.passed


@each(
    ("text", "words"),
    [
        ("", 0),
        (" \r\n ", 0),
        ("one two\r\nthree", 3),
        ("It's a well-known fact", 4),
        ("don’t", 1),
        ("— ... !", 0),
        ("snake_case", 2),
        ("3.5 km", 3),  # 3, 5, km: a dot parts words
        ("東京タワー", 5),  # one each, no spaces to go by
        ("né à Uzès", 3),
        ("ne\u0301 a\u0300 Uze\u0300s", 3),  # the same, decomposed
        ("मैं हिन्दी बोलता हूँ", 4),  # vowel signs belong to their word
        ("ذَهَبَ الوَلَدُ", 2),
        ("می‌خواهم de\u00adutsch", 2),  # a joiner, a soft hyphen
        ("วันนี้", 3),  # ว with a vowel sign, น, and น with a vowel sign and a tone mark
        ("我用iPhone 15拍照", 6),
    ],
)
def test_word_count(text: str, words: int) -> None:
    assert counts("word_count", text, words)


@each(
    ("text", "sentences"),
    [
        ("", 0),
        ("No end mark", 1),
        ("One. Two! Three?", 3),
        ("Dr. Smith met Mrs. Jones at 5 p.m. sharp.", 1),
        ("It costs 3.50 dollars. Cheap.", 2),
        ("See e.g. the U.S. report.", 1),
        ("One.\r\nTwo.\r\n", 2),
        ("J. S. Bach wrote it. He was German.", 2),
        ("我来了。你走了！真的？", 3),
        ("答案是 A。我选 B。", 2),
        ("मैं आया। वह गया।", 2),
        ("هل أنت بخير؟ نعم۔", 2),
        ("雨が降った｡寒い｡", 2),
        ("版本3．5发布了．好。", 2),
        ("He said “go.” Then he left.", 2),
        ("He left at 5 p.m. Nobody saw him.", 2),
        ("Am 3. Oktober wird gefeiert. Das war im 19. Jahrhundert.", 2),
        ("Den 3. maj er en fridag. Vi er 5. Alle kom.", 3),
        ("I am 3. She is 4.", 2),
        ("He has 3. She has 4. It was 1990. Then he left.", 4),
        ("Das ist z.B. gut, d.h. Abb. 3 zeigt es.", 1),
        ("Sra. López llegó. Mme Roux est venue. Vgl. Nr. 5 und Mlle. Duval.", 3),
    ],
)
def test_sentence_count(text: str, sentences: int) -> None:
    assert counts("sentence_count", text, sentences)


@each(
    ("text", "characters", "without"),
    [("", 0, 0), ("né à", 4, 3), ("a\r\nb", 3, 2), ("😀 x", 3, 2), ("ne\u0301", 2, 2)],
)
def test_character_count(text: str, characters: int, without: int) -> None:
    assert counts("character_count", text, characters)
    assert counts("character_count", text, without, spaces=False)


@each(
    ("text", "paragraphs", "lines"),
    [("", 0, 0), ("a", 1, 1), ("a\nb", 1, 2), ("a\n\nb", 2, 2), ("\n\na\r\n \r\n\r\nb\n", 2, 2)],
)
def test_paragraph_and_line_count(text: str, paragraphs: int, lines: int) -> None:
    assert counts("paragraph_count", text, paragraphs)
    assert counts("line_count", text, lines)


def test_bounds_are_inclusive_and_either_may_be_open() -> None:
    assert run_check("word_count", {"at_least": 2}, "a b") == CheckOutcome(True, "2 words; expected at least 2")
    assert run_check("word_count", {"at_most": 1}, "a b") == CheckOutcome(False, "2 words; expected at most 1")
    assert run_check("word_count", {"at_least": 1, "at_most": 3}, "a b") == CheckOutcome(
        True, "2 words; expected 1 to 3"
    )
