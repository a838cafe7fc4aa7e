import io
import json
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autorubric import Criterion, InputError, Rubric
from tests.offenders import each

A: dict[str, Any] = {"name": "A", "weight": 2.0, "requirement": "a"}
B: dict[str, Any] = {"name": "B", "weight": -1.0, "requirement": "b"}
EXPECTED = Rubric([Criterion(**A), Criterion(**B)])
FULL = Rubric(
    [
        Criterion(
            name="Full",
            weight=-2.5,
            requirement="什么?",
            options=[
                {"label": "Yes", "value": 1, "metadata": {"x": 1}},
                {"label": "No", "value": 0},
                {"label": "1e3", "value": 3, "na": True},
            ],
            scale_type="nominal",
            aggregation="weighted_mode",
            id="c-1",
            tags=["x", "y"],
            section="S",
            check={"name": "words", "parameters": {"most": 3}},
            metadata={"source": {"by": "me"}},
        ),
        Criterion(requirement="plain", scale_type="nominal", aggregation="any"),
    ],
    guidelines="Be strict.",
    metadata={"version": 3},
)


@each(
    "shape",
    [
        [A, B],
        [{"criteria": [A, B]}],
        [A, {"criteria": [B]}],
        {"criteria": [A, B]},
        {"sections": [{"criteria": [A]}, {"criteria": [B]}]},
        {"rubric": [A, B]},
        {"rubric": {"criteria": [A, B]}},
        {"rubric": {"sections": [{"criteria": [A, B]}]}},
        {key: [A.get(key), B.get(key)] for key in {**A, **B}},
        {"rubric": {key: [A.get(key), B.get(key)] for key in {**A, **B}}},
    ],
)
def test_every_published_shape_is_read(shape: Any) -> None:
    assert Rubric.from_dict(shape) == EXPECTED
    assert Rubric.from_json(json.dumps(shape)) == EXPECTED
    assert Rubric.from_yaml(json.dumps(shape)) == EXPECTED


def test_the_name_of_a_section_stays_with_its_criteria() -> None:
    made = Rubric.from_dict([{"name": "Style", "criteria": [A, {**B, "section": "Own"}]}])
    assert [criterion.section for criterion in made] == ["Style", "Own"]
    assert Rubric.from_dict(made.to_dict()) == made


def test_keys_of_a_section_are_kept_with_its_criteria_and_a_misspelt_one_names_the_right_one() -> None:
    own = {**B, "metadata": {"by": "me"}}
    made = Rubric.from_dict([{"name": "Style", "colour": "red", "criteria": [A, own]}])
    assert [criterion.metadata for criterion in made] == [
        {"section": {"colour": "red"}},
        {"section": {"colour": "red"}, "by": "me"},
    ]
    assert Rubric.from_dict(made.to_dict()) == made
    with pytest.raises(
        InputError, match="section at index 0: unknown key 'nmae' in the section; did you mean 'name'"
    ):
        Rubric.from_dict([{"nmae": "Style", "criteria": [A]}])


def test_null_in_a_key_that_the_published_package_ignores_counts_as_absent() -> None:
    """It knows six keys of a criterion and three of an option; an exporter that writes all keys writes nulls."""
    more = dict.fromkeys(("id", "tags", "section", "check", "metadata"))
    option = {"value": 0, "metadata": None}
    choice = {"requirement": "How?", "options": [{**option, "label": "bad"}, {**option, "label": "good"}]}
    made = Rubric.from_dict([{**A, **more}, {**choice, **more}])
    assert made == Rubric.from_dict([A, choice])
    assert Rubric.from_json(json.dumps(made.to_dict())) == made


def test_the_points_of_all_criteria_of_a_section_are_no_weight_of_the_section() -> None:
    """The published loader reads any section and ignores its other keys; 10 + 2.5 points say nothing new."""
    kept = [{**A, "weight": 10}, {**B, "weight": 2.5}, {"requirement": "Invents a source", "weight": -4}]
    for total in (12.5, "12.5"):
        made = Rubric.from_dict({"sections": [{"name": "Style", "max_points": total, "criteria": kept}]})
        assert [criterion.weight for criterion in made] == [10.0, 2.5, -4.0]
        assert made[0].metadata == {"section": {"max_points": total}}
    for key in ("max_points", "total", "total_points", "满分"):
        told = f"'{key}' is 13, but the weights of its criteria add up to 12.5; correct them, or leave it out"
        with pytest.raises(InputError, match=told):
            Rubric.from_dict([{"name": "Style", key: 13, "criteria": kept}])
    with pytest.raises(InputError, match="'type' is 'pitfall'; give its criteria negative weights"):
        Rubric.from_dict([{"name": "Errors", "type": "pitfall", "criteria": kept}])


