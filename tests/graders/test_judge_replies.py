from __future__ import annotations

import json

from autorubric.core.criterion import Criterion, CriterionOption
from autorubric.core.judgment import CriterionVerdict
from autorubric.graders.judge import ShownOptions
from autorubric.graders.judge_replies import (
    build_judgment,
    classify_grading_error,
    describe_failure,
    read_entry,
    read_said,
    read_usage,
)
from autorubric.llm.request import Answer, CallError, Failure, FailureKind, Reply, Unreadable, Usage
from tests.offenders import each

MET, UNMET, CANNOT = CriterionVerdict.MET, CriterionVerdict.UNMET, CriterionVerdict.CANNOT_ASSESS


def said(status: object, **more: object) -> str:
    return json.dumps({"explanation": "It names two.", "criterion_status": status, **more})


READABLE: list[tuple[str, CriterionVerdict]] = [
    *((text, MET) for text in ('["MET"]', '```json\n["MET"]\n```', "[MET]", "So: [[MET]]")),
    # A remark after the verdict, which may quote another one.
    (f"{said('MET')}\n\nNote: the condition is not met in the quoted counterexample.", MET),
    (
        f"```json\n{said('MET')}\n```\nHad it named no cause, the criterion would be unmet, and it is not met twice.",
        MET,
    ),
    (said("MET"), MET),
    (said("met"), MET),
    (said("Met."), MET),
    (said(" UNMET "), UNMET),
    (said("Not met"), UNMET),
    (said("NOT_MET"), UNMET),
    (said("not-met"), UNMET),
    (said("**UNMET**"), UNMET),
    (said(True), MET),
    (said("false"), UNMET),
    (said("Satisfied"), MET),
    (said("满足"), MET),
    (said("不满足。"), UNMET),
    *(
        (said(word), MET)
        for word in ("符合", "【MET】", "「満たしています」", "MET（满足）", "충족", "Cumple", "đáp ứng")
    ),
    *(
        (said(word), UNMET)
        for word in ("未能满足", "UNMET (不满足)", "미충족", "NO CUMPLE", "не выполнено", "não atendido")
    ),
    *((said(word), CANNOT) for word in ("无法确定", "판단 불가")),
    *((f"그렇다.\n\n{label}: UNMET", UNMET) for label in ("판정", "Veredicto", "**Вердикт**", "評価")),
    (said("Verdict: **UNMET**"), UNMET),
    (f"{said('UNMET')}\nLe critère n'est pas entièrement rempli.", UNMET),
    (f"{said('UNMET')}\nDas Kriterium ist nicht vollständig erfüllt.", UNMET),
    (f"{said('UNMET')}\n満たしているとは言えません。", UNMET),
    (json.dumps({"explanation": "Yes.", "verdict": "MET"}), MET),
    (json.dumps({"explanation": "Yes.", "criteria_met": "yes"}), MET),
    (json.dumps({"Explanation": "Keys in other spellings.", "Criterion Status": "MET"}), MET),
    (json.dumps({"evaluation": {"explanation": "Under a key.", "criterion_status": "MET"}}), MET),
    (said("CANNOT_ASSESS"), CANNOT),
    (said("Cannot assess"), CANNOT),
    (said("cannot-assess."), CANNOT),
    (json.dumps({"explanation": "Yes.", "criteria_met": True}), MET),
    (json.dumps({"explanation": "No.", "criteria_met": False}), UNMET),
    (json.dumps({"explanation": "No.", "criteria_met": "False"}), UNMET),
    (json.dumps({"explanation": "Both.", "criteria_met": True, "criterion_status": "MET"}), MET),
    (f"```json\n{said('UNMET')}\n```", UNMET),
    (f"Here is my judgment:\n\n{said('MET')}\n\nI hope this helps.", MET),
    (f"<think>It could be MET, or not.</think>\n{said('UNMET')}", UNMET),
    (f"<think>{said('MET')} no, wait</think>{said('UNMET')}", UNMET),
    ('{"explanation": "A trailing comma.", "criterion_status": "MET",}', MET),
    ('{"explanation": "Line\nbreak in it", "criterion_status": "UNMET"}', UNMET),
    ('{"explanation": "He said \\"criterion_status\\": \\"MET\\".", "criterion_status": "UNMET"}', UNMET),
    (json.dumps([{"explanation": "In a list.", "criterion_status": "MET"}]), MET),
    (json.dumps({"arguments": {"explanation": "A tool call.", "criterion_status": "MET"}}), MET),
    (json.dumps(said("MET")), MET),
    ('{"criterion_status": "MET", "explanation": "The wrong order."}', MET),
    (said("MET", criterion_index=3, confidence="high"), MET),
    ("MET", MET),
    ("  **UNMET**\n", UNMET),
    ("<think>Hm.</think>Cannot_assess", CANNOT),
    ("\ufeff" + said("MET"), MET),
    ('{"explanation": "全角标点。"，"criterion_status": "MET"}', MET),
    (r'{"explanation": "Mixtral\_s escapes.", "criterion\_status": "CANNOT\_ASSESS"}', CANNOT),
    ('{"explanation": "So.", "criterion_status": "MET" (it names two)}', MET),
    # The form of the prompt is repeated first.
    (f'Form: {{"explanation": "...", "criterion_status": "..."}}\n\n{said("UNMET")}', UNMET),
    # Other keys that mean the same, and other wrappers.
    (json.dumps({"explanation": "So.", "criterionStatus": "MET"}), MET),
    (json.dumps({"explanation": "So.", "CriteriaMet": False}), UNMET),
    (json.dumps({"explanation": "So.", "status": "UNMET"}), UNMET),
    (json.dumps({"explanation": "So.", "judgement": "MET"}), MET),
    (json.dumps({"explanation": "So.", "is_met": False}), UNMET),
    (json.dumps({"status": "ok", "result": {"explanation": "So.", "criterion_status": "MET"}}), MET),
    (json.dumps({"evaluation": {"explanation": "So.", "criterion_status": "UNMET"}, "confidence": 0.9}), UNMET),
    (json.dumps({"type": "object", "properties": {"explanation": "So.", "criterion_status": "MET"}}), MET),
    # Words around the JSON that agree, or that only weigh.
    (f"**Verdict:** UNMET\n\n{said('UNMET')}", UNMET),
    (f"The verdict is MET, UNMET or CANNOT_ASSESS.\n{said('UNMET')}", UNMET),
    (f"The verdict is MET only if both causes are named.\n{said('UNMET')}", UNMET),
    (f"{said('MET')}\nHad it named one cause, the verdict would be UNMET.", MET),
    # Thinking in the formats of other models.
    (
        f"<|channel|>analysis<|message|>{said('MET')}<|end|><|start|>assistant<|channel|>final "
        f"<|constrain|>json<|message|>{said('UNMET')}<|return|>",
        UNMET,
    ),
    (f"analysisPerhaps {said('MET')}?assistantfinal{said('UNMET')}", UNMET),
    (f"<thought>{said('MET')}</thought>{said('UNMET')}", UNMET),
    (f"<|START_THINKING|>{said('MET')}<|END_THINKING|><|START_RESPONSE|>{said('UNMET')}<|END_RESPONSE|>", UNMET),
]

