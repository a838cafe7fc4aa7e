from __future__ import annotations

from typing import Any

from autorubric.checks import CheckOutcome, run_check
from autorubric.synthesis.compiling import recognize_check
from tests.offenders import each

CASES: list[tuple[str, str, dict[str, Any]]] = [
    ("The response is at most 200 words long.", "word_count", {"at_most": 200}),
    ("The response should be under 200 words.", "word_count", {"at_most": 199}),
    ("Exceeds 1,200 words", "word_count", {"at_least": 1201}),
    ("Does not exceed 150 words.", "word_count", {"at_most": 150}),
    ("Is between 50 and 80 words in length.", "word_count", {"at_least": 50, "at_most": 80}),
    ("The essay is 300-500 words long.", "word_count", {"at_least": 300, "at_most": 500}),
    ("The answer has exactly three sentences.", "sentence_count", {"at_least": 3, "at_most": 3}),
    ("Is 100 words or fewer.", "word_count", {"at_most": 100}),
    ("The text consists of four paragraphs.", "paragraph_count", {"at_least": 4, "at_most": 4}),
    ("Uses at least five bullet points.", "list_shape", {"kind": "bullet", "at_least": 5}),
    ("Contains exactly 3 numbered steps.", "list_shape", {"kind": "numbered", "at_least": 3, "at_most": 3}),
    ("Includes at least two section headings.", "markdown_headings", {"at_least": 2}),
    ("Includes a code block.", "code_block", {"at_least": 1}),
    ("Provides at least three citations.", "citation_present", {"at_least": 3}),
    ("字数不超过200字。", "word_count", {"at_most": 200}),
    ("回答应控制在300字以内", "word_count", {"at_most": 300}),
    ("回答不少于三句话。", "sentence_count", {"at_least": 3}),
    ("全文为500到800字", "word_count", {"at_least": 500, "at_most": 800}),
    ("文章包含至少四个段落", "paragraph_count", {"at_least": 4}),
    ("The response is valid JSON.", "json_valid", {}),
    ("The output is formatted as a JSON object.", "json_valid", {}),
    ("以JSON格式输出。", "json_valid", {}),
    ("Includes a table.", "table_shape", {"at_least": 1}),
    ("回答使用编号列表", "list_shape", {"kind": "numbered", "at_least": 1}),
    (
        'Contains the words "aspirin" and "dose".',
        "contains",
        {"phrases": ["aspirin", "dose"], "ignore_case": True, "whole_words": True},
    ),
    (
        "Mentions “ibuprofen” or “paracetamol”.",
        "contains",
        {"phrases": ["ibuprofen", "paracetamol"], "ignore_case": True, "whole_words": True, "match": "any"},
    ),
    (
        'Does not use the word "very".',
        "not_contains",
        {"phrases": ["very"], "ignore_case": True, "whole_words": True},
    ),
    ("不得出现“绝对”一词。", "not_contains", {"phrases": ["绝对"], "ignore_case": True, "whole_words": False}),
    ("回答包含关键词“光合作用”", "contains", {"phrases": ["光合作用"], "ignore_case": True, "whole_words": False}),
    ('The letter begins with "Dear Ada".', "starts_with", {"prefix": "Dear Ada", "ignore_case": True}),
    ("以“此致敬礼”结尾", "ends_with", {"suffix": "此致敬礼", "ignore_case": True}),
    ("The response is written entirely in French.", "language", {"code": "fr"}),
    ("Is in English.", "language", {"code": "en"}),
    ("用中文回答。", "language", {"code": "zh"}),
    ("States that the final answer is 42.", "numeric_value", {"expected": 42.0}),
    ("Gives the result as -3.5 km.", "numeric_value", {"expected": -3.5, "unit": "km"}),
    ("Limits the response to 100 words.", "word_count", {"at_most": 100}),
    ("Keeps the answer under 100 words.", "word_count", {"at_most": 99}),
    ("Is no longer than 80 words.", "word_count", {"at_most": 80}),
    ("Answers in one sentence.", "sentence_count", {"at_least": 1, "at_most": 1}),
    ("回答分为三段", "paragraph_count", {"at_least": 3, "at_most": 3}),
    ("至少列出五条要点", "list_shape", {"at_least": 5}),
    ("Response is in JSON format.", "json_valid", {}),
    ("Writes in Spanish.", "language", {"code": "es"}),
    ("Does not contain any commas.", "not_contains", {"phrases": [",", "，"]}),
    ("不得使用感叹号", "not_contains", {"phrases": ["!", "！"]}),
    ("Is written in all capital letters.", "CapitalLettersEnglishChecker", {}),
    (
        'Uses the word "tide" at least three times.',
        "regex",
        {"pattern": r"(?<!\w)tide(?!\w)", "ignore_case": True, "at_least": 3},
    ),
    (
        'Mentions "tide" exactly once.',
        "regex",
        {"pattern": r"(?<!\w)tide(?!\w)", "ignore_case": True, "at_least": 1, "at_most": 1},
    ),
    ("最终答案为12.5%", "numeric_value", {"expected": 12.5, "unit": "%"}),
]