@each(
    "shape",
    [
        {"guidelines": "Be strict.", "criteria": [A, B]},
        {"guidelines": "Be strict.", "rubric": [A, B]},
        {"rubric": {"guidelines": "Be strict.", "criteria": [A, B]}},
        {"guidelines": " ", "rubric": {"guidelines": "Be strict.", "criteria": [A, B]}},
    ],
)
def test_guidelines_are_read_beside_or_inside_but_not_twice(shape: dict[str, Any]) -> None:
    assert Rubric.from_dict(shape).guidelines == "Be strict."
    twice = {"guidelines": "x", "rubric": {"guidelines": "y", "criteria": [A]}}
    with pytest.raises(ValueError, match="both next to and inside 'rubric'; give it once"):
        Rubric.from_dict(twice)


def test_guidelines_are_text_and_blank_ones_are_none() -> None:
    assert Rubric([Criterion(**A)], guidelines="  ").guidelines is None
    with pytest.raises(TypeError, match="Rubric guidelines must be a str or None, got int"):
        Rubric([Criterion(**A)], guidelines=3)  # type: ignore[arg-type]


@each(
    ("shape", "message"),
    [
        ([], "No criteria found"),
        # Rows of final.jsonl and final_full.jsonl, which a section resembles.
        (
            [{"question": "Why?", "rubrics": ["Is brief."]}] * 2,
            "it has 2 rubrics, each of one query; expected one: copy its row to its own file;",
        ),
        ([{"prompt": "Why?", "criteria": ["Is brief."]}], "it has 1 rubric, each of one query"),
        ({"criteria": []}, "No criteria found"),
        ([{"criteria": []}], "No criteria found"),
        ({"title": "x"}, "Dict must contain either 'sections' or 'rubric' key, or 'criteria'"),
        ({"rows": [{"requirement": "x"}], "guidelines": "g"}, "if 'rows' has the criteria, rename it to 'criteria'"),
        ({"requirement": "x", "examples": [{"text": "y"}]}, "Dict must contain either 'sections' or 'rubric' key"),
        ({"requirement": ["x"], "weight": [1, 2]}, "different lengths: {'requirement': 1, 'weight': 2}"),
        ({"criteria": {"a": A}}, "Expected 'criteria' to be a list, got dict"),
        ({"rubric": {"guidelines": "x"}}, "'rubric' must be a list, or a dict with 'sections' or 'criteria'"),
        ({"guidelines": 3, "criteria": [A]}, "Expected 'guidelines' to be a string, got int"),
        ([A, 3], "Invalid item at index 1: expected a dictionary, got int"),
        ([{"criteria": 3}], "Invalid section at index 0: 'criteria' must be a list"),
        ([A, {"name": "x"}], "Invalid criterion at index 1:\n  requirement: missing; the keys are"),
        ([{**A, "wieght": 3}], "unknown key 'wieght'; did you mean 'weight'?"),
        ([{"name": "S", "critera": [A]}], "unknown key 'critera' in the section; did you mean 'criteria'?"),
        (
            {"criteria": [A], "guidelnes": "x"},
            "unknown key 'guidelnes' in the rubric; did you mean",
        ),
        ([A, A], "criteria 0 and 1 are both named 'A'"),
        ([{**A, "id": "x"}, {**B, "id": "x"}], "criteria 0 and 1 both have the id 'x'"),
        ("text", "Invalid rubric format. Expected a list or a mapping, got str"),
    ],
)
def test_each_fault_of_a_rubric_has_its_message(shape: Any, message: str) -> None:
    with pytest.raises(ValueError) as error:
        Rubric.from_dict(shape)
    assert message in str(error.value)


