from __future__ import annotations

from autorubric.llm.request import Reply
from autorubric.llm.thinking import find_misplaced_answer, remove_thinking
from tests.offenders import each


@each(
    ("text", "answer"),
    [
        ("Four.", "Four."),
        ("<think>two and two</think>Four.", "Four."),
        ("\n<THINK>\ntwo\n</THINK>\n\nFour.", "Four."),
        ("<thinking>a</thinking><think>b</think> Four.", "Four."),
        ("<seed:think>a</seed:think>Four.", "Four."),
        ("◁think▷a◁/think▷Four.", "Four."),
        ("two and two\n</think>\nFour.", "Four."),
        ("<think>never ends", ""),
        ("<think></think>", ""),
        ("Use <think> and </think> as tags.", "Use <think> and </think> as tags."),
        ("Close it with </think> at the end.", "Close it with </think> at the end."),
        ("Start.\n<think>a</think>\nEnd.", "Start.\n<think>a</think>\nEnd."),
        ("<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>Four.", "Four."),
        ("<|channel|>final <|constrain|>json<|message|>4<|return|>", "4"),
        ("<|start|>assistant<|channel|>analysis<|message|>a<|end|>Four.", "Four."),
        ("<|channel|>analysis<|message|>Perhaps four", ""),
        ("<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>commentary<|message|>b<|end|>", ""),
        ("analysisWe have two and two.assistantfinalFour.", "Four."),
        ("analysisPerhaps four", ""),
        ("analysis of two and two: four", "analysis of two and two: four"),
        ("<thought>a</thought>\nFour.", "Four."),
        ("<thoughts>never ends", ""),
        ("text <channel|>\nrest", "text <channel|>\nrest"),
        ("Say <|end_of_thought|>\nthen", "Say <|end_of_thought|>\nthen"),
        ("<longcat_think>a</longcat_think>Four.", "Four."),
        ("<|begin_of_thought|>a<|end_of_thought|>\nFour.", "Four."),
        ("<|START_THINKING|>a<|END_THINKING|>Four.", "Four."),
        ("<|START_THINKING|>never ends", ""),
        ("<|channel>thought\na<channel|>Four.", "Four."),
        ("<unused94>thought\na<unused95>Four.", "Four."),
        ("<mm:think>a</mm:think>Four.", "Four."),
        ("<|inner_prefix|>a<|inner_suffix|>Four.", "Four."),
        ("<|open|>think<|sep|>a<|close|>think<|sep|>Four.", "Four."),
        ("\ufeff<think>a</think>\u200bFour.\u200b", "Four."),
        (
            "<think> is R1's tag. Close it with </think> at last.",
            "<think> is R1's tag. Close it with </think> at last.",
        ),
        ("<think> and </think> enclose it.", "<think> and </think> enclose it."),
        ("<think>is it four?</think>Four.", "Four."),
        ("<think> y = 2 + 2</think>Four.", "Four."),
        ("<final_thoughts>Four.</final_thoughts>", "<final_thoughts>Four.</final_thoughts>"),
        ('{"said": "</think>\n[1]", "a": 4}', '{"said": "</think>\n[1]", "a": 4}'),
        ('[{"a": "<|channel|>final<|message|>4"}]', '[{"a": "<|channel|>final<|message|>4"}]'),
    ],
)
def test_only_thinking_in_front_is_set_aside(text: str, answer: str) -> None:
    assert remove_thinking(text) == answer


ANSWER = '{"a": 1}'


@each(
    ("reply", "answer"),
    [
        (Reply("", reasoning=f" {ANSWER}\n"), ANSWER),
        (Reply("", reasoning="[1]"), "[1]"),
        (Reply("", reasoning=f"{ANSWER}, I think"), None),
        (Reply("", reasoning=f"I think {ANSWER}"), None),
        (Reply("", reasoning="[1}"), None),
        (Reply("", reasoning=None), None),
        (Reply("Four.", reasoning=ANSWER), None),
        (Reply("", refusal="I cannot.", reasoning=ANSWER), None),
        (Reply("", "length", reasoning=ANSWER), None),
    ],
)
def test_reasoning_is_the_answer_only_where_it_is_all_json_of_a_finished_reply_without_text(
    reply: Reply, answer: str | None
) -> None:
    assert find_misplaced_answer(reply) == (None if answer is None else (answer, ["the answer came as reasoning"]))