UNREADABLE: list[tuple[Reply, str]] = [
    (Reply(""), "empty"),
    (Reply(" \n"), "empty"),
    (Reply("", reasoning="I think it is MET."), "empty"),
    (Reply("<think>It is MET."), "empty"),
    (Reply(said("MET"), finish_reason="length"), "truncated"),
    (Reply("MET", finish_reason="length"), "truncated"),
    (Reply("", refusal="I cannot judge this."), "refusal"),
    (Reply(said("MET"), finish_reason="content_filter"), "refusal"),
    (Reply("The criterion is met."), "unreadable"),
    (Reply("Verdict: MET or UNMET, hard to say."), "unreadable"),
    (Reply("MET. UNMET."), "unreadable"),
    (Reply('{"explanation": "So.", "criterion_status": "MET" (partly)}'), "unreadable"),
    (Reply('{"explanation": "So.", "criteria_met": true or false}'), "unreadable"),
    (Reply('{"explanation": "So.", "criteria_met": ~true}'), "unreadable"),
    *(
        (Reply(text), "unreadable")
        for text in (
            "Verdict: not [[MET]]",
            "If it had one: [[MET]]",
            "> [[MET]], not [[UNMET]]",
            "判定：不是[[MET]]",
            "It is [[UNMET]] at first.\nVerdict: MET",
        )
    ),
    *((Reply(text), "unreadable") for text in ("[ ] MET", "Status: [ ] MET", said("[ ] MET"))),
    (Reply(said("partially met")), "unreadable"),
    (Reply(said("yes")), "unreadable"),
    (Reply(said("MET or UNMET")), "unreadable"),
    (Reply(said(1)), "unreadable"),
    (Reply(said(None)), "unreadable"),
    (Reply(said("")), "unreadable"),
    (Reply(said(["MET"])), "unreadable"),
    (Reply('{"explanation": "No verdict at all."}'), "unreadable"),
    (Reply('{"explanation": "It ends here", "criterion_status": "ME'), "unreadable"),
    (Reply('{"explanation": "Yes.", "criteria_met": "perhaps"}'), "unreadable"),
    (Reply('{"explanation": "Yes.", "criteria_met": true, "criterion_status": "UNMET"}'), "unreadable"),
    # A judge that quotes a verdict out of the submission must not be taken by that word.
    (Reply(f"The text says:\n```json\n{said('MET')}\n```\nMy own verdict:\n{said('UNMET')}"), "unreadable"),
    (Reply(f"{said('UNMET')}\n{said('MET')}"), "unreadable"),
    (Reply('{"explanation": "Twice.", "criterion_status": "MET", "criterion_status": "UNMET"}'), "unreadable"),
    # Two verdicts, whatever their keys and quotes.
    (Reply(f"{said('MET')}\n{json.dumps({'criteria_met': False})}"), "unreadable"),
    (Reply(f"{said('MET')}\n{json.dumps({'verdict': '不满足'}, ensure_ascii=False)}"), "unreadable"),
    (Reply(f"{ {'criterion_status': 'MET'} }\n{ {'criterion_status': 'UNMET'} }"), "unreadable"),
    (Reply(json.dumps({"criterion_status": "MET", "verdict": "UNMET"})), "unreadable"),
    (Reply(said("❌ MET")), "unreadable"),
    (Reply(said("部分满足")), "unreadable"),
    # A second verdict, under another key or in the words around the JSON.
    (Reply(said("MET", met=False)), "unreadable"),
    (Reply(said("MET", final_verdict="UNMET")), "unreadable"),
    (Reply(said("MET", judgment="UNMET")), "unreadable"),
    (Reply(f"{said('MET')}\n\nWait, the date is wrong. Final verdict: **UNMET**"), "unreadable"),
    (Reply(f"{said('MET')}\nOn reflection, the verdict should be not met."), "unreadable"),
    (Reply(f"Verdict: UNMET\n\n```json\n{said('MET')}\n```"), "unreadable"),
    (Reply(f"结论：不满足\n{said('MET')}"), "unreadable"),
    (Reply(f"It ends with {said('MET')}, a trick. No cause is named, so the criterion is not met."), "unreadable"),
    (Reply(f"{said('MET')}\n\n**UNMET**"), "unreadable"),
    (Reply(f"{said('MET')}\nFinal answer: UNMET"), "unreadable"),
    (Reply(f"{said('MET')}\nCorrection: not met."), "unreadable"),
    (Reply(f"{said('MET')}\n更正：不满足"), "unreadable"),
    (Reply(f"{said('MET')}\n따라서 기준을 충족하지 않습니다."), "unreadable"),
    (Reply(f"{said('MET')}\nPor tanto, no se cumple el criterio."), "unreadable"),
    (Reply(f"{said('MET')}\nLe critère n'est donc pas satisfait."), "unreadable"),
    (Reply(said("!MET")), "unreadable"),
    *((Reply(said(word)), "unreadable") for word in ("MET (部分满足)", "不MET", "MET/UNMET", "通过", "MET ではない")),
    (Reply('{"explanation": "So.", "status": "done"}'), "unreadable"),
    (Reply('{"explanation": "...", "criterion_status": "..."}'), "unreadable"),
    # Thinking without an answer.
    (Reply(f"<|channel|>analysis<|message|>Perhaps {said('MET')}"), "empty"),
    (Reply(f"analysisPerhaps {said('MET')}, or not"), "empty"),
    (Reply(f"<thought>Perhaps {said('MET')}, or not"), "empty"),
    (Reply(f"<|begin_of_thought|>Perhaps {said('MET')}, or not"), "empty"),
    (Reply("{}"), "unreadable"),
    (Reply("null"), "unreadable"),
    (Reply("I'm sorry, but I can't help with that."), "unreadable"),
]


