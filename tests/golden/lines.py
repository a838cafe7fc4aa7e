"""The command lines whose output is kept, and how they run."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from autorubric.cli.app import run

HERE = Path(__file__).parent
STORED = HERE.parent / "stored_runs"
EXAMPLES = HERE.parents[1] / "examples"

_SYNTHESIZE = "synthesize examples/queries.jsonl --id-column id --models builtin/offline"
_SYNTHESIZE_DRY = "synthesize examples/queries.jsonl --models openai/gpt-5.1-mini --out dry --dry-run"
_IMPROVE = "improve examples/tides_rubric.json --labels examples/tides.json --judge builtin/offline"
_STORED = "synthesize queries.jsonl --id-column id --out run --models vllm/writer@http://models.example/v1"

LINES: dict[str, str] = {
    "help": "--help",
    "version": "--version",
    **{
        f"{name}_help": f"{name} --help"
        for name in (
            *("synthesize", "grade", "agree", "serve", "drift", "show", "view", "status", "doctor"),
            *(
                "select",
                "lint",
                "review",
                "convert",
                "labels",
                "report",
                "verify",
                "improve",
                "merge",
                "gates",
                "evolve",
            ),
        )
    },
    "synthesize": f"{_SYNTHESIZE} --out made --show 1 --limit 3",
    "synthesize_again": f"{_SYNTHESIZE} --out made --limit 3",
    "synthesize_dry_run": _SYNTHESIZE_DRY,
    "synthesize_full_dry_run": f"{_SYNTHESIZE_DRY} --profile full --limit 3",
    "synthesize_full": f"{_SYNTHESIZE} --out full --profile full --limit 2",
    "gates": "gates --replay examples/gate_replies.jsonl",
    "gates_json": "gates --replay examples/gate_replies.jsonl --json",
    "gates_record": "gates full --record replies.jsonl --sample 1",
    "synthesize_stored": f"synthesize_basic: {_STORED} --export-only",
    "synthesize_bad_input": "synthesize missing.jsonl --models builtin/offline --out made",
    "grade": "grade labelled.json --judge builtin/offline -o graded -f csv",
    "grade_again": "grade labelled.json --judge builtin/offline -o graded",
    "grade_dry_run": "grade examples/essays.json --judge openai/gpt-5.1-mini -o dry --dry-run",
    "grade_no_judge": "grade examples/essays.json -o nowhere",
    "grade_bad_flag": "grade examples/essays.json --judge a --aggregation most -o nowhere",
    "grade_shard": "grade labelled.json --judge builtin/offline -o part-1 --shard 1/2",
    "grade_processes_dry_run": "grade labelled.json --judge openai/gpt-5.1-mini -o dry --dry-run --processes 2",
    "merge_refused": "merge part-1 -o merged",
    "merge_partial": "merge part-1 -o merged --partial",
    "agree": "agree graded",
    "agree_json": "agree graded --json",
    "agree_csv": "agree graded --csv",
    "agree_md": "agree graded --md",
    "agree_by_judge": "agree graded --by judge",
    "agree_criteria": "agree graded --criteria",
    "agree_corrected": "agree graded --corrected",
    "agree_label_next": "agree graded --label-next 3",
    "agree_panel": "grade_panel: agree run --by judge",
    "agree_stored": "grade: agree run",
    "labels_import": "labels graded --import labelled.json --annotator ana",
    "labels": "labels graded",
    "labels_json": "labels graded --json",
    "agree_pairwise": "grade_panel: agree run --pairwise",
    "agree_pairwise_by_judge": "grade_panel: agree run --pairwise --by judge",
    "agree_two_runs": "grade_panel: agree run --against ../grade/run --pairwise",
    "grade_another": "grade labelled.json --judge builtin/offline -o graded --cannot-assess zero",
    "grade_replaced": "grade labelled.json --judge builtin/offline -o graded --cannot-assess zero --replace",
    "show_graded": "grade_panel: show run e1 --brief",
    "show_failed": "grade: show run e1 --criterion Short",
    "show_query": "synthesize_full: show run q0 --brief",
    "show_json": "synthesize_basic: show run q3 --json",
    "select": "select final.jsonl --candidates candidates.jsonl --judge builtin/offline -o kept",
    "select_dry_run": "select final.jsonl --candidates candidates.jsonl --judge openai/gpt-5.1-mini -o dry --dry-run",
    "select_from_run": "select graded -o chosen --threshold 0.3 --keep all",
    "evolve": "evolve graded --judge builtin/offline --writer builtin/offline -o evolved",
    "evolve_again": "evolve graded --judge builtin/offline --writer builtin/offline -o evolved",
    "improve_dry_run": f"{_IMPROVE} --writer openai/gpt-5.1 -o better --dry-run",
    "improve": f"{_IMPROVE} --writer builtin/offline --proposals proposed.json -o better",
    "improve_again": f"{_IMPROVE} --writer builtin/offline --proposals proposed.json -o better",
    "improve_elsewhere": f"{_IMPROVE} --writer builtin/offline -o another",
    "improve_no_judge": "improve examples/tides_rubric.json --labels examples/tides.json",
    "improve_undo": "improve better/rubric.json --undo Cause -o better",
    "status_improve": "status better",
    "lint": "lint examples/essays.json final.jsonl",
    "lint_json": "lint examples/essays.json final.jsonl --format json",
    "lint_sarif": "lint final.jsonl --format sarif",
    "lint_rules": "lint --list-rules",
    "review": "review vague.yaml --reviewer builtin/offline --query Why? -o reviewed",
    "review_dry_run": "review vague.yaml --reviewer openai/gpt-5.1-mini -o dry --dry-run",
    "review_sarif": "review vague.yaml --reviewer builtin/offline --query Why? -o reviewed --format sarif",
    "convert": "convert final.jsonl rows.jsonl --from rubrichub --to verl --force",
    "convert_json": "convert final.jsonl hb.jsonl --from rubrichub --to healthbench --json",
    "convert_audit": "convert final.jsonl --from rubrichub --polarity audit",
    "convert_list": "convert --list",
    "status_synthesize": "synthesize_basic: status run",
    "status_synthesize_json": "synthesize_basic: status run --json",
    "status_full": "synthesize_full: status run",
    "status_grade": "grade_panel: status run",
    "status_select": "select_sampled: status run",
    "status_serve": "serve: status run",
    "drift": "serve: drift run",
    "view_refused": "view nowhere",
    "drift_json": "serve: drift run --json",
    "drift_md": "serve: drift run --md",
    "report": "grade_panel: report run --format md",
    "report_out": "grade_panel: report run -o report.html",
    "verify": "grade_panel: verify report.html run",
    "serve_refused": "serve --judge vllm/m --host 0.0.0.0 -o nowhere",
}
"""Command lines by the name of their file, in the order in which they run.

