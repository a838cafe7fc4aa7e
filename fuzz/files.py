"""Targets that read files, rows and settings."""

from __future__ import annotations

import gzip
import io
import json
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from autorubric import EvalResult, Rubric, RubricDataset
from autorubric.checks import run_check
from autorubric.core.criterion import Criterion
from autorubric.core.rubric_from import rubric_from
from autorubric.dataset.label_table import LabelTable
from autorubric.errors import AutorubricError
from autorubric.files import dump_json, iter_jsonl, parse_json, read_document
from autorubric.files.strict_yaml import dump_yaml, parse_yaml
from autorubric.files.text import decode
from autorubric.formats import FORMATS, detect
from autorubric.formats.format import Record
from autorubric.improvement.labelled import read_labelled
from autorubric.improvement.samples import UsedItems
from autorubric.improvement.writing import read_proposals
from autorubric.jobs.label_next import read_filled_labels
from autorubric.jobs.submissions import Submissions
from autorubric.labels.exchange import read_labels
from autorubric.linting import lint_file
from autorubric.llm.config import LLMConfig
from autorubric.llm.http.prices import read_price_file
from autorubric.llm.http.secrets import parse_keys
from autorubric.prompts import load_prompts
from autorubric.rows import read_rows
from autorubric.synthesis.compiling import recognize_check
from autorubric.synthesis.query_file import QueryFile
from autorubric.synthesis.replayed_gates import read_recorded
from autorubric.synthesis.synthesis_settings import SynthesisSettings
from autorubric.training.candidates import read_candidates
from autorubric.training.queries import read_queries
from autorubric.training.service.calls import read_call
from autorubric.view.report.report_job import verify
from fuzz.target import Target, of_bytes, of_file

_ROOT = Path(__file__).parents[1]
_DATA = _ROOT.parent / "shared" / "data"
_REAL_ROWS = ("healthbench_250.jsonl", "arena_hard_150_with_answers.jsonl", "ifeval_prompts.jsonl")

_CRITERIA: list[dict[str, Any]] = [
    {"name": "Cause", "weight": 5, "requirement": "Names a cause."},
    {"requirement": "Has at most 80 words.", "check": {"name": "word_count", "parameters": {"at_most": 80}}},
    {
        "requirement": "How many?",
        "weight": 2.5,
        "options": [{"label": "One", "value": 0}, {"label": "Two", "value": 1}],
    },
    {"requirement": "Invents a study.", "weight": -6},
]
_RUBRIC = {"guidelines": "Be fair.", "criteria": _CRITERIA}
_DATASET = {
    "name": "causes",
    "prompt": "Why?",
    "rubric": _CRITERIA,
    "rubrics": {"other": [{"requirement": "Is brief."}]},
    "items": [
        {
            "id": "a",
            "description": "x",
            "submission": "Coal.",
            "ground_truth": ["MET", "MET", "One", "UNMET"],
            "metadata": {"n": 1},
        },
        {
            "id": "b",
            "description": "y",
            "submission": "",
            "rubric": {"$ref": "#/rubrics/other"},
            "ground_truth": ["UNMET"],
        },
    ],
}
_TURNS = [
    {"role": "user", "content": "Why?"},
    {"role": "assistant", "content": "What?"},
    {"role": "user", "content": "That."},
]
_QUERY = {"id": "q1", "question": _TURNS, "domain": "Medical", "responses": {"m1": "Coal.", "m2": "Steam."}}
_RECORDED = {
    "query": "Why?",
    "criteria": [{"id": "m1", "description": "Names a cause.", "weight": 3}],
    "judges": ["j"],
    "votes": {"m1": [[True, None]]},
    "relevance": [{"model": "m", "reply": "[]"}],
    "labels": {"ana": {"m1": "good"}},
}
_RECORD = Record(
    (*(Criterion(**one) for one in _CRITERIA),),
    "Why?",
    "q1",
    "Because.",
    "Coal.",
    "Medical",
    "Be fair.",
    {"n": [1, None]},
)
_CALL = {
    "submission": "Coal.",
    "query": _TURNS,
    "rubric": _RUBRIC,
    "reference": "Coal and steam.",
    "id": "r1",
    "length": 9,
    "step": 3,
    "deadline_seconds": 2.5,
}
_CONFIG = {
    "model": "m@http://localhost:1/v1",
    "temperature": 0.2,
    "max_tokens": 9,
    "prices": {"input": 1, "output": 2},
}
_SETTINGS = {
    "input": "examples/queries.jsonl",
    "out": "out",
    "max_criteria": 9,
    "roles": {
        "reference": "builtin/offline",
        "responses": ["builtin/offline", {"model": "builtin/offline", "temperature": 0.7}],
        "rubrics": ["builtin/offline", "builtin/offline"],
        "merge": "builtin/offline",
        "augment": {"model": "builtin/offline", "max_tokens": 4096},
    },
}
_PRICES = {"m": {"input": 1.5, "output": 2, "cached": 0.1}}
_GRADED = RubricDataset("Why?", Rubric([Criterion(name="Cause", requirement="Names a cause.")]))
_GRADED.add_item("Steam.", "")
_GRADED.add_item("Coal.", "", id="a")
_GRADED_LABELS = read_labelled(_GRADED.rubric or Rubric([]), _GRADED, [0, 1])
_LABELS = (
    "item,id,criterion,name,probability,batch,draw,verdict\n"
    '1,a,0,Cause,0.5,0,"2 of 9, seed 0",MET\n2,b,1,Length,1e-3,0,"2 of 9, seed 0",\n'
)


