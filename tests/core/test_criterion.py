import pickle
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from autorubric import CANONICAL_NA_OPTION, CannotAssessConfig, Criterion, CriterionOption, Rubric
from tests.offenders import each

NO_YES = [{"label": "No", "value": 0.0}, {"label": "Yes", "value": 1.0}]


def multi(**fields: object) -> Criterion:
    return Criterion.model_validate({"requirement": "Is it right?", "options": NO_YES, **fields})


def test_the_weight_is_ten_unless_given() -> None:
    criterion = Criterion(requirement="Is brief")
    assert (criterion.weight, criterion.is_binary, criterion.is_multi_choice) == (10.0, True, False)
    assert multi().is_multi_choice


@each("weight", [float("nan"), float("inf"), float("-inf"), "heavy", None, "nan"])
def test_a_weight_that_is_no_finite_number_is_refused(weight: object) -> None:
    with pytest.raises(ValueError, match="weight"):
        Criterion.model_validate({"requirement": "Is brief", "weight": weight})


@each("requirement", ["", "  \n"])
def test_an_empty_requirement_is_refused(requirement: str) -> None:
    with pytest.raises(ValueError, match="requirement is empty"):
        Criterion(requirement=requirement)


def test_half_a_character_is_not_written() -> None:
    with pytest.raises(ValueError, match=r"\[0\].requirement contains a lone surrogate"):
        Rubric([Criterion(requirement="a\ud800")]).to_json()


@each(("key", "right"), [("wieght", "weight"), ("option", "options"), ("Name", "name"), ("tag", "tags")])
def test_a_misspelt_key_names_the_right_one(key: str, right: str) -> None:
    with pytest.raises(ValidationError, match=f"unknown key '{key}'; did you mean '{right}'"):
        Criterion.model_validate({"requirement": "Is brief", key: 3})


def test_thousands_of_unknown_keys_are_one_mistake() -> None:
    with pytest.raises(ValidationError, match="2000 unknown keys; at most 500 are kept"):
        Criterion.model_validate({"requirement": "Is brief", **{f"key {number}": 1 for number in range(2000)}})


def test_all_faults_of_a_criterion_are_named_at_once_and_a_misspelt_key_is_not_also_missing() -> None:
    with pytest.raises(ValidationError) as error:
        Criterion.model_validate({"requirment": "Is brief", "weight": "x", "tags": 3})
    assert {detail["loc"] for detail in error.value.errors()} == {("requirment",), ("weight",), ("tags",)}


@each(
    ("fields", "told"),
    [
        ({"requirement": " ", "weight": float("nan")}, ["requirement is empty", "finite number"]),
        ({"requirement": "a", "weight": "1_000"}, ["expected a number"]),
        ({"requirement": " ", "wieght": 3}, ["requirement is empty", "did you mean 'weight'"]),
        ({"weight": "x", "aggregation": "most"}, ["expected a number", "missing", "'most' is unknown"]),
        ({"requirement": "a", "weight": "x", "options": [*NO_YES, *NO_YES]}, ["expected a number", "given twice"]),
    ],
)
def test_faults_of_fields_by_themselves_and_taken_together_are_named_at_once(
    fields: dict[str, Any], told: list[str]
) -> None:
    with pytest.raises(ValidationError) as error:
        Criterion.model_validate(fields)
    assert [words for words in told if words not in str(error.value)] == []


def test_an_aggregation_is_not_judged_where_the_options_cannot_be_read() -> None:
    options = [{"label": "No", "value": 0}, {"label": "Yes", "value": 3}]
    with pytest.raises(ValidationError) as error:
        Criterion.model_validate({"requirement": "Is brief", "options": options, "aggregation": "mean"})
    assert error.value.error_count() == 1


def test_keys_of_the_users_own_are_kept() -> None:
    criterion = Criterion.model_validate({"requirement": "Is brief", "axis": "style", "metadata": {"by": "me"}})
    assert criterion.metadata == {"by": "me", "axis": "style"}
    option = CriterionOption.model_validate({"label": "No", "value": 0, "hint": "never"})
    assert option.metadata == {"hint": "never"}


def test_a_key_in_and_beside_the_metadata_is_refused() -> None:
    with pytest.raises(ValueError, match="given twice"):
        Criterion.model_validate({"requirement": "Is brief", "axis": 1, "metadata": {"axis": 2}})


@each(
    ("fields", "wrong", "right"),
    [
        ({"aggregation": "majorty"}, "majorty", "majority"),
        ({"options": NO_YES, "aggregation": "maen"}, "maen", "mean"),
        ({"options": NO_YES, "scale_type": "nominal", "aggregation": "mean"}, "mean", "weighted_mode"),
    ],
)
def test_an_unknown_aggregation_is_refused_and_the_known_ones_named(
    fields: dict[str, object], wrong: str, right: str
) -> None:
    with pytest.raises(ValueError, match=f"'{wrong}'.*{right}"):
        Criterion.model_validate({"requirement": "Is brief", **fields})


