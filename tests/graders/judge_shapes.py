"""Replies in the shapes in which servers send them: a message or its text, and the verdict; or how it ends.

`again` is a reply that has to be asked for again, `refused` one that fails without another call.
"""

from __future__ import annotations

import json
from typing import Any

WHY = "Two causes are named."
SAID = '{"explanation": "Two causes are named.", "criterion_status": "MET"}'
NOT = '{"explanation": "No cause is named.", "criterion_status": "UNMET"}'


def called(arguments: Any, **more: Any) -> dict[str, Any]:
    function = {"name": "judge_binary", "arguments": arguments}
    return {
        "message": {"content": None, "tool_calls": [{"id": "1", "type": "function", "function": function}], **more}
    }


FIELDS: list[tuple[str | dict[str, Any], str]] = [
    ("**Verdict:** MET", "MET"),
    ("**Verdict**: UNMET", "UNMET"),
    ("### Verdict\n\nUNMET\n\n### Explanation\n\nNo cause is named.", "UNMET"),
    ("## Verdict: MET\n\nTwo causes are named.", "MET"),
    ("**Explanation:** Two causes are named.\n\n**Verdict:** MET", "MET"),
    ("- **Explanation:** No cause is named.\n- **Verdict:** Not met", "UNMET"),
    ("verdict: MET", "MET"),
    ("explanation: Two causes are named.\nverdict: MET\n", "MET"),
    ("```yaml\nexplanation: No cause is named.\ncriterion_status: UNMET\n```", "UNMET"),
    ('explanation: "Two causes are named."\ncriterion_status: "MET"', "MET"),
    ("<verdict>MET</verdict>", "MET"),
    ("<explanation>No cause is named.</explanation>\n<criterion_status>UNMET</criterion_status>", "UNMET"),
    ("<judgment>\n  <reason>Two.</reason>\n  <verdict> MET </verdict>\n</judgment>", "MET"),
    ('{"c0": "MET"}', "MET"),
    ('["MET"]', "MET"),
    ('{"answer": "UNMET", "explanation": "No cause is named."}', "UNMET"),
    ('{"result": "MET"}', "MET"),
    ('{"判定": "满足", "理由": "给出了两个原因。"}', "MET"),
    ('{"评判结果": "不满足"}', "UNMET"),
    ("判定：不满足", "UNMET"),
    ("结论：满足\n理由：给出了两个原因。", "MET"),
    ("Urteil: nicht erfüllt", "UNMET"),
    ("判定：満たしていない", "UNMET"),
    ("The final answer is $\\boxed{\\text{MET}}$", "MET"),
    ("Two causes are named.\n\nFinal answer: MET", "MET"),
    ("| Explanation | No cause is named. |\n|---|---|\n| Verdict | UNMET |", "UNMET"),
    ("criterion_status = UNMET", "UNMET"),
    ("Verdict: CANNOT_ASSESS", "CANNOT_ASSESS"),
    ("<think>MET or UNMET?</think>\n**Verdict:** UNMET", "UNMET"),
    ("**Verdict:** MET\n\n**Verdict:** UNMET", "again"),
    ("**Verdict:** MET\n\nOn reflection, UNMET.", "again"),
    ("**Verdict:** MET or UNMET", "again"),
    ("**Verdict:** mostly met", "again"),
    ("Verdict: MET?\nAnswer: UNMET", "again"),
    ("The submission says `Verdict: MET`, which is no evidence.", "again"),
    ("The verdict would be MET if canals were named.", "again"),
    ('{"part_1": "MET", "part_2": "UNMET"}', "again"),
    ('{"part_1": "MET", "part_2": "MET"}', "again"),
    ('["MET", "UNMET"]', "again"),
    ('{"names_coal": "true"}', "again"),
    ('{"sentiment": "satisfied", "explanation": "So."}', "again"),
    ('{"explanation": "UNMET"}', "again"),
    ('{"result": true}', "again"),
    ("<verdict>MET</verdict> <verdict>UNMET</verdict>", "again"),
    ("Status: done\nThe criterion is met.", "again"),
    # Of something else than the criterion, or taken back.
    ("The reference says so.\n\nAnswer: False\n\nThe submission agrees.", "again"),
    ("Result: met\n\nHowever, one demand was ignored.", "again"),
    ("Status: satisfied\n\nBut the date is missing, so the requirement fails.", "again"),
    ("c1: MET\n\nc2: MET", "again"),
    ('{"expected": "MET", "explanation": "x"}', "again"),
    ('{"quote": "Met", "explanation": "The text omits it."}', "again"),
    ('{"title": "unmet", "explanation": "All fine."}', "again"),
]  # fmt: skip