def test_all_wrong_criteria_are_named_at_once() -> None:
    with pytest.raises(InputError) as error:
        Rubric.from_dict([{"requirement": ""}, A, {"requirement": "x", "weight": "much"}])
    assert [problem.split(":")[0] for problem in error.value.problems] == [
        "Invalid criterion at index 0",
        "Invalid criterion at index 2",
    ]


@each("bad", [None, [], [{}], [A], "x", 3])
def test_a_rubric_is_made_of_criteria(bad: Any) -> None:
    with pytest.raises(ValueError, match="criteri"):
        Rubric(bad)


def test_rubrics_are_values_and_sequences() -> None:
    assert Rubric([Criterion(**A), Criterion(**B)]) == EXPECTED
    assert Rubric([Criterion(**A), Criterion(**B)], guidelines="x") != EXPECTED
    assert EXPECTED.__eq__([Criterion(**A), Criterion(**B)]) is NotImplemented
    assert hash(Rubric([Criterion(**A), Criterion(**B)])) == hash(EXPECTED)
    assert (len(EXPECTED), EXPECTED[1].name, [c.name for c in EXPECTED]) == (2, "B", ["A", "B"])
    assert repr(EXPECTED).startswith("Rubric([Criterion(weight=2.0, requirement='a', name='A')")


def test_a_rubric_is_written_with_two_spaces_or_in_one_line() -> None:
    assert EXPECTED.to_json().splitlines()[1].startswith("  {")
    assert "\n" not in EXPECTED.to_json(indent=None).strip()


@pytest.mark.parametrize("extension", [".json", ".yaml", ".yml", ".YAML"])
def test_what_goes_out_to_a_file_comes_back_equal(tmp_path: Path, extension: str) -> None:
    path = tmp_path / f"rubric{extension}"
    FULL.to_file(path)
    for source in (path, str(path)):
        assert Rubric.from_file(source) == FULL
    with path.open() as file:
        assert Rubric.from_file(file) == FULL
    with path.open("rb") as raw:
        assert Rubric.from_file(raw) == FULL


@given(
    st.lists(
        st.builds(
            Criterion,
            requirement=st.text(min_size=1).filter(lambda text: bool(text.strip())),
            weight=st.floats(-1e12, 1e12),
            tags=st.lists(st.text()),
        ),
        min_size=1,
        max_size=3,
    )
)
def test_any_rubric_comes_back_from_json(criteria: list[Criterion]) -> None:
    assert Rubric.from_json(Rubric(criteria).to_json()) == Rubric(criteria)


def test_files_that_are_no_rubrics_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="File not found: "):
        Rubric.from_file(tmp_path / "none.json")
    with pytest.raises(ValueError, match=r"format '.txt'.*Supported formats: .yaml, .yml, .json"):
        Rubric.from_file(tmp_path / "a.txt")
    path = tmp_path / "a.json"
    path.write_text('[{"requirement": ""}, {"requirement": "x", "weight": NaN}]')
    with pytest.raises(InputError, match=r"a\.json: Failed to parse JSON string: \[1\]\.weight is nan"):
        Rubric.from_file(path)
    path.write_text('[{"requirement": ""}, {"requirement": "x", "weight": "NaN"}]')
    with pytest.raises(InputError) as error:
        Rubric.from_file(path)
    assert [problem.startswith(str(path)) for problem in error.value.problems] == [True, True]
    path = tmp_path / "canvas.csv"
    path.write_text(
        "Rubric Name,Criteria Name,Criteria Description,Points\nEssay,Tone,Is kind.,2\nQuiz,Sum,Adds up.,1\n"
    )
    with pytest.raises(InputError, match=r"canvas\.csv: it has 2 rubrics by 'Rubric Name'"):
        Rubric.from_file(path)
    nameless = io.StringIO("[]")
    with pytest.raises(ValueError, match="a name"):
        Rubric.from_file(nameless)


RUBRIC_WORDS = [
    "rubric",
    "criteria",
    "name",
    "requirement",
    "options",
    "label",
    "value",
    "weight",
    "check",
    "tags",
    "guidelines",
]
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "rubric",
                    "criteria",
                    "name",
                    "requirement",
                    "options",
                    "label",
                    "value",
                    "weight",
                    "check",
                    "tags",
                ]
            )
            | st.integers(),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(json_values)