@each("name", ["mean", "median", "weighted_mean", "mode", "min", "max"])
def test_every_ordinal_aggregation_is_known(name: str) -> None:
    assert multi(aggregation=name).aggregation == name


def test_a_multi_choice_criterion_needs_two_options_that_are_scored() -> None:
    with pytest.raises(ValueError, match="Multi-choice criterion must have at least 2 options"):
        multi(options=NO_YES[:1])
    with pytest.raises(ValueError, match="Must have at least 2 non-NA options"):
        multi(options=[NO_YES[0], {"label": "NA", "value": 0, "na": True}])


def test_option_labels_differ_by_more_than_case_and_spaces() -> None:
    with pytest.raises(ValueError, match="' yes ' is given twice"):
        multi(options=[*NO_YES, {"label": " yes ", "value": 0.5}])
    with pytest.raises(ValueError, match="not blank"):
        multi(options=[*NO_YES, {"label": " ", "value": 0.5}])


def test_an_option_is_worth_zero_to_one_unless_it_is_not_applicable() -> None:
    with pytest.raises(ValueError, match=r"Option value must be in \[0, 1\], got 1.5"):
        CriterionOption(label="Very", value=1.5)
    assert CriterionOption(label="NA", value=-7, na=True).value == -7
    with pytest.raises(ValueError, match="value"):
        CriterionOption(label="NA", value=float("nan"), na=True)


def test_a_label_is_found_whatever_its_case_and_outer_spaces() -> None:
    assert multi().find_option_by_label(" YES ") == 1
    with pytest.raises(ValueError, match=r"Label 'maybe' not found. Available: \['No', 'Yes'\]"):
        multi().find_option_by_label("maybe")
    assert multi().get_option_value(1) == 1.0
    for index in (-1, 2):
        with pytest.raises(ValueError, match="out of range"):
            multi().get_option_value(index)


def test_the_worst_option_depends_on_the_sign_of_the_weight_and_ties_go_to_the_first() -> None:
    options = [{"label": c, "value": v} for c, v in zip("abcd", (0.5, 0.0, 1.0, 0.0), strict=True)]
    assert multi(options=options).worst_scored_option()[0] == 1
    assert multi(options=options, weight=-1).worst_scored_option()[0] == 2
    assert multi(options=options).worst_option_among([3, 2]) == 3
    with pytest.raises(ValueError, match="without options has no worst option"):
        multi().worst_option_among([])


def test_an_option_that_is_not_applicable_is_added_once() -> None:
    added = multi().with_guaranteed_na_option()
    assert added.options is not None
    assert added.options[-1] == CANONICAL_NA_OPTION
    assert added.na_option_index == 2
    assert added.with_guaranteed_na_option() is added
    binary = Criterion(requirement="Is brief")
    assert binary.with_guaranteed_na_option() is binary


def test_a_check_is_a_mapping_with_a_name() -> None:
    check = {"name": "word_count", "parameters": {"most": 100}}
    assert Criterion(requirement="Is brief", check=check).check == check
    wrong: list[dict[str, Any]] = [
        {"parameters": {}},
        {"name": " "},
        {"name": "x", "parameters": []},
        {"nmae": "x", "name": "y"},
    ]
    for bad in wrong:
        with pytest.raises(ValueError, match="check"):
            Criterion(requirement="Is brief", check=bad)


def test_criteria_are_frozen_values() -> None:
    criterion = multi(name="Right", tags=["a"], metadata={"x": 1})
    with pytest.raises(ValidationError):
        criterion.weight = 3  # type: ignore[misc]
    assert criterion == multi(name="Right", tags=["a"], metadata={"x": 1})
    assert hash(criterion) == hash(multi(name="Right", tags=["a"], metadata={"x": 1}))
    assert pickle.loads(pickle.dumps(criterion)) == criterion
    assert "weight" in Criterion.model_json_schema()["properties"]


@each("credit", [-0.1, 1.1, 5, float("nan")])
def test_partial_credit_is_a_share(credit: float) -> None:
    with pytest.raises(ValueError, match="partial_credit"):
        CannotAssessConfig(partial_credit=credit)


def test_a_criterion_offers_what_it_documents_and_nothing_else() -> None:
    offered = {name for name in dir(Criterion) if not name.startswith("_")} - set(dir(BaseModel))
    about_options = {"find_option_by_label", "get_option_value", "na_option_index", "with_guaranteed_na_option"}
    worst = {"worst_option_among", "worst_scored_option"}
    kinds = {"is_binary", "is_multi_choice"}
    assert offered - set(Criterion.model_fields) == about_options | worst | kinds | {"problems", "known_keys"}
