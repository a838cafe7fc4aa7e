from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from autorubric.core.criterion import Criterion, CriterionOption
from autorubric.core.judgment import CriterionVerdict, Judgment
from autorubric.core.rubric import Rubric
from autorubric.dataset.collection import RubricDataset
from autorubric.graders.asking import JudgeOptions
from autorubric.graders.criterion_judge import CriterionJudge
from autorubric.graders.few_shot import FewShot
from autorubric.graders.judge import JudgeInput
from autorubric.graders.rubric_judge import RubricJudge
from autorubric.llm.executor import Executor
from autorubric.llm.records.ledger import Ledger
from autorubric.llm.request import Answer, Failure, Reply, Request
from autorubric.prompts.judging import package_judge_prompts
from autorubric.testing import PromptSections, ScriptedModel
from autorubric.testing.offline import OfflineModel
from tests.offenders import each

MET, UNMET = CriterionVerdict.MET, CriterionVerdict.UNMET
CAUSES = Criterion(name="Causes", requirement="Names two causes, such as coal or canals")
LIES = Criterion(name="Lies", weight=-5, requirement="Invents a source")
DEPTH = Criterion(
    name="Depth",
    requirement="How deep is it?",
    options=[CriterionOption(label=label, value=value) for label, value in (("Flat", 0), ("Fair", 0.5), ("Deep", 1))],
)
CASE = JudgeInput("Coal and canals, in Britain.", (CAUSES, LIES, DEPTH), query="Why Britain?", item="row-7")


def said(status: str, quotes: Sequence[str] | None = None) -> str:
    given = {} if quotes is None else {"quotes": list(quotes)}
    return json.dumps({**given, "explanation": "So it is.", "criterion_status": status})


async def judged(
    script: Callable[[Request], Any] | Sequence[Any],
    wanted: Sequence[int] = (0,),
    case: JudgeInput = CASE,
    judge: Callable[[ScriptedModel], CriterionJudge] = CriterionJudge,
) -> tuple[list[Judgment], ScriptedModel]:
    model = ScriptedModel(script if callable(script) else {"judge": list(script)}, price=(1.0, 1.0))
    with Ledger.in_memory() as ledger:
        judgments = await judge(model).judge(case, wanted, Executor(ledger).ask_for)
    return judgments, model


async def test_judgments_come_in_the_order_they_are_wanted() -> None:
    def script(request: Request) -> str:
        return said("UNMET" if "Invents" in request.messages[-1].content else "MET")

    judgments, model = await judged(script, (1, 0))
    assert [judgment.verdict for judgment in judgments] == [UNMET, MET]
    assert [judgment.reason for judgment in judgments] == ["So it is."] * 2
    assert {request.item for request in model.requests} == {"row-7"}
    assert {request.role for request in model.requests} == {"judge"}


async def test_tokens_and_cost_of_a_judgment_are_those_of_its_reply() -> None:
    (judgment,), _ = await judged([said("MET")])
    assert judgment.usage is not None
    assert judgment.cost == pytest.approx(judgment.usage.total_tokens / 1e6)


async def test_a_reply_that_cannot_be_read_is_shown_to_its_model_again() -> None:
    (judgment,), model = await judged(["It is met.", said("MET")])
    assert judgment.verdict is MET
    first, second = model.requests
    assert second.messages[: len(first.messages)] == first.messages
    assert second.messages[-2] == ("assistant", "It is met.")
    assert "the reply holds no JSON object" in second.messages[-1].content


async def test_a_reply_that_is_cut_off_is_asked_for_again_as_it_was() -> None:
    (judgment,), model = await judged([Reply(said("MET"), finish_reason="length"), said("UNMET")])
    assert judgment.verdict is UNMET
    assert model.requests[0].messages == model.requests[1].messages


async def test_replies_without_a_verdict_become_a_mistake_with_the_last_as_evidence() -> None:
    (judgment,), model = await judged(["It is met.", "Met, I say.", "Yes!"])
    assert len(model.requests) == 3
    assert judgment.verdict is None and judgment.failure is not None
    assert judgment.failure.category == "parse"
    assert judgment.failure.evidence == "Yes!"


async def test_a_refusal_is_a_mistake_at_once() -> None:
    (judgment,), model = await judged([Reply("", refusal="I cannot judge medical texts.")])
    assert len(model.requests) == 1
    assert str(judgment.failure) == "parse: refusal: the model refused: I cannot judge medical texts."


