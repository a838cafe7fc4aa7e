"""Checks on whether a submission says where it knows things from."""

from __future__ import annotations

import re
from typing import Annotated
from urllib.parse import urlsplit

from annotated_types import MinLen

from autorubric.checks.check import CheckOutcome, check, judged_count
from autorubric.checks.length import Count

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

    A domain takes its subdomains along; nothing is fetched.

    Example:
        >>> url_present("See https://en.wikipedia.org/wiki/Ada.", domains=["wikipedia.org"]).passed
        True
    """
    addresses = {match.rstrip(".,;:!?)*_") for match in _URL.findall(text)}
    wanted = [address for address in addresses if domains is None or _is_within(address, domains)]
    noun = "web address" if len(wanted) == 1 else "web addresse"
    return judged_count(len(wanted), noun, at_least=at_least, at_most=at_most)


@check("citation_present")
def citation_present(text: str, *, at_least: Count = 1, at_most: Count | None = None) -> CheckOutcome:
    """Passed when the number of different citations is within the bounds.

    Read as citations: `[3]`, `[1, 2]`, `[^1]`, `(Curie, 1911)`, `Curie (1911)`, a DOI, an arXiv number.

    Example:
        >>> citation_present("Radium was isolated (Curie, 1911).").passed
        True
    """
    found = {match.group() for pattern in _CITATIONS for match in pattern.finditer(text)}
    return judged_count(len(found), "citation", at_least=at_least, at_most=at_most)


def _is_within(address: str, domains: list[str]) -> bool:
    try:
        host = (urlsplit(address).hostname or "").lower()
    except ValueError:
        return False
    return any(host == domain.lower() or host.endswith(f".{domain.lower()}") for domain in domains)
