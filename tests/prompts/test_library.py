from __future__ import annotations

import json
from pathlib import Path

import pytest

from autorubric.errors import InputError, MissingFileError
from autorubric.prompts import PromptSet, load_prompts, load_schema, package_prompts
from tests.offenders import each

SEED = {
    "reference.txt": "Answer: <<query>>",
    "rubric_generation.txt": "Q <<query>> R <<reference>>",
    "rubric_aggregation.txt": "P {|prompt|} A {|rubrics1|} B {|rubrics2|}",
    "difficulty_evolution.txt": "P {|prompt|} R {|rubrics|} 1 {|response1|} 2 {|response2|}",
}
ITEM = {"title": "剂量", "description": "Names 4 g.", "weight": 9}
AS_JSON = '[\n  {\n    "title": "剂量",\n    "description": "Names 4 g.",\n    "weight": 9\n  }\n]'


def folder(path: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (path / name).write_text(text, encoding="utf-8")
    return path


def problems(path: Path) -> tuple[str, ...]:
    with pytest.raises(InputError) as caught:
        load_prompts(path)
    return caught.value.problems


def test_the_four_files_of_the_public_pipeline_work_as_they_are(tmp_path: Path) -> None:
    prompts = load_prompts(folder(tmp_path, SEED))
    assert prompts.reference.render(query="why?") == (("user", "Answer: why?"),)
    assert prompts.rubric.render(query="why?", reference="so") == (("user", "Q why? R so"),)
    merged = prompts.merge.render(query="why?", sets=[[ITEM], []])
    assert merged == (("user", f"P why? A {AS_JSON} B []"),)
    augmented = prompts.augment.render(query="why?", rubrics=[ITEM], responses=["one", "two"])
    assert augmented == (("user", f"P why? R {AS_JSON} 1 one 2 two"),)


def test_placeholders_inside_values_are_not_filled_in(tmp_path: Path) -> None:
    prompts = load_prompts(folder(tmp_path, SEED))
    values = {"query": "{|response1|} <<reference>>", "rubrics": [], "responses": ["{|response2|}", "{|prompt|}"]}
    assert prompts.augment.render(**values) == (
        ("user", "P {|response1|} <<reference>> R [] 1 {|response2|} 2 {|prompt|}"),
    )


def test_a_placeholder_may_stand_twice_and_in_any_order(tmp_path: Path) -> None:
    prompts = load_prompts(folder(tmp_path, {"rubric_generation.txt": "<<reference>> <<query>> <<query>>"}))
    assert prompts.rubric.render(query="q", reference="r") == (("user", "r q q"),)


def test_a_conversation_fills_a_placeholder_as_a_transcript(tmp_path: Path) -> None:
    prompts = load_prompts(folder(tmp_path, SEED))
    ((_, text),) = prompts.reference.render(query=[{"role": "user", "content": "Hi"}])
    lines = text.splitlines()
    assert lines[0].startswith("Answer: <conversation-")
    assert lines[1].startswith("<user-")
    assert lines[2] == "Hi"


def test_missing_and_unknown_placeholders_of_all_files_are_listed_at_once(tmp_path: Path) -> None:
    path = folder(tmp_path, {"rubric_generation.txt": "<<querry>> {|prompt|}", "reference.txt": "Answer it."})
    assert problems(path) == (
        f"{path}/reference.txt: placeholder <<query>> is missing",
        f"{path}/rubric_generation.txt: placeholder <<query>> is missing",
        f"{path}/rubric_generation.txt: placeholder <<reference>> is missing",
        f"{path}/rubric_generation.txt: unknown placeholder <<querry>>; expected <<query>>, <<reference>>",
        f"{path}/rubric_generation.txt: unknown placeholder {{|prompt|}}; expected <<query>>, <<reference>>",
    )


def test_shifts_in_code_are_no_placeholders(tmp_path: Path) -> None:
    text = "<<query>> where cout << x << y and <<>> and << query >> stay"
    prompts = load_prompts(folder(tmp_path, {"reference.txt": text}))
    assert prompts.reference.render(query="Q")[0][1] == text.replace("<<query>>", "Q")


def test_a_template_with_two_places_takes_two_sets_and_two_responses(tmp_path: Path) -> None:
    prompts = load_prompts(folder(tmp_path, SEED))
    prompts.check(sets=2, responses=2)
    prompts.check(sets=1, responses=2)  # one set is passed through; the merge prompt is not used
    with pytest.raises(InputError) as caught:
        prompts.check(sets=3, responses=4)
    assert caught.value.problems == (
        f"{tmp_path}/rubric_aggregation.txt takes exactly 2 sets; this plan has 3",
        f"{tmp_path}/difficulty_evolution.txt takes exactly 2 responses; this plan has 4",
    )
    with pytest.raises(InputError, match="takes exactly 2 sets; 3 given"):
        prompts.merge.render(query="q", sets=[[], [], []])
    with pytest.raises(InputError, match="needs 'sets'"):
        prompts.merge.render(query="q")


def test_own_templates_lie_over_those_of_the_package(tmp_path: Path) -> None:
    path = folder(tmp_path, {"rubric.jinja": "Mine: {{ query }}", ".DS_Store": "", "reference.txt": "<<query>>"})
    prompts, packaged = load_prompts(path), package_prompts()
    assert prompts.rubric.render(query="q", reference="unused") == (("user", "Mine: q"),)
    assert prompts.merge is packaged.merge
    changed = {name for name, mark in prompts.fingerprints().items() if mark != packaged.fingerprints()[name]}
    assert changed == {"rubric", "reference"}
    assert prompts.origins() == {
        **dict.fromkeys(("pitfalls", "merge", "merge_sets", "augment", "reask"), "autorubric"),
        "rubric": f"{path}/rubric.jinja",
        "reference": f"{path}/reference.txt",
    }


def test_a_file_with_a_wrong_name_is_an_error_that_names_the_right_one(tmp_path: Path) -> None:
    path = folder(tmp_path, {"rubrics.jinja": "{{ query }}", "rubric_agregation.txt": "x", "zzz": "x"})
    found = problems(path)
    assert found[0].endswith(
        "rubric_agregation.txt: not the name of a prompt file; did you mean 'rubric_aggregation.txt'?"
    )
    assert found[1].endswith("rubrics.jinja: not the name of a prompt file; did you mean 'rubric.jinja'?")
    assert "zzz: not the name of a prompt file; expected one of reference.jinja" in found[2]


def test_wrong_variables_are_listed_with_the_right_ones(tmp_path: Path) -> None:
    path = folder(tmp_path, {"augment.jinja": "{{ query }} {{ rubric }} {{ responses }}", "merge.jinja": "{{ q"})
    found = problems(path)
    assert found[0] == f"{path}/augment.jinja: {{{{ rubrics }}}} is missing"
    assert found[1] == f"{path}/augment.jinja: unknown variable 'rubric'; did you mean 'rubrics'?"
    assert found[2].startswith(f"{path}/merge.jinja:1: ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{{ query }} {{ responses[2] }} {{ rubrics }}", "has no element 2"),
        ("{{ query + 1 }} {{ responses }} {{ rubrics }}", "cannot be filled in: "),
        ("{{ responses }} {{ rubrics | fence('Rubric!') }}", "section name 'Rubric!'"),
    ],
)
def test_a_template_that_fails_when_filled_in_is_refused_when_it_is_loaded(
    tmp_path: Path, text: str, message: str
) -> None:
    assert message in problems(folder(tmp_path, {"augment.jinja": text}))[0]