@each(("text", "verdict"), READABLE)
def test_a_verdict_is_found_however_it_is_wrapped(text: str, verdict: CriterionVerdict) -> None:
    found = read_said(Reply(text))
    assert isinstance(found, Answer), found
    assert found.value.verdict is verdict


@each(("reply", "kind"), UNREADABLE)
def test_what_is_not_plainly_a_verdict_is_none(reply: Reply, kind: str) -> None:
    found = read_said(reply)
    assert isinstance(found, Unreadable), found
    assert found.kind == kind


def test_json_alone_in_the_field_of_reasoning_is_an_answer_that_the_endpoint_misplaced() -> None:
    found = read_said(Reply("", reasoning=said("UNMET")))
    assert isinstance(found, Answer)
    assert (found.value.verdict, found.value.flags) == (UNMET, ("repaired",))
    for reply in (
        Reply("", reasoning=f"Perhaps {said('MET')}"),
        Reply("", reasoning=f"{said('MET')}\nOr not?"),
        Reply("", reasoning=said("MET"), finish_reason="length"),
        Reply("", reasoning=said("MET"), refusal="No."),
        Reply("Hm.", reasoning=said("MET")),
    ):
        assert isinstance(read_said(reply), Unreadable), reply


def flags(text: str) -> tuple[str, ...]:
    found = read_said(Reply(text))
    assert isinstance(found, Answer)
    return found.value.flags


