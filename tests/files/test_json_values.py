"""Values of tables and programs in JSON's terms."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from autorubric.errors import InputError
from autorubric.files.json_values import drop_nulls, to_json_value
from tests.offenders import each


class Text(str):
    """A text of its own class, as verdicts are."""


@each(
    ("value", "expected"),
    [
        (Text("nan"), "nan"),
        ("NaT", "NaT"),
        (np.str_("nan"), "nan"),
        (True, True),
        (0, 0),
        (0.0, 0.0),
        (float("inf"), float("inf")),
        (np.float32(1.5), 1.5),
        (np.array([[1, 2]]), [[1, 2]]),
        (date(2026, 1, 2), "2026-01-02"),
        (time(1, 2), "01:02:00"),
        (datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02T00:00:00+00:00"),
        (timedelta(0), "PT0S"),
        (timedelta(days=1, microseconds=1), "PT86400.000001S"),
        (-timedelta(milliseconds=1500), "-PT1.5S"),
        (Decimal("1.50"), 1.5),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        ("ü".encode(), "ü"),
        (bytearray(b"ab"), "ab"),
        (memoryview(b"ab"), "ab"),
        ({1: (None, float("nan"))}, {"1": [None, None]}),
    ],
)
def test_a_value_has_one_form_in_json(value: Any, expected: Any) -> None:
    found = to_json_value(value)
    assert (found, type(found) in (str, int, float, bool, list, dict)) == (expected, type(value) is not Text)


def test_nulls_of_mappings_are_left_out_where_that_is_asked_for_and_those_of_lists_stay() -> None:
    value = {"a": None, "b": [None, {"c": None, "d": float("nan"), "e": 0}]}
    assert drop_nulls(value) == {"b": [None, {"e": 0}]}
    assert to_json_value(value) == {"a": None, "b": [None, {"c": None, "d": None, "e": 0}]}


def test_bytes_that_are_no_text_are_refused_wherever_they_stand() -> None:
    for value in (b"\xff", {"a": [b"\xff"]}):
        with pytest.raises(InputError, match="contains bytes that are not UTF-8"):
            to_json_value(value)
