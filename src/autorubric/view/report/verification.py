"""Verification of a report against its run."""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from autorubric.errors import InputError, clip
from autorubric.files.descriptors import build_read_error

MOST_BYTES = 1 << 30
_MOST_WORDS = 80
_DATA = re.compile('<template id="numbers">(.*?)</template>', re.DOTALL)
_MADE = re.compile(r"<!-- (\{.*\}) -->\s*\Z")
_PART = re.compile("<[^>]*>|[^<]+|<")
_SECTION = re.compile('<section id="([^"]*)">')


@dataclass(frozen=True)
class Mismatch:
    """A number or a text of a report that is not the run's.

    Attributes:
        where: the name of the number, or the section that shows the text.
        reported: what the report says.
        found: what the run says.
    """

    where: str
    reported: str
    found: str


@dataclass(frozen=True)
class Verification:
    """The result of checking a report.

    Attributes:
        numbers: how many numbers and names were compared.
        differences: what differs from the run.
        note: what could not be compared; empty if nothing.

    Example:
        >>> Verification(numbers=120, differences=()).is_verified
        True
    """

    numbers: int
    differences: Sequence[Mismatch]
    note: str = ""

    @property
    def is_verified(self) -> bool:
        """Whether everything was compared and matches the run."""
        return not self.differences and not self.note


def detect_form(text: str) -> str:
    """Return the form of a report: html, md or json.

    Example:
        >>> detect_form("<!doctype html>"), detect_form("### `run`"), detect_form('{"run": 1}')
        ('html', 'md', 'json')
    """
    return {"<": "html", "#": "md"}.get(text.lstrip()[:1], "json")


def read_report(path: Path) -> tuple[str, dict[str, Any]]:
    """Return the text of a report, and its data: numbers and how it was made; in Markdown only the latter.

    Raises:
        InputError: it is not a report.
    """
    try:
        if path.stat().st_size > MOST_BYTES:
            raise InputError(f"{path}: it is longer than {MOST_BYTES:,} bytes, the maximum for a report")
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise build_read_error(path, error) from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: it is not UTF-8 text; expected a file of `autorubric report`") from None
    held, form = text, detect_form(text)
    if form != "json":
        data = (_DATA if form == "html" else _MADE).search(text)
        held = "" if data is None else data[1]
    try:
        found = json.loads(held)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not isinstance(found.get("settings"), dict) or "autorubric" not in found:
        raise InputError(f"{path}: expected a file of `autorubric report`; it does not say how it was made")
    return text, found


def compare_numbers(reported: Any, found: Any, where: str = "") -> Iterator[Mismatch]:
    """Yield the numbers that differ, by name.

    Example:
        >>> [one.where for one in compare_numbers({"n": 3, "ends": [0, 1]}, {"n": 3, "ends": [0, 2]})]
        ['ends[1]']
    """
    if isinstance(reported, Mapping) and isinstance(found, Mapping):
        for name in sorted(reported.keys() | found.keys()):
            inner = f"{where}.{name}" if where else name
            yield from compare_numbers(reported.get(name, _MISSING), found.get(name, _MISSING), inner)
    elif isinstance(reported, list) and isinstance(found, list):
        for place, (ours, theirs) in enumerate(zip_longest(reported, found, fillvalue=_MISSING)):
            yield from compare_numbers(ours, theirs, f"{where}[{place}]")
    elif not _is_same(reported, found):
        yield Mismatch(where, _format_value(reported), _format_value(found))


def compare_texts(reported: str, found: str) -> Iterator[Mismatch]:
    """Yield the differences of two HTML files in texts, elements and attributes: all but the data."""
    ours, theirs = _split_parts(reported), _split_parts(found)
    pairs = list(zip(ours, theirs, strict=False))
    if len(ours) == len(theirs):
        for (section, shown), (_, right) in pairs:
            if shown != right:
                yield Mismatch(f"shown in {section}", *_format_difference(shown, right))
        return
    place = next((n for n, (one, other) in enumerate(pairs) if one != other), len(pairs))
    where = (ours[place:] or theirs[place:])[0][0]
    yield Mismatch(f"shown in {where} or after it", _format_after(ours, place), _format_after(theirs, place))


def compare_lines(reported: str, found: str) -> Iterator[Mismatch]:
    r"""Yield the lines that differ between two reports in Markdown, but the last one, which says how they were made.

    Example:
        >>> [one.where for one in compare_lines("# a\nb", "# a\nc")]
        ['line 2']
    """
    ours, theirs = (_MADE.sub("", text).rstrip().splitlines() for text in (reported, found))
    for number, pair in enumerate(zip_longest(ours, theirs), start=1):
        if pair[0] != pair[1]:
            yield Mismatch(f"line {number}", *(_format_value(_MISSING if text is None else text) for text in pair))


def count_numbers(value: Any) -> int:
    """Return how many numbers and names there are in JSON values.

    Example:
        >>> count_numbers({"n": 3, "ends": [0, 1]})
        3
    """
    if isinstance(value, Mapping):
        return sum(map(count_numbers, value.values()))
    return sum(map(count_numbers, value)) if isinstance(value, list) else 1


_MISSING = object()


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)
    return type(one) is type(other) and bool(one == other)


def _format_value(value: Any) -> str:
    text = value if isinstance(value, str) else "nothing" if value is _MISSING else json.dumps(value)
    return clip(" ".join(text.split()), _MOST_WORDS)


def _format_difference(one: str, other: str) -> tuple[str, str]:
    """Return two texts as a message shows them; if only white space differs, that part of each, quoted."""
    if one.split() != other.split():
        return _format_value(one), _format_value(other)
    start = max(0, next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), len(one)) - 20)
    ours, theirs = (json.dumps(text[start : start + 40], ensure_ascii=False) for text in (one, other))
    return ours, theirs


def _format_after(parts: Sequence[tuple[str, str]], place: int) -> str:
    return _format_value(" ".join(text for _, text in parts[place : place + 5])) if place < len(parts) else "nothing"


def _split_parts(text: str) -> list[tuple[str, str]]:
    """Return all of an HTML file but the data in it: tags and texts, each with the section that it is in.

    White space counts, as submissions are shown with theirs, except for line ends and at the ends of the file.
    """
    parts, section = [], "the head"
    for part in _PART.findall(_DATA.sub("", text, count=1).replace("\r\n", "\n").strip()):
        found = _SECTION.fullmatch(part)
        section = found[1] if found else section
        parts.append((section, part))
    return parts
