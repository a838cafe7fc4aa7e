"""Reasoning before an answer: what judges, checks, examples and writers see, and what a run records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from autorubric import (
    Criterion,
    InputError,
    LengthPenalty,
    LLMConfig,
    Note,
    Rubric,
    RubricDataset,
    agree,
    grade,
    reward,
    select,
    show,
)
from autorubric.errors import ConfigError
from autorubric.graders import CriterionGrader
from autorubric.graders.asking import JudgeOptions
from autorubric.graders.criterion_judge import CriterionJudge
from autorubric.testing import LoopbackEndpoint, PromptSections, ScriptedModel
from tests.offenders import offenders

MET = '{"explanation": "Yes.", "criterion_status": "MET"}'
RUBRIC = Rubric([Criterion(name="Kind", requirement="Is kind.")])
THOUGHTS = "<think>Is it kind? Perhaps.</think>\n\n"


def submission(text: Any, **settings: Any) -> str | None:
    """What the judge sees of a submission; None if it is not asked."""
    model = ScriptedModel(lambda request: MET)
    RUBRIC.grade_sync(text, CriterionGrader(judge=CriterionJudge(model, "judge"), **settings))
    return PromptSections(model.requests[0])["submission"] if model.requests else None


def test_judges_see_the_answer_after_the_reasoning() -> None:
    cases: dict[str, tuple[Any, str]] = {
        "a block": (f"{THOUGHTS}Thank you.", "Thank you."),
        "opened by the chat template": ("Is it kind?\n</think>\n\nThank you.", "Thank you."),
        "another model's tags": ("[THINK]Is it?[/THINK]Thank you.", "Thank you."),
        "none": (" Thank you. ", " Thank you. "),
        "a mark at the end": ("Thank you.\u200b", "Thank you.\u200b"),
        "a byte order mark": (f"\ufeff{THOUGHTS}Thank you.", "Thank you."),
        "the tags of a recipe": ("<reasoning>\na\n</reasoning>\n<answer>b</answer>", "<answer>b</answer>"),
        "a tag in the reasoning": ("<reasoning>Use <reasoning> tags.</reasoning>Thank you.", "Thank you."),
        "another tag in the reasoning": ("<reasoning>a <think>b</think> c</reasoning>Thank you.", "Thank you."),
        "prose on a recipe's tags": (
            "<reasoning> and </reasoning> are tags.",
            "<reasoning> and </reasoning> are tags.",
        ),
        "prose on tags": ("<think> and </think> are tags.", "<think> and </think> are tags."),
        "tags in the answer": ("Write <think> and </think> as text.", "Write <think> and </think> as text."),
        "a closing tag as code": ("Split at `</think>`\nand strip.", "Split at `</think>`\nand strip."),
        "a word": ("analysisResult = 4", "analysisResult = 4"),
        "parts of its own": ({"thinking": "<think>a</think>", "output": f"{THOUGHTS}b"}, f"{THOUGHTS}b"),
    }
    with offenders() as case:
        for name, (text, expected) in cases.items():
            with case(name):
                assert submission(text) == expected
                kept = text if isinstance(text, str) else text["output"]
                assert submission(text, reasoning="keep") == kept
    with pytest.raises(ConfigError, match="reasoning='strip' is not one of drop, keep"):
        submission("a", reasoning="strip")


def test_reasoning_that_never_ends_is_an_empty_answer_and_costs_no_call() -> None:
    endpoint = LoopbackEndpoint(replier=lambda body: MET)
    with endpoint.in_thread():
        config = LLMConfig(f"judge@{endpoint.base_url}")
        report = RUBRIC.grade_sync("<think>Is it kind?", CriterionGrader(judge_model_config=config))
    assert report.score == 0.0 and report.report is not None and endpoint.counts.requests == 0
    assert report.report[0].final_reason == "The submission has no content to judge."


def test_reasoning_without_an_answer_passes_no_check(tmp_path: Path) -> None:
    """An empty submission is left to the checks, as RubricHub's verifiers decide it."""
    short = Rubric([Criterion(requirement="Short", check={"name": "word_count", "parameters": {"at_most": 9}})])
    with offenders() as case:
        for text, score in (("<think>Is it", 0.0), ("<think>a</think>\n", 0.0), (f"{THOUGHTS}Yes.", 1.0), ("", 1.0)):
            with case(text):
                assert short.grade_sync(text, CriterionGrader.of_checks()).score == score
    with pytest.warns(Note, match=r"2 submissions begin with reasoning \(1 without an answer after it\), which"):
        grade(["<think>a</think>", f"{THOUGHTS}Yes."], rubric=short, prompt="Say thanks.", out=tmp_path / "run")