def _records() -> Iterator[dict[str, Any]]:
    """A rich record as each format has it, then rows from the world where they are at hand."""
    for form in FORMATS.values():
        try:
            for part in form.parts(_RECORD) if form.parts else [_RECORD]:
                yield form.write(part).row
        except AutorubricError:
            continue
    for name in _REAL_ROWS:
        if (_DATA / name).exists():
            yield from (row for _, row in islice(iter_jsonl(_DATA / name), 2))


def _texts(values: Iterable[Any]) -> list[str]:
    return [json.dumps(value, ensure_ascii=False) for value in values]


def _tolerant(read: Callable[..., Any], *arguments: Any) -> Any:
    """What `read` returns, or None where it refuses."""
    try:
        return read(*arguments)
    except AutorubricError as error:
        if not str(error):
            raise AssertionError("a refusal without a message") from error
        return None


def _json_text(data: bytes) -> None:
    value = parse_json(decode(data, "any.json"))
    if parse_json(dump_json(value)) != value:
        raise AssertionError("JSON that was read is not what is written")


def _yaml_text(data: bytes) -> None:
    value = parse_yaml(decode(data, "any.yaml"))
    text = _tolerant(dump_yaml, value)
    if text is not None and parse_yaml(text) != value:
        raise AssertionError("YAML that was read is not what is written")


def _rows(data: bytes) -> None:
    """A row by every format, and what it held written in every format."""
    row = parse_json(decode(data, "row"))
    if not isinstance(row, dict):
        return
    _tolerant(detect, row)
    for form in FORMATS.values():
        if not form.matches(row):
            continue
        record = _tolerant(form.read, row)
        for target in FORMATS.values() if record is not None else ():
            written = _tolerant(target.write, record)
            if written is not None:
                dump_json(written.row)


def _rubric_of_a_row(data: bytes) -> None:
    rubric_from(parse_json(decode(data, "row")), "row 1")


def _check(data: bytes) -> None:
    """A check by name, or the check that a wording asks for, on a text."""
    value = parse_json(decode(data, "check"))
    if isinstance(value, str):
        found = recognize_check(value, "Why does 水 boil?")
        value = {"name": found.name, "parameters": found.parameters} if found else None
    if isinstance(value, dict) and isinstance(value.get("parameters", {}), dict):
        text = value.get("text")
        run_check(
            value.get("name", ""), value.get("parameters"), text if isinstance(text, str) else "Coal, 3.2 g.\n- a"
        )


def _templates(path: Path) -> None:
    load_prompts(path.parent)


def _settings(data: bytes) -> None:
    value = parse_json(decode(data, "settings"))
    if isinstance(value, dict):
        SynthesisSettings.from_values(value)


