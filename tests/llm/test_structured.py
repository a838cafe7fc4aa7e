from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from autorubric.llm.request import Answer, Reply, Unreadable
from autorubric.llm.structured import WantedValue, read_json, read_text, unwrap
from tests.offenders import each

UNTIMED = settings(deadline=None)
DOSE = {"title": "Dose", "description": "Names the dose [mg].", "weight": 7}
RISK = {"title": "Risk", "description": 'Warns of "alcohol".', "weight": 5}
D = '{"title": "Dose", "description": "Names the dose [mg].", "weight": 7}'
R = '{"title": "Risk", "description": "Warns of \\"alcohol\\".", "weight": 5}'
BOTH = f"[{D}, {R}]"
ESCAPED = BOTH.replace("\\", "\\\\").replace('"', '\\"')
KEYS = ("criteria", "rubrics")

MENDED = "stray or full-width punctuation was normalized"
REPAIRED = "the JSON was broken and was repaired"
AS_TEXT = "the JSON came as text inside JSON"
BARE = "the objects came without a list around them"
TWO = "the reply holds 2 such values; the last was taken"

# What models really send, with what a careful reader takes from it: (name, text, notes). All hold DOSE and RISK.
READ_AS_BOTH: list[tuple[str, str, tuple[str, ...]]] = [
    ("bare", BOTH, ()),
    ("indented", json.dumps([DOSE, RISK], indent=4), ()),
    ("byte order mark", "\ufeff" + BOTH, ()),
    ("zero-width space", "\u200b" + BOTH + "\u200b\n", ()),
    ("fence", f"```json\n{BOTH}\n```", ()),
    ("fence without language", f"```\n{BOTH}\n```", ()),
    ("fence of tildes", f"~~~json\n{BOTH}\n~~~", ()),
    ("fence in one line", f"```json {BOTH}```", ()),
    ("fence that never ends", f"```json\n{BOTH}", ()),
    ("fence in capitals with Windows line ends", f"```JSON\r\n{BOTH}\r\n```\r\n", ()),
    ("fence with a bracket in the prose after", f"```json\n{BOTH}\n```\nAll items [1-2] are binary.", ()),
    ("prose before", f"Here is the JSON:\n\n{BOTH}", ()),
    ("prose with brackets before", f"As in [the brief], with [3 to 25] items:\n{BOTH}", ()),
    ("prose with brackets after", f"{BOTH}\n\nSee [note] and the set {{weight: importance}}.", ()),
    ("prose with references after", f"{BOTH}\n\nSources: [1], [2].", ()),
    ("half-open interval before", f"For x in [0, 1) and y in (0, 1]:\n{BOTH}", ()),
    ("inch sign in brackets before", f'For the [6" pipe] question:\n{BOTH}', ()),
    ("quote and bracket never closed before", f'He wrote "see [here\n{BOTH}', ()),
    ("bracket around everything", f"[The rubric follows. {BOTH} End of rubric.]", ()),
    ("bullet before", f"- **Rubric**\n- {BOTH}", ()),
    ("tags around", f"<json>\n{BOTH}\n</json>", ()),
    ("think block", f"<think>\nThe rule says [3 to 25].\n</think>\n{BOTH}", ()),
    ("think block with a draft", f"<think>\nPerhaps [{D}]?\n</think>\n```json\n{BOTH}\n```", ()),
    ("thinking block with an unclosed draft", f"<thinking>[{D}, hm</thinking>{BOTH}", ()),
    ("two think blocks", f"<think>a</think>\n<think>[{D}]</think>\n{BOTH}", ()),
    ("think block without its start", f"I might say [{D}].\n</think>\n\n{BOTH}", ()),
    ("think block of another family", f"[THINK]so [{D}][/THINK]{BOTH}", ()),
    (
        "channels",
        f"<|channel|>analysis<|message|>[{D}]<|end|><|start|>assistant<|channel|>final<|message|>{BOTH}<|return|>",
        (),
    ),
    ("draft before", f"Draft:\n[{D}]\n\nFinal:\n{BOTH}", (TWO,)),
    ("fenced draft before", f"```json\n[{D}]\n```\nOn reflection:\n```json\n{BOTH}\n```", (TWO,)),
    ("fenced answer, bare example after", f"```json\n{BOTH}\n```\nOne could add [{D}].", ()),
    ("broken off, then started again in a fence", f'[{D}, {{\nAgain:\n```json\n{BOTH}\n```', ()),
    ("wrapped", f'{{"criteria": {BOTH}}}', ()),
    ("wrapped under another known key", f'{{"rubrics": {BOTH}, "count": 2}}', ()),
    ("wrapped with a capital", f'{{"Criteria": {BOTH}}}', ()),
    ("wrapped twice", f'{{"result": {{"criteria": {BOTH}}}}}', ()),
    ("wrapped beside a list of words", f'{{"needs": ["dose", "risk"], "criteria": {BOTH}}}', ()),
    ("wrapped under an unknown key", f'{{"tags": ["a"], "grading": {BOTH}}}', ("the array stood under 'grading'",)),
    ("list in a list", f"[{BOTH}]", ()),
    ("wrapper in a list", f'[{{"criteria": {BOTH}}}]', ()),
    ("numbered keys", f'{{"1": {D}, "2": {R}}}', ("an object with numbered keys was taken as the array",)),
    ("tool call", f'<tool_call>{{"name": "send", "arguments": {{"criteria": {BOTH}}}}}</tool_call>', ()),
    ("list of tool calls", f'[TOOL_CALLS] [{{"name": "send", "arguments": {{"criteria": {BOTH}}}}}]', ()),
    ("tool call with text", f'{{"function": {{"arguments": "{{\\"criteria\\": {ESCAPED}}}"}}}}', (AS_TEXT,)),
    ("wrapped as text", f'{{"criteria": "{ESCAPED}"}}', (AS_TEXT,)),
    ("JSON in a string", f'"{ESCAPED}"', (AS_TEXT,)),
    ("escaped without a string", ESCAPED.replace('\\\\\\"', "'"), (AS_TEXT,)),
    ("one object a line", f"{D}\n{R}", (BARE,)),
    ("numbered objects", f"1. {D}\n2. {R}", (BARE,)),
    ("trailing commas", f"[{D[:-1]},}}, {R},]", (MENDED,)),
    ("full-width punctuation", BOTH.replace('": ', '"：').replace(', "', '， "'), (MENDED,)),
    ("line comments", f"[\n// the dose\n{D},\n{R} // the risk\n]", (REPAIRED,)),
    ("block comments", f"[{D}, /* then */ {R}]", (REPAIRED,)),
    ("comma missing", f"[{D}\n{R}]", (REPAIRED,)),
    ("Python literals", str([DOSE, RISK]), (REPAIRED,)),
    ("no quotes around keys", BOTH.replace('"title"', "title").replace('"weight"', "weight"), (REPAIRED,)),
]  # fmt: skip


