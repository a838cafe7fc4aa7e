"""The work of a scan is counted in steps, not in seconds."""

from __future__ import annotations

from autorubric.llm.reply_json import scan_json
from tests.offenders import each

SIZE = 300_000


@each(
    "text",
    [
        "[" * SIZE,
        '[{"a":' * (SIZE // 6),
        "```json\n[\n" * (SIZE // 10),
        '["' + '\\"' * (SIZE // 2),
        "[see " * (SIZE // 5),
        '[ "a" ' * 60 + '"b" ' * (SIZE // 4),
        "[x" * 60 + '"" ' * (SIZE // 3) + "]" * 60,
        "[}" * (SIZE // 2),
        '"[' * (SIZE // 2),
    ],
)
def test_no_text_takes_more_than_a_few_steps_a_character(text: str) -> None:
    # At most 2 steps a character in all, and the last look may take one more a character.
    assert scan_json(text).steps <= 3 * len(text) + 1000


def test_steps_grow_no_faster_than_the_text() -> None:
    text = '[ "a" ' * 60 + '"b" ' * 1000
    assert scan_json(text * 8).steps <= 8 * scan_json(text).steps + 1000


def test_brackets_inside_strings_do_not_count() -> None:
    text = 'x {"a": "]}\\"]", "b": [1]} y'
    assert [text[span.start : span.end] for span in scan_json(text).spans] == ['{"a": "]}\\"]", "b": [1]}']


def test_what_follows_a_broken_stretch_is_marked() -> None:
    scan = scan_json('{"a": [1, {"b": 2}')
    assert scan.broken == 0
    assert [span.in_broken for span in scan.spans] == [True]