def test_an_own_format_may_name_other_criteria_and_hold_its_thinking() -> None:
    found = read_said(Reply(said("MET", affected_criteria=[1, 3], reasoning="Two are named.")))
    assert isinstance(found, Answer)
    assert (found.value.explanation, found.value.reasoning) == ("It names two. [Affects: #1, #3]", "Two are named.")
    plain = read_said(Reply(said("MET", affected_criteria=[])))
    assert isinstance(plain, Answer)
    assert (plain.value.explanation, plain.value.reasoning) == ("It names two.", None)
    assert build_judgment(found.value, Reply("", reasoning="Sent apart."), "a", 1.0).reasoning == "Sent apart."
    assert build_judgment(found.value, Reply(""), "a", 1.0).reasoning == "Two are named."


def test_what_is_odd_about_a_reply_is_flagged_and_not_mended() -> None:
    assert flags(said("MET")) == ()
    assert flags('{"criterion_status": "MET"}') == ("unexplained",)
    assert flags('{"理由": "指出了煤炭。", "判定": "满足"}') == flags('{"설명": "석탄.", "판정": "충족"}') == ()
    assert flags("MET") == ("repaired", "unexplained")
    assert flags('{"explanation": "So.", "criterion_status": "MET",}') == ("repaired",)
    assert flags('{"explanation": "The criterion is not met.", "criterion_status": "MET"}') == ("contradictory",)
    assert flags('{"explanation": "The criterion is met.", "criterion_status": "UNMET"}') == ("contradictory",)
    # Nobody may say that it is not met.
    for denied in (
        "It cannot be said that the criteria is not met.",
        "It is false that the criterion is not met.",
        "不能说不满足该标准。",
        "Man kann nicht sagen, dass das Kriterium nicht erfüllt ist.",
        "On ne peut pas dire que le critère n'est pas rempli.",
        "No se puede decir que el criterio no se cumple.",
        "Нельзя сказать, что критерий не выполнен.",
        "기준을 충족하지 않는다고 볼 수 없다.",
        "لا يمكن القول إن المعيار غير مستوفى.",
    ):
        assert flags(said("MET", explanation=denied)) == (), denied
    assert flags(said("MET", explanation="The date cannot be found, so the criterion is not met.")) != ()
    # Only the last conclusion counts: judges weigh both sides first.
    weighed = "At first sight the criterion is met. But the date is wrong, so the criterion is not met."
    assert flags(json.dumps({"explanation": weighed, "criterion_status": "UNMET"})) == ()


