"""Wordings of a numeric answer."""

from __future__ import annotations

from typing import Any

from autorubric.synthesis.compiling.grammar import MODAL, MODAL_ZH, SUBJECT, SUBJECT_ZH, Found, first_match, patterns

_VALUE = r"(?P<value>[-−]?\d+(?:,\d{3})*(?:\.\d+)?)\s*(?P<unit>%|°C|°F|[A-Za-zµμ]{1,3}(?:/[A-Za-z]{1,3})?)?"
_NUMERIC = patterns(
    rf"(?:{SUBJECT}{MODAL}(?:states?|gives?|reports?|concludes?|computes?|calculates?|finds?|arrives\s+at)\s+(?:that\s+)?)?"
    rf"(?:the|a)\s+(?:final\s+|correct\s+|numerical\s+)?(?:answer|result|value|total|sum)\s+(?:is|as|of|equals?|=)\s+{_VALUE}",
    rf"{SUBJECT_ZH}{MODAL_ZH}(?:给出|得出|指出|说明)?(?:的)?(?:最终|正确)?(?:答案|结果|数值|总数|总和)(?:应)?(?:为|是|等于)\s*{_VALUE}",
)


def number_check(text: str, query: str) -> Found:
    """The check on a numeric answer that a wording names.

    Example:
        >>> number_check("gives the result as 3.5 km", "")
        ('numeric_value', {'expected': 3.5, 'unit': 'km'})
    """
    match = first_match(_NUMERIC, text)
    if match is None:
        return None
    parameters: dict[str, Any] = {"expected": float(match["value"].replace(",", "").replace("−", "-"))}
    if match["unit"]:
        parameters["unit"] = match["unit"]
    return "numeric_value", parameters