def read(text: str, **fields: Any) -> Answer[Any] | Unreadable:
    return read_json(Reply(text, **fields), "array", KEYS)


def value(text: str) -> Any:
    answer = read(text)
    assert isinstance(answer, Answer), answer
    return answer.value


def why_not(text: str, **fields: Any) -> Unreadable:
    answer = read(text, **fields)
    assert isinstance(answer, Unreadable), answer
    return answer


@each(("text", "notes"), [case[1:] for case in READ_AS_BOTH])
def test_an_ugly_reply_is_read_as_the_list_it_holds(text: str, notes: tuple[str, ...]) -> None:
    answer = read(text)
    assert isinstance(answer, Answer), answer
    risk = {**RISK, "description": "Warns of 'alcohol'."} if "'alcohol'" in text and '"alc' not in text else RISK
    assert answer.value == [DOSE, risk]
    assert answer.notes == notes


# (name, text, a part of the message)
NOT_READ: list[tuple[str, str, str]] = [
    ("prose", "I am not able to write this rubric.", "no JSON array"),
    ("brackets of prose", "The rubric has [3 to 25] items [see above].", "no JSON array"),
    ("a number in brackets that is not closed", "Let x be in [0, 1).", "no JSON array"),
    ("cut inside an entry", f'[{D}, {{"title": "Ri', "never closed"),
    ("cut between entries", f"[{D}, ", "never closed"),
    ("cut before the last bracket", BOTH[:-1], "never closed"),
    ("cut inside a wrapper", f'{{"criteria": [{D}, {{"title"', "never closed"),
    ("cut after a full list in it", f'{{"needs": [{D}], "criteria": [{{"title"', "never closed"),
    ("cut in a fence", f"```json\n[{D}, {{\n```\nSorry.", "never closed"),
    ("cut in a string, then started again", f'[{D}, {{"ti\n```json\n{BOTH}\n```', "no JSON array"),
    ("a fence in a string of what was cut off", '[{"d": "Shows ```json [{}]``` and"}, {"d": "', "never closed"),
    ("a stray quote that hides the end", '[{"d": "Uses a 6" pipe", "weight": 3}]', "never closed"),
    ("a stray quote among brackets", '[{"d": "Uses [a 6" pipe]", "weight": 3}]', "never closed"),
    ("cut in Python literals", str([DOSE, RISK])[:-2], "never closed"),
    ("only a draft in thoughts that do not end", f"<think>maybe {BOTH}", "reasoning and no answer"),
    ("a draft in thoughts, a broken answer", f"<think>maybe [{D}]</think>[{R[:-5]}", "never closed"),
    ("an object where entries were left out", f"[{D}, ...]", "no JSON array"),
    ("a comment where entries were left out", f"[{D}, // ... and so on\n]", "no JSON array"),
    ("a placeholder", "[{...}]", "no JSON array"),
    ("NaN", '[{"title": "a", "weight": NaN}]', "NaN"),
    ("minus infinity", '[{"title": "a", "weight": -Infinity}]', "-Infinity"),
    ("a number beyond all floats", '[{"title": "a", "weight": 1e999}]', "inf"),
    ("nested too deep", "[" * 70 + "]" * 70, "deeper than 64"),
    ("nested far too deep", '{"a":' * 5000 + "1" + "}" * 5000, "deeper than 64"),
    ("nothing but quotes", '""', "no JSON array"),
]