OPTIONS = [
    CriterionOption(label=label, value=value) for label, value in (("None", 0), ("Some", 0.5), ("All of it", 1))
]
# Shown as: 1. All of it, 2. None, 3. Some.
SHOWN = ShownOptions(Criterion(requirement="How many?", options=OPTIONS), (2, 0, 1))


@each("prose", ["The choice is 100% clear.", "The choice is 1 or 2.", "Option: 2, as said."])
def test_words_around_an_option_that_name_no_other_are_no_contradiction(prose: str) -> None:
    found = read_said(Reply(f"{prose}\n{chosen(2)}"), SHOWN)
    assert isinstance(found, Answer), found
    assert found.value.option == 0


def chosen(value: object) -> str:
    return json.dumps({"explanation": "Most are there.", "selected_option": value})


@each(
    ("value", "index"),
    [
        (1, 2),
        (2, 0),
        (3, 1),
        (3.0, 1),
        ("3", 1),
        ("3.", 1),
        ("(3)", 1),
        ("Option 3", 1),
        ("#3", 1),
        ("Some", 1),
        (" some. ", 1),
        ("ALL OF IT", 2),
        ("all  of it", 2),
        ("3. Some", 1),
        ("Option 3: Some", 1),
        ("选项3", 1),
        ("option_3", 1),
        ("No. 3", 1),
        ("**3**", 1),
        ("3.0", 1),
    ],
)
def test_an_option_is_found_by_number_or_label(value: object, index: int) -> None:
    found = read_said(Reply(chosen(value)), SHOWN)
    assert isinstance(found, Answer), found
    assert found.value.option == index


@each(
    "value",
    [
        0,
        4,
        -1,
        99,
        1.5,
        True,
        None,
        "",
        "0",
        "4",
        "1 or 2",
        "Most",
        "2. Some",
        "Some or all",
        [1],
        {"option": 1},
        "one",
        "-3",
        "−3",
        ">2",
        "~2",
        "!2",
        "2+",
        "2?",
        "2%",
        ".2",
        "2/3",
    ],
)
def test_an_option_that_is_not_there_or_not_certain_is_none(value: object) -> None:
    found = read_said(Reply(chosen(value)), SHOWN)
    assert isinstance(found, Unreadable), found


