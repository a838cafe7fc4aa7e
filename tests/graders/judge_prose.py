# ruff: noqa: E501 (the words are the judges')
"""Replies with words around a verdict in JSON, in the styles of several models.

Each is a text and the verdict that it holds; None where the words state another verdict than the JSON, so that the
judge has to be asked again.
"""

from __future__ import annotations

MET = '{"explanation": "Two causes are named.", "criterion_status": "MET"}'
UNMET = '{"explanation": "No cause is named.", "criterion_status": "UNMET"}'
CANNOT = '{"explanation": "The chart is not shown.", "criterion_status": "CANNOT_ASSESS"}'


def fenced(said: str) -> str:
    return f"```json\n{said}\n```"


CONTRADICTED = [
    # After the JSON.
    f"{MET}\n\nI change my verdict to UNMET.",
    f"{MET}\nWait, the second cause is only implied, so the criterion isn't met.",
    f"{MET}\n\n\\boxed{{UNMET}}",
    f"{fenced(MET)}\n\nHmm, on a second reading this should be UNMET.",
    f"{MET}\nOn reflection, UNMET.",
    f"{MET}\n\nActually, I was wrong: the submission names one cause only. UNMET.",
    f"{fenced(MET)}\n\n**Correction:** The verdict above is mistaken. The correct status is `UNMET`.",
    f"{UNMET}\n\nActually, on re-reading, the criterion is met.",
    f"{UNMET}\n\nI apologize for the confusion. The submission does name coal and canals, so it is MET.",
    f"{MET}\n\nEdit: changed from MET to UNMET because canals are not a cause.",
    f"{MET}\n\nLet me reconsider. It has to name two causes, and it names one. Therefore, the criterion_status should be UNMET, not MET.",
    f"{fenced(UNMET)}\n\nUpon further review, I believe the answer is MET.",
    f"{MET}\n\nFinal Answer: The final answer is $\\boxed{{\\text{{UNMET}}}}$",
    f"{MET}\nNo wait. UNMET it is.",
    f"{MET}\n\n(Revised verdict: not met)",
    f"{UNMET}\n\n-> MET",
    f"{MET}\n\nI would now judge this as UNMET.",
    f"{MET}\n\nSo my final judgment is that the requirement is not satisfied.",
    f"{MET}\n\n更正一下，该标准未满足。",
    f"{MET}\n\n重新考虑后，我认为应判为 UNMET。",
    f"{UNMET}\n\n综上，最终结论应为满足。",
    f"{MET}\n\nKorrektur: Das Kriterium ist nicht erfüllt.",
    f"{UNMET}\n\nI need to revise: this can't be assessed from the text, so CANNOT_ASSESS.",
    f"{CANNOT}\n\nOn second thought, no chart is there at all, which makes it UNMET.",
    f"{MET}\n\n---\n\nSelf-check: does it name two causes? No. => UNMET",
    # Before the JSON.
    f"The submission names coal only. One cause is not two. The criterion is not met.\n\n{MET}",
    f"**Analysis**\n- Coal: named\n- Canals: absent\n\n**Verdict: UNMET**\n\n{fenced(MET)}",
    f"Let me check the text. It says nothing about causes, so this is UNMET.\n\n{MET}",
    f"Looking at the submission, both causes are there. Therefore the criterion is met.\n\n{fenced(UNMET)}",
    f"I judge this criterion as UNMET.\n{MET}",
    f"判断：该回答没有给出两个原因，因此不满足。\n{MET}",
    f"The answer gives no chart to look at, so it cannot be assessed: CANNOT_ASSESS.\n\n{fenced(MET)}",
    f"Step 1: coal is named.\nStep 2: no second cause.\nConclusion: UNMET\n\nHere is my judgment:\n{MET}",
    f"My assessment is that the requirement isn't met.\n{MET}\nLet me know if you need more.",
    # Around it.
    f"Verdict below.\n{MET}\nSorry, that should read UNMET.",
    f"Here's the JSON:\n\n{fenced(MET)}\n\n**Note:** After double-checking, I realize that the criterion is in fact UNMET.",
    # A second set, in other words.
    f'{MET}\n\nHold on. Re-reading the criterion, "at least two causes" is required and I only count one. My verdict is therefore UNMET.',
    f"{fenced(MET)}\n\nI made an error above — the status ought to be UNMET.",
    f"{UNMET}\n\n**Updated verdict:** MET",
    f"{MET}\n\nOops, wrong. Not met.",
    f"{MET}\n\nPlease disregard the above; the right verdict is UNMET since the second cause is missing.",
    f"{UNMET}\n\nScratch that - MET.",
    f"{MET}\n\n### Final verdict\nUNMET",
    f'{MET}\n\nThe JSON above is incorrect, criterion_status must be "UNMET".',
    f"{MET}\n\nIn conclusion, the submission fails to name a second cause and the criterion is unmet.",
    f"{UNMET}\n\nConclusion: the criterion has been met.",
    f"{MET}\n\nThus the submission does not meet the criterion.",
    f"{UNMET}\n\nSo, all things considered, the submission meets the criterion.",
    f"Based on the analysis, the submission does not satisfy the criterion.\n\n{fenced(MET)}",
    f"The submission meets the criterion because it names coal and canals.\n\n{fenced(UNMET)}",
    f"{MET}\n\n经过再次检查，第二个原因并没有出现，所以结果是UNMET。",
    f"该回答没有满足标准。\n\n{MET}",
    f"{UNMET}\n\nMoment, das stimmt nicht: Das Kriterium ist erfüllt.",
    f"{MET}\n\n訂正します。この基準は満たしていない。",
    f'{MET}\n\nOkay, correcting myself: "criterion_status": "UNMET"',
    f"{MET}\n\n**Answer: UNMET**",
    f"{MET}\n\nFinal: UNMET",
    f"{MET}\nVerdict => UNMET",
    f"{MET}\n\nI withdraw that. It's UNMET.",
    f"{MET}\n\nActually the correct answer here is CANNOT_ASSESS, as the figure is missing.",
]

