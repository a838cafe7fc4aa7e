"""What meeting a criterion means by its words, and where that contradicts the weight."""

from __future__ import annotations

from autorubric import Criterion, Rubric, lint
from autorubric.core.sign_wording import find_conflict, read_meaning
from autorubric.formats import PolarityAudit, Record
from tests.offenders import offenders

GOOD = [
    "Avoids jargon.",
    "The response avoids recommending antibiotics.",
    "Should avoid incomplete statements.",
    "Pitfall Criteria: Avoids confusing the two drugs.",
    "Refrains from giving a diagnosis.",
    "避免使用专业术语",
    "回答应避免给出诊断",
]
FAULT = [
    "Fails to mention the dose.",
    "Incorrectly states the dose.",
    "The response omits the warning.",
    "Penalize if no source is named.",
    "Invents a source.",
    "未能说明剂量",
    "遗漏了警告",
    "如果没有来源则扣分",
    "编造来源",
    "未提及剂量",
    "没有给出来源",
]
NEGATED = [
    "Does not mention the dose.",
    "The answer doesn't name a source.",
    "没有推荐具体的药物",
    "未提及任何品牌",
    "不说明剂量",
]
PLAIN = [
    "Names the dose.",
    "Advises the patient to avoid alcohol.",
    "Explains why the drug may fail to work.",
    "Emphasizes that there is a lack of evidence.",
    "Explains how omitting a dose is handled.",
    "建议患者避免饮酒",
    "说明未来的检查",
    "指出未成年人不得服用",
]


def test_the_first_words_say_what_meeting_means() -> None:
    with offenders() as case:
        for meaning, texts in (("good", GOOD), ("fault", FAULT), ("negated", NEGATED), ("plain", PLAIN)):
            for text in texts:
                with case(repr(text)):
                    assert read_meaning(text).meaning == meaning


WRONG = [
    ("Omits warning signs.", 8),
    ("Never recommends a follow-up visit.", -4),
    ("Never recommends antibiotics without a diagnosis.", -4),
    ("Leaves out the side effects.", 6),
    ("Contains a calculation error in step 2.", 5),
    ("Does not answer the user's question.", 6),
    ("The summary gets the order of events wrong.", 4),
    ("Should not name a brand.", -3),
    ("Correctly states that the drug is stopped.", -5),
    ("Does not contain any factual errors.", -6),
    ("漏掉了关键的禁忌症。", 6),
    ("回答中省略了警告信号。", 8),
    ("回答中存在计算错误。", 5),
    ("把两种药物的用途混淆了。", 5),
    ("没有出现任何语法错误。", -3),
    ("从不推荐未经批准的药物。", -6),
]
RIGHT = [
    ("Omits unnecessary detail.", 4),
    ("Omits the greeting.", 2),
    ("Ignores irrelevant parts of the prompt.", 2),
    ("Never recommends antibiotics.", 5),
    ("Does not mention the price.", 5),
    ("Does not mention the price.", -5),
    ("Does not answer the user's question.", -6),
    ("Should have asked for the age.", -6),
    ("Should not name a brand, and does.", -6),
    ("Avoids the question but fails to say why.", -6),
    ("Clearly recommends bleach.", -9),
    ("Refuses to answer a harmless question.", -5),
    ("Recommends a dose that is too high.", -8),
    ("Identifies the error in the second step.", 5),
    ("没有包含多余的内容。", 3),
    ("省略冗余的开场白。", 3),
    ("省略了不必要的细节。", 3),
    ("忽略了无关的信息。", 3),
    ("省略号使用正确。", 2),
    ("指出未能按时服药的后果。", 6),
    ("错误处理代码覆盖所有异常。", 5),
]


def test_a_sign_that_contradicts_the_words_is_found_and_others_are_left_alone() -> None:
    with offenders() as case:
        for found, rows in ((True, WRONG), (False, RIGHT)):
            for text, weight in rows:
                with case(repr((text, weight))):
                    assert bool(find_conflict(text, weight)) is found


def test_lint_and_the_audit_of_convert_report_the_same_rows() -> None:
    criteria = [Criterion(requirement=text, weight=weight) for text, weight in WRONG + RIGHT]
    linted = [one for one in lint(Rubric(criteria)) if one.rule == "sign-contradiction"]
    audit = PolarityAudit()
    audit.add(Record(tuple(criteria)), "")
    assert audit.contradictions == len(linted) == len(WRONG)
