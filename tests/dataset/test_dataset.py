from typing import Any

import pytest

from autorubric import Criterion, CriterionVerdict, DataItem, InputError, Rubric, RubricDataset
from tests.offenders import each

MET, UNMET, CANNOT_ASSESS = CriterionVerdict
SATISFACTION = Criterion.model_validate(
    {
        "name": "Satisfaction",
        "weight": 10.0,
        "requirement": "How satisfied is the user?",
        "options": [
            {"label": "Not", "value": 0.0},
            {"label": "Very satisfied", "value": 1.0},
            {"label": "NA", "value": 0.0, "na": True},
        ],
    }
)
ACCURACY = Criterion(name="accuracy", weight=10.0, requirement="Factually correct")
CLARITY = Criterion(name="clarity", weight=5.0, requirement="Clear and concise")
ERRORS = Criterion(weight=-6.0, requirement="Contains errors")
RUBRIC = Rubric([ACCURACY, CLARITY])


def dataset(**fields: Any) -> RubricDataset:
    return RubricDataset(**{"prompt": "Explain photosynthesis", "rubric": RUBRIC, **fields})


def test_the_seeds_example_runs() -> None:
    made = RubricDataset(name="photosynthesis-eval", prompt="Explain photosynthesis", rubric=RUBRIC)
    made.add_item(submission="It converts sunlight.", description="Good", ground_truth=[MET, MET])
    assert RubricDataset.from_json(made.to_json()) == made
    assert (len(made), made[0].description, [item.submission for item in made]) == (
        1,
        "Good",
        ["It converts sunlight."],
    )
    assert (made.criterion_names, made.num_criteria, made.total_positive_weight) == (
        ["accuracy", "clarity"],
        2,
        15.0,
    )


def test_arguments_stand_in_the_published_order() -> None:
    own = Rubric([CLARITY])
    item = DataItem("s", "d", [MET], own, "ref", "p", ["because"])
    assert (item.rubric, item.reference_submission, item.prompt) == (own, "ref", "p")
    made = RubricDataset("P", RUBRIC, [item], "name", "global ref")
    made.add_item("s2", "d2", [MET], own, "ref2", "p2", ground_truth_reasons=[None])
    assert (made.name, made.reference_submission, made[1].prompt) == ("name", "global ref", "p2")


def test_what_an_item_carries_goes_before_what_the_dataset_has() -> None:
    own = Rubric([CLARITY])
    made = dataset(reference_submission="R", items=[DataItem("a", ""), DataItem("b", "", None, own, "r", "p")])
    assert [made.get_item_rubric(n) for n in (0, 1)] == [RUBRIC, own]
    assert [made.get_item_reference_submission(n) for n in (0, 1)] == ["R", "r"]
    assert [made.get_item_prompt(n) for n in (0, 1)] == ["Explain photosynthesis", "p"]


def test_without_a_rubric_what_needs_one_says_so() -> None:
    made = RubricDataset("P", None, [DataItem("a", "", rubric=RUBRIC)])
    for name in ("criterion_names", "num_criteria", "total_positive_weight"):
        with pytest.raises(ValueError, match="no global rubric set"):
            getattr(made, name)
    with pytest.raises(ValueError, match="Cannot compute score: no rubric provided and no global rubric set"):
        made.compute_weighted_score([MET])
    made.items[0].rubric = None
    with pytest.raises(ValueError, match="Item 0 has no rubric and dataset has no global rubric"):
        made.get_item_rubric(0)


def test_criteria_without_a_name_are_numbered() -> None:
    assert dataset(rubric=Rubric([ACCURACY, ERRORS])).criterion_names == ["accuracy", "C2"]


# Weights: accuracy 10, satisfaction 10, errors -6.
@each(
    ("verdicts", "normalized", "raw"),
    [
        ([MET, "Very satisfied", UNMET], 1.0, 20.0),
        (["MET", " very SATISFIED", "MET"], 14 / 20, 14.0),
        ([MET, "NA", MET], 4 / 10, 4.0),
        ([UNMET, "Not", MET], 0.0, -6.0),
        ([CANNOT_ASSESS, "NA", UNMET], 0.0, 0.0),
        ([CANNOT_ASSESS, "NA", CANNOT_ASSESS], 0.0, 0.0),
        ([MET], 1.0, 10.0),
    ],
)
def test_the_weighted_score_follows_the_seed(verdicts: list[Any], normalized: float, raw: float) -> None:
    made = dataset(rubric=Rubric([ACCURACY, SATISFACTION, ERRORS]))
    assert made.compute_weighted_score(verdicts) == pytest.approx(normalized)
    assert made.compute_weighted_score(verdicts, normalize=False) == raw
    assert dataset().compute_weighted_score(verdicts, False, made.rubric) == raw


def test_only_negative_weights_score_zero_as_in_the_seed() -> None:
    assert dataset(rubric=Rubric([ERRORS])).compute_weighted_score([UNMET]) == 0.0