def test_whatever_is_read_becomes_a_rubric_or_an_input_error(value: Any) -> None:
    try:
        made = Rubric.from_dict(value)
    except InputError:
        return
    assert Rubric.from_dict(made.to_dict()) == made


@each(
    ("entry", "weight", "options"),
    [
        (  # Canvas: the points of a criterion are those of its best rating
            {
                "description": "Thesis",
                "long_description": "States a clear thesis.",
                "points": 5.0,
                "ratings": [
                    {"id": "b1", "points": 5.0, "description": "Full", "long_description": "In the first paragraph."},
                    {"id": "b2", "points": 2.0, "description": "Partial", "long_description": ""},
                    {"id": "b3", "points": 1.0, "description": "No marks", "long_description": None},
                ],
            },
            5,
            {"Full: In the first paragraph.": 1, "Partial": 0.4, "No marks": 0.2},
        ),
        (
            {
                "description": "Bonus",
                "points": 2,
                "ignore_for_scoring": True,
                "ratings": [{"points": n, "title": f"{n}"} for n in (2, 0)],
            },
            0,
            {"2": 1, "0": 0},
        ),
        (  # Moodle subtracts the lowest score
            {
                "description": "Thesis",
                "levels": [
                    {"score": 1, "definition": "None"},
                    {"score": "3", "definition": "Vague"},
                    {"score": 5, "definition": "Clear"},
                ],
            },
            4,
            {"None": 0, "Vague": 0.5, "Clear": 1},
        ),
        (
            {
                "description": "Thesis",
                "max_score": 4,
                "levels": [{"name": "Top", "text": "Clear", "score": 4}, {"name": "Low", "text": "None", "score": 0}],
            },
            4,
            {"Top: Clear": 1, "Low: None": 0},
        ),
        (  # Google Classroom, without a description
            {"title": "Spelling", "levels": [{"title": "Good", "points": 2}, {"title": "Poor", "points": 0}]},
            2,
            {"Good": 1, "Poor": 0},
        ),
        (  # FLASK
            {"Criteria": "Is it kind?", "weight": 3, "Scoring": {"1": "Rude.", "2": "Cool.", "3": "Kind."}},
            3,
            {"Rude.": 0, "Cool.": 0.5, "Kind.": 1},
        ),
        (  # Prometheus, in a list of criteria
            {"criteria": "Is it kind?", **{f"score{n}_description": f"{n} jokes" for n in range(1, 6)}},
            4,
            {f"{n} jokes": (n - 1) / 4 for n in range(1, 6)},
        ),
        (
            {"requirement": "Is kind", "levels": [{"points": 2, "label": "Yes"}, {"points": 0, "label": "yes"}]},
            2,
            {"2. Yes": 1, "0. yes": 0},
        ),
    ],
)
def test_the_levels_of_a_criterion_become_options(entry: Any, weight: float, options: dict[str, float]) -> None:
    for shape in ([entry], {"criteria": [entry]}, [{"name": "S", "criteria": [entry]}]):
        (made,) = Rubric.from_dict(shape)
        assert made.weight == weight
        assert {option.label: option.value for option in made.options or ()} == pytest.approx(options)


@each(
    "scale",
    [
        {"levels": {"1": "Rude.", "5": "Kind."}},  # is 3 an option?
        {"levels": [{"points": 2, "score": 1, "text": "A"}, {"points": 0, "score": 0, "text": "B"}]},
        {"levels": [{"points": 1, "text": "A"}, {"score": 0, "text": "B"}]},
        {"levels": [{"points": -1, "text": "A"}, {"points": 0, "text": "B"}]},
        {"levels": {"0": "A", "1": "B"}, "ratings": {"0": "A", "1": "B"}},
        {"indicators": [{"points": 2, "text": "Names A"}, {"points": 1, "text": "Names B"}]},
        {"human_ratings": [{"name": "ann", "score": 4}, {"name": "ben", "score": 2}]},
        {"ratings": [{"name": "ann", "score": 4}, {"name": "ben", "score": 4}, {"name": "cy", "score": 1}]},
        {"score": 4, "max_score": 5, "levels": [{"score": 1, "range": "low"}, {"score": 5, "range": "high"}]},
    ],
)
def test_levels_that_may_mean_something_else_are_refused(scale: Any) -> None:
    with pytest.raises(InputError):
        Rubric.from_dict([{"criterion": "Is kind", "weight": 3, **scale}])