@each(("text", "part"), [case[1:] for case in NOT_READ])
def test_a_reply_without_a_whole_list_is_never_read_as_one(text: str, part: str) -> None:
    problem = why_not(text)
    assert part in problem.message
    assert problem.again


def test_what_was_cut_off_is_never_read_even_if_it_closes() -> None:
    problem = why_not(BOTH, finish_reason="length")
    assert (problem.kind, problem.again) == ("truncated", True)


def test_a_refusal_is_not_asked_again() -> None:
    assert why_not("", refusal="I can't help with that.") == Unreadable(
        "refusal", "the model refused: I can't help with that.", again=False
    )
    filtered = why_not(BOTH, finish_reason="content_filter")
    assert (filtered.kind, filtered.again) == ("refusal", False)


@each("text", ["", "  \n ", "<think>all of it</think>"])
def test_a_reply_with_nothing_in_it_is_empty(text: str) -> None:
    assert why_not(text).kind == "empty"


def test_an_empty_list_is_an_answer() -> None:
    assert value("Nothing to add: []") == []
    assert value('```json\n{"criteria": []}\n```') == []


def test_of_two_lists_under_unknown_keys_neither_is_guessed() -> None:
    # The object itself is taken for an entry, in which the reader of items then finds no criterion.
    assert value(f'{{"old": [{D}], "new": [{R}]}}') == [{"old": [DOSE], "new": [RISK]}]