@each(("text", "name", "parameters"), CASES)
def test_words_that_leave_no_room_name_a_check(text: str, name: str, parameters: dict[str, Any]) -> None:
    found = recognize_check(text)
    assert found is not None
    assert (found.name, {key: value for key, value in found.parameters.items() if key != "schema"}) == (
        name,
        parameters,
    )


@each(
    "text",
    [
        "Names the dose.",
        "Has at most 200 words and names the dose.",
        "Is about 200 words long.",
        "Is approximately 300 words.",
        "Is concise, at most 200 words, and polite.",
        "Gives at least three examples.",
        "Advises a check every 3 months.",
        "Mentions aspirin.",
        'Explains what "aspirin" does.',
        'Mentions "aspirin" but not "ibuprofen" before dinner.',
        "Is written in plain English that a child understands.",
        "Each paragraph has at most three sentences.",
        "The first paragraph is at most 50 words.",
        "The dose is 42 mg a day for three weeks.",
        "每段不超过三句话",
        "大约200字",
        "给出至少三个例子",
        "避免使用术语",
        "Is between 80 and 50 words.",
        "The answer is fewer than 0 words.",
        "",
        "x" * 400,
    ],
)
def test_words_that_ask_for_more_stay_with_the_judge(text: str) -> None:
    assert recognize_check(text) is None


def test_the_language_of_the_question_is_found_from_the_question() -> None:
    text = "The response is in the same language as the question."
    english = recognize_check(text, "How do I get to the nearest station, please?")
    chinese = recognize_check("使用与问题相同的语言回答", "请问最近的火车站怎么走，需要多长时间才能到达？")
    assert english is not None
    assert chinese is not None
    assert (english.parameters, chinese.parameters) == ({"code": "en"}, {"code": "zh"})
    assert recognize_check(text) is None


@each(
    ("text", "submission", "passed"),
    [
        ("Has at most 3 words.", "one two three", True),
        ("Has at most 3 words.", "one two three four", False),
        ("字数不超过五字", "光合作用好", True),
        ("字数不超过五字", "光合作用很好", False),
        ('Does not use the word "car".', "A careful driver.", True),
        ('Does not use the word "car".', "A car.", False),
        ("最终答案为12.5%", "所以最终答案是 12.5%。", True),
        ("Uses at least two bullet points.", "- a\n- b\n", True),
    ],
)
def test_the_check_decides_as_a_reader_would(text: str, submission: str, passed: bool) -> None:
    found = recognize_check(text)
    assert found is not None
    outcome = run_check(found.name, found.parameters, submission)
    assert isinstance(outcome, CheckOutcome)
    assert outcome.passed is passed