def test_the_length_penalty_counts_the_reasoning_by_its_type() -> None:
    """By hand: 5 words of reasoning with its tags and 2 of the answer; a point for each word up to 100."""
    for text in (
        "<think> one two three </think> Thank you.",
        "<|channel|>analysis<|message|>one two three <|end|> <|channel|>final<|message|> Thank you. <|return|>",
    ):
        for kind, words in {"ALL": 7, "THINKING_ONLY": 5, "OUTPUT_ONLY": 2}.items():
            penalty = LengthPenalty(free_budget=0, max_cap=100, penalty_at_cap=1.0, exponent=1, penalty_type=kind)
            judge = CriterionJudge(ScriptedModel(lambda request: MET), "judge")
            report = RUBRIC.grade_sync(text, CriterionGrader(judge=judge, length_penalty=penalty))
            assert report.score == pytest.approx(1 - words / 100), kind


@pytest.mark.filterwarnings("ignore:.* with reasoning, which")
def test_the_true_score_loses_what_the_penalty_of_the_answer_or_the_reasoning_takes(tmp_path: Path) -> None:
    """By hand: 5 words of reasoning with its tags and 2 of the answer; a twentieth of a point for each.

    The judge's score is 0 before and after the penalty, and the true score 1 less the penalty.
    """
    data = RubricDataset("Say thanks.", RUBRIC)
    for end in ("you.", "all."):
        data.add_item(f"<think> one two three </think> Thank {end}", "", ["MET"])
    said = MET.replace("MET", "UNMET")
    cases = [("ALL", "drop", 7), ("THINKING_ONLY", "drop", 5), ("OUTPUT_ONLY", "drop", 2), ("OUTPUT_ONLY", "keep", 2)]
    with LoopbackEndpoint(replier=lambda body: said).in_thread() as endpoint:
        for place, (kind, how, words) in enumerate(cases):
            penalty = LengthPenalty(free_budget=0, max_cap=20, penalty_at_cap=1.0, exponent=1, penalty_type=kind)
            asked: Any = {"judge": f"judge@{endpoint.base_url}", "length_penalty": penalty, "reasoning": how}
            run = grade(data, **asked, out=tmp_path / str(place))
            assert agree(run).score_mae == pytest.approx(1 - words / 20), (kind, how)


def test_quotes_are_placed_in_the_submission_as_it_was_given() -> None:
    said = '{"quotes": ["Thank  you"], "explanation": "Yes.", "criterion_status": "MET"}'
    endings = {"": "a text", "<think>Thank you?</think>\n": "a block", "\n Hm.\n</think>\n\n": "a lost opening"}
    endings["<|channel|>analysis<|message|>Hm.<|end|><|channel|>final<|message|>"] = "another format"
    with offenders() as case:
        for before, name in endings.items():
            with case(name):
                text = f"{before}Thank you all.{'<|return|>' * ('|' in before)}"
                judge = CriterionJudge(
                    ScriptedModel(lambda request: said), "judge", options=JudgeOptions(evidence=True)
                )
                report = RUBRIC.grade_sync(text, CriterionGrader(judge=judge))
                assert report.report is not None
                [quote] = report.report[0].quotes
                assert text[quote.start : quote.end] == "Thank you"


