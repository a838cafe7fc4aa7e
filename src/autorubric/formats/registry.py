"""The table of formats, and which of them a row is in."""

from __future__ import annotations

from autorubric.errors import InputError
from autorubric.files import advice
from autorubric.formats.autorubric_dataset import AUTORUBRIC
from autorubric.formats.format import Format
from autorubric.formats.healthbench import HEALTHBENCH
from autorubric.formats.llmdc import LLMDC
from autorubric.formats.open_instruct import OPEN_INSTRUCT
from autorubric.formats.prometheus import PROMETHEUS
from autorubric.formats.rar import RAR
from autorubric.formats.record import Row
from autorubric.formats.rubrichub import RUBRICHUB
from autorubric.formats.rubrichub_release import RURL
from autorubric.formats.ruft import RUFT
from autorubric.formats.verifiers import VERIFIERS
from autorubric.formats.verl import VERL

FORMATS: dict[str, Format] = {
    one.name: one
    for one in (
        AUTORUBRIC,
        RUBRICHUB,
        RURL,
        RUFT,
        HEALTHBENCH,
        RAR,
        VERL,
        OPEN_INSTRUCT,
        VERIFIERS,
        LLMDC,
        PROMETHEUS,
    )
}
"""Every format by name."""


def format_named(name: str) -> Format:
    """The format of a name.

    Raises:
        InputError: there is none; the nearest or all names are given.

    Example:
        >>> format_named("healthbnch")
        Traceback (most recent call last):
        autorubric.errors.InputError: there is no format 'healthbnch'; did you mean 'healthbench'?
    """
    found = FORMATS.get(name)
    if found is None:
        raise InputError(f"there is no format {name!r}; {advice(name, FORMATS)}")
    return found


def detect(row: Row) -> Format:
    """The one format that a row is in, by its keys.

    Raises:
        InputError: it is in none or in several; the message says which keys were seen.

    Example:
        >>> detect({"question": "Why?", "id": "q1", "rubrics": []}).name
        'rubrichub'
        >>> detect({"text": "Why?"})
        Traceback (most recent call last):
        autorubric.errors.InputError: no format has rows with the keys text; known are: autorubric, ...
    """
    found = [one for one in FORMATS.values() if one.matches(row)]
    if len(found) == 1:
        return found[0]
    keys = ", ".join(list(row)[:12]) or "none"
    if not found:
        raise InputError(f"no format has rows with the keys {keys}; known are: {', '.join(FORMATS)}")
    names = " and ".join(one.name for one in found)
    raise InputError(f"rows with the keys {keys} may be {names}; say which with --from")