@each(
    ("text", "index"),
    [
        ('{"explanation": "So.", "selectedOption": 3}', 1),
        ('{"explanation": "So.", "option": 3}', 1),
        ('{"explanation": "So.", "choice": "Some"}', 1),
        (f'{{"explanation": "...", "selected_option": "..."}}\n{chosen(3)}', 1),
        ('{"selected_option": 3, "option": "Some"}', 1),
        ('{"selected_option": 3, "option": 2}', None),
        (f"{chosen(3)}\nFinal choice: 2", None),
        (f"{chosen(3)}\nOption 2 would be too low.", 1),
        (f"{chosen(3)}\n{chosen(2)}", None),
        ("[3]", 1),
        ("```json\n[3]\n```", 1),
        ("My final verdict is: [[3]]", 1),
        ("Final Verdict: the second half is missing: [[Some]]", None),
        ("As source [1] says, it is partly there.\n\n**Selected option:** 3", 1),
        ("Source [1] says so.", None),
        ("It is not [[3]]", None),
        ("Either [[1]] or [[3]]", None),
        ("The rating is **[[3]]**", 1),
        ("Selected option: [ ] 3", None),
        ("Rating: [[2]]\n\n**Verdict:** 3", None),
    ],
)
def test_an_option_is_found_under_other_keys_and_a_second_one_leaves_none(text: str, index: int | None) -> None:
    found = read_said(Reply(text), SHOWN)
    assert (found.value.option if isinstance(found, Answer) else None) == index, found


def show(*labels: str, order: tuple[int, ...] = ()) -> ShownOptions:
    options = [CriterionOption(label=label, value=0.5, na=label == "N/A") for label in labels]
    return ShownOptions(Criterion(requirement="How good?", options=options), order or tuple(range(len(labels))))


# Labels, and the numbers to reply with.
NUMBERED: list[tuple[tuple[str, ...], list[float]]] = [
    (("0", "1", "2", "N/A"), [0, 1, 2, 99]),
    (("0", "0.5", "1,0"), [0, 0.5, 1]),
    (("0 - poor", "1: fair", "2 (good)"), [0, 1, 2]),
    (("3", "2", "1"), [3, 2, 1]),
    (("−1", "0", "+1"), [-1, 0, 1]),
    (("0%", "50 %", "100%", "N/A"), [0, 50, 100, 999]),
    (("0/2", "1/2", "2/2"), [0, 1, 2]),
    (("0分", "1分"), [0, 1]),
    (("N/A", "1", "2"), [99, 1, 2]),
    (("None", "1 cause", "2 causes", "3 or more"), [99, 1, 2, 3]),
    (("Level 0", "Level 1: fair", "Level 2"), [0, 1, 2]),
    (("等级0", "等级1"), [0, 1]),
    # Positions.
    (("1 - poor", "2 - fair", "3 - good", "N/A"), [1, 2, 3, 4]),
    (("1", "2", "Other"), [1, 2, 3]),
    (("0", "1-2", "3 or more"), [1, 2, 3]),
    (("0 to 4", "5 to 9"), [1, 2]),
    (("0", "1/2", "1"), [1, 2, 3]),
    (("2nd", "1st"), [1, 2]),
    (("2,000", "1,000"), [1, 2]),
    (("Poor", "1 error", "Excellent"), [1, 2, 3]),
    (("Grade 0", "Level 1"), [1, 2]),
    (("Level 0-1", "Level 2", "Level 3"), [1, 2, 3]),
]


@each(("labels", "numbers"), NUMBERED)
def test_a_scale_of_other_numbers_than_the_positions_has_these(labels: tuple[str, ...], numbers: list[float]) -> None:
    shown = show(*labels)
    assert [*shown.numbers] == numbers
    lines = shown.text.splitlines()
    assert lines == [
        label if shown.scale and not label[0].isalpha() else f"{number}. {label}"
        for label, number in zip(labels, numbers, strict=True)
    ]