async def test_one_failed_call_fails_its_criterion_alone() -> None:
    def script(request: Request) -> Any:
        if "Invents" in request.messages[-1].content:
            return Failure("timeout", "no reply after 60 s", attempts=3)
        return said("MET")

    judgments, _ = await judged(script, (0, 1))
    assert judgments[0].verdict is MET
    assert str(judgments[1].failure) == "infrastructure: timeout: no reply after 60 s"


def test_the_criteria_of_a_case_share_everything_before_the_criterion() -> None:
    judge = CriterionJudge(ScriptedModel({}))
    case = replace(CASE, reference="Coal.", guidelines="Be strict.", thinking="Hm.", submission="x" * 8000)
    causes, lies = (judge.build(case, index).messages for index in (0, 1))
    assert causes[0] == lies[0]
    shared = causes[1].content.index("The criterion:")
    assert shared > 8000
    assert causes[1].content[:shared] == lies[1].content[:shared]


def test_submissions_to_one_query_share_everything_before_the_submission() -> None:
    judge = CriterionJudge(ScriptedModel({}))
    case = replace(CASE, reference="Coal.", guidelines="Be strict.")
    one, other = (judge.build(replace(case, submission=text), 0).messages[1].content for text in ("One.", "Other."))
    start = one.index("The submission:")
    assert one[:start] == other[:start]
    assert "Be strict." in one[:start]


def test_a_pitfall_is_asked_for_by_its_presence() -> None:
    judge = CriterionJudge(ScriptedModel({}))
    pitfall, wish = (judge.build(CASE, index).messages[-1].content for index in (1, 0))
    assert "The criterion, a pitfall:" in pitfall
    assert "The criterion:" in wish


def test_every_schema_has_the_reason_before_the_verdict() -> None:
    for evidence in (False, True):
        judge = CriterionJudge(ScriptedModel({}), options=JudgeOptions(evidence=evidence))
        for index, last in ((0, "criterion_status"), (2, "selected_option")):
            schema = judge.build(CASE, index).schema
            assert schema is not None
            quotes = ["quotes"] if evidence else []
            assert list(schema.body["properties"]) == [*quotes, "explanation", last]
            assert schema.body["required"] == [*quotes, "explanation", last]


def test_a_draw_is_a_request_of_its_own() -> None:
    judge = CriterionJudge(ScriptedModel({}))
    assert judge.build(CASE, 0).messages == replace(judge, draw=1).build(CASE, 0).messages
    assert replace(judge, draw=1).build(CASE, 0).draw == 1


def test_a_conversation_is_shown_turn_by_turn() -> None:
    turns = [{"role": "user", "content": "My leg cramps."}, {"role": "assistant", "content": "Since when?"}]
    text = CriterionJudge(ScriptedModel({})).build(replace(CASE, query=turns), 0).messages[-1].content
    assert text.index("<user-") < text.index("My leg cramps.") < text.index("<assistant-") < text.index("Since when?")


def test_own_system_messages_take_the_place_of_ours() -> None:
    prompts = package_judge_prompts().with_system(binary="You judge {{ essays }}.", choice="Choose.")
    judge = CriterionJudge(ScriptedModel({}), options=JudgeOptions(prompts=prompts))
    assert judge.build(CASE, 0).messages[0] == ("system", "You judge {{ essays }}.")
    assert judge.build(CASE, 2).messages[0] == ("system", "Choose.")
    assert '"criterion_status" as "MET"' in judge.build(CASE, 0).messages[-1].content


def options_in(request: Request) -> tuple[str, ...]:
    return tuple(line.split(". ", 1)[1] for line in PromptSections(request)["options"].splitlines())


async def test_a_choice_comes_back_as_the_place_in_the_criterion() -> None:
    judgments, model = await judged(lambda request: json.dumps({"explanation": "x", "selected_option": 1}), (2,))
    shown = options_in(model.requests[0])
    order = judgments[0].shuffle_order
    assert order is not None and sorted(order) == [0, 1, 2, 3]
    labels = ["Flat", "Fair", "Deep", "Cannot assess / not applicable"]
    assert list(shown) == [labels[place] for place in order]
    assert judgments[0].option == order[0]