ODD: list[tuple[str | dict[str, Any], str]] = [
    # Thinking.
    (f"<think>\nCoal is there, canals too. MET.\n</think>\n\n{SAID}", "MET"),
    (f"Coal is there. UNMET?\n</think>\n\n{SAID}", "MET"),
    (f"<thinking>It is UNMET, or is it?</thinking>{SAID}", "MET"),
    (f"<reasoning>Perhaps UNMET. No: both are there.</reasoning>\n{SAID}", "MET"),
    (f"<|channel|>analysis<|message|>UNMET?<|end|><|start|>assistant<|channel|>final<|message|>{SAID}", "MET"),
    ("<think>\nCoal is there, so MET.", "again"),
    (f"<think>{SAID}</think>", "again"),
    ({"message": {"content": SAID, "reasoning_content": "UNMET, I think. No, MET."}}, "MET"),
    ({"message": {"content": "", "reasoning_content": SAID}}, "MET"),
    ({"message": {"content": None, "reasoning_content": "It is MET."}}, "again"),
    ({"message": {"content": "\n\n", "reasoning": "It is MET."}}, "again"),
    # Fences, wrappers and prose.
    (f"```json\n{SAID}\n```", "MET"),
    (f"```\n{NOT}\n```", "UNMET"),
    (f"~~~json\n{NOT}\n~~~", "UNMET"),
    (f"```json\n{SAID}", "MET"),
    (f"`{NOT}`", "UNMET"),
    (f"<json>{NOT}</json>", "UNMET"),
    (f"<answer>\n{NOT}\n</answer>", "UNMET"),
    (f"<output>{SAID}</output><|im_end|>", "MET"),
    (f"{SAID}</s>", "MET"),
    (f"{SAID}<|eot_id|>", "MET"),
    (f"<|START_RESPONSE|>{SAID}<|END_RESPONSE|>", "MET"),
    (f"[TOOL_CALLS]judge_binary[ARGS]{SAID}", "MET"),
    (f'<tool_call>\n{{"name": "judge_binary", "arguments": {NOT}}}\n</tool_call>', "UNMET"),
    (f"<function=judge_binary>{NOT}</function>", "UNMET"),
    (f"json\n{SAID}", "MET"),
    (f"JSON:\n{NOT}\nEND", "UNMET"),
    (json.dumps(SAID), "MET"),
    (json.dumps({"response": SAID}), "MET"),
    (json.dumps({"name": "judge_binary", "parameters": json.loads(NOT)}), "UNMET"),
    (f"[{SAID}]", "MET"),
    (f"{SAID}\n{SAID}", "MET"),
    (f"{SAID}{SAID}", "MET"),
    # Broken JSON.
    ('{"explanation": "Two causes are named.", "criterion_status": "MET",}', "MET"),
    ("{'explanation': 'Two causes are named.', 'criterion_status': 'MET'}", "MET"),
    ("{'explanation': \"The author's two causes.\", 'criterion_status': 'UNMET'}", "UNMET"),
    ("{explanation: 'No cause is named.', criterion_status: 'UNMET'}", "UNMET"),
    ('{"explanation": "Two.", "criterion_status": MET}', "MET"),
    ('{"explanation": "Two.", // why\n "criterion_status": "MET"}', "MET"),
    ('{"explanation": "Two." /* why */, "criterion_status": "MET"}', "MET"),
    ('{"explanation": "Two."\n "criterion_status": "MET"}', "MET"),
    ('{"explanation": "Two.", "criterion_status": "MET", "score": NaN}', "again"),
    ('{"explanation": "Two.", "criterion_status": "MET", "criterion_status": "MET"}', "MET"),
    ('{"explanation": "Two.", "criterion_status": "MET", "criterion_status": "UNMET"}', "again"),
    ('{"explanation": "Two.", "explanation": "Three.", "criterion_status": "MET"}', "again"),
    ('{“explanation”：“给出了两个原因。”，“criterion_status”：“MET”}', "MET"),
    ('｛"explanation"："两个"，"criterion_status"："MET"｝', "again"),
    ('{"explanation": "Two \\d causes.", "criterion_status": "MET"}', "MET"),
    ('{"explanation": "He says "two" causes.", "criterion_status": "MET"}', "MET"),
    ('{"explanation": "Two causes", "criterion_status": "MET"', "again"),
    ('{"explanation": "Two causes are', "again"),
    ('"explanation": "Two causes are named.", "criterion_status": "MET"', "again"),
    # Values.
    ('{"explanation": "So.", "criterion_status": "met"}', "MET"),
    ('{"explanation": "So.", "criterion_status": "UN-MET"}', "again"),
    ('{"explanation": "So.", "criterion_status": "✅ MET"}', "again"),
    ('{"explanation": "So.", "criterion_status": "Ｍ"}', "again"),
    ('{"explanation": "So.", "criterion_status": "ＭＥＴ"}', "MET"),
    ('{"explanation": "So.", "criterion_status": "erfüllt"}', "MET"),
    ('{"explanation": "So.", "criterion_status": "満たしている"}', "MET"),
    ('{"explanation": "So.", "criterion_status": "NOT_APPLICABLE"}', "again"),
    ('{"explanation": "So.", "criterion_status": "CANNOT ASSESS"}', "CANNOT_ASSESS"),
    ('{"explanation": "So.", "criterion_status": ["MET"]}', "again"),
    ('{"explanation": "So.", "criterion_status": null}', "again"),
    ('{"explanation": "So.", "criterion_status": {"value": "MET"}}', "again"),
    ('{"说明": "两个原因。", "标准状态": "MET"}', "MET"),
    # Messages.
    (called(SAID), "MET"),
    (called(json.loads(NOT)), "UNMET"),
    (called(SAID, content=""), "MET"),
    ({**called(SAID), "finish_reason": "tool_calls"}, "MET"),
    ({"message": {"content": None, "function_call": {"name": "f", "arguments": NOT}}}, "UNMET"),
    ({"message": {"content": [{"type": "text", "text": SAID}]}}, "MET"),
    ({"message": {"content": [{"type": "thinking", "thinking": "UNMET?"}, {"type": "text", "text": SAID}]}}, "MET"),
    ({"message": {"content": ['{"explanation": "No.", ', '"criterion_status": "UNMET"}']}}, "UNMET"),
    ({"message": {"content": json.loads(SAID)}}, "MET"),
    ({"text": NOT}, "UNMET"),
    ({"message": {"content": None, "refusal": "I can't help with that."}}, "refused"),
    ({"message": {"content": "I'm sorry, I can't help with that."}}, "again"),
    ({"message": {"content": SAID}, "finish_reason": "content_filter"}, "refused"),
    ({"message": {"content": ""}, "finish_reason": "content_filter"}, "refused"),
    ({"message": {"content": ""}, "finish_reason": "SAFETY"}, "refused"),
    ({"message": {"content": None}}, "again"),
    ({"message": {"content": SAID}, "finish_reason": None}, "MET"),
    ({"message": {"content": SAID}, "finish_reason": "eos_token"}, "MET"),
]  # fmt: skip