def test_examples_show_answers_too() -> None:
    data = RubricDataset("Say thanks.", RUBRIC)
    data.add_item(f"{THOUGHTS}Cheers.", "a", ["MET"])
    model = ScriptedModel(lambda request: MET)
    cases: list[tuple[dict[str, Any], bool]] = [({}, False), ({"reasoning": "keep"}, True)]
    for settings, expected in cases:
        judge = CriterionGrader(judge_model_config="builtin/offline", training_data=data, **settings)
        options = judge.recipe.options
        RUBRIC.grade_sync("Thanks.", CriterionGrader(judge=CriterionJudge(model, "judge", options=options)))
        shown = "".join(message.content for message in model.requests[-1].messages)
        assert "Cheers." in shown and ("Perhaps" in shown) is expected


@pytest.mark.filterwarnings("ignore:.* with reasoning, which")
def test_grade_reward_and_select_have_the_setting_and_a_run_keeps_it(tmp_path: Path) -> None:
    shown: list[str] = []

    def say(body: dict[str, Any]) -> str:
        shown.append(json.dumps(body["messages"]))
        return MET

    text = f"{THOUGHTS}Thank you."
    with LoopbackEndpoint(replier=say).in_thread() as endpoint:
        asked: dict[str, Any] = {"rubric": RUBRIC, "judge": f"judge@{endpoint.base_url}", "prompt": "Say thanks."}
        (tmp_path / "rows.jsonl").write_text(
            json.dumps({"query": "Say thanks.", "rubric": RUBRIC.to_dict(), "answer": text}) + "\n"
        )
        for setting, expected in (("drop", False), ("keep", True)):
            own: Any = {"reasoning": setting} if expected else {}
            grade([text], **asked, **own, out=tmp_path / f"grade-{setting}")
            reward([text], **asked, **own, out=tmp_path / f"reward-{setting}")
            select(tmp_path / "rows.jsonl", judge=asked["judge"], **own, out=tmp_path / f"select-{setting}")
            assert ["Perhaps" in one for one in shown] == [expected] * 3, setting
            [row] = map(json.loads, (tmp_path / f"select-{setting}" / "trl_sft.jsonl").read_text().splitlines())
            assert json.dumps(text) in json.dumps(row), "what is trained on keeps its reasoning"
            manifest = json.loads((tmp_path / f"grade-{setting}" / "manifest.json").read_text())
            assert manifest["eval_config"]["reasoning"] == setting
            whole = str(show(tmp_path / f"grade-{setting}", item=0))
            assert whole.count("Perhaps") == 1 + expected, "the submission, and the prompt"
            shown.clear()
        with pytest.raises(InputError, match="reasoning: drop before, now keep"):
            grade([text], **asked, reasoning="keep", out=tmp_path / "grade-drop")
        assert shown == []


@pytest.mark.filterwarnings("ignore:.* with reasoning, which")
@pytest.mark.usefixtures("forked")
def test_items_that_differ_only_in_their_reasoning_are_equal(tmp_path: Path) -> None:
    """Of eight items, four have the answer A and four B: each has its own reply, or four share one."""
    data, path = RubricDataset("Say thanks.", RUBRIC), tmp_path / "data.json"
    for number in range(8):
        data.add_item(f"<think>{number}</think>\n{'AB'[number % 2]}", "")
    data.to_file(path)
    divided: list[dict[str, Any]] = [{}, {"processes": 2}]
    with LoopbackEndpoint(replier=lambda body: MET).in_thread() as endpoint, offenders() as case:
        for place, own in enumerate([*divided, *({**one, "share_equal": True} for one in divided)]):
            with case(str(own)):
                before, run = endpoint.counts.requests, tmp_path / f"run{place}"
                with pytest.warns(Note, match="8 submissions begin with reasoning, which is not judged"):
                    grade(path, judge=f"judge@{endpoint.base_url}", out=run, **own)
                assert endpoint.counts.requests - before == (2 if "share_equal" in own else 8)
                whole = show(run, item=6)
                assert str(whole).count("MET") > 1, "the prompt and its reply are found"
