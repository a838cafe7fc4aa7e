from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from autorubric.graders.criterion_judge import find_quote
from tests.offenders import each

TEXT = "It began in  Britain,\nwhere coal was cheap — and “labour” was dear. Canals came first; railways later."


@each(
    ("quote", "passage"),
    [
        ("coal was cheap", "coal was cheap"),
        ("It began in Britain, where coal", "It began in  Britain,\nwhere coal"),
        ("IT BEGAN IN BRITAIN", "It began in  Britain"),
        ('and "labour" was dear.', "and “labour” was dear."),
        ("cheap - and “labour”", "cheap — and “labour”"),
        ("  railways later.  ", "railways later."),
        # One letter of 34 is wrong: 97 % alike.
        ("Canals came first; railroys later.", "Canals came first; railways later."),
        (TEXT, TEXT),
    ],
)
def test_a_passage_is_found_with_its_place_in_the_original(quote: str, passage: str) -> None:
    found = find_quote(quote, TEXT)
    assert TEXT[found.start : found.end] == passage
    assert found.text == quote


@each(
    ("text", "quote", "passage"),
    [
        ("因为「煤炭」便宜", "因为“煤炭”便宜", "因为「煤炭」便宜"),
        ("夏目（なつめ）は１２３円", "夏目(なつめ)は123円", "夏目（なつめ）は１２３円"),
        ("Un e\u0301te\u0301 chaud.", "un été", "Un e\u0301te\u0301"),
        ("L’été fut chaud.", "L'e\u0301te\u0301 fut", "L’été fut"),
        ("ذَهَبَ الوَلَدُ هنا", "ذهب الولد", "ذَهَبَ الوَلَدُ"),
        ("Die STRASSE und", "die straße", "Die STRASSE"),
        ("IŞIK HIZI", "ışık hızı", "IŞIK HIZI"),
    ],
)
def test_spellings_of_the_same_characters_are_alike(text: str, quote: str, passage: str) -> None:
    found = find_quote(quote, text)
    assert text[found.start : found.end] == passage


@each(("text", "quote"), [("10² m", "102 m"), ("剂量为４克", "剂量为5克")])
def test_other_characters_are_not_alike(text: str, quote: str) -> None:
    assert find_quote(quote, text).start is None


def test_a_letter_whose_lower_case_is_longer_moves_no_place() -> None:
    text = "In İzmir IT BEGAN."
    found = find_quote("it began", text)
    assert (found.start, found.end) == (9, 17)


@each(
    "quote",
    [
        "",
        "   ",
        "steam engines were everywhere",
        "Canals came last; railways never.",
        f"{TEXT} And {TEXT}",
        "煤很便宜",
    ],
)
def test_a_passage_that_is_not_there_has_no_place(quote: str) -> None:
    found = find_quote(quote, TEXT)
    assert quote == "" or (found.start is None and found.end is None)


def test_a_passage_with_another_figure_is_another_passage() -> None:
    text = "Adults may take at most 4000 mg of it within a day."
    assert find_quote("Adults may take at most 4000 mg of it whithin a day.", text).start == 0
    assert find_quote("Adults may take at most 6000 mg of it whithin a day.", text).start is None


def test_nothing_is_found_in_nothing() -> None:
    assert find_quote("coal", "").start is None
    assert find_quote("coal", " \n").start is None


def test_chinese_passages_are_found() -> None:
    text = "工业革命始于英国，因为那里煤炭便宜、劳动力昂贵。"
    found = find_quote("煤炭便宜、劳动力昂贵", text)
    assert text[found.start : found.end] == "煤炭便宜、劳动力昂贵"


@given(st.text(min_size=1, max_size=200), st.data())
def test_every_part_of_a_text_is_found_in_it(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    found = find_quote(text[start:end], text)
    assert text[found.start : found.end] == text[start:end]


@given(st.lists(st.text(st.characters(whitelist_categories=["L"]), min_size=1, max_size=9), min_size=3, max_size=30))
def test_other_spaces_do_not_hide_a_passage(words: list[str]) -> None:
    text = "\n ".join(words)
    found = find_quote(" ".join(words[1:-1]), text)
    assert found.start is not None and found.end is not None
    # An earlier passage may say the same in other capitals.
    passage = text[found.start : found.end].split()
    assert [word.lower() for word in passage] == [word.lower() for word in words[1:-1]]
