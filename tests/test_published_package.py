"""Names, signatures and values of AutoRubric 1.6.1.

AutoRubric 1.6.1 from PyPI printed the expected values on the same inputs; `names.json` is what `inspect.signature`
says of each of its public names.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

import autorubric
from autorubric import (
    Criterion,
    CriterionGrader,
    CriterionOption,
    CriterionReport,
    CriterionVerdict,
    EnsembleCriterionReport,
    EvaluationReport,
    JudgeSpec,
    LengthPenalty,
    LLMConfig,
    Rubric,
    RubricDataset,
    earth_movers_distance,
    evaluate_sync,
    extract_verdicts_from_report,
    filter_cannot_assess,
    ks_test,
    verdict_to_binary,
    verdict_to_string,
    wasserstein_distance,
)
from autorubric.core.judgment import AggregatedMultiChoiceVerdict
from autorubric.core.usage import UnknownCost
from autorubric.errors import InputError
from autorubric.graders.few_shot import FewShotConfig
from autorubric.llm.request import CallError, Failure
from autorubric.metrics import (
    extract_all_verdicts_from_report,
    filter_na_multi_choice,
    get_option_value,
    is_na_option,
    resolve_ground_truth,
)
from autorubric.testing import LoopbackEndpoint
from tests.offenders import each

ROOT = Path(__file__).parents[1]
DATA = ROOT / "tests" / "data" / "autorubric16"
PAGE = ROOT / "docs" / "howto" / "from_autorubric.md"
NAMES: dict[str, dict[str, dict[str, str | None] | None]] = json.loads((DATA / "names.json").read_text())
# Those without an underscore in the wheel of 1.6.1.
MODULES = (
    *("dataset", "decision", "escalation", "eval", "graders", "graders.base", "graders.criterion_grader", "llm"),
    *("meta", "metrics", "metrics.distribution", "prompts", "rate_limit", "rubric", "scoring", "types", "utils"),
)
MET, UNMET, CANNOT = CriterionVerdict.MET, CriterionVerdict.UNMET, CriterionVerdict.CANNOT_ASSESS


def listed(heading: str) -> set[str]:
    """The names in code type in the first column of the table under a heading of the page."""
    _, _, rest = PAGE.read_text(encoding="utf-8").partition(f"\n## {heading}\n")
    rows = [line for line in rest.partition("\n## ")[0].splitlines() if line.startswith("| `")]
    return {name for row in rows for name in re.findall(r"`(\w+)`", row.split(" | ")[0])}


def test_every_public_name_is_there_or_on_the_list_of_those_that_are_not() -> None:
    absent = listed("Names that are absent")
    missing = {name for name in NAMES["autorubric"] if not hasattr(autorubric, name)}
    assert missing == absent & set(NAMES["autorubric"])
    assert absent <= {name for names in NAMES.values() for name in names}


def test_published_modules_hold_their_names() -> None:
    absent = listed("Names that are absent")
    missing = [
        f"{module}.{name}"
        for module, names in NAMES.items()
        for name in names
        if name not in absent and not hasattr(import_module(module), name)
    ]
    assert missing == []


def test_published_modules_that_are_absent_are_listed_and_no_others_are() -> None:
    _, _, rest = PAGE.read_text(encoding="utf-8").partition("\n## Modules that are absent\n")
    missing = {module for module in MODULES if find_spec(f"autorubric.{module}") is None}
    assert missing == {"decision", "escalation", "graders.base", "rate_limit"}
    assert all(f"| `autorubric.{module}`" in rest or f", `autorubric.{module}`" in rest for module in missing)


def test_published_parameters_are_taken_in_their_order_and_with_their_defaults() -> None:
    wrong = []
    for module, names in NAMES.items():
        for name, published in names.items():
            found = getattr(import_module(module), name, None)
            if found is None or published is None:
                continue
            own = inspect.signature(found).parameters
            if any(parameter.kind is parameter.VAR_KEYWORD for parameter in own.values()):
                continue
            shared = [parameter for parameter in own if parameter in published]
            wrong += [f"{module}.{name}: {missing}" for missing in published.keys() - own.keys()]
            if inspect.isfunction(found) and shared != [one for one in published if one in own]:
                wrong.append(f"{module}.{name}: order")
            for parameter in shared:
                default, expected = own[parameter].default, published[parameter]
                if expected is not None and "factory" not in repr(default) and repr(default) != expected:
                    wrong.append(f"{module}.{name}: {parameter}={default!r}, published {expected}")
    assert wrong == []


def test_lists_of_verdicts_become_numbers_and_names() -> None:
    assert verdict_to_binary([MET, UNMET, CANNOT]) == [1, 0, 0]
    assert verdict_to_string([MET, CANNOT]) == ["MET", "CANNOT_ASSESS"]
    assert (verdict_to_binary([]), verdict_to_string([])) == ([], [])
    for convert in (verdict_to_binary, verdict_to_string):
        with pytest.raises(InputError, match="expected a list of verdicts, found the single verdict 'MET'"):
            convert(MET)  # type: ignore[arg-type]
    assert filter_cannot_assess(pred_verdicts=[MET, CANNOT], true_verdicts=[MET, MET]) == ([MET], [MET])


OPTIONS = [
    CriterionOption(label=label, value=value, na=label == "NA")
    for label, value in zip(("No", "Yes", "NA"), (0.0, 1.0, 0.0), strict=True)
]


def test_verdicts_of_a_report_are_one_for_each_criterion() -> None:
    binary = Criterion(name="brief", requirement="Is brief")
    choice = Criterion(name="right", requirement="Is it right?", options=OPTIONS)
    entries = [
        EnsembleCriterionReport(criterion=binary, final_verdict=MET, final_reason=""),
        EnsembleCriterionReport(
            criterion=choice,
            final_verdict=None,
            final_reason="",
            final_multi_choice_verdict=AggregatedMultiChoiceVerdict(
                selected_index=1, selected_label="Yes", value=1.0, aggregated_value=1.0
            ),
        ),
    ]
    report = autorubric.EnsembleEvaluationReport(score=1.0, report=entries)
    assert extract_verdicts_from_report(report, 2) == [MET, UNMET]
    assert extract_all_verdicts_from_report(report, [binary, choice]) == [MET, 1]
    failed = CriterionReport(requirement="Is brief", reason=None, error="parse: no verdict")
    # 1.6.1 gave a failed judgment CANNOT_ASSESS as its verdict; the report of a failed item said UNMET throughout.
    assert extract_verdicts_from_report(EvaluationReport(score=None, report=[failed]), 1) == [CANNOT]
    assert extract_verdicts_from_report(EvaluationReport(score=None, error="x"), 2) == [CANNOT, CANNOT]


@each(
    ("mode", "predicted", "truth"),
    [("exclude", [1], [1]), ("as_unmet", [0, 1, 1, 1], [1, 1, 1, 1]), ("as_category", [0, 2, 1, 2], [2, 1, 1, 2])],
)
def test_options_that_are_not_applicable_are_filtered_and_counted(
    mode: Any, predicted: list[int], truth: list[int]
) -> None:
    criterion = Criterion(requirement="x", weight=-1, scale_type="nominal", options=OPTIONS)
    assert filter_na_multi_choice([0, 2, 1, 2], [2, 1, 1, 2], criterion, mode) == (predicted, truth, 1, 1, 1)
    with pytest.raises(ValueError, match="needs nominal options"):
        ordered = criterion.model_copy(update={"scale_type": "ordinal"})
        filter_na_multi_choice([0], [1], ordered, "as_category")


def test_distances_and_tests_of_distributions() -> None:
    found = ks_test([0.1, 0.2, 0.3, 0.4, 0.9])
    assert (found.statistic, found.p_value) == pytest.approx((0.2713822013438254, 0.7727854008558576))
    moved = earth_movers_distance([0.8, 0.7, 0.9], [0.7, 0.6, 0.8])
    assert (moved.emd, moved.mean_diff) == pytest.approx((1 / 3, 1 / 3))
    assert (moved.bias_direction, moved.interpretation) == ("higher", "substantial differences")
    assert earth_movers_distance([0.5] * 3, [0.5] * 3).interpretation == "very similar"
    assert wasserstein_distance([0, 20, 40], [10, 30, 50]) == pytest.approx(0.2)
    assert wasserstein_distance([0, 20, 40], [10, 30, 50], normalize=False) == pytest.approx(10.0)


def test_submissions_are_split_and_penalized_as_published() -> None:
    from autorubric.utils import compute_length_penalty, normalize_to_grade_input, parse_thinking_output, word_count

    assert word_count("one two  three") == 3
    assert parse_thinking_output("<thinking>ABC</thinking><output>DEF</output>") == {
        "thinking": "ABC",
        "output": "DEF",
    }
    assert parse_thinking_output("Just output text") == {"thinking": "", "output": "Just output text"}
    assert parse_thinking_output("<thinking>Think</thinking>Rest") == {"thinking": "Think", "output": "Rest"}
    # What 1.6.1 says of these texts; graders keep the text outside the sections.
    for text, thinking, output in (
        ("x <thinking>a</thinking> y <output>b</output> z", "a", "b"),
        ("<output>a</output><output>b</output>", "", "a"),
        ("<THINKING>a</THINKING><thinking>b</thinking><output>c</output>", "a", "c"),
        ("<thinking>a", "", "<thinking>a"),
        ("<thinking>a</thinking>b <thinking>c</thinking>d", "a", "b d"),
    ):
        assert parse_thinking_output(text) == {"thinking": thinking, "output": output}
        assert normalize_to_grade_input(text) == {"thinking": thinking, "output": output}
    assert normalize_to_grade_input({"output": "x"}) == {"thinking": "", "output": "x"}
    assert normalize_to_grade_input({}) == {"thinking": "", "output": ""}
    with pytest.warns(UserWarning, match="Unexpected keys in to_grade dict: {'x'}"):
        assert normalize_to_grade_input(cast("Any", {"x": "1"})) == {"thinking": "", "output": ""}
    for wrong in (None, ["x"], {"output": 1}):
        with pytest.raises(ValueError, match="must be a string"):
            normalize_to_grade_input(cast("Any", wrong))
    by_character = LengthPenalty(free_budget=3, max_cap=9, count_fn=len)
    # " a b" has 4 characters: 0.5 · (1/6) ** 1.6; the whole of a string counts, tags included.
    assert compute_length_penalty("a b", by_character) == pytest.approx(0.028439896)
    marked = "<thinking>a b c d</thinking><output>e</output>"
    assert [
        compute_length_penalty(marked, LengthPenalty(free_budget=2, max_cap=6, penalty_type=kind))
        for kind in ("ALL", "OUTPUT_ONLY", "THINKING_ONLY")
    ] == pytest.approx([0.164938489, 0.164938489, 0.0])
    penalty = LengthPenalty(free_budget=2, max_cap=6, penalty_at_cap=0.4, exponent=2)
    # Halfway from 2 to 6 words: 0.4 · (1/2)² = 0.1.
    assert [compute_length_penalty("w " * words, penalty) for words in (2, 4, 9)] == pytest.approx([0.0, 0.1, 0.4])


def test_errors_have_the_published_categories() -> None:
    failures = [CallError(Failure(kind, "x")) for kind in ("rate_limit", "unreadable")]
    errors = [*failures, ConnectionResetError(), json.JSONDecodeError("x", "", 0), KeyError("x")]
    found = [autorubric.classify_grading_error(error) for error in errors]
    assert found == ["infrastructure", "parse", "infrastructure", "parse", "unknown"]


RUBRIC = Rubric([Criterion(name="Kind", requirement="Is kind"), Criterion(name="Brief", requirement="Is brief")])


def labelled(count: int = 8) -> RubricDataset:
    dataset = RubricDataset("Say hello.", RUBRIC)
    for number in range(count):
        dataset.add_item(f"text {number}", "", [MET if number % 2 else UNMET, MET])
    return dataset


def always_met(request: dict[str, Any]) -> str:
    return '{"explanation": "Yes.", "criterion_status": "MET"}'


async def test_the_seed_of_a_grader_reaches_the_choice_of_examples() -> None:
    async with LoopbackEndpoint(replier=always_met) as endpoint:

        async def prompts(seed: int | None, config: FewShotConfig) -> list[str]:
            judge = LLMConfig("openai/tiny", api_base=endpoint.base_url, api_key="k")
            before = len(endpoint.received)
            grader = CriterionGrader(
                judge_model_config=judge, training_data=labelled(40), few_shot_config=config, seed=seed
            )
            await RUBRIC.grade("Hello.", grader)
            await grader.aclose()
            return sorted(json.dumps(received.body["messages"]) for received in endpoint.received[before:])

        drawn = [await prompts(seed, FewShotConfig(n_examples=2)) for seed in (1, 1, 2)]
        assert drawn[0] == drawn[1] != drawn[2]
        own = [await prompts(seed, FewShotConfig(n_examples=2, seed=7)) for seed in (1, 2)]
        assert own[0] == own[1]


async def test_a_limit_of_requests_holds_for_all_models_of_a_provider() -> None:
    async with LoopbackEndpoint(replier=always_met, latency="fixed:0.05") as endpoint:
        configs = [
            LLMConfig(f"openai/{name}", api_base=endpoint.base_url, api_key="k", max_parallel_requests=most)
            for name, most in (("a", 4), ("b", 2))
        ]
        grader = CriterionGrader(judges=[JudgeSpec(config, config.model) for config in configs])
        await asyncio.gather(*(RUBRIC.grade(f"text {number}", grader) for number in range(8)))
        await grader.aclose()
    assert endpoint.counts.requests == 32
    assert endpoint.counts.max_in_flight == 2  # the strictest


async def test_a_limit_of_requests_holds_for_all_graders_in_all_threads() -> None:
    async with LoopbackEndpoint(replier=always_met, latency="fixed:0.05") as endpoint:

        async def grade(name: str, most: int | None) -> None:
            judge = LLMConfig(f"openai/{name}", api_base=endpoint.base_url, api_key="k", max_parallel_requests=most)
            grader = CriterionGrader(judge_model_config=judge)
            await asyncio.gather(*(RUBRIC.grade(f"text {number}", grader) for number in range(8)))
            await grader.aclose()

        strict = CriterionGrader(
            judge_model_config=LLMConfig("a", api_base=endpoint.base_url, api_key="k", max_parallel_requests=2)
        )
        await RUBRIC.grade("opens the model that sets the limit", strict)
        await asyncio.gather(grade("a", 4), grade("b", None), asyncio.to_thread(asyncio.run, grade("c", 3)))
        assert endpoint.counts.max_in_flight == 2  # the strictest that is open
        await strict.aclose()
        await grade("d", 5)
    assert endpoint.counts.max_in_flight == 5


def test_a_recipe_that_prints_the_cost_runs_where_no_price_is_known(tmp_path: Path) -> None:
    async def grade() -> autorubric.EvalResult:
        async with LoopbackEndpoint(replier=always_met) as endpoint:
            judge = LLMConfig("openai/tiny", api_base=endpoint.base_url, api_key="k")
            grader = CriterionGrader(judge_model_config=judge)
            return await autorubric.evaluate(labelled(2), grader, experiments_dir=tmp_path, show_progress=False)

    result = asyncio.run(grade())
    assert result.total_token_usage is not None and result.total_token_usage.total_tokens > 0
    assert f"Cost: ${result.total_completion_cost:.4f}" == "Cost: $unknown"
    assert not result.total_completion_cost and result.total_completion_cost == UnknownCost()
    assert "$" not in repr(result)
    priced = evaluate_sync(
        labelled(2),
        CriterionGrader(judge_model_config=LLMConfig("builtin/offline")),
        experiments_dir=tmp_path / "priced",
        show_progress=False,
    )
    assert re.fullmatch(r"Cost: \$(\d+\.\d{4}|unknown)", f"Cost: ${priced.total_completion_cost:.4f}")


def test_a_table_of_metrics_has_the_published_columns() -> None:
    pytest.importorskip("pandas", reason="pandas is an option of the user's")
    frame = json.loads((DATA / "panel_frame.json").read_text())
    result = autorubric.EvalResult.from_experiment(DATA / "panel")
    dataset = RubricDataset.from_file(DATA / "dataset.json")
    found = result.compute_metrics(dataset, per_judge=True).to_dataframe()
    assert list(found.columns[: len(frame)]) == list(frame)
    wrong = []
    for column, values in frame.items():
        if column in ("krippendorff_alpha", "mean_krippendorff_alpha", "fleiss_kappa"):
            continue  # a vote "not applicable" has no place in the order of options, and is left out here
        for row, value in values.items():
            if column == "accuracy_micro" and frame["criterion_type"][row] == "all":
                continue  # 1.6 counted binary criteria only
            own = found[column][int(row)]
            if value is not None and own != (pytest.approx(value, abs=1e-9) if isinstance(value, float) else value):
                wrong.append((column, row, value, own))
    assert wrong == []


def test_options_and_labels_are_resolved_as_published() -> None:
    binary = Criterion(name="brief", requirement="Is brief")
    choice = Criterion(name="right", requirement="Is it right?", options=OPTIONS)
    assert resolve_ground_truth([MET, "yes"], [binary, choice]) == [MET, 1]
    assert resolve_ground_truth(["UNMET", 2], [binary, choice]) == [UNMET, 2]
    assert [is_na_option(choice, index) for index in range(3)] == [False, False, True]
    assert [get_option_value(choice, index) for index in range(3)] == [0.0, 1.0, 0.0]
    for wrong, told in (
        (lambda: resolve_ground_truth([MET], [binary, choice]), "doesn't match criteria count"),
        (lambda: resolve_ground_truth(["yes"], [binary]), "Invalid binary verdict 'yes' for criterion 'brief'"),
        (lambda: resolve_ground_truth([3], [choice]), "out of range"),
        (lambda: resolve_ground_truth(["maybe"], [choice]), "Label 'maybe' not found"),
        (lambda: resolve_ground_truth([MET], [choice]), "has options; expected one of them"),
        (lambda: get_option_value(binary, 0), "Cannot get option value for binary criterion 'brief'"),
        (lambda: is_na_option(choice, 3), "out of range"),
    ):
        with pytest.raises(ValueError, match=told):
            wrong()


def test_metrics_of_random_runs_are_those_of_1_6() -> None:
    """Twelve random runs of one to three judges on criteria of all kinds, in five modes, as 1.6.1 measured them."""
    import gzip

    compared = 0
    for case in json.loads(gzip.decompress((DATA / "metrics.json.gz").read_bytes())):
        dataset = RubricDataset.from_json(case["dataset"])
        results = [autorubric.ItemResult.from_dict(row, dataset[row["item_idx"]]) for row in case["items"]]
        for mode, published in case["metrics"].items():
            abstentions, options = mode.split("/")
            own = autorubric.compute_metrics(
                SimpleNamespace(item_results=results),
                dataset,
                per_judge=True,
                cannot_assess=abstentions,
                na_mode=options,
            ).model_dump()
            compared += assert_same(published, own, f"{case['seed']} {mode}")
    assert compared > 1000


def assert_same(published: dict[str, Any], own: Any, where: str) -> int:
    """Hold every number of the published metrics to be ours; how many were compared."""
    count = 0
    for key, value in published.items():
        found = own[key]
        if isinstance(value, dict):
            count += assert_same(value, found, f"{where}.{key}")
        elif isinstance(value, list):
            assert len(value) == len(found), f"{where}.{key}"
            count += sum(assert_same(a, b, f"{where}.{key}[]") for a, b in zip(value, found, strict=True))
        else:
            assert found == (pytest.approx(value, abs=1e-9) if isinstance(value, float) else value), f"{where}.{key}"
            count += 1
    return count


def test_the_page_counts_the_names_that_are_there() -> None:
    there = sum(hasattr(autorubric, name) for name in NAMES["autorubric"])
    assert f"{there} of its {len(NAMES['autorubric'])} public names are" in PAGE.read_text(encoding="utf-8")