OPTION = '{"explanation": "So.", "selected_option": 2}'
# With the options "1. None", "2. Some", "3. All of it": the index of the option, None where there is another call.
CHOSEN: list[tuple[str, int | None]] = [
    (OPTION, 1),
    ("**Selected option:** 3", 2),
    ("explanation: So.\nselected_option: 3", 2),
    ("<selected_option>3</selected_option>", 2),
    ("Option 3", 2),
    ("3", 2),
    ("All of it", 2),
    ('{"c0": 3}', 2),
    ("[3]", 2),
    ('["Some"]', 1),
    ('{"answer": "3. All of it"}', 2),
    ('{"result": 3}', 2),
    ("选项：3", 2),
    ("\\boxed{3}", 2),
    (f"{OPTION}\nOption 3 would be too high.", 1),
    (f"I compared options 2 and 3.\n{OPTION}", 1),
    (f"Option 1 says none; option 3 says all of it.\n{OPTION}", 1),
    (f"Between 2 and 3, option 2 is best.\n{OPTION}", 1),
    (f"{OPTION}\nI change my choice to option 3.", None),
    (f"{OPTION}\n\\boxed{{3}}", None),
    (f"{OPTION}\nOn reflection, option 3 fits best.", None),
    (f"{OPTION}\nFinal answer: 3", None),
    ('{"score": 3}', None),
    ("Answer: 2 or 3", None),
    ("Option 2: All of it", None),
    ('{"option": 2, "choice": 3}', None),
]

LIST = (
    '{"judgments": [{"criterion_id": "c0", "explanation": "Coal.", "criterion_status": "MET"},'
    ' {"criterion_id": "c1", "explanation": "None.", "criterion_status": "UNMET"}]}'
)
# On two criteria: what is read of each, None where it is asked about again.
OF_ALL: list[tuple[str, tuple[str | None, str | None]]] = [
    (LIST, ("MET", "UNMET")),
    ('{"c0": "MET", "c1": "UNMET"}', ("MET", "UNMET")),
    ('{"judgments": {"c0": "MET", "c1": "UNMET"}}', ("MET", "UNMET")),
    ("c0: MET\nc1: UNMET", ("MET", "UNMET")),
    ("- **c0**: MET\n- **c1**: UNMET", ("MET", "UNMET")),
    ("<c0>MET</c0>\n<c1>UNMET</c1>", ("MET", "UNMET")),
    ("| Criterion | Verdict |\n|---|---|\n| c0 | MET |\n| c1 | UNMET |", ("MET", "UNMET")),
    ("- criterion_id: c0\n  criterion_status: MET\n- criterion_id: c1\n  criterion_status: UNMET", ("MET", "UNMET")),
    (f"{LIST}\nBoth criteria are settled; c0 is MET because coal is named.", ("MET", "UNMET")),
    (f"{LIST}\nOn reflection, c1 should be MET.", ("MET", None)),
    (f"{LIST}\nI change c0 to UNMET.", (None, "UNMET")),
    ("c0: MET\nc1: mostly met", ("MET", None)),
    ("c0: MET\nc1: UNMET\nc1: MET", ("MET", None)),
    ('["MET", "UNMET"]', (None, None)),
    ("Both are met.", (None, None)),
]
