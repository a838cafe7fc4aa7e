"""Text into sentences and words, as the published verifiers cut it.

Two sentence splitters are in use there, and they differ: `NumberOfSentences` counts with NLTK's Punkt,
everything else walks over a splitter made of rules. Punkt's trained English model does not ship with NLTK;
the algorithm does, and gets here the abbreviations and sentence openers that decide nearly all of its cases.
Both tokenizers keep the rules of the NLTK releases that the published verdicts were made with.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from nltk.tokenize.destructive import NLTKWordTokenizer
    from nltk.tokenize.punkt import PunktSentenceTokenizer

_ABBREVIATIONS = """
    mr mrs ms messrs dr prof rev maj capt cmdr lt sgt cpl adm gov sen supt sr jr st
    inc ltd corp co cos bros dept assn univ est vs etc e.g i.e cf viz ca approx nos vols pp eds fig figs eq
    ft oz lb lbs ave blvd rd jan feb apr aug sept oct nov dec tue tues thur thurs
    a.m p.m a.d b.c u.s u.k u.n u.s.a u.s.s.r d.c n.y n.j n.c s.c l.a e.u ph.d m.d b.a m.a b.s m.s j.d
    ala ariz calif colo conn fla ga ind minn okla pa tenn tex va vt wis
""".split()  # noqa: SIM905 - a list of words reads best as words
_OPENERS = """
    the a an this that these those it he she they we you i there here if in on at by for from with as but and
    or so when while after before because since although however what who how why where which some many most
    all each both another his her its their our my your to of is are was were do does did can not no yes then
""".split()  # noqa: SIM905
_ASIDE = str.maketrans("~|", "\ue000\ue001")
_BACK = str.maketrans("\ue000\ue001", "~|")
_STARTERS = (
    r"(Mrs?|Ms|Dr|Prof|Capt|Cpt|Lt|He\s|She\s|It\s|They\s|Their\s|Our\s|We\s|But\s|However\s"
    r"|That\s|This\s|Wherever)"
)
# Each rule keeps a dot inside its sentence or forces an end after it; the order is part of the meaning.
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


def sentences(text: str) -> tuple[str, ...]:
    """The sentences as Punkt cuts English; other languages are cut at `.`, `?` and `!` alike.

    Example:
        >>> sentences("Dr. Smith arrived at 5 p.m. sharp. Who saw him?")
        ('Dr. Smith arrived at 5 p.m. sharp.', 'Who saw him?')
    """
    return _sentences(text)


def rule_sentences(text: str) -> tuple[str, ...]:
    """The sentences as the rule-made splitter of the published verifiers cuts them.

    Line ends count as spaces, and a closing quote moves before the mark it follows.

    Example:
        >>> rule_sentences('Mr. Fox said "run." Nobody ran!')
        ('Mr. Fox said "run".', 'Nobody ran!')
    """
    return _rule_sentences(text)


def word_tokens(text: str) -> tuple[str, ...]:
    """The tokens of NLTK's `word_tokenize`: punctuation is a token, contractions are two.

    Example:
        >>> word_tokens("Don't go.")
        ('Do', "n't", 'go', '.')
    """
    return _word_tokens(text)


@lru_cache(maxsize=64)
def _sentences(text: str) -> tuple[str, ...]:
    return tuple(_punkt().tokenize(text))


@lru_cache(maxsize=64)
def _rule_sentences(text: str) -> tuple[str, ...]:
    # The rules speak of `~` (a dot that ends nothing) and `|` (an end); the text's own are put aside.
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
def _word_tokens(text: str) -> tuple[str, ...]:
    tokenizer = _words()
    return tuple(token for sentence in _sentences(text) for token in tokenizer.tokenize(sentence))


@lru_cache(maxsize=1)
def _punkt() -> PunktSentenceTokenizer:
    from nltk.tokenize.punkt import PunktLanguageVars, PunktParameters, PunktSentenceTokenizer

    class AsciiQuotes(PunktLanguageVars):  # type: ignore[misc,unused-ignore]
        """Closing marks as NLTK had them before 3.10; it has since learned curly quotes."""

        re_boundary_realignment = re.compile(r"""["')\]}]+?(?:\s+|(?=--)|$)""", re.MULTILINE)
        _re_non_word_chars = r"""(?:[)";}\]*:@'({\[!?])"""

    parameters = PunktParameters()
    parameters.abbrev_types = set(_ABBREVIATIONS)
    # A word known in lower case inside sentences, met capitalised after an initial, opens a sentence.
    middle_lower_case = 1 << 5
    for word in _OPENERS:
        parameters.ortho_context[word] |= middle_lower_case
    return PunktSentenceTokenizer(parameters, lang_vars=AsciiQuotes())


@lru_cache(maxsize=1)
def _words() -> NLTKWordTokenizer:
    from nltk.tokenize.destructive import NLTKWordTokenizer

    class UndashedWords(NLTKWordTokenizer):  # type: ignore[misc,unused-ignore]
        """Tokens as NLTK cut them before 3.10; it has since learned to part words at long dashes."""

        STARTING_QUOTES: ClassVar = [
            *NLTKWordTokenizer.STARTING_QUOTES[:-1],
            (re.compile(r"(?i)(')(?!re|ve|ll|m|t|s|d|n)(\w)\b"), r"\1 \2"),
        ]
        PUNCTUATION: ClassVar = [
            rule for rule in NLTKWordTokenizer.PUNCTUATION if rule[0].pattern != r"[\u2012-\u2015]"
        ]

    return UndashedWords()