@each(
    ("verdicts", "message"),
    [
        ([MET, MET], "Criterion 1 is multi-choice but got CriterionVerdict; expected option label string"),
        (["banana"], "Criterion 0 is binary but got invalid verdict 'banana'. Must be 'MET', 'UNMET', or"),
        ([MET, "Fine"], "Label 'Fine' not found"),
        ([MET, "Not", MET], "Expected 2 verdicts, got 3"),
    ],
)
def test_verdicts_that_cannot_be_scored_have_the_seeds_messages(verdicts: list[Any], message: str) -> None:
    with pytest.raises(ValueError) as error:
        dataset(rubric=Rubric([ACCURACY, SATISFACTION])).compute_weighted_score(verdicts)
    assert message in str(error.value)


@each(
    ("fields", "message"),
    [
        ({"submission": {"a": 1}}, "'submission' must be a string, got dict"),
        ({"description": None}, "'description' must be a string, got NoneType"),
        ({"ground_truth": "MET"}, "ground_truth must be a list of verdicts, got str"),
        ({"ground_truth": [1, MET]}, "ground_truth[0] must be CriterionVerdict or str (an option's label), got 1"),
        ({"rubric": [ACCURACY]}, "'rubric' must be a Rubric or None, got list"),
        ({"rubric": RUBRIC, "ground_truth": [MET]}, "Ground truth has 1 value, but rubric has 2 criteria"),
        ({"rubric": RUBRIC, "ground_truth": [MET, "banana"]}, "ground_truth[1]: invalid verdict 'banana'"),
        ({"ground_truth_reasons": "x"}, "ground_truth_reasons must be a list, got str"),
        ({"ground_truth_reasons": ["x"]}, "ground_truth_reasons are given without ground_truth"),
        ({"ground_truth": [MET], "ground_truth_reasons": []}, "ground_truth_reasons has 0 values"),
        (
            {"ground_truth": [MET], "ground_truth_reasons": [3]},
            "ground_truth_reasons[0] must be a string",
        ),
        ({"prompt": 3, "id": 4}, "'id' must be a string or None, got int"),
        ({"metadata": []}, "'metadata' must be a dict, got list"),
    ],
)
def test_an_item_refuses_what_it_cannot_be(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as error:
        DataItem(**{"submission": "s", "description": "d", **fields})
    assert message in str(error.value)


def test_a_dataset_names_every_item_that_does_not_fit() -> None:
    items: list[Any] = [
        DataItem("s", "d", id="x"),
        DataItem("s", "d", [MET]),
        DataItem("s", "d", [MET, "maybe"], id="x"),
        {"submission": "s"},
    ]
    with pytest.raises(InputError) as error:
        dataset(items=items)
    assert list(error.value.problems) == [
        "Item 1: Ground truth has 1 value, but rubric has 2 criteria",
        "Item 2, ground_truth[1]: invalid verdict 'maybe'. Must be 'MET', 'UNMET', or 'CANNOT_ASSESS'.",
        "Item 2 has the same id as item 0, 'x'; make ids unique (--labels reads several annotators)",
        "Item 3 must be a DataItem, got dict",
    ]


def test_every_item_needs_a_prompt_and_a_rubric() -> None:
    with pytest.raises(InputError) as error:
        RubricDataset(items=[DataItem("s", "d")])
    assert list(error.value.problems) == [
        "Item 0 has no prompt and dataset has no global prompt",
        "Item 0 has no rubric and dataset has no global rubric",
    ]
    with pytest.raises(ValueError, match="'prompt' must be a string or None, got int"):
        RubricDataset(prompt=3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="'rubric' must be a Rubric or None, got list"):
        RubricDataset("P", [ACCURACY])  # type: ignore[arg-type]


def test_adding_an_item_that_does_not_fit_leaves_the_dataset_alone() -> None:
    made = dataset()
    made.add_item("s", "d", id="x")
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"ground_truth": [MET]}, "Ground truth has 1 value, but rubric has 2 criteria"),
        ({"ground_truth": [MET], "rubric": RUBRIC}, "Ground truth has 1 value, but rubric has 2 criteria"),
        ({"ground_truth": [MET, "x"]}, "ground_truth[1]: invalid verdict 'x'"),
        ({"id": "x"}, "the id 'x' is taken"),
    ]
    for fields, message in wrong:
        with pytest.raises(ValueError) as error:
            made.add_item("s", "d", **fields)
        assert message in str(error.value)
    assert len(made) == 1
    with pytest.raises(ValueError, match="no per-item rubric provided and no global rubric set"):
        RubricDataset("P").add_item("s", "d")
    with pytest.raises(ValueError, match="no per-item prompt provided and no global prompt set"):
        RubricDataset(None, RUBRIC).add_item("s", "d")


def test_an_id_that_came_by_the_list_counts_as_taken_too() -> None:
    made = dataset()
    made.items.append(DataItem("s", "d", id="x"))
    with pytest.raises(ValueError, match="taken"):
        made.add_item("s", "d", id="x")


def test_verdicts_become_members_whatever_their_case() -> None:
    made = dataset(items=[DataItem("s", "d", ["met", " Unmet "])])
    assert made[0].ground_truth == [MET, UNMET]
    assert all(isinstance(verdict, CriterionVerdict) for verdict in made[0].ground_truth or [])
    mixed = dataset(rubric=Rubric([ACCURACY, SATISFACTION]), items=[DataItem("s", "d", ["MET", "not "])])
    assert mixed[0].ground_truth == [MET, "not "]
