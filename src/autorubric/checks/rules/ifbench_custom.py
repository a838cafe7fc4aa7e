"""IFBench's verifiers of single tasks: the ids `custom:…`; none has parameters."""

import csv
import io
import re
from itertools import pairwise

from autorubric.checks.check import CheckOutcome, expect, quote, rule
from autorubric.checks.length import split_by_model
from autorubric.checks.rules.words import EDGES, pass_unless, strip_marks, to_ascii
from autorubric.errors import pluralize

_CAPITALS = """
    Reykjavik Helsinki Oslo Tallinn Stockholm Riga Moscow Copenhagen Vilnius Minsk Dublin Berlin Amsterdam Warsaw
    London Brussels Prague Luxembourg Paris Vienna Bratislava Budapest Vaduz Chisinau Bern Ljubljana Zagreb
""".split()  # noqa: SIM905 - a list of words reads best as words
_CITY_COLUMNS = ["ID", "Country", "City", "Year", "Count"]
_PRODUCT_COLUMNS = ("ProductID", "Category", "Brand", "Price", "Stock")
_STUDENT_COLUMNS = ("StudentID", "Subject", "Grade", "Semester", "Score")
_OPTION = re.compile(r"[A-Ea-e][.|)]\s*\w")
_DATE = re.compile(r"(\d{4})-(\d{2})-(\d{2})")
_SHORT_MONTHS = {2: 29, 4: 30, 6: 30, 9: 30, 11: 30}


@rule("custom:multiples")
def multiples_of_seven(text: str) -> CheckOutcome:
    """The numbers in it are 14, 21, 28, 35, 42 and 49, in this order and no others.

    Example:
        >>> multiples_of_seven("14, 21, 28, 35, 42, 49").passed
        True
    """
    found = re.findall(r"\d+", text)
    return CheckOutcome(found == ["14", "21", "28", "35", "42", "49"], f"the numbers are {quote(', '.join(found))}")


@rule("custom:mcq_count_length")
def four_growing_questions(text: str) -> CheckOutcome:
    r"""Four parts that `Question` and a number open, each with five options; every question longer than the last.

    Example:
        >>> options = "\na) one\nb) two\nc) three\nd) four\ne) five\n"
        >>> asked = ("Who?", "Who now?", "Who was it?", "Who was it then?")
        >>> four_growing_questions("".join(f"Question {n}: {q}{options}" for n, q in enumerate(asked, 1))).passed
        True
    """
    if not text.startswith("Question"):
        return CheckOutcome(False, "it does not start with 'Question'")
    questions = [part.strip() for part in re.split(r"Question \d+[.|):;]?", text) if part.strip()]
    if len(questions) != 4:
        return expect(len(questions), "question", 4)
    lengths = []
    for question in questions:
        lines = [line.strip() for line in question.split("\n")]
        options = [place for place, line in enumerate(lines) if _OPTION.match(line)]
        if len(options) != 5:
            return expect(len(options), "option", 5)
        lengths.append(len(" ".join(lines[: options[0]]).strip()))
    passed = all(before < after for before, after in pairwise(lengths))
    return CheckOutcome(passed, f"the questions have {', '.join(map(str, lengths))} characters")


@rule("custom:reverse_newline")
def countries_in_reverse(text: str) -> CheckOutcome:
    r"""From the line with `Zimbabwe` on there are at least 52 lines, in reverse alphabetical order without accents.

    Example:
        >>> countries_in_reverse("Zimbabwe\nZambia").reason
        "2 lines from 'Zimbabwe' on; expected at least 52"
    """
    lines = [bare for line in text.split("\n") if (bare := line.strip(EDGES))]
    first = next((place for place, line in enumerate(lines) if "Zimbabwe" in line), None)
    if first is None:
        return CheckOutcome(False, "no line contains 'Zimbabwe'")
    listed = [to_ascii(line) for line in lines[first:]]
    if len(listed) < 52:
        return CheckOutcome(False, f"{pluralize(len(listed), 'line')} from 'Zimbabwe' on; expected at least 52")
    passed = listed == sorted(listed, reverse=True)
    return CheckOutcome(passed, f"the lines are {'' if passed else 'not '}in reverse alphabetical order")


@rule("custom:word_reverse")
def bald_eagle_by_word(text: str) -> CheckOutcome:
    """Read from the last word to the first, without ASCII punctuation, it contains `bald eagle`.

    Example:
        >>> bald_eagle_by_word("Eagle bald the is it.").passed
        True
    """
    passed = "bald eagle" in " ".join(strip_marks(text.lower()).split()[::-1])
    return CheckOutcome(passed, f"'bald eagle' is {'' if passed else 'not '}there when read backwards")


@rule("custom:character_reverse")
def bald_eagle_by_character(text: str) -> CheckOutcome:
    """It contains `elgae dlab`, ignoring case.

    Example:
        >>> bald_eagle_by_character(".elgae dlab ehT").passed
        True
    """
    passed = "elgae dlab" in text.lower()
    return CheckOutcome(passed, f"'elgae dlab' is {'' if passed else 'not '}there")


@rule("custom:sentence_alphabet", packages=("nltk", "punkt"))
def alphabet_of_sentences(text: str) -> CheckOutcome:
    """Exactly 26 sentences, which start with the letters from a to z in order.

    Example:
        >>> alphabet_of_sentences(" ".join(f"{letter}a ran." for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ")).passed
        True
    """
    parts = split_by_model(text)
    if len(parts) != 26:
        return expect(len(parts), "sentence", 26)
    wrong = next((part for n, part in enumerate(parts) if not part.strip().lower().startswith(chr(97 + n))), None)
    return pass_unless(
        f"{quote(wrong)} starts with another letter" if wrong else None, "the sentences go from a to z"
    )


