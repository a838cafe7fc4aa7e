"""Checks on how long a submission is."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, ClassVar
from unicodedata import normalize

from annotated_types import Ge

from autorubric.checks.check import CannotCheck, CheckContext, CheckOutcome, check, judge_count
from autorubric.core.wording import WORD

if TYPE_CHECKING:
    from nltk.tokenize.destructive import NLTKWordTokenizer
    from nltk.tokenize.punkt import PunktParameters, PunktSentenceTokenizer


_ABBREVIATIONS = """
    mr mrs ms messrs dr prof rev maj capt cmdr lt sgt cpl adm gov sen supt sr jr st
    inc ltd corp co cos bros dept assn univ est vs etc e.g i.e cf viz ca approx nos vols pp eds fig figs eq
    ft oz lb lbs ave blvd rd jan feb apr aug sept oct nov dec tue tues thur thurs
    a.m p.m a.d b.c u.s u.k u.n u.s.a u.s.s.r d.c n.y n.j n.c s.c l.a e.u ph.d m.d b.a m.a b.s m.s j.d
    ala ariz calif colo conn fla ga ind minn okla pa tenn tex va vt wis
    z.b d.h u.a bzw nr abb vgl ggf evtl mme mlle sra srta dra ud uds p.ej sig dott
""".split()  # noqa: SIM905 - a list of words reads best as words
_OPENERS = """
    the a an this that these those it he she they we you i there here if in on at by for from with as but and
    or so when while after before because since although however what who how why where which some many most
    all each both another his her its their our my your to of is are was were do does did can not no yes then
    nobody somebody everybody someone everyone nothing something everything