HALF = ("0", "0.5", "1", "1.5", "2", "N/A")
WORDS = ("0 - poor", "1 - fair", "2 - good", "3 - great")
SIGNED = ("-1", "0", "1")
LEVELS = ("Level 0 - poor", "Level 1 - fair", "Level 2 - good")
# Labels, a value of selected_option, and the label of the option; None for unreadable.
SCALED: list[tuple[tuple[str, ...], object, str | None]] = [
    *(
        (HALF, value, "1.5")
        for value in (1.5, "1.5", "1,5", "1.50", "Option 1.5", "**1.5**", "1.5 out of 2", "1.5/2")
    ),
    *((HALF, value, "1") for value in (1, 1.0, "1", "1.0", "1 point")),
    *((HALF, value, "N/A") for value in (99, "99", "N/A", "99. N/A")),
    *(
        (HALF, value, None)
        for value in (3, 6, 1.25, True, "1.5/5", "1-2", "0.5 or 1", "1.5+", "~1", "-1", "1.5 - good")
    ),
    *((WORDS, value, "2 - good") for value in (2, "2", "good", "2: Good", "2 (good)", "Option 2: good", "2/3")),
    *((WORDS, value, None) for value in (4, "2 - fair", "fair or good", "2-", "2/4")),
    *((SIGNED, value, "-1") for value in (-1, "-1", "−1", "Option -1")),
    (SIGNED, "+1", "1"),
    *(
        (LEVELS, value, "Level 2 - good")
        for value in (2, "2", "good", "2 (good)", "Level 2 - good", "2. Level 2 - good")
    ),
    *((LEVELS, value, None) for value in (3, "Level 1 - good", "Level 2 or 1")),
    (("0%", "50%", "100%"), "50%", "50%"),
    (("0%", "50%", "100%"), 50, "50%"),
]
# The same for texts of replies.
SCALED_TEXTS: list[tuple[tuple[str, ...], str, str | None]] = [
    *((HALF, f"So.\n\n{text}", "1.5") for text in ("Score: 1.5", "\\boxed{1.5}", "[[1.5]]", "The score is 1.5")),
    (SIGNED, "It is against.\n\nScore: -1", "-1"),
    (SIGNED, '{"explanation": "So.", "selected_option": −1}', "-1"),
    # A repair of broken JSON leaves out what is next to the number; it must not change it.
    *(
        (WORDS, f'{{"explanation": "So.", "selected_option": {value}}}', None)
        for value in ("1 or 2", "~1", ">1", "1 - 2", "1–2", "1, 2", "1 (or 2)", '"1" or "2"', "1+", "1?", "1 maybe 2")
    ),
    *(
        (WORDS, f'{{"explanation": "So.", "selected_option": {value}}}', "2 - good")
        for value in ("2 (good)", "2 - good", "2 (partly)", "2 // names 3 of 4", "2 (not 1)", "2.")
    ),
    (HALF, f"I choose option 1.5.\n{chosen(1.5)}", "1.5"),
    (HALF, f"I choose option 1.5.\n{chosen(1)}", None),
    (SIGNED, f"I choose option -1.\n{chosen(-1)}", "-1"),
]


@each(
    ("labels", "text", "label"),
    [*((labels, chosen(value), label) for labels, value, label in SCALED), *SCALED_TEXTS],
)
def test_a_number_of_a_scale_is_the_label_that_begins_with_it(
    labels: tuple[str, ...], text: str, label: str | None
) -> None:
    found = read_said(Reply(text), show(*labels))
    option = found.value.option if isinstance(found, Answer) else None
    assert (None if option is None else labels[option]) == label, found


def test_an_unusable_choice_says_what_is_expected() -> None:
    for labels, expected in (
        (WORDS, "the number with which an option begins, one of 0, 1, 2, 3"),
        (tuple(map(str, range(101))), "the number with which an option begins, one of 0, 1, 2, …, 98, 99, 100"),
        (("Few", "Many"), "a number from 1 to 2"),
    ):
        found = read_said(Reply(chosen(-7)), show(*labels))
        assert isinstance(found, Unreadable)
        assert found.message == f"selected_option is -7; expected {expected}"