def test_the_order_of_options_is_the_published_one() -> None:
    # By hand, from the rule: sha256(submission)[:16] -> a; sha256("0:a:2:default")[:16] as a number mod 2**31 seeds
    # random.Random, which shuffles [0, 1, 2, 3].
    import random
    from hashlib import sha256

    digest = sha256(CASE.submission.encode()).hexdigest()[:16]
    seed = int(sha256(f"0:{digest}:2:default".encode()).hexdigest()[:16], 16) % 2**31
    expected = list(range(4))
    random.Random(seed).shuffle(expected)
    judge = CriterionJudge(ScriptedModel({}))
    found = judge.read(CASE, 2, Reply('{"explanation": "x", "selected_option": 1}'))
    assert isinstance(found, Answer)
    assert found.value.shuffle_order == tuple(expected)
    assert judge.build(CASE, 2) == judge.build(CASE, 2)


def test_orders_differ_between_judges_seeds_submissions_and_criteria() -> None:
    options = [CriterionOption(label=f"Option {letter}", value=0.5) for letter in "abcdefgh"]
    many = Criterion(requirement="Which?", options=options)
    case = JudgeInput("Text.", (many, many))

    def order(judge_id: str = "default", seed: int = 0, text: str = "Text.", index: int = 0) -> tuple[str, ...]:
        judge = CriterionJudge(ScriptedModel({}), judge_id, options=JudgeOptions(seed=seed))
        return options_in(judge.build(replace(case, submission=text), index))

    orders = {order(), order("other"), order(seed=1), order(text="Other."), order(index=1)}
    assert len(orders) == 5


def test_options_stay_as_they_are_where_shuffling_is_off_or_labels_are_numbers() -> None:
    off = CriterionJudge(ScriptedModel({}), options=JudgeOptions(shuffle_options=False, auto_na_option=False))
    assert options_in(off.build(CASE, 2)) == ("Flat", "Fair", "Deep")
    scale = [CriterionOption(label=f"{number} points", value=number / 9) for number in range(1, 10)]
    case = JudgeInput("Text.", (Criterion(requirement="How good?", options=scale),))
    shown = options_in(CriterionJudge(ScriptedModel({})).build(case, 0))
    assert [label.split()[0] for label in shown[:9]] == [str(number) for number in range(1, 10)]


SCALES = [
    Criterion(requirement="How good?", options=[CriterionOption(label=label, value=0.5) for label in labels])
    for labels in (("0", "1", "2"), ("0分", "0.5分", "1分"))
]


@each(
    ("kind", "wanted", "options", "number_type", "example"),
    [
        (CriterionJudge, 0, "0\n1\n2\n99. ", "integer", "Option chosen for example 1: 2\n"),
        (CriterionJudge, 1, "0分\n0.5分\n1分\n99. ", "number", "Option chosen for example 1: 0.5\n"),
        (RubricJudge, (0, 2), "0\n1\n2\n99. ", ["integer", "null"], "c0 option 2, c2 option "),
        (RubricJudge, (0, 1), "0\n1\n2\n99. ", ["number", "null"], "c0 option 2, c1 option 0.5\n"),
    ],
)
def test_the_prompt_and_the_schema_of_a_scale_have_the_numbers_of_its_labels(
    kind: Any, wanted: Any, options: str, number_type: object, example: str
) -> None:
    data = RubricDataset("Why?", Rubric([*SCALES, DEPTH]))
    data.add_item("Tea.", "", ["2", "0.5分", "Flat"])
    judge = kind(ScriptedModel({}), options=JudgeOptions(few_shot=FewShot(data)))
    request: Request = judge.build(JudgeInput("Text.", (*SCALES, DEPTH), query="Why?"), wanted)
    assert "selected_option: the number with which the option begins" in request.messages[0].content
    sections = PromptSections(request)
    assert (sections.get("options") or sections["options_c0"]) == f"{options}Cannot assess / not applicable"
    assert example in request.messages[1].content
    assert request.schema is not None
    fields: Any = request.schema.body["properties"]
    fields = fields["judgments"]["items"]["properties"] if "judgments" in fields else fields
    expected = {"type": number_type, "description": "the number with which the option begins"}
    assert fields["selected_option"] == expected


async def test_a_met_with_a_quote_of_the_submission_stands() -> None:
    options = JudgeOptions(evidence=True)
    (judgment,), _ = await judged(
        [said("MET", ["coal AND  canals"])], judge=lambda m: CriterionJudge(m, options=options)
    )
    assert judgment.verdict is MET and judgment.flags == ()
    (quote,) = judgment.quotes
    assert CASE.submission[quote.start : quote.end] == "Coal and canals"