""".split()  # noqa: SIM905
# "im 19. Jahrhundert", "den 3. maj"
_ORDINAL = re.compile(
    r"(?<!\bI )\b(?i:am|im|vom|zum|beim|der|die|das|dem|den|des|eine?[mnr]?)\s\d{1,3}\.(?=\s\w)"
    r"|(?<![.,\w])\d{1,2}\.(?=\s[a-zß-öø-ÿ]{2})"
)
_ORDINAL_DOT = "\ue002"
_ASIDE = str.maketrans("~|", "\ue000\ue001")
_BACK = str.maketrans("\ue000\ue001", "~|")
_STARTERS = (
    r"(Mrs?|Ms|Dr|Prof|Capt|Cpt|Lt|He\s|She\s|It\s|They\s|Their\s|Our\s|We\s|But\s|However\s"
    r"|That\s|This\s|Wherever)"
)
# Each rule keeps a dot inside its sentence or forces an end after it; their order matters.
_RULES: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...] = (
    (r"(Mrs?|St|Ms|Dr)\.", r"\1~"),
    (r"\.(com|net|org|io|gov|edu|me)", r"~\1"),
    (r"([0-9])\.([0-9])", r"\1~\2"),
    (r"\.\.+", lambda dots: "~" * len(dots.group()) + "|"),
    (r"Ph\.D\.", "Ph~D~"),
    (r"\s([A-Za-z])\. ", r" \1~ "),
    (rf"([A-Z]\.[A-Z]\.(?:[A-Z]\.)?) {_STARTERS}", r"\1| \2"),
    (r"([A-Za-z])\.([A-Za-z])\.([A-Za-z])\.", r"\1~\2~\3~"),
    (r"([A-Za-z])\.([A-Za-z])\.", r"\1~\2~"),
    (rf" (Inc|Ltd|Jr|Sr|Co)\. {_STARTERS}", r" \1| \2"),
    (r" (Inc|Ltd|Jr|Sr|Co|[A-Za-z])\.", r" \1~"),
)


@lru_cache(maxsize=64)
def split_sentences(text: str) -> tuple[str, ...]:
    """Return the sentences as Punkt splits them with abbreviations of English and a few of other languages.

    The dot of an ordinal number, as in German dates, ends no sentence.

    Example:
        >>> split_sentences("Dr. Smith arrived at 5 p.m. sharp. Who saw him?")
        ('Dr. Smith arrived at 5 p.m. sharp.', 'Who saw him?')
    """
    kept = _ORDINAL.sub(lambda found: found.group().replace(".", _ORDINAL_DOT), text)
    return tuple(piece.replace(_ORDINAL_DOT, ".") for piece in _build_punkt().tokenize(kept))


@lru_cache(maxsize=64)
def split_by_rules(text: str) -> tuple[str, ...]:
    """Return the sentences as the rule-based splitter of the published verifiers finds them.

    Line ends count as spaces, and a closing quote moves before the mark it follows.

    Example:
        >>> split_by_rules('Mr. Fox said "run." Nobody ran!')
        ('Mr. Fox said "run".', 'Nobody ran!')
    """
    # The rules write `~` for a dot that ends nothing and `|` for an end; the text's own are set aside.
    marked = f" {text}  ".replace("\n", " ").translate(_ASIDE)
    for pattern, replacement in _RULES:
        marked = re.sub(pattern, replacement, marked)
    for inside, outside in ((".”", "”."), ('."', '".'), ('!"', '"!'), ('?"', '"?')):
        marked = marked.replace(inside, outside)
    for mark in ".?!":
        marked = marked.replace(mark, f"{mark}|")
    pieces = [piece.strip().replace("~", ".").translate(_BACK) for piece in marked.split("|")]
    return tuple(pieces if pieces[-1] else pieces[:-1])


@lru_cache(maxsize=64)
def split_by_model(text: str) -> tuple[str, ...]:
    """Return the sentences as Punkt finds them with NLTK's English model, which the published verifiers use.

    Example:
        >>> split_by_model("Bring pens, paper, etc. to class. Mr. Fox waits.")
        ('Bring pens, paper, etc.', 'to class.', 'Mr. Fox waits.')
    """
    return tuple(_load_punkt().tokenize(text))


@lru_cache(maxsize=64)
def tokenize_words(text: str) -> tuple[str, ...]:
    """Return the tokens of NLTK's `word_tokenize`: punctuation is a token, contractions are two.

    Example:
        >>> tokenize_words("Don't go.")
        ('Do', "n't", 'go', '.')
    """
    tokenizer = _build_tokenizer()
    return tuple(token for sentence in split_by_model(text) for token in tokenizer.tokenize(sentence))


def _build_splitter(parameters: PunktParameters) -> PunktSentenceTokenizer:
    from nltk.tokenize.punkt import PunktLanguageVars, PunktSentenceTokenizer

    class AsciiQuotes(PunktLanguageVars):  # type: ignore[misc,unused-ignore]
        """Closing marks as before NLTK 3.10, which added curly quotes."""

        re_boundary_realignment = re.compile(r"""["')\]}]+?(?:\s+|(?=--)|$)""", re.MULTILINE)
        _re_non_word_chars = r"""(?:[)";}\]*:@'({\[!?])"""

    return PunktSentenceTokenizer(parameters, lang_vars=AsciiQuotes())


@lru_cache(maxsize=1)
def _build_punkt() -> PunktSentenceTokenizer:
    from nltk.tokenize.punkt import PunktParameters

    parameters = PunktParameters()
    parameters.abbrev_types = set(_ABBREVIATIONS)
    # Capitalized after an initial, a word that is known in lower case inside sentences opens one.
    middle_lower_case = 1 << 5
    for word in _OPENERS:
        parameters.ortho_context[word] |= middle_lower_case
    return _build_splitter(parameters)


@lru_cache(maxsize=1)
def _load_punkt() -> PunktSentenceTokenizer:
    import punkt
    from nltk.tokenize.punkt import PunktParameters

    model, parameters = punkt.load_model("english"), PunktParameters()
    parameters.abbrev_types = set(model.abbrev_types)
    parameters.collocations = set(model.collocations)
    parameters.sent_starters = set(model.sent_starters)
    parameters.ortho_context.update(model.ortho_context)
    return _build_splitter(parameters)