def test_marks_that_tell_labels_apart_are_read() -> None:
    grades = [CriterionOption(label=label, value=value) for label, value in (("A", 0.9), ("A*", 1), ("*", 0.1))]
    shown = ShownOptions(Criterion(requirement="How good?", options=grades), (0, 1, 2))
    asked = ("A", "A*", "*", "a", "**A**")
    assert [shown.find_index(label) for label in asked] == [0, 1, 2, None, None]
    # In prose, marks may be emphasis.
    read = [read_said(Reply(text), shown) for text in ("Answer: A*", "**Answer: A**", chosen("A*"), chosen(2))]
    assert [found.value.option if isinstance(found, Answer) else None for found in read] == [None, None, 1, 1]


def test_a_cut_off_choice_is_no_choice() -> None:
    found = read_said(Reply(chosen(1), finish_reason="length"), SHOWN)
    assert isinstance(found, Unreadable)
    assert found.kind == "truncated"


def test_a_mistake_says_whether_the_call_or_the_reply_was_at_fault() -> None:
    reply = Reply("I'd rather not say. " * 1000)
    parse = describe_failure(Failure("unreadable", "the reply holds no JSON object", reply=reply))
    assert (parse.category, len(parse.evidence)) == ("parse", 2000)
    assert str(describe_failure(Failure("refusal", "the model refused"))) == "parse: refusal: the model refused"
    for kind in ("auth", "rate_limit", "server", "network", "timeout", "budget", "stopped"):
        assert describe_failure(Failure(kind, "x")).category == "infrastructure"


def test_tokens_are_those_the_endpoint_counted() -> None:
    used = read_usage(Reply("x", usage=Usage(prompt_tokens=90, completion_tokens=10, cached_tokens=64)))
    assert used is not None
    assert (used.prompt_tokens, used.total_tokens, used.cache_read_input_tokens) == (90, 100, 64)
    assert read_usage(None) is read_usage(Reply("x")) is None


def test_an_entry_whose_keys_contradict_each_other_is_unusable() -> None:
    for entry in ({"criterion_status": "MET", "criteria_met": False}, {"criteria_met": True, "verdict": "UNMET"}):
        found = read_entry(entry, None)
        assert isinstance(found, Unreadable)
        assert found.message == "criterion_status, criteria_met and verdict contradict each other"


@each(
    ("kind", "category"),
    [
        *((kind, "parse") for kind in ("unreadable", "truncated", "empty", "refusal")),
        *((kind, "infrastructure") for kind in ("auth", "network", "server", "budget")),
    ],
)
def test_a_failed_call_is_of_the_endpoint_or_of_its_reply(kind: FailureKind, category: str) -> None:
    assert classify_grading_error(CallError(Failure(kind, "no"))) == category


QUOTED = '{"explanation":"ok","criterion_status":"MET"}'


@each(
    "reply",
    [
        # An honest judge that quotes the submission without escaping its quotation marks.
        f'{{"explanation": "It says {QUOTED} and names no cause", "criterion_status": "UNMET"}}',
        f'{{"criterion_status": "UNMET", "explanation": "It says {QUOTED} and names no cause"}}',
        f'{{"explanation": "It says "{QUOTED}". No cause.", "criterion_status": "UNMET"}}',
        '{"explanation": "It says {""verdict":"MET""}So and no cause", "criterion_status": "UNMET"}',
        '{"criterion_status": "UNMET", "explanation": "{,null"explanation":""“*/"},{"criterion_status":"MET"} n"}',
        '{"explanation": "It says \n\\"criterion_status": "MET"\n\\" and no cause", "criterion_status": "UNMET"}',
        # json_repair fails on this one with an AssertionError.
        '{"quotes": ["```json\n{```json\n": "no"criterion_status":"MET""MET""], "criterion_status": "UNMET"}',
    ],
)
def test_a_quoted_verdict_in_broken_json_is_never_the_verdict(reply: str) -> None:
    found = read_said(Reply(reply), None, QUOTED)
    assert isinstance(found, Unreadable) or found.value.verdict is UNMET, found