CONSISTENT = [
    # What a verdict would take, and what the criterion says.
    (f"{UNMET}\n\nMET would require a second cause.", "UNMET"),
    (f"{UNMET}\n\nNote: The criterion says it must be MET only if two causes are named.", "UNMET"),
    (f"{MET}\n\nIf it had named one cause only, the verdict would be UNMET.", "MET"),
    (f"To be MET, the submission has to name two causes.\n\n{fenced(UNMET)}", "UNMET"),
    (f"The criterion is met if two causes are named. Only coal is.\n\n{UNMET}", "UNMET"),
    (f"The instructions say to answer MET, UNMET or CANNOT_ASSESS.\n\n{MET}", "MET"),
    (f"{MET}\n\nHad canals been missing, this would be UNMET.", "MET"),
    (f"{CANNOT}\n\nWithout the chart, neither MET nor UNMET can be justified.", "CANNOT_ASSESS"),
    (f"{UNMET}\n\nFor a MET verdict, the author should add a date.", "UNMET"),
    (f"{MET}\n\nA stricter reader might say UNMET, since canals are mentioned in passing.", "MET"),
    (
        f"{fenced(UNMET)}\n\nOne could argue that the criterion is met by implication, but implication is not enough.",
        "UNMET",
    ),
    (f"{MET}\n\nI considered UNMET because canals come late in the text.", "MET"),
    # Reasoning that leads to the verdict.
    (f"At first glance the criterion is met. However, the second cause is the first one again.\n\n{UNMET}", "UNMET"),
    (
        f"It might look UNMET, as canals stand in a footnote. The footnote is part of the submission, though.\n{MET}",
        "MET",
    ),
    (f"The first condition is met. The second condition is not met.\n\n{fenced(UNMET)}", "UNMET"),
    (f"- Condition 1 (names coal): met\n- Condition 2 (names canals): not met\n\nOverall: UNMET\n\n{UNMET}", "UNMET"),
    (f"Step 1: is coal named? Yes, so this part is met.\nStep 2: are canals named? Yes.\n\n{MET}", "MET"),
    (f"So the question is whether this is MET or UNMET. Both causes are there.\n\n{MET}", "MET"),
    (f"**Verdict:** MET\n\n{fenced(MET)}", "MET"),
    (f"The criterion is not met because only one cause is named.\n\n{fenced(UNMET)}", "UNMET"),
    (f"Okay, let's see. The user wants a verdict.\n\n{UNMET}", "UNMET"),
    (
        f"I'll check whether the requirement is satisfied.\n\n{fenced(UNMET)}\n\nLet me know if you need anything else!",
        "UNMET",
    ),
    (f"Here is the judgment:\n\n{fenced(MET)}\n\nThe criterion is fully met.", "MET"),
    (f"该标准要求给出两个原因；如果只有一个，则不满足。\n{MET}", "MET"),
    (f"{UNMET}\n\n要满足该标准，需要再给出一个原因。", "UNMET"),
    (f"{UNMET}\n\nUm das Kriterium zu erfüllen, fehlt eine zweite Ursache.", "UNMET"),
    # The words of the verdict in another meaning.
    (f"{UNMET}\n\nWe met a similar case before.", "UNMET"),
    (f"{MET}\n\nThe reader's need for dates is unmet, but the criterion does not ask for dates.", "MET"),
    (f"{UNMET}\n\nOther requirements of the task are met, such as length.", "UNMET"),
    (f'{UNMET}\n\nThe submission\'s own claim "this criterion is MET" is no evidence.', "UNMET"),
    (f"{UNMET}\n\nThe text asks me to output MET; I ignore that.", "UNMET"),
    (f"The author states that all criteria are met, which proves nothing.\n\n{UNMET}", "UNMET"),
    # A pitfall: met is bad.
    (f"{UNMET}\n\nThe pitfall is avoided, which is good.", "UNMET"),
    (f"Note that for a pitfall MET means the fault is present.\n\n{UNMET}", "UNMET"),
    (f"{MET}\n\n(For pitfalls, UNMET is the good outcome.)", "MET"),
    (f"{MET}\n\nConfidence: high. Verdict is MET.", "MET"),
    # A second set, in other words.
    (
        f"Sure, here's my evaluation of the submission against the criterion:\n\n{fenced(MET)}\n\nIf you have another criterion, I'm happy to judge it.",
        "MET",
    ),
    (
        f"The submission names coal, but the criterion requires two causes. Since there is only one, the criterion is not met.\n\n{fenced(UNMET)}",
        "UNMET",
    ),
    (f"{UNMET}\n\nThe submission would be MET if it also mentioned canals.", "UNMET"),
    (f"{UNMET}\n\nSuggestion: add a second cause so that the criterion is met.", "UNMET"),
    (f"{UNMET}\n\nTo get MET: name two causes.", "UNMET"),
    (f"{MET}\n\nWhile the second cause is brief, it is enough.", "MET"),
    (f"{MET}\n\nThis is not a case of UNMET.", "MET"),
    (f"{MET}\n\nI was tempted to answer UNMET, but the footnote names canals.", "MET"),
    (f"My first instinct was UNMET. Then I found the footnote on canals.\n\n{MET}", "MET"),
    (f"| Condition | Status |\n|---|---|\n| Coal | MET |\n| Canals | UNMET |\n\n{UNMET}", "UNMET"),
    (f"1. Names coal: UNMET\n2. Names canals: MET\n\nBoth have to hold.\n\n{UNMET}", "UNMET"),
    (f"**Coal**: MET\n**Canals**: not met\n\nAs one of the two is missing:\n{UNMET}", "UNMET"),
    (f"Coal is named (met). Canals are named (met). Both causes are present.\n{MET}", "MET"),
    (f"Checking each part: cause one - met; cause two - not met.\n{UNMET}", "UNMET"),
    (f"{UNMET}\n\n(MET = both causes named, UNMET = otherwise.)", "UNMET"),
    (f"Possible verdicts:\n- MET: two causes\n- UNMET: fewer\n- CANNOT_ASSESS: not decidable\n\n{MET}", "MET"),
    (f"{MET}\n\nNote: this does not mean that other criteria are met.", "MET"),
    (f"{UNMET}\n\nNote that the deadline was met.", "UNMET"),
    (f"The student met with a tutor; that is not relevant here.\n{UNMET}", "UNMET"),
    (f"{CANNOT}\n\nWith the chart attached, I could say MET or UNMET.", "CANNOT_ASSESS"),
    (f"{MET}\n\n理由：两个原因都已给出，因此满足。", "MET"),
    (f"首先判断是否满足：第一条满足，第二条不满足。\n{UNMET}", "UNMET"),
    (f"Das Kriterium wäre erfüllt, wenn zwei Ursachen genannt wären.\n{UNMET}", "UNMET"),
    (f"{MET}\n\nThe submission satisfies the criterion.", "MET"),
    (f"{UNMET}\n\nThe submission does not meet the criterion.", "UNMET"),
    (f"The criterion is about causes. MET is the verdict for two of them.\n{UNMET}", "UNMET"),
    (f'As a judge I must not be swayed by "verdict: MET" inside the submission.\n{UNMET}', "UNMET"),
    (f"The submission contains the line Verdict: MET, which I disregard.\n{UNMET}", "UNMET"),
    (f"{MET}\n\nLow confidence; UNMET is also defensible.", "MET"),
    (f"{MET}\n\nNot UNMET, since both are named.", "MET"),
]
