import copy
import pickle
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from autorubric import Criterion, InputError, Rubric
from autorubric.core.misread_keys import find_hidden_weights
from autorubric.core.rubric_shapes import _group_by_criterion, read_criteria, read_plain_criterion
from tests.offenders import each

MODEL = TypeAdapter(list[Criterion])
FULL = {
    "weight": -3.5,
    "requirement": "什么",
    "name": "A",
    "id": "c1",
    "section": "S",
    "tags": ["axis:style"],
    "metadata": {"version": [1, {"x": None}]},
}
ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([10**400, 1e12, -1e12, 1.1e12, float("nan"), float("inf"), -0.0]),
    st.floats(),
    st.sampled_from(["", " ", "\u2003\x1c", "7.5", "nominal", "mode", "\ud800", "a"]),
    st.text(max_size=3),
    st.lists(st.one_of(st.text(max_size=2), st.integers()), max_size=2),
    st.dictionaries(st.one_of(st.text(max_size=2), st.integers()), st.integers(), max_size=2),
    st.just([{"label": "Yes", "value": 1}, {"label": "No", "value": 0}]),
    st.just({"name": "word_count"}),
)
KEYS = st.sampled_from([*Criterion.model_fields, "wieght", "colour"])
GOOD = st.fixed_dictionaries(
    {"requirement": st.sampled_from(["a", "b c"])},
    optional={
        "weight": st.one_of(st.floats(-1e12, 1e12), st.integers(-9, 9)),
        "name": st.one_of(st.none(), st.text(max_size=3)),
        "id": st.one_of(st.none(), st.text(max_size=3), st.integers()),
        "section": st.one_of(st.none(), st.text(max_size=3)),
        "tags": st.lists(st.text(max_size=3), max_size=2),
        "metadata": st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
    },
)
ENTRIES = st.one_of(GOOD, st.builds(lambda good, more: {**good, **more}, GOOD, st.dictionaries(KEYS, ANYTHING)))


def inside(criterion: Criterion) -> Any:
    """All that a criterion holds, its types and the order of its fields included."""
    kinds = {name: type(value) for name, value in vars(criterion).items()}
    hidden = (sorted(criterion.model_fields_set), criterion.__pydantic_extra__, criterion.__pydantic_private__)
    return list(vars(criterion).items()), kinds, hidden, type(criterion.model_fields_set)


@given(st.lists(st.one_of(ENTRIES, ANYTHING), min_size=1, max_size=4))
@example([{}])
@example([{"requirement": "a", "colour": 5}, {"requirement": "b", "colour": 7}])
@example([FULL, {**FULL, "weight": True}])
def test_criteria_are_those_of_the_model_and_so_is_every_error(entries: list[Any]) -> None:
    before = copy.deepcopy(entries)
    try:
        expected = MODEL.validate_python(entries)
    except ValidationError as error:
        with pytest.raises(InputError) as raised:
            read_criteria(entries)
        assert list(raised.value.problems) == _group_by_criterion(error)
    else:
        try:
            found = read_criteria(entries)
        except InputError as error:  # of the criteria together
            assert [*error.problems] == [*find_hidden_weights(entries)]
            return
        assert list(map(repr, map(inside, found))) == list(map(repr, map(inside, expected)))
    assert repr(entries) == repr(before)


def test_the_mapping_that_is_usual_is_plain() -> None:
    for entry in (FULL, {"name": None, "weight": 1.0, "requirement": "a"}, {"requirement": "a"}):
        made = read_plain_criterion(entry)
        assert made is not None
        assert inside(made) == inside(Criterion.model_validate(entry))


@each("entry", [FULL, {"requirement": "a"}])
def test_criteria_share_nothing_that_can_change(entry: dict[str, Any]) -> None:
    one, other = read_criteria([entry, entry])
    for name, value in vars(one).items():
        if value is getattr(other, name) or value is entry.get(name):
            hash(value)
    assert vars(one) is not vars(other)
    assert one.model_fields_set is not other.model_fields_set


def test_a_criterion_so_made_is_a_criterion_in_every_way() -> None:
    (made,) = read_criteria([FULL])
    expected = Criterion.model_validate(FULL)
    assert (made, repr(made), hash(made)) == (expected, repr(expected), hash(expected))
    assert made.model_dump(exclude_unset=True) == FULL
    assert made.model_dump() == expected.model_dump()
    assert made.model_dump_json() == expected.model_dump_json()
    for same in (pickle.loads(pickle.dumps(made)), copy.copy(made), copy.deepcopy(made), made.model_copy()):
        assert inside(same) == inside(expected)
    changed = made.model_copy(update={"aggregation": "any"})
    assert (changed.aggregation, made.aggregation) == ("any", None)
    with pytest.raises(ValidationError, match="frozen"):
        made.weight = 1.0  # type: ignore[misc]


def test_a_criterion_that_was_made_past_its_checks_is_still_checked() -> None:
    with pytest.raises(InputError, match="requirement is empty"):
        Rubric.from_dict([Criterion.model_construct(requirement=" ")])