@lru_cache(maxsize=1)
def _build_tokenizer() -> NLTKWordTokenizer:
    from nltk.tokenize.destructive import NLTKWordTokenizer

    class UndashedWords(NLTKWordTokenizer):  # type: ignore[misc,unused-ignore]
        """Tokens as before NLTK 3.10, which began to split words at long dashes."""

        STARTING_QUOTES: ClassVar = [
            *NLTKWordTokenizer.STARTING_QUOTES[:-1],
            (re.compile(r"(?i)(')(?!re|ve|ll|m|t|s|d|n)(\w)\b"), r"\1 \2"),
        ]
        PUNCTUATION: ClassVar = [
            rule for rule in NLTKWordTokenizer.PUNCTUATION if rule[0].pattern != r"[\u2012-\u2015]"
        ]

    return UndashedWords()


Count = Annotated[int, Ge(0)]


@check("word_count")
def word_count(text: str, *, at_least: Count | None = None, at_most: Count | None = None) -> CheckOutcome:
    """Passed when the number of words is within the bounds.

    A word is a run of letters and digits, including apostrophes and hyphens inside it; each Chinese, Japanese,
    Thai, Lao, Khmer or Burmese character counts as one, because these languages put no spaces between words.

    Example:
        >>> word_count("It's a well-known fact.", at_most=4)
        CheckOutcome(passed=True, reason='4 words; expected at most 4')
    """
    return judge_count(len(WORD.findall(text)), "word", at_least=at_least, at_most=at_most)


@check("sentence_count", packages=("nltk",))
def sentence_count(text: str, *, at_least: Count | None = None, at_most: Count | None = None) -> CheckOutcome:
    """Passed when the number of sentences is within the bounds; `。`, `？`, `।`, `؟` and the like end one as well.

    Example:
        >>> sentence_count("Dr. Fox came. She left.", at_least=2, at_most=2).passed
        True
    """
    # The splitter knows straight quotes and ASCII marks only; a dot could be that of an abbreviation.
    number = len(split_sentences(_WIDE_END.sub("! ", text).translate(_NARROW)))
    return judge_count(number, "sentence", at_least=at_least, at_most=at_most)


@check("character_count")
def character_count(
    text: str, *, at_least: Count | None = None, at_most: Count | None = None, spaces: bool = True
) -> CheckOutcome:
    """Passed when the number of characters is within the bounds; `spaces=False` leaves out white space.

    Characters are Unicode code points in composed form (NFC); a Windows line end counts as one.

    Example:
        >>> character_count("né à Uzès", at_most=7, spaces=False).passed
        True
    """
    counted = text.replace("\r\n", "\n") if spaces else "".join(text.split())
    return judge_count(len(normalize("NFC", counted)), "character", at_least=at_least, at_most=at_most)


@check("token_count")
def token_count(
    text: str, *, context: CheckContext, at_least: Count | None = None, at_most: Count | None = None
) -> CheckOutcome:
    """Passed when the number of tokens is within the bounds, by the tokenizer in the context.

    Raises:
        CannotCheck: the context has no tokenizer.

    Example:
        >>> token_count("one two", context=CheckContext(tokenizer=str.split), at_most=2).passed
        True
    """
    if context.tokenizer is None:
        raise CannotCheck("no tokenizer; pass CheckContext(tokenizer=...)")
    return judge_count(len(context.tokenizer(text)), "token", at_least=at_least, at_most=at_most)


@check("paragraph_count")
def paragraph_count(text: str, *, at_least: Count | None = None, at_most: Count | None = None) -> CheckOutcome:
    r"""Passed when the number of paragraphs, separated by blank lines, is within the bounds.

    Example:
        >>> paragraph_count("One.\r\n\r\nTwo.", at_least=2).passed
        True
    """
    blank_line_before, number = True, 0
    for line in text.splitlines():
        number += blank_line_before and bool(line.strip())
        blank_line_before = not line.strip()
    return judge_count(number, "paragraph", at_least=at_least, at_most=at_most)


@check("line_count")
def line_count(text: str, *, at_least: Count | None = None, at_most: Count | None = None) -> CheckOutcome:
    r"""Passed when the number of lines that are not blank is within the bounds.

    Example:
        >>> line_count("a\n\nb\n", at_most=2).passed
        True
    """
    number = sum(1 for line in text.splitlines() if line.strip())
    return judge_count(number, "line", at_least=at_least, at_most=at_most)


_WIDE_END = re.compile("[。！？｡।॥؟۔։።]+|．(?!\\d)")
_NARROW = str.maketrans("“”‘’", "\"\"''")