def test_levels_of_a_taxonomy_are_no_scale() -> None:
    (made,) = Rubric.from_dict([{"criterion": "Is kind", "weight": 3, "level1": "Physics", "level2": "Light"}])
    assert made.options is None


class Knowing:
    async def grade(self, to_grade: str, rubric: list[Criterion], **more: Any) -> dict[str, Any]:
        return {"to_grade": to_grade, "rubric": rubric, **more}


class Plain:
    async def grade(
        self, to_grade: str, rubric: list[Criterion], query: str | None, reference_submission: str | None
    ) -> tuple[Any, ...]:
        return (to_grade, rubric, query, reference_submission)


async def test_grading_is_handed_to_the_grader_with_the_guidelines() -> None:
    made = Rubric([Criterion(**A)], guidelines="Be strict.")
    report = await made.grade("text", Knowing(), query="q", reference_submission="r")
    assert report == {
        "to_grade": "text",
        "rubric": made.rubric,
        "query": "q",
        "reference_submission": "r",
        "guidelines": "Be strict.",
    }
    assert "guidelines" not in await EXPECTED.grade("text", Knowing())


async def test_a_grader_that_knows_no_guidelines_is_called_without_and_warned_of_once() -> None:
    made = Rubric([Criterion(**A)], guidelines="Be strict.")
    with pytest.warns(UserWarning, match="Plain ignores rubric guidelines"):
        assert await made.grade("text", Plain(), "q") == ("text", made.rubric, "q", None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        await made.grade("text", Plain(), "q")


def test_a_subclass_keeps_its_own_way_to_make_criteria() -> None:
    class Doubled(Rubric):
        def __init__(self, rubric: list[Criterion]) -> None:
            super().__init__(rubric)

        @staticmethod
        def validate_and_create_criteria(data: Any) -> list[Criterion]:
            return [
                criterion.model_copy(update={"weight": 2 * criterion.weight})
                for criterion in Rubric.validate_and_create_criteria(data)
            ]

    made = Doubled.from_dict({"guidelines": "x", "criteria": [A]})
    assert (made[0].weight, made.guidelines, type(made)) == (4.0, "x", Doubled)


@pytest.mark.parametrize("value", [None, 5, b"[]", [], {}])
@pytest.mark.parametrize("read", [Rubric.from_json, Rubric.from_yaml])
def test_what_is_no_text_is_no_rubric(read: Any, value: object) -> None:
    with pytest.raises(InputError, match=f"expected a string, got {type(value).__name__}"):
        read(value)


def test_what_cannot_grade_is_refused_with_its_name() -> None:
    with pytest.raises(InputError, match=r"^grader is None; expected a CriterionGrader"):
        Rubric([Criterion(requirement="Is brief")]).grade_sync("Yes.", None)  # type: ignore[arg-type]


@each("weights", [["60%", 0.4], [0.4, "60%"], ["60％", "40"], ["60%", 1, None]])
def test_weights_in_percent_next_to_plain_ones_are_refused(weights: list[Any]) -> None:
    criteria = [{"name": f"C{n}", "requirement": "Is kind.", "weight": weight} for n, weight in enumerate(weights)]
    criteria = [{key: value for key, value in one.items() if value is not None} for one in criteria]
    with pytest.raises(InputError, match="but others are not in percent; write all in one unit"):
        Rubric.from_dict(criteria)


@each(
    ("weights", "unclear"),
    [(["1.000", "1,5"], True), (["1,5", "2.000 Punkte"], True), (["1.5", "1,5"], False), (["1.000", "2.000"], False)],
)
def test_a_point_that_may_separate_thousands_is_refused(weights: list[str], unclear: bool) -> None:
    for text in ("requirement", "Kriterium"):
        criteria = [{text: f"Is {weight}", "weight": weight} for weight in weights]
        if not unclear:
            assert len(Rubric.from_dict(criteria)) == 2
            continue
        with pytest.raises(InputError, match="but others have a decimal comma; write it without the point"):
            Rubric.from_dict(criteria)
