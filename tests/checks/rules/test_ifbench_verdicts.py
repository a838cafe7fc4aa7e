"""IFBench's 58 instructions against verdicts of IFBench's own verifiers, and what these do not decide."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from autorubric.checks import IFBENCH, CheckFailure, CheckOutcome, run_check, validate_check
from autorubric.errors import InputError
from autorubric.rows import read_rows
from tests.offenders import each
from tests.oracles import nltk

VERDICTS = Path(__file__).parents[2] / "data" / "ifbench.jsonl.gz"
TAGGED = "words:start_verb"


@pytest.fixture
def no_tagger_model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(nltk.data, "path", [str(tmp_path)])
    return tmp_path


def published() -> Iterator[tuple[str, dict[str, Any], str, bool]]:
    for record in read_rows(VERDICTS, []):
        row = record.fields
        yield row["instruction_id"], row["kwargs"], row["response"], row["follows"]


def test_the_verdicts_of_ifbench_are_reproduced() -> None:
    seen: Counter[tuple[str, bool]] = Counter()
    disagreed = []
    for instruction, parameters, response, follows in published():
        seen[instruction, follows] += 1
        said = run_check(instruction, parameters, response)
        if isinstance(said, CheckFailure) and instruction == TAGGED:
            assert "python -m nltk.downloader" in said.reason
        elif not isinstance(said, CheckOutcome) or said.passed is not follows:
            disagreed.append((instruction, parameters, response, follows, said))
    assert set(seen) == {(name, follows) for name in IFBENCH for follows in (True, False)}
    assert len(IFBENCH) == 58
    assert disagreed == []


def test_kwargs_of_the_published_prompts_are_accepted() -> None:
    # The prompts carry whole numbers as doubles and every unused key as null.
    assert validate_check("count:numbers", {"N": 3.0, "small_n": None}) == {"N": 3}
    assert validate_check("ratio:overlap", {"reference_text": "abc", "percentage": 20.0})["percentage"] == 20


@each(
    ("name", "parameters", "said"),
    [
        # The published code draws a random value for each of these, or divides by zero.
        ("count:words_japanese", {"N": 0}, "a number of at least 1"),
        ("count:numbers", {"N": -1}, "a number of at least 0"),
        ("count:numbers", {}, "'N' is missing"),
        ("count:word_count_range", {"min_words": 5, "max_words": 4}, "nothing can pass"),
        ("format:list", {"sep": " "}, "is blank"),
        ("repeat:repeat_span", {"prompt_to_repeat": "abc", "n_start": 2, "n_end": 1}, "the span is empty"),
    ],
)
def test_parameters_without_a_meaning_are_refused(name: str, parameters: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        validate_check(name, parameters)


@each(
    ("name", "response"),
    [
        (
            "custom:csv_quotes",
            '"StudentID"\t"Subject"\t"Grade"\t"Semester"\t"Score"\n' + '"1"\t\t"A"\t"1"\t"9"\n' * 3,
        ),
        ("custom:csv_city", 'ID,Country,City,Year,Count\n1,"' + "x" * 200_000),
    ],
)
def test_where_the_published_verifier_crashes_the_response_does_not_pass(name: str, response: str) -> None:
    said = run_check(name, {}, response)
    assert isinstance(said, CheckOutcome)
    assert not said.passed


def test_without_a_tagger_model_the_first_word_is_not_judged(no_tagger_model: Path) -> None:
    said = run_check(TAGGED, {}, "Bring an umbrella.")
    assert isinstance(said, CheckFailure)
    assert said.reason == "NLTK's tagger has no model; run: python -m nltk.downloader averaged_perceptron_tagger_eng"


@pytest.mark.parametrize(("response", "passed"), [("Bring an umbrella.", True), ("An umbrella helps.", False)])
def test_the_tag_of_the_first_word_decides(no_tagger_model: Path, response: str, passed: bool) -> None:
    model = "averaged_perceptron_tagger_eng"
    folder = no_tagger_model / "taggers" / model
    folder.mkdir(parents=True)
    parts = {"weights": {"bias": {"NN": 1.0}}, "tagdict": {"Bring": "VB", "An": "DT"}, "classes": ["DT", "NN", "VB"]}
    for part, content in parts.items():
        (folder / f"{model}.{part}.json").write_text(json.dumps(content), encoding="utf-8")
    said = run_check(TAGGED, {}, response)
    assert isinstance(said, CheckOutcome)
    assert said.passed is passed