def test_a_list_that_only_names_entries_of_another_contradicts_none() -> None:
    removed = '{"criteria": [%s], "removed": [{"title": "Dose", "reason": "%s"}]}'
    found = read_json(Reply(removed % (D, "merged")), "array", KEYS, "title")
    assert isinstance(found, Answer) and found.value == [DOSE]
    changed = '{"criteria": [%s], "removed": [{"title": "Dose", "weight": 1}]}'
    assert isinstance(read_json(Reply(changed % D), "array", KEYS, "title"), Unreadable)


def test_a_fenced_empty_list_counts_more_than_an_example_in_prose() -> None:
    assert value(f"One could ask for [{D}], but:\n```json\n[]\n```") == []


def test_a_fence_inside_a_description_is_text() -> None:
    text = '[{"description": "Shows\\n```json\\n[1]\\n```\\nas a block"}]'
    assert value(text) == [{"description": "Shows\n```json\n[1]\n```\nas a block"}]


def test_a_think_tag_inside_a_description_is_text() -> None:
    assert value('[{"description": "Closes </think> first"}]') == [{"description": "Closes </think> first"}]


def test_line_breaks_inside_strings_are_kept() -> None:
    assert value('[{"description": "one\ntwo\tthree"}]') == [{"description": "one\ntwo\tthree"}]


def test_typographic_quotes_and_brackets_of_other_scripts_inside_strings_are_text() -> None:
    assert value('[{"description": "说明“剂量”，见「表1」【注】"}]') == [
        {"description": "说明“剂量”，见「表1」【注】"}
    ]


def test_typographic_quotes_around_keys_are_repaired() -> None:
    assert value("[{“title”: “Dose”, “weight”: 7}]") == [{"title": "Dose", "weight": 7}]


@each(
    ("written", "meant"),
    [('the word "dose" once', 'the word "dose" once'), ('the words "a", "b"', 'the words "a", "b"')],
)
def test_quotes_that_should_have_been_escaped_are_repaired(written: str, meant: str) -> None:
    answer = read(f'[{{"description": "Uses {written}", "weight": 3}}]')
    assert isinstance(answer, Answer)
    assert answer.value == [{"description": f"Uses {meant}", "weight": 3}]
    assert answer.notes == (REPAIRED,)


def test_backslashes_of_formulas_survive() -> None:
    # "\f" and "\b" are escapes of JSON, "\a" is none: all three were meant as they stand.
    assert value(r'[{"d": "\frac{1}{2} \beta"}]') == [{"d": r"\frac{1}{2} \beta"}]
    assert value(r'[{"d": "\alpha \beta"}]') == [{"d": r"\alpha \beta"}]


def test_a_key_given_twice_is_read_only_if_both_values_are_equal() -> None:
    answer = read('[{"title": "a", "title": "a"}]')
    assert isinstance(answer, Answer)
    assert (answer.value, answer.notes) == ([{"title": "a"}], ("key 'title' was given twice",))
    # Two criteria that lost the brackets between them: to take either one is to lose the other.
    assert "two values" in why_not('[{"title": "a", "weight": 3, "title": "b", "weight": 3}]').message
    # A space before the colon, or a string that looks like a key, hides no key that is given twice.
    for text in (
        '[{"title": "a", "source": {"page" : 1, "page" : 2}}]',
        r'[{"title": "x\":", "page" : 1, "page" : 2}]',
    ):
        assert "two values" in why_not(text).message


def test_half_of_a_surrogate_pair_is_replaced_and_a_whole_pair_is_kept() -> None:
    assert value('[{"title": "\\ud83d x"}]') == [{"title": "\ufffd x"}]
    assert value('[{"title": "\ud83d x"}]') == [{"title": "\ufffd x"}]
    assert value('[{"title": "\\ud83d\\ude00"}]') == [{"title": "😀"}]


OBJECTS: list[tuple[str, str]] = [
    ("bare", '{"verdict": "MET"}'),
    ("fence and prose", 'Well [1]:\n```json\n{"verdict": "MET"}\n```\nDone {so}.'),
    ("in a list of one", '[{"verdict": "MET"}]'),
    ("enveloped", '{"result": {"verdict": "MET"}}'),
    ("a draft before", '{"verdict": "UNMET"} No, wait.\n{"verdict": "MET"}'),
    ("another object after", '{"verdict": "MET"}\nThe scale is {"MET": 1, "UNMET": 0}.'),
    ("Python literals", "{'verdict': 'MET'}"),
    ("think block", '<think>{"verdict": "UNMET"}?</think>{"verdict": "MET"}'),
]