def test_two_files_for_one_prompt_are_refused(tmp_path: Path) -> None:
    path = folder(tmp_path, {"rubric.jinja": "{{ query }}", "rubric_generation.txt": SEED["rubric_generation.txt"]})
    assert problems(path) == (f"{path}/rubric_generation.txt: prompt 'rubric' is already in {path}/rubric.jinja",)


def test_a_folder_that_is_missing_or_empty_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MissingFileError, match="Prompt folder not found: "):
        load_prompts(tmp_path / "none")
    assert "no prompt files; expected any of reference.jinja, rubric.jinja" in problems(tmp_path)[0]


def test_the_schema_asks_for_exactly_what_an_item_holds() -> None:
    schema = load_schema("rubric_items")
    item = schema["properties"]["criteria"]["items"]
    assert list(item["properties"]) == item["required"] == ["title", "description", "weight"]
    # Strict structured output wants every object closed and every key required.
    assert schema["additionalProperties"] is item["additionalProperties"] is False
    schema.clear()
    assert load_schema("rubric_items")


def rendered(prompts: PromptSet, name: str) -> str:
    """A prompt as the golden file shows it."""
    sets = [[ITEM], [{"title": "Timing", "description": "Says how far apart the doses are.", "weight": 6}]]
    values: dict[str, dict[str, object]] = {
        "reference": {"query": "How much paracetamol a day?"},
        "reference_conversation": {
            "query": [
                {"role": "user", "content": "How much paracetamol a day?"},
                {"role": "assistant", "content": "Are you an adult?"},
                {"role": "user", "content": "Yes."},
            ]
        },
        "rubric": {"query": "How much paracetamol a day?", "reference": "At most 4 g."},
        "pitfalls": {"query": "How much paracetamol a day?", "reference": "At most 4 g."},
        "merge": {"query": "How much paracetamol a day?", "sets": sets},
        "augment": {"query": "How much paracetamol a day?", "rubrics": sets[0], "responses": ["4 g.", "Ask."]},
        "reask": {"problem": "the reply was cut off at the token limit"},
    }
    values["rubric_chinese"] = {
        "query": "成人一天最多吃多少对乙酰氨基酚？",
        "reference": "最多4克。",
        "chinese": True,
    }
    criteria = [
        {"title": "Dose", "response_1": True, "response_2": True, "met": 6, "judged": 6},
        {"title": "Timing", "response_1": True, "response_2": None, "met": 2, "judged": 5},
    ]
    found = {"criteria": criteria, "scores": {"response_1": 1.0, "response_2": 0.6}}
    values["augment_verdicts"] = {**values["augment"], "rubrics": [sets[0][0], sets[1][0]], "verdicts": found}
    prompt = getattr(prompts, name.partition("_")[0])
    return "".join(f"=== {role} ===\n{text}\n" for role, text in prompt.render(**values[name]))


