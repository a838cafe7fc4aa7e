"""Values of tables and programs as JSON values: times as strings, decimals as numbers, NaN as null."""

import math
import re
import sys
from collections.abc import Iterable, Mapping
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any, TypeGuard
from unicodedata import decimal
from uuid import UUID

from autorubric.errors import InputError

_SCALARS = frozenset((str, int, bool, type(None)))
_MISSING = frozenset(("None", "nan", "NaN", "-NaN", "sNaN", "NaT", "<NA>"))


def is_missing(value: Any) -> bool:
    """Return whether a value is null, a NaN of any kind of number, or NA or NaT as pandas writes them.

    Example:
        >>> is_missing(None), is_missing(float("nan")), is_missing(Decimal("NaN")), is_missing("nan")
        (True, True, True, False)
    """
    if type(value) is float:  # most values are of these types: the test below is slow
        return math.isnan(value)
    if type(value) in _SCALARS or isinstance(value, str | list | tuple | Mapping):
        return value is None
    return str(value) in _MISSING


def to_json_value(value: Any, *, nulls: bool = True) -> Any:
    """Return a value as JSON values; types without a JSON form are left unchanged.

    Dates, times and durations become ISO 8601 (durations in seconds), bytes UTF-8 text, UUIDs strings, decimals
    numbers, and missing values null.

    Args:
        value: the value.
        nulls: whether mappings keep keys that hold null.

    Raises:
        InputError: it contains bytes that are not UTF-8.

    Example:
        >>> to_json_value({"day": date(2026, 1, 2), "took": timedelta(hours=1, milliseconds=5), "tags": (b"a", None)})
        {'day': '2026-01-02', 'took': 'PT3600.005S', 'tags': ['a', None]}
    """
    if type(value) in _SCALARS:
        return value
    if isinstance(value, bytearray | memoryview):
        value = bytes(value)
    if hasattr(value, "tolist"):  # arrays and numbers of numpy
        value = value.tolist()
    if isinstance(value, Mapping):
        cells = ((str(key), to_json_value(inner, nulls=nulls)) for key, inner in value.items())
        return {key: inner for key, inner in cells if nulls or inner is not None}
    if isinstance(value, list | tuple):
        return [to_json_value(inner, nulls=nulls) for inner in value]
    return None if is_missing(value) else _convert_scalar(value)


def drop_nulls(value: Any) -> Any:
    """Convert a table's value to JSON values without nulls in mappings: in tables, every row has all keys.

    Example:
        >>> drop_nulls({"id": "q1", "note": None, "day": date(2026, 1, 2), "tags": [{"a": None}]})
        {'id': 'q1', 'day': '2026-01-02', 'tags': [{}]}
    """
    return to_json_value(value, nulls=False)


def _convert_scalar(value: Any) -> Any:
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        seconds = Decimal(abs(value) // timedelta(microseconds=1)) / 1_000_000
        return f"{'-' * (value < timedelta())}PT{seconds:f}S"
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise InputError("contains bytes that are not UTF-8; leave it out, or write it as text") from None
    if isinstance(value, UUID):
        return str(value)
    return float(value) if isinstance(value, Decimal) else value


_DECIMAL = re.compile(r"\s*[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?\s*", re.ASCII)


def is_finite(value: object) -> TypeGuard[int | float]:
    """Return whether a value is a number in the range of finite floats.

    JSON has no largest integer, and `float` and `math.isfinite` raise an error for those beyond the range.

    Example:
        >>> is_finite(2.5), is_finite(True), is_finite("2"), is_finite(float("nan")), is_finite(10**400)
        (True, False, False, False, False)
    """
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def as_number(value: object) -> float | None:
    """Return a finite number, given as a number or as plain decimal text; None for anything else.

    Example:
        >>> as_number(2), as_number(" -2.5 "), as_number("1e3")
        (2.0, -2.5, 1000.0)
        >>> [as_number(value) for value in ("1_000", "1,5", "0x10", "nan", "", True, None, "9" * 400)]
        [None, None, None, None, None, None, None, None]
    """
    if isinstance(value, str):
        value = float(value) if _DECIMAL.fullmatch(value) else None
    return float(value) if is_finite(value) else None


_UNITS = re.compile(
    r"\s*(?:%|points?|pts?\.?|p\.|marks?|分|点|점|punkte?|puntos?|pontos?|punti|балл\w*)\s*\Z", re.IGNORECASE
)
_MINUS = re.compile(r"^\s*[\u2010-\u2013\u2212]")
_WIDE = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}  # full-width ASCII, as in East Asian texts
_DIGIT = re.compile(r"(?![0-9])\d")
_COMMA = re.compile(r"(\s*[+-]?(?:0(?=,)|\d+(?=,(?:\d\d?|\d{4,})\s*\Z))),(\d+\s*)", re.ASCII)


def as_weight(value: object) -> float | None:
    """A weight as files spell it: in percent or points, with a decimal comma, digits of any script or any minus sign.

    Ambiguous weights give None: a comma before three digits may separate thousands, `1/3` may be 1 of 3 points.

    Example:
        >>> as_weight("60%"), as_weight("2,5"), as_weight("−3"), as_weight("5 points"), as_weight("20分")
        (60.0, 2.5, -3.0, 5.0, 20.0)
        >>> as_weight("３"), as_weight("५"), as_weight("–2"), as_weight("1,000"), as_weight("1/3"), as_weight(True)
        (3.0, 5.0, -2.0, None, None, None)
    """
    if isinstance(value, str):
        value = _COMMA.sub(
            r"\1.\2",
            _UNITS.sub("", _MINUS.sub("-", _DIGIT.sub(lambda digit: str(decimal(digit[0])), value.translate(_WIDE)))),
        )
    return as_number(value)


def find_unclear_number(values: Iterable[object]) -> str | None:
    """Return the first number of a column whose point may separate thousands, if others have a decimal comma.

    Example:
        >>> find_unclear_number(["1,5", "1.000"]), find_unclear_number(["1.5", "1.000"])
        ('1.000', None)
    """
    texts = [value for value in values if isinstance(value, str)]
    has_comma = any(re.fullmatch(r"\D*\d+,\d+\D*", text) for text in texts)
    return next((text for text in texts if has_comma and re.fullmatch(r"\D*\d{1,3}\.\d{3}\D*", text)), None)