@each("text", [text for _, text in OBJECTS])
def test_an_object_is_found_by_a_key_it_must_have(text: str) -> None:
    answer = read_json(Reply(text), "object", ("verdict",))
    assert isinstance(answer, Answer), answer
    assert answer.value == {"verdict": "MET"}


def test_a_list_is_no_object_and_an_object_without_the_key_is_not_the_one() -> None:
    for text in ("[1, 2]", '[{"verdict": "MET"}, {"verdict": "MET"}]', '{"answer_is": "MET"}'):
        assert isinstance(read_json(Reply(text), "object", ("verdict",)), Unreadable)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
plain_text = st.text(st.characters(codec="utf-8", exclude_characters="\b\f"))
items = st.lists(
    st.fixed_dictionaries({"title": plain_text, "description": plain_text, "weight": st.integers(0, 10)}),
    min_size=1,
)


@UNTIMED
@given(items, st.sampled_from(["{}", "```json\n{}\n```", "See [1]:\n{}\nDone [x].", "<think>[0]</think>\n{}"]))
def test_whatever_the_texts_are_the_list_comes_back_equal(value: list[dict[str, Any]], around: str) -> None:
    answer = read(around.replace("{}", json.dumps(value, ensure_ascii=False)))
    assert isinstance(answer, Answer), answer
    assert answer.value == value


@UNTIMED
@given(items, st.data())
def test_a_list_cut_anywhere_is_never_read(value: list[dict[str, Any]], data: st.DataObject) -> None:
    whole = json.dumps({"criteria": value}, ensure_ascii=False)
    cut = data.draw(st.integers(1, len(whole) - 1))
    assert isinstance(read(whole[:cut]), Unreadable)


@UNTIMED
@given(st.text(alphabet="[]{}\",:\\'abn1 \n`<>/think."))
def test_no_text_makes_the_reader_fail(text: str) -> None:
    assert isinstance(read(text), Answer | Unreadable)


@UNTIMED
@given(json_values)
def test_no_json_makes_the_reader_fail(value: Any) -> None:
    assert isinstance(read(json.dumps(value)), Answer | Unreadable)


def test_a_text_is_read_without_its_thinking() -> None:
    answer = read_text(Reply("<think>\nhm\n</think>\n\nParis.\n"))
    assert isinstance(answer, Answer)
    assert answer.value == "Paris."


def test_a_text_that_was_cut_off_is_read_only_on_request() -> None:
    reply = Reply("Paris is", finish_reason="length")
    refused, taken = read_text(reply), read_text(reply, whole=False)
    assert isinstance(refused, Unreadable)
    assert refused.kind == "truncated"
    assert isinstance(taken, Answer)
    assert (taken.value, taken.notes) == ("Paris is", ("the text is cut off at the token limit",))


def test_a_text_that_is_all_thinking_is_empty() -> None:
    answer = read_text(Reply("<think>\nwhere was I", finish_reason="length"), whole=False)
    assert isinstance(answer, Unreadable)
    assert answer.kind == "empty"


def test_the_fields_of_an_entry_that_only_its_inner_list_is_taken_from_are_noted() -> None:
    text = '[{"title": "Safety", "weight": 8, "criteria": [{"title": "Dose"}, {"title": "Risk"}]}]'
    answer = read_json(Reply(text), "array", ("criteria",))
    assert isinstance(answer, Answer)
    assert answer.value == [{"title": "Dose"}, {"title": "Risk"}]
    assert answer.notes == ("the fields around the list were left out: title, weight",)
    plain = read_json(Reply('[{"criteria": [{"title": "Dose"}]}]'), "array", ("criteria",))
    assert isinstance(plain, Answer) and plain.notes == ()