async def test_a_quote_that_is_not_there_is_asked_about_once_and_then_flagged() -> None:
    options = JudgeOptions(evidence=True)
    script = [said("MET", ["steam engines everywhere"]), said("MET", ["rivers of iron ore"])]
    (judgment,), model = await judged(script, judge=lambda m: CriterionJudge(m, options=options))
    assert len(model.requests) == 2
    assert "steam engines everywhere" in model.requests[1].messages[-1].content
    assert judgment.verdict is MET
    assert judgment.flags == ("unsupported",)
    assert [(quote.text, quote.start) for quote in judgment.quotes] == [("rivers of iron ore", None)]


async def test_a_judge_may_find_the_right_words_or_change_its_mind_when_asked_again() -> None:
    options = JudgeOptions(evidence=True)
    for second, verdict in ((said("MET", ["canals"]), MET), (said("UNMET", []), UNMET)):
        script = [said("MET", ["steam engines everywhere"]), second]
        (judgment,), _ = await judged(script, judge=lambda m: CriterionJudge(m, options=options))
        assert judgment.verdict is verdict and judgment.flags == ()


async def test_a_verdict_with_a_poor_quote_is_kept_after_one_reask_however_the_second_reply_is() -> None:
    options = JudgeOptions(evidence=True)
    cut = Reply('{"explanation": "It', finish_reason="length")
    for first in (["steam engines"], []):
        for second in (said("MET", first), "Sorry!", "", Reply("", refusal="No."), cut):
            script = [said("MET", first), second, second, second]
            (judgment,), model = await judged(script, judge=lambda m: CriterionJudge(m, options=options))
            assert judgment.verdict is MET and judgment.flags == ("unsupported",)
            assert len(model.requests) == 2, second


async def test_a_call_that_fails_after_a_poor_quote_is_a_mistake_so_that_to_resume_asks_again() -> None:
    options = JudgeOptions(evidence=True)
    script = [said("MET", ["steam engines"]), Failure("server", "503")]
    (judgment,), _ = await judged(script, judge=lambda m: CriterionJudge(m, options=options))
    assert str(judgment.failure) == "infrastructure: server: 503"


async def test_examples_stand_after_the_submission_and_before_the_criterion() -> None:
    data = RubricDataset("Why Britain?", Rubric([CAUSES]))
    data.add_item("Tea.", "bad", [UNMET])
    data.add_item("Coal and iron.", "good", [MET])
    options = JudgeOptions(few_shot=FewShot(data))
    _, model = await judged([said("MET")], judge=lambda m: CriterionJudge(m, options=options))
    text = model.requests[0].messages[-1].content
    places = [text.index(part) for part in ("Coal and canals, in", "Coal and iron.", "The criterion:")]
    assert places == sorted(places)
    assert "Verdict on example 1: MET" in text and "Verdict on example 2: UNMET" in text


async def test_examples_of_a_choice_are_labelled_with_the_number_shown() -> None:
    data = RubricDataset("Why Britain?", Rubric([DEPTH]))
    data.add_item("Tea.", "bad", ["Flat"])
    options = JudgeOptions(few_shot=FewShot(data))
    reply = json.dumps({"explanation": "x", "selected_option": 1})
    _, model = await judged([reply], (2,), judge=lambda m: CriterionJudge(m, options=options))
    shown = options_in(model.requests[0])
    assert f"Option chosen for example 1: {shown.index('Flat') + 1}" in model.requests[0].messages[-1].content


async def test_the_offline_model_plays_a_judge_of_every_kind() -> None:
    model = OfflineModel()
    options = [CriterionOption(label=label, value=value) for label, value in (("No", 0), ("Yes", 1))]
    case = JudgeInput(
        "Coal and canals.",
        (
            Criterion(requirement="Names coal and canals"),
            Criterion(requirement="Names steam engines"),
            Criterion(requirement="Does it name coal and canals?", options=options),
        ),
    )
    for judge in (CriterionJudge(model), RubricJudge(model)):
        with Ledger.in_memory() as ledger:
            judgments = await judge.judge(case, (0, 1, 2), Executor(ledger).ask_for)
        assert [judgment.verdict for judgment in judgments] == [MET, UNMET, None]
        assert judgments[2].option == 1
