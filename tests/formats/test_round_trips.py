"""Whatever a record holds: written and read back it is the same, or the difference was named."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autorubric.core.criterion import Criterion
from autorubric.formats import FORMATS, Record, detect
from autorubric.formats.format import Format, find_losses, name_losses

# AUTORUBRIC_EXAMPLES=1000 widens the search.
EXAMPLES = int(os.environ.get("AUTORUBRIC_EXAMPLES", "10"))
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=20).filter(str.strip)
TURN = st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant", "system"]), "content": TEXT})
# One user message alone is the text itself.
TURNS = st.lists(TURN, min_size=2, max_size=4)
WEIGHT = st.one_of(st.integers(-20, 20), st.floats(-20, 20, allow_nan=False)).map(float)
CHECK = st.sampled_from(
    [
        {"name": "CommaChecker", "parameters": {}},
        {"name": "NumberOfWords", "parameters": {"num_words": 9, "relation": "at least"}},
        {"name": "KeywordChecker", "parameters": {"keywords": ["tea", "茶"]}},
        {"name": "word_count", "parameters": {"at_most": 5}},
    ]
)
OPTIONS = st.sampled_from(
    [
        [{"label": "No", "value": 0}, {"label": "Yes", "value": 1}],
        [{"label": f"Level {n}", "value": n / 4} for n in range(5)],
        [{"label": "bad", "value": 0.2}, {"label": "good", "value": 0.9}, {"label": "n/a", "value": 0, "na": True}],
    ]
)
TAGS = st.lists(st.sampled_from(["axis:accuracy", "level:example", "plain"]), max_size=2)


def criterion(fields: dict[str, Any]) -> Criterion:
    if fields["options"] is not None:
        fields["check"] = None
    return Criterion(**fields)


CRITERION = st.fixed_dictionaries(
    {
        "weight": WEIGHT,
        "requirement": TEXT,
        "name": st.none() | TEXT,
        "options": st.none() | OPTIONS,
        "tags": TAGS,
        "section": st.none() | TEXT,
        "check": st.none() | CHECK,
        "metadata": st.dictionaries(st.sampled_from(["note", "author"]), TEXT, max_size=1),
    }
).map(criterion)
KEYS = ["question_source", "split", "example_tags", "rubric_score", "anything", "data_source", "ground_truth"]
METADATA = st.dictionaries(
    st.sampled_from([*KEYS, "description", "orig_score", "dataset", "rubric"]),
    st.one_of(TEXT, st.integers(-5, 5), st.booleans(), st.lists(TEXT, min_size=1, max_size=2)),
    max_size=3,
)
RECORD = st.builds(
    Record,
    st.lists(CRITERION, min_size=1, max_size=4).map(tuple),
    TEXT | TURNS,
    st.just("") | TEXT,
    st.none() | TEXT,
    st.none() | TEXT,
    st.just("") | st.sampled_from(["Medical", "chat"]),
    st.none() | TEXT,
    METADATA,
)


def through(form: Format, record: Record, **options: bool) -> tuple[Record, set[str]]:
    """The record as it comes back through JSON, and the names of what was lost."""
    back: Record | None = None
    lost: set[str] = set()
    for part in form.parts(record) if form.parts is not None else (record,):
        written = form.write(part, **options)
        row = json.loads(json.dumps(written.row, ensure_ascii=False, allow_nan=False))
        assert detect(row) is form
        read = form.read(row)
        back = read if back is None or form.joined is None else form.joined(back, read)
        assert back is not None
        lost |= set(written.lost)
    assert back is not None
    return back, lost


@pytest.mark.parametrize("name", [name for name, form in FORMATS.items() if form.carrier is not None])
@settings(max_examples=EXAMPLES, deadline=None)
@given(record=RECORD)
def test_what_can_carry_extras_loses_nothing(name: str, record: Record) -> None:
    back, lost = through(FORMATS[name], record)
    assert back == record
    assert not lost


@pytest.mark.parametrize("name", list(FORMATS))
@settings(max_examples=EXAMPLES, deadline=None)
@given(record=RECORD, columnar=st.booleans())
def test_what_is_lost_is_named_and_nothing_else_is(name: str, record: Record, columnar: bool) -> None:
    form = FORMATS[name]
    for part in form.parts(record) if form.parts is not None else (record,):
        written = form.write(part, carry=False, columnar=columnar and form.schema is not None)
        back = form.read(json.loads(json.dumps(written.row, ensure_ascii=False)))
        assert set(name_losses(find_losses(part, back))) == set(written.lost)


@pytest.mark.parametrize("name", list(FORMATS))
@settings(max_examples=EXAMPLES, deadline=None)
@given(record=RECORD)
def test_a_second_passage_loses_nothing_more(name: str, record: Record) -> None:
    form = FORMATS[name]
    once, _ = through(form, record)
    twice, lost = through(form, once)
    assert twice == once
    assert not lost