`NAME: COMMAND` runs in a copy of the stored run NAME, the others in one folder with the examples and the rows below.
"""

_QUERIES = [
    (
        "q0",
        "How do tides arise?",
        ["Names the moon as the cause.", "Is at most 40 words long.", "Does not list the sun."],
    ),
    (
        "q1",
        "Why is the sky blue?",
        ["Explains scattering.", "Explains scattering.", "Says what it says well and clearly"],
    ),
]
_ESSAYS = ["The moon pulls the water.", "It is the wind that makes tides, and nothing else.", "Tides? No idea."] * 4


@contextlib.contextmanager
def workshop(folder: Path) -> Iterator[None]:
    """`folder` with all inputs, as the current directory, without keys and endpoints in the environment."""
    shutil.copytree(EXAMPLES, folder / "examples")
    for stored in STORED.iterdir():
        if (stored / "run").is_dir():
            shutil.copytree(stored, folder / stored.name)
    rows = [
        {
            "id": name,
            "question": question,
            "rubrics": [{"criterion": text, "points": 3 - n or -1} for n, text in enumerate(criteria)],
        }
        for name, question, criteria in _QUERIES
    ]
    _write(folder / "final.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    answers = [{"id": name, "answers": ["Because of the moon.", "Light scatters."]} for name, *_ in _QUERIES]
    _write(folder / "candidates.jsonl", "".join(json.dumps(row) + "\n" for row in answers))
    _write(folder / "vague.yaml", "- {name: Tone, weight: 3, requirement: Uses an appropriate tone.}\n")
    _write(folder / "labelled.json", json.dumps(_labelled()))
    proposed = {"criterion": "Cause", "requirement": "Names the gravity of the moon as the cause."}
    _write(folder / "proposed.json", json.dumps([proposed]))
    kept = dict(os.environ)
    for name in [name for name in kept if name.endswith(("_API_KEY", "_BASE_URL")) or "proxy" in name.lower()]:
        del os.environ[name]
    os.environ |= {"OPENAI_API_KEY": "sk-golden", "COLUMNS": "100"}
    try:
        with contextlib.chdir(folder):
            yield
    finally:
        os.environ.clear()
        os.environ |= kept


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _labelled() -> dict[str, Any]:
    rubric = [
        {"name": "Moon", "requirement": "Says that the moon pulls the water.", "weight": 3},
        {"name": "Short", "requirement": "Has at most 5 words.", "check": _AT_MOST_5},
        {"name": "Kind", "requirement": "Is kind to the reader.", "weight": 2},
    ]
    labels = [["MET", "MET", "UNMET"], ["UNMET", "UNMET", "MET"], ["UNMET", "MET", "CANNOT_ASSESS"], None]
    items = [
        {"submission": f"{text} ({n})", "description": f"essay {n}", "id": f"e{n}"}
        | ({"ground_truth": labels[n % 4]} if labels[n % 4] else {})
        for n, text in enumerate(_ESSAYS)
    ]
    return {"name": "tides", "prompt": "Explain the tides.", "rubric": rubric, "items": items}


_AT_MOST_5 = {"name": "word_count", "parameters": {"at_most": 5}}


def told(folder: Path) -> Iterator[tuple[str, str]]:
    """The name of each line, and its command, exit status and output with placeholders for what changes."""
    with workshop(folder):
        for name, line in LINES.items():
            place, _, command = line.rpartition(": ")
            out, err = io.StringIO(), io.StringIO()
            with contextlib.chdir(folder / place), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                status = run(shlex.split(command))
            errors = f"--- standard error\n{err.getvalue()}" if err.getvalue() else ""
            yield name, steady(f"$ autorubric {command}\n{out.getvalue()}{errors}--- exit status {status}\n", folder)


_VOLATILE = (
    (
        r"(?m)^\[\d+[^\]]*s\] .* done.*\n(?=\[\d)",
        "",
    ),  # how many lines of progress there are depends on the time
    (r"the last one .* ago", "the last one <seconds> ago"),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?(\+00:00|Z| UTC)?", "<time>"),
    (r"\[\d+[smh]( \d+[smh])?\]", "[<seconds>]"),
    (r"\b(in|for|after|took|ran) (<?\d[\d.,]*) ?(s|ms|seconds|min|h)\b( \d+ ?s\b)?", r"\1 <seconds>"),
    (r"\(\d[\d.,]*(k)?/s\)", "(<rate>)"),
    (r"\d[\d.,]*k? (calls|rows|items)(/s| a second| per second)", r"<rate> \1 per second"),
    (
        r'("(?:idle|start|end|rate|calls_per_second|latency|seconds|[a-z_]*_seconds|[a-z_]*_at)": )[-\d.e]+',
        r"\1<number>",
    ),
    (r"(?<![\d.])\d+\.\d+\.\d+(?!\.\d)(\.dev\d+)?(\+\S+)?", "<version>"),
)


def steady(text: str, folder: Path) -> str:
    """The text with placeholders for paths, times, rates and versions."""
    text = text.replace(str(folder.resolve()), "<folder>").replace(str(folder), "<folder>")
    for pattern, placeholder in _VOLATILE:
        text = re.sub(pattern, placeholder, text)
    # The last digits depend on the processor.
    return re.sub(r"\d+\.\d{7,}(e-?\d+)?", lambda found: f"{round(float(found[0]), 6):g}", text)
