from __future__ import annotations

from autorubric.llm.structured import without_thinking
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
    ],
)
def test_only_thinking_in_front_is_set_aside(text: str, answer: str) -> None:
    assert without_thinking(text) == answer