@each(
    ("others", "notes"),
    [
        ({"rubric": [{"title": "Dose"}]}, True),
        ({"rubric": [{"title": "Tone"}]}, None),
        ({"rubric": []}, False),
        ({"rubric": ["Tone"]}, False),
        ({"sources": [{"title": "Tone"}]}, True),
        ({"sources": ["Tone"]}, False),
        ({"count": 1}, False),
    ],
)
def test_lists_under_two_known_keys_are_an_answer_only_if_they_are_equal(
    others: dict[str, Any], notes: bool | None
) -> None:
    reply = Reply(json.dumps({"criteria": [{"title": "Dose"}], **others}))
    found = read_json(reply, "array", ("criteria", "rubric"))
    if notes is None:
        assert isinstance(found, Unreadable) and "lists under 'criteria' and under 'rubric'" in found.message
    else:
        assert isinstance(found, Answer) and found.value == [{"title": "Dose"}]
        assert bool(found.notes) is notes


def test_json_inside_a_json_string_is_read_with_its_line_breaks() -> None:
    found = read_json(Reply('"[{\\"title\\": \\"Dose\\"},\n {\\"title\\": \\"Tone\\"}]"'), "array")
    assert isinstance(found, Answer) and found.value == [{"title": "Dose"}, {"title": "Tone"}]
    assert found.notes == ("the JSON came as text inside JSON",)


def test_prose_around_a_list_is_not_taken_for_the_content_of_a_json_string() -> None:
    found = read_json(Reply("Places that matter: [1, 2]"), "array")
    assert isinstance(found, Answer) and (found.value, found.notes) == ([1, 2], ())


@each(("wrappers", "is_found"), [(1, True), (5, True), (6, False)])
def test_a_value_is_found_in_five_wrappers_and_no_more(wrappers: int, is_found: bool) -> None:
    value: Any = {"verdict": "MET"}
    for _ in range(wrappers):
        value = {"result": value}
    found = unwrap(value, WantedValue("object", ("verdict",)), [])
    assert found == ({"verdict": "MET"} if is_found else None)


@each(
    ("text", "notes"),
    [
        ('{"verdict": "MET"}', ()),
        ('[{"verdict": "MET"}]', ("the object came in a list of one",)),
        ('{"box": {"verdict": "MET"}}', ("the object was under 'box'",)),
        ('[{"tone": 1, "style": 2}]', None),
        ('{"box": {"tone": 1, "style": 2}}', None),
        ('[{"verdict": "MET"}, {"verdict": "UNMET"}]', None),
    ],
)
def test_where_an_object_was_found_is_noted(text: str, notes: tuple[str, ...] | None) -> None:
    found = read_json(Reply(text), "object", ("verdict",))
    if notes is None:
        assert isinstance(found, Unreadable)
    else:
        assert isinstance(found, Answer) and (found.value, found.notes) == ({"verdict": "MET"}, notes)


@each(
    ("text", "found"),
    [
        ('["Dose", "Tone"]', ["Dose", "Tone"]),
        ('["{\\"title\\": 1}", "Tone"]', ['{"title": 1}', "Tone"]),
        ('["{set}", "{map}"]', ["{set}", "{map}"]),
        ('["{\\"title\\": 1}", " {\\"title\\": 2}"]', [{"title": 1}, {"title": 2}]),
    ],
)
def test_a_list_of_texts_is_parsed_only_if_all_of_them_are_objects(text: str, found: list[Any]) -> None:
    answer = read_json(Reply(text), "array")
    assert isinstance(answer, Answer) and answer.value == found


@each(("asked", "sent"), [("Score", "Score"), ("itemCount", "itemCount"), ("item_count", "itemCount")])
def test_an_object_is_found_by_the_names_of_a_users_class_and_by_their_usual_spelling(asked: str, sent: str) -> None:
    found = read_json(Reply(f'{{"{sent}": 3}}'), "object", (asked,))
    assert isinstance(found, Answer) and found.value == {sent: 3}
