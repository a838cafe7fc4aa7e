"""Whatever a file, a reply or a command line holds: no exception outside the error model reaches anybody."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autorubric import Rubric, RubricDataset
from autorubric.cli.app import run
from autorubric.errors import AutorubricError
from autorubric.files import iter_jsonl, parse_json, read_document
from autorubric.files.strict_yaml import parse_yaml
from autorubric.graders.judge_replies import read_said
from autorubric.llm.http.prices import read_price_file
from autorubric.llm.http.retry import classify_response
from autorubric.llm.http.secrets import check_base_url
from autorubric.llm.http.transport import HttpReply
from autorubric.llm.http.wire import read_reply
from autorubric.llm.request import Answer, Reply, Unreadable
from autorubric.llm.structured import read_json
from autorubric.prompts import load_prompts
from autorubric.synthesis.query_file import QueryFile
from autorubric.synthesis.synthesis_settings import SynthesisSettings

# AUTORUBRIC_EXAMPLES=10000 widens the search.
EXAMPLES = settings(
    max_examples=int(os.environ.get("AUTORUBRIC_EXAMPLES", "15")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
SIGNS = st.text(st.sampled_from("[]{}\"':,-&*!|>?%#@`\n\t \\/.0123456789eEnulltruefasé\ud83d\x00\u2028"), max_size=60)
KEYS = st.sampled_from(
    [
        "question",
        "id",
        "prompt",
        "rubric",
        "items",
        "submission",
        "description",
        "requirement",
        "weight",
        "options",
        "ground_truth",
        "name",
        "metadata",
        "check",
        "label",
        "value",
        "model",
        "roles",
        "input",
        "out",
        "dataset",
    ]
)
SHAPED = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats() | st.sampled_from(["MET", "UNMET", "x", "", "1e3"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=20,
)
BYTES = st.one_of(
    st.binary(max_size=200),
    SIGNS.map(lambda text: text.encode("utf-8", "surrogatepass")),
    JSON.map(lambda value: json.dumps(value).encode()),
    SHAPED.map(lambda value: json.dumps(value).encode()),
)


def only_ours(call: Callable[[], object]) -> None:
    try:
        call()
    except AutorubricError as error:
        assert str(error)


READERS: dict[str, Callable[[Path], object]] = {
    ".json": read_document,
    ".yaml": read_document,
    ".toml": read_document,
    ".jsonl": lambda path: list(iter_jsonl(path)),
    "rubric.json": Rubric.from_file,
    "rubric.yaml": Rubric.from_file,
    "dataset.json": RubricDataset.from_file,
    "dataset.yaml": RubricDataset.from_file,
    "dataset.jsonl": RubricDataset.from_file,
    "prices.yaml": read_price_file,
    "queries.jsonl": lambda path: QueryFile(path, id_column="id").check(),
}


@pytest.mark.parametrize("name", READERS)
@EXAMPLES
@given(data=BYTES)
def test_a_file_is_read_or_refused(name: str, data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"any{name}"
        path.write_bytes(data)
        only_ours(lambda: READERS[name](path))


@EXAMPLES
@given(text=st.text() | SIGNS)
def test_a_text_is_read_or_refused(text: str) -> None:
    for read in (parse_json, parse_yaml, check_base_url):
        only_ours(partial(read, text))


@EXAMPLES
@given(
    text=SIGNS
    | st.sampled_from(["{{ query }}", "{% for i in query %}"]).flatmap(lambda a: SIGNS.map(lambda b: a + b))
)
def test_a_template_is_read_or_refused(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "reference.jinja").write_bytes(text.encode("utf-8", "surrogatepass"))
        only_ours(lambda: load_prompts(folder))


@EXAMPLES
@given(values=SHAPED | st.dictionaries(KEYS, JSON, max_size=6))
def test_settings_are_taken_or_refused(values: Any) -> None:
    if isinstance(values, dict):
        only_ours(lambda: SynthesisSettings.from_values(values))


@EXAMPLES
@given(body=BYTES, status=st.sampled_from([200, 201, 302, 400, 401, 404, 422, 429, 500, 503, 529]))
def test_every_body_of_an_endpoint_is_a_reply_or_a_fault(body: bytes, status: int) -> None:
    reply = HttpReply(status, body, {"Retry-After": body[:20].decode("latin-1")})
    assert classify_response(reply) is not None or read_reply(body, 0.1) is not None


@EXAMPLES
@given(content=JSON, finish=JSON, usage=JSON, extra=st.dictionaries(st.text(max_size=8), JSON, max_size=3))
def test_a_completion_of_any_shape_is_a_reply_or_a_fault(content: Any, finish: Any, usage: Any, extra: Any) -> None:
    message = {"content": content, **extra}
    body = {"choices": [{"message": message, "finish_reason": finish}], "usage": usage, **extra}
    assert read_reply(json.dumps(body).encode(), 0.1) is not None


@EXAMPLES
@given(
    text=st.one_of(st.text(), SIGNS, SHAPED.map(json.dumps), JSON.map(json.dumps)),
    finish=st.sampled_from(["stop", "length"]),
)
def test_what_a_model_says_is_an_answer_or_unreadable(text: str, finish: Any) -> None:
    reply = Reply(text, finish_reason=finish)
    assert isinstance(read_said(reply), Answer | Unreadable)
    for want in ("object", "array"):
        assert isinstance(read_json(reply, want), Answer | Unreadable)


WORDS = st.one_of(
    st.sampled_from(
        ["synthesize", "grade", "agree", "--out", "--judge", "--rubric", "--models", "--limit", "--dry-run"]
    ),
    st.sampled_from(
        ["q.jsonl", "r.yaml", "no-such", ".", "/dev/null", "-", "--", "-1", "nan", "builtin/offline", "m@http://"]
    ),
    st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=12),
)


@EXAMPLES
@given(words=st.lists(WORDS, min_size=1, max_size=7))
def test_a_command_line_ends_with_a_status_and_without_a_fault_of_the_program(words: list[str]) -> None:
    if "--help" in words:
        return
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(StringIO()), redirect_stderr(StringIO()) as told:
        os.chdir(folder)
        try:
            Path("q.jsonl").write_text('{"question": "Why?"}\n', encoding="utf-8")
            Path("r.yaml").write_text("- requirement: Is brief.\n", encoding="utf-8")
            status = run(words)
        finally:
            os.chdir(here)
    assert status in (0, 1, 2, 100), words
    assert "internal error" not in told.getvalue(), (words, told.getvalue())