@rule("custom:european_capitals_sort")
def capitals_by_latitude(text: str) -> CheckOutcome:
    """The verifier's 27 capitals from Reykjavik to Zagreb, separated by commas, in its order; accents are ignored.

    Example:
        >>> capitals_by_latitude("Reykjavík, Helsinki").reason
        '2 capitals; expected exactly 27'
    """
    listed = [name.strip() for name in to_ascii(text).split(",") if name.strip()]
    if len(listed) != len(_CAPITALS):
        return expect(len(listed), "capital", len(_CAPITALS))
    wrong = next((pair for pair in zip(listed, _CAPITALS, strict=True) if pair[0] != pair[1]), None)
    return pass_unless(
        f"found {quote(wrong[0])}; expected {wrong[1]!r}" if wrong else None, "every capital is in place"
    )


@rule("custom:csv_city")
def csv_of_cities(text: str) -> CheckOutcome:
    r"""CSV with the columns ID, Country, City, Year and Count, and seven rows.

    Example:
        >>> csv_of_cities("ID,Country,City,Year,Count\n" + "1,France,Uzes,1900,3\n" * 7).passed
        True
    """
    rows = _read_rows(text, ",")
    if rows is None or len(rows) != 8:
        return expect(len(rows or ()), "CSV line", 8)
    if rows[0] != _CITY_COLUMNS:
        return CheckOutcome(False, f"the header is {quote(','.join(rows[0]))}")
    return CheckOutcome(all(len(row) == 5 for row in rows), "expected five fields in every row")


@rule("custom:csv_special_character")
def csv_of_products(text: str) -> CheckOutcome:
    r"""CSV with the product columns, 14 rows, and a field in double quotes that contains a special character.

    Rows after the first such field are not looked at, as published.

    Example:
        >>> header = "ProductID,Category,Brand,Price,Stock\n"
        >>> csv_of_products(header + '1,Tea,"Ol&Co",2,3\n' + "1,Tea,Ko,2,3\n" * 13).passed
        True
    """
    if not _has_header(text, _PRODUCT_COLUMNS, r",[ \t]*"):
        return CheckOutcome(False, "the header has other columns")
    rows = _read_rows(text.replace('"', '"""'), ",")
    if rows is None or len(rows) != 15:
        return expect(len(rows or ()), "CSV line", 15)
    for row in rows[1:]:
        if len(row) != 5:
            return expect(len(row), "field", 5)
        if any(map(_is_quoted_special, row)):
            return CheckOutcome(True, "a quoted field contains a special character")
    return CheckOutcome(False, "no quoted field contains a special character")


@rule("custom:csv_quotes")
def csv_of_students(text: str) -> CheckOutcome:
    r"""Tab-separated values with the student columns and three rows, every field in double quotes.

    Example:
        >>> header = '"StudentID"\t"Subject"\t"Grade"\t"Semester"\t"Score"\n'
        >>> csv_of_students(header + '"1"\t"Art"\t"A"\t"1"\t"90"\n' * 3).passed
        True
    """
    if not _has_header(text, _STUDENT_COLUMNS, r"\t *"):
        return CheckOutcome(False, "the header has other columns")
    rows = _read_rows(text.replace('"', '"""'), "\t")
    if rows is None or len(rows) != 4:
        return expect(len(rows or ()), "line", 4)
    if any(len(row) != 5 for row in rows):
        return CheckOutcome(False, "expected five fields in every row")
    bare = next((field for row in rows for field in row if not _is_quoted(field.strip())), None)
    return pass_unless(None if bare is None else f"{quote(bare)} is not in double quotes", "every field is quoted")


@rule("custom:date_format_list")
def napoleonic_dates(text: str) -> CheckOutcome:
    """Dates as YYYY-MM-DD separated by commas, from 1769 to 1821; month and day may be 00, as published.

    Example:
        >>> napoleonic_dates("1796-04-12, 1805-12-02").passed, napoleonic_dates("1815-06-31").passed
        (True, False)
    """
    wrong = next((date for date in map(str.strip, text.strip().split(",")) if not _is_date(date)), None)
    return pass_unless(
        None if wrong is None else f"{quote(wrong)} is not a date from 1769 to 1821", "every date is valid"
    )


def _is_date(date: str) -> bool:
    match = _DATE.fullmatch(date)
    if match is None:
        return False
    year, month, day = map(int, match.groups())
    return 1769 <= year <= 1821 and month <= 12 and (month == 0 or day <= _SHORT_MONTHS.get(month, 31))


def _read_rows(text: str, delimiter: str) -> list[list[str]] | None:
    """Return the rows of CSV; None if the text is not CSV, on which the published verifier crashes."""
    try:
        return list(csv.reader(io.StringIO(text), delimiter=delimiter))
    except csv.Error:
        return None


def _has_header(text: str, columns: tuple[str, ...], separator: str) -> bool:
    pattern = separator.join(f'(?:{column}|"{column}")' for column in columns)
    return re.fullmatch(pattern, text.split("\n", maxsplit=1)[0].strip()) is not None


def _is_quoted(field: str) -> bool:
    return field.startswith('"') and field.endswith('"')


def _is_quoted_special(field: str) -> bool:
    # From the first quote to the last one in the same line, some character is neither word nor space.
    line = field.split("\n", maxsplit=1)[0]
    return line.startswith('"') and re.search(r"[^\w\s]", line[1 : line.rfind('"')]) is not None