def _row_file(data: bytes) -> None:
    """The rows of a file of any kind, as rows, as items of a dataset and as submissions."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / "rows"
        path.write_bytes(data)
        for read in (
            lambda: list(read_rows(path, [])),
            Submissions(path).read_items,
            lambda: RubricDataset.from_file(path),
        ):
            with suppress(AutorubricError):
                read()


def _arrow(stream: bool) -> bytes:
    table = pa.table({"id": ["q1", "q2"], "question": ["Why?", None], "tags": [["a"], []]})
    sink = io.BytesIO()
    make = pa.ipc.new_stream if stream else pa.ipc.new_file
    with make(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


_ROW_FILES = (
    b'id;Question;messages\r\n1;"Why\n""so""?";[{""role"": ""user""}]\r\n\r\n2;How?;\r\n',
    b"sep=,\nid,response\n1,So.\n",
    "id\tanswer\n1\t因为\n".encode("utf-16"),
    b'{"id": 1, "response": "So."}\n{"id": 2}\n',
    b'[{"submission": "So.", "rubric": [{"requirement": "Is brief"}], "ground_truth": {"C1": "MET"}}]',
    b"- submission: So.\n",
    gzip.compress(b"id,text\n1,So.\n"),
    pa.compress(b"id,text\n1,So.\n", codec="zstd", asbytes=True),
    _arrow(stream=True),
    _arrow(stream=False),
)
_CHECKS = [
    {"name": "regex", "parameters": {"pattern": "(a+)+b"}, "text": "aaaa"},
    {"name": "json_schema", "parameters": {"schema": {"type": "object", "required": ["a"]}}, "text": '{"a": 1}'},
    {"name": "numeric_value", "parameters": {"expected": 3.2, "tolerance": 0.1}, "text": "3,2 g"},
    {"name": "xml_valid", "text": "<a><b/></a>"},
    {"name": "table_shape", "parameters": {"columns": 2}, "text": "|a|b|\n|-|-|\n|1|2|"},
    {"name": "LetterCountingChecker", "parameters": {"N": 3, "relation": "at least"}},
    "The response is no more than 200 words long.",
    "回答不超过三句话。",
    "Mentions 'warfarin' at least twice.",
    "Is written entirely in French.",
]
_TEMPLATE = "{% block user %}Answer {{ query }}.{% endblock %}\n"

_ARGILLA = {
    "id": "a",
    "fields": {"text": "Coal."},
    "metadata": {"criterion": "Cause"},
    "responses": {"label": [{"value": "MET", "user_id": "u1"}], "note": [{"value": "clear", "user_id": "u1"}]},
}
_LABEL_STUDIO = {
    "id": 7,
    "data": {"id": "a"},
    "annotations": [
        {
            "completed_by": {"id": 1, "email": "ana@example.org"},
            "was_cancelled": False,
            "lead_time": 4.2,
            "result": [
                {"from_name": "Cause", "type": "choices", "value": {"choices": ["MET"]}},
                {"from_name": "note", "type": "textarea", "value": {"text": ["clear"]}},
            ],
        }
    ],
}
_EVENT = {
    "id": 1, "at": 1.5, "kind": "label", "item": "a", "criterion": "Cause", "digest": "0" * 32, "annotator": "ana",
    "verdict": "MET", "note": "", "quote": "", "seconds": 2.0, "supersedes": None, "draw": None,
}  # fmt: skip
_REPORT = {"autorubric": "0", "layout": 2, "settings": {"items": "worst:1", "text": True}, "comparison": None}
_REPORTS = (
    json.dumps({**_REPORT, "summary": {"scores": {"mean": 0.5}}, "items": [{"score": 1}]}),
    f"### `run`\n\n| Score | 0.5 |\n\n<!-- {json.dumps(_REPORT)} -->\n",
    f'<!doctype html><section id="summary">0.5</section><template id="numbers">{json.dumps(_REPORT)}</template>',
)


def _verified(path: Path) -> None:
    verify(path, run=_ROOT / "tests" / "stored_runs" / "grade" / "run")


_MANIFEST = {
    "experiment_name": "e",
    "created_at": "2026-01-01T00:00:00",
    "dataset_hash": "0",
    "total_items": 2,
    "status": "completed",
    "completed_indices": [0],
}
_ITEM = {
    "item_idx": 0,
    "duration_seconds": 0.5,
    "error": None,
    "report": {
        "score": 1.0,
        "report_type": "ensemble",
        "criterion_reports": [
            {"criterion": _CRITERIA[0], "final_verdict": "MET", "final_reason": "a: yes", "votes": []}
        ],
    },
}


def _experiment(path: Path) -> None:
    """An experiment of AutoRubric 1.6 with these items."""
    (path.parent / "manifest.json").write_text(json.dumps(_MANIFEST), encoding="utf-8")
    EvalResult.from_experiment(path.parent)


TARGETS: dict[str, Target] = {
    "json": of_bytes(_json_text, _texts([_DATASET, 1.5, "😀", [1e308, -0.0]])),
    "yaml": Target(
        _yaml_text,
        tuple(one.encode() for one in (dump_yaml(_DATASET), "a: &x [1, 0o7, .5]\nb: *x\n", "- 'on'\n# c\n")),
    ),
    "toml": of_file("any.toml", read_document, ['a = 1\n[b]\nc = [1.5, "x"]\nd = 1979-05-27T07:32:00Z\n']),
    "jsonl": of_file("any.jsonl", lambda path: list(iter_jsonl(path)), ["\n".join(_texts([_QUERY, _QUERY]))]),
    "rubric-file": of_file("rubric.yaml", Rubric.from_file, [*_texts([_RUBRIC, _CRITERIA]), dump_yaml(_RUBRIC)]),
    "dataset-file": of_file("set.yaml", RubricDataset.from_file, [*_texts([_DATASET]), dump_yaml(_DATASET)]),
    "query-file": of_file(
        "q.jsonl",
        lambda path: QueryFile(path, id_column="id", responses_column="responses").check(),
        ["\n".join(_texts([_QUERY, {**_QUERY, "id": "q2", "question": "Why?"}]))],
    ),
    "training-file": of_file("t.jsonl", read_queries, _texts(_records())),
    "candidate-file": of_file(
        "c.jsonl",
        lambda path: read_candidates(path, [], []),
        ["\n".join(_texts([{"id": "q1", "answers": {"m": "Coal."}}, {"query": "Why?", "answer": "Steam."}]))],
    ),
    "row-file": Target(_row_file, _ROW_FILES),
    "gate-replies": of_file("replies.jsonl", read_recorded, _texts([_RECORDED])),
    "label-table": of_file(
        "marks", lambda path: LabelTable([path]).join_labels(_GRADED), ["id,criterion,label\na,Cause,MET\n"]
    ),
    "label-file": of_file("labels.csv", lambda path: read_filled_labels([path], _GRADED), [_LABELS]),
    "proposals": of_file(
        "proposals.json",
        lambda path: read_proposals(path, _GRADED_LABELS),
        _texts([[{"criterion": "Cause", "requirement": "Names two causes.", "reason": "Vague."}]]),
    ),
    "used-items": of_file(
        "used.jsonl", lambda path: UsedItems(path).read(), _texts([{"item": "0f", "use": "test", "run_id": "a"}])
    ),
    "imported-labels": of_file(
        "labels.jsonl",
        lambda path: read_labels(_GRADED, [path], "ana"),
        ["id,criterion,label\na,Cause,MET\n", *_texts([_ARGILLA, [_ARGILLA], [_LABEL_STUDIO], _EVENT, _DATASET])],
    ),
    "report": of_file("report", _verified, _REPORTS),
    "lint": of_file("row.jsonl", lambda path: list(lint_file(path)), _texts(_records())),
    "rows": of_bytes(_rows, _texts(_records())),
    "row-rubric": of_bytes(_rubric_of_a_row, _texts([_RUBRIC, *_records()])),
    "checks": of_bytes(_check, _texts(_CHECKS)),
    "reward-call": Target(
        read_call,
        tuple(
            one.encode()
            for one in _texts([_CALL, {"items": [_CALL]}, {"query": ["a"], "prompts": ["a"], "labels": ["x"]}])
        ),
    ),
    "settings": of_bytes(_settings, _texts([_SETTINGS])),
    "model-config": of_file("model.yaml", LLMConfig.from_yaml, _texts([_CONFIG])),
    "experiment": of_file("items.jsonl", _experiment, [json.dumps(_ITEM) + "\n"]),
    "env-file": of_bytes(lambda data: parse_keys(decode(data, ".env")), ["OPENAI_API_KEY='sk-1' # a\nexport B=2\n"]),
    "prices": of_file("prices.yaml", read_price_file, _texts([_PRICES])),
    "template": of_file("reference.jinja", _templates, [_TEMPLATE]),
}
"""By name."""