@each(
    "name",
    [
        *("reference", "reference_conversation", "rubric", "rubric_chinese", "pitfalls", "merge", "augment"),
        *("augment_verdicts", "reask"),
    ],
)
def test_a_changed_prompt_shows_in_review(name: str) -> None:
    golden = Path(__file__).parent / "golden" / f"{name}.txt"
    text = rendered(package_prompts(), name)
    # After a wanted change: delete the file, run this test twice, look at the difference, commit it.
    if not golden.exists():
        golden.write_text(text, encoding="utf-8")
        pytest.fail(f"{golden.name} was not there and has been written; look at it and run the test again")
    assert text == golden.read_text(encoding="utf-8")


def test_prompts_hold_what_the_method_asks_for() -> None:
    texts = {name: rendered(package_prompts(), name) for name in ("rubric", "merge", "augment")}
    for text in texts.values():
        for part in (
            '{"criteria": [',
            "title",
            "description",
            "weight",
            "0 to 10" if text != texts["augment"] else "1 to 10",
        ):
            assert part in text
    assert "3 to 25 criteria" in texts["rubric"]
    assert "highest weight" in texts["merge"]
    assert '{"criteria": []}' in texts["augment"]
    assert "set phrase" in texts["augment"]


def test_json_in_prompts_is_json() -> None:
    text = rendered(package_prompts(), "rubric")
    example = text[(start := text.index('{"criteria": [\n')) : text.index("\n]}", start) + 3]
    weights = [item["weight"] for item in json.loads(example)["criteria"]]
    assert len(weights) == 5
    assert all(0 <= weight <= 10 for weight in weights)
