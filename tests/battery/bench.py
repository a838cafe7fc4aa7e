"""A bench on which a command meets bad input, and what has to hold afterwards.

A command joins the battery with an entry in `COMMANDS` and one in `READS` for each file that it reads; its flags
join with rows in `test_flags_meet_bad_values.py`.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from autorubric.cli.app import run
from autorubric.testing import LoopbackEndpoint

SECONDS = 30
"""After which a command counts as hung."""

KEY = "sk-planted-0123456789abcdef"

RUBRIC: list[dict[str, Any]] = [
    {"name": "Short", "requirement": "Contains at most 5 words.", "weight": 10},
    {"requirement": "Is kind.", "weight": 3},
]
DATASET: dict[str, Any] = {
    "name": "essays",
    "prompt": "Explain.",
    "rubric": RUBRIC,
    "items": [
        {"submission": f"Essay {n}.", "description": f"essay {n}", "id": f"e{n}", "ground_truth": ["MET", "UNMET"]}
        for n in range(3)
    ],
}
DATASET_ROWS = [
    {"dataset": {key: DATASET[key] for key in ("name", "prompt", "rubric")}},
    *DATASET["items"],
]
PRICES = {"judge": {"input": 1.0, "output": 2.0}}
SETTINGS = {"input": "queries.jsonl", "out": "out", "roles": {}, "concurrency": 4}

COMMANDS: dict[str, tuple[str, ...]] = {
    "synthesize": ("synthesize", "queries.jsonl", "--out", "out", "--models", "some-model"),
    "grade": ("grade", "essays.json", "--judge", "judge@{url}", "--out", "out"),
    "improve": (
        *("improve", "rubric.json", "--labels", "varied.json", "--judge", "judge@{url}"),
        *("--writer", "writer@{url}", "--out", "out"),
    ),
    "merge": ("merge", "part-1", "part-2", "--out", "out"),
    "agree": ("agree", "run"),
    "select": ("select", "final.jsonl", "--candidates", "candidates.jsonl", "--judge", "judge@{url}", "--out", "out"),
    "sample": ("select", "final.jsonl", "--sample", "m@{url}", "--judge", "judge@{url}", "--out", "out"),
    "serve": ("serve", "--judge", "judge@{url}", "--out", "out", "--port", "0"),
    "evolve": (
        *("evolve", "rollouts", "--judge", "builtin/offline"),
        *("--writer", "builtin/offline", "--out", "out"),
    ),
    "lint": ("lint", "rubric.json", "--fail-on", "never"),
    "gates": ("gates", "--replay", "replies.jsonl"),
    "review": ("review", "rubric.json", "--reviewer", "judge@{url}", "--out", "out"),
    "convert": ("convert", "final.jsonl", "rows.jsonl", "--to", "verl"),
    "status": ("status", "run"),
    "show": ("show", "run", "e1"),
    "drift": ("drift", "rewards"),
    "view": ("view", "run", "--port", "0"),
    "labels": ("labels", "run"),
    "report": ("report", "run", "--format", "md"),
    "verify": ("verify", "report.json", "run"),
    "doctor": ("doctor",),
}
"""Sound commands; a case adds to one of them or changes a file under it."""


_NEVER = ("--fail-on", "never")
CONVERTED: dict[str, str] = {
    f"{name}{ending}": name
    for name, endings in {
        "autorubric": (".jsonl", ".json", ".yaml"),
        "rubrichub": (".jsonl", ".parquet"),
        "rurl": (".jsonl", ".parquet"),
        "ruft": (".jsonl", ".parquet"),
        "healthbench": (".jsonl", ".json", ".parquet"),
        "rar": (".jsonl", ".json", ".parquet"),
        "verl": (".jsonl", ".parquet"),
        "open-instruct": (".jsonl", ".parquet"),
        "verifiers": (".toml", ".json", ".jsonl"),
        "llmdc": (".json", ".yaml", ".jsonl"),
        "prometheus": (".jsonl", ".json", ".parquet"),
        "paperbench": (".json", ".jsonl"),
    }.items()
    for ending in endings
}
"""Files that are laid out in each format, by the kind of file."""

_RUBRIC = ("grade", "--judge", "judge@{url}", "--out", "out", "--rubric")

_RUN_FILES = ("dataset.json", "manifest.json", "items.jsonl")

READS: dict[str, tuple[str, ...]] = {
    "queries.jsonl": COMMANDS["synthesize"],
    "synth.json": ("synthesize", "--config", "synth.json"),
    "synth.yaml": ("synthesize", "--config", "synth.yaml"),
    "synth.toml": ("synthesize", "--config", "synth.toml"),
    "grade.yaml": ("grade", "--config", "grade.yaml"),
    "grade.toml": ("grade", "--config", "grade.toml"),
    "essays.json": COMMANDS["grade"],
    "essays.yaml": ("grade", "essays.yaml", "--judge", "judge@{url}", "--out", "out"),
    "essays.jsonl": ("grade", "essays.jsonl", "--judge", "judge@{url}", "--out", "out"),
    "rubric.json": (*_RUBRIC, "rubric.json", "--submissions", "answers.json"),
    "rubric.yaml": (*_RUBRIC, "rubric.yaml", "--submissions", "answers.json"),
    "answers.json": (*_RUBRIC, "rubric.json", "--submissions", "answers.json"),
    "answers.yaml": (*_RUBRIC, "rubric.json", "--submissions", "answers.yaml"),
    "answers.jsonl": (*_RUBRIC, "rubric.json", "--submissions", "answers.jsonl"),
    "varied.json": COMMANDS["improve"],
    "proposed.json": (*COMMANDS["improve"], "--proposals", "proposed.json"),
    "prices.json": (*COMMANDS["grade"], "--prices", "prices.json"),
    "prices.yaml": (*COMMANDS["synthesize"], "--prices", "prices.yaml"),
    "labelled.json": (*COMMANDS["grade"], "--few-shot", "1", "--training-data", "labelled.json"),
    "prompts/reference.jinja": (*COMMANDS["synthesize"], "--prompts", "prompts"),
    "judging/judge_binary.jinja": (*COMMANDS["grade"], "--prompts", "judging"),
    "labels.json": ("agree", "run", "--dataset", "labels.json"),
    "labels.csv": ("agree", "run", "--dataset", "partly.json", "--labels", "labels.csv"),
    **{f"run/{name}": COMMANDS["agree"] for name in _RUN_FILES},
    **{f"part-2/{name}": COMMANDS["merge"] for name in _RUN_FILES},
    **{f"shown/{name}": ("show", "shown", "e1") for name in _RUN_FILES},
    **{f"graded/{name}": ("select", "graded", "--out", "out") for name in _RUN_FILES},
    **{f"rollouts/{name}": COMMANDS["evolve"] for name in _RUN_FILES},
    "final.jsonl": COMMANDS["select"],
    "replies.jsonl": COMMANDS["gates"],
    "final.parquet": ("select", "final.parquet", *COMMANDS["select"][2:]),
    "candidates.jsonl": COMMANDS["select"],
    "chosen.yaml": ("select", "chosen.yaml", "--judge", "judge@{url}", "--out", "out"),
    "linted.json": ("lint", "linted.json", *_NEVER),
    "linted.yaml": ("lint", "linted.yaml", *_NEVER),
    "linted.toml": ("lint", "linted.toml", *_NEVER),
    "linted.jsonl": ("lint", "linted.jsonl", *_NEVER),
    "linted.parquet": ("lint", "linted.parquet", *_NEVER),
    **{name: ("convert", name, "rows.jsonl", "--to", "rubrichub") for name in CONVERTED},
    "other.jsonl": (*COMMANDS["convert"], "--against", "other.jsonl"),
    "queries.csv": ("synthesize", "queries.csv", *COMMANDS["synthesize"][2:]),
    "queries.arrow": ("synthesize", "queries.arrow", *COMMANDS["synthesize"][2:]),
    "essays.csv": (*_RUBRIC, "rubric.json", "essays.csv"),
    "final.csv": ("select", "final.csv", *COMMANDS["select"][2:]),
    "candidates.csv": ("select", "final.jsonl", "--candidates", "candidates.csv", *COMMANDS["select"][4:]),
    "linted.csv": ("lint", "linted.csv", *_NEVER),
    "marks.csv": ("agree", "run", "--labels", "marks.csv"),
    "own.csv": ("labels", "run", "--import", "own.csv"),
    "own.jsonl": ("labels", "run", "--import", "own.jsonl", "--annotator", "ana"),
    "given.csv": (*COMMANDS["grade"], "--labels", "given.csv"),
    "report.json": COMMANDS["verify"],
}
"""Every file that a command reads, with a sound command that reads it."""


def told(name: str) -> str:
    """What a message about a file names: of a run its directory."""
    return name.partition("/")[0] if name.endswith(_RUN_FILES) else Path(name).name


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    status: int
    out: str
    err: str


def as_jsonl(rows: Sequence[object]) -> bytes:
    """Rows as the bytes of a JSON Lines file."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def lay_out(folder: Path) -> None:
    """Sound files of every type that the commands read."""
    from autorubric.files.strict_yaml import dump_yaml

    queries = [{"id": f"q{n}", "question": f"Query {n}?", "asked": [f"Query {n}?"]} for n in range(3)]
    (folder / "queries.jsonl").write_bytes(as_jsonl(queries))
    for name, value in (("rubric", RUBRIC), ("essays", DATASET), ("prices", PRICES)):
        (folder / f"{name}.json").write_text(json.dumps(value))
        (folder / f"{name}.yaml").write_text(dump_yaml(value))
    for name in ("labelled.json", "labels.json"):
        (folder / name).write_text(json.dumps(DATASET))
    lay_out_labels(folder)
    partly = [
        {**item, "ground_truth": item["ground_truth"] if n else None} for n, item in enumerate(DATASET["items"])
    ]
    (folder / "partly.json").write_text(json.dumps({**DATASET, "items": partly}))
    (folder / "essays.jsonl").write_bytes(as_jsonl(DATASET_ROWS))
    rubrics = [{"criterion": "Names the cause.", "points": 5}, {"criterion": "Is kind.", "points": 3}]
    final = [{"id": f"q{n}", "question": f"Query {n}?", "rubrics": rubrics} for n in range(3)]
    (folder / "final.jsonl").write_bytes(as_jsonl(final))
    (folder / "one.jsonl").write_bytes(as_jsonl(final[:1]))
    (folder / "other.jsonl").write_bytes(as_jsonl(final))
    (folder / "candidates.jsonl").write_bytes(as_jsonl([{"id": f"q{n}", "answer": "So."} for n in range(3)]))
    (folder / "queries.csv").write_text("id,question\n" + "".join(f"q{n},Query {n}?\n" for n in range(3)))
    (folder / "essays.csv").write_text("id,response\n" + "".join(f"e{n},Essay {n}.\n" for n in range(3)))
    (folder / "candidates.csv").write_text("id,answer\n" + "".join(f"q{n},So.\n" for n in range(3)))
    cell = json.dumps(rubrics).replace('"', '""')
    lines = "".join(f'q{n},Query {n}?,"{cell}"\n' for n in range(3))
    for name in ("final.csv", "linted.csv"):
        (folder / name).write_text(f"id,question,rubrics\n{lines}")
    marks = "".join(f"e{n},{name},MET,ana\n" for n in range(3) for name in ("Short", "C2"))
    words = ("id", "criterion", "label")
    own = [dict(zip(words, (f"e{n}", name, "MET"), strict=True)) for n in range(3) for name in ("Short", "C2")]
    (folder / "own.jsonl").write_bytes(as_jsonl(own))
    for name in ("marks.csv", "given.csv", "own.csv"):
        (folder / name).write_text(f"id,criterion,label,annotator\n{marks}")
    (folder / "chosen.yaml").write_text(dump_yaml(DATASET))
    answers = [{"submission": f"Essay {n}.", "id": f"e{n}"} for n in range(3)]
    (folder / "answers.jsonl").write_bytes(as_jsonl(answers))
    (folder / "answers.json").write_text(json.dumps(answers))
    (folder / "answers.yaml").write_text(dump_yaml(answers))
    roles = {"reference": "m", "responses": ["m", "m"], "rubrics": ["m"], "merge": "m", "augment": "m"}
    settings = {**SETTINGS, "roles": roles}
    (folder / "synth.json").write_text(json.dumps(settings))
    (folder / "synth.yaml").write_text(dump_yaml(settings))
    toml = 'input = "queries.jsonl"\nout = "out"\nconcurrency = 4\n[roles]\n'
    toml += "".join(f"{role} = {json.dumps(model)}\n" for role, model in roles.items())
    (folder / "synth.toml").write_text(toml)
    grading = {"data": "essays.json", "judge": "builtin/offline", "out": "out"}
    (folder / "grade.yaml").write_text(dump_yaml(grading))
    (folder / "grade.toml").write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in grading.items()))
    (folder / "prompts").mkdir()
    (folder / "prompts" / "reference.jinja").write_text("Answer: {{ query | fence('query') }}")
    (folder / "judging").mkdir()
    judging = "{% block user %}{{ submission | fence('text') }}{% endblock %}{% block criterion %} "
    judging += "{{ requirement | fence('criterion') }} Reply as JSON.{% endblock %}"
    (folder / "judging" / "judge_binary.jinja").write_text(judging)


def lay_out_labels(folder: Path) -> None:
    """Labels of items, recorded replies, and the proposals that `improve` reads."""
    labels = 'item,id,criterion,name,probability,batch,draw,verdict\n0,e0,1,C2,0.5,0,"1 of 2, seed 0",MET\n'
    (folder / "labels.csv").write_text(labels)
    said = {"criteria": [{"id": "m1", "description": "Is short.", "weight": 3}], "labels": {"ana": {"m1": "good"}}}
    (folder / "replies.jsonl").write_bytes(as_jsonl([{"query": f"Query {n}?", **said} for n in range(3)]))
    varied = [
        {
            "submission": f"Essay {n}.",
            "description": "",
            "id": f"v{n}",
            "ground_truth": [("MET", "UNMET")[n % 2], "MET"],
        }
        for n in range(16)
    ]
    (folder / "varied.json").write_text(json.dumps({**DATASET, "items": varied}))
    proposed = [{"criterion": "Short", "requirement": "Has five words or fewer.", "reason": "Clearer."}]
    (folder / "proposed.json").write_text(json.dumps(proposed))


def lay_out_formats(folder: Path) -> None:
    """A file in each format and kind of file."""
    import pyarrow as pa

    from autorubric.formats import convert

    for name, form in CONVERTED.items():
        # A document of these is one rubric.
        is_one = form in ("verifiers", "llmdc", "paperbench") and not name.endswith(".jsonl")
        convert(folder / ("one.jsonl" if is_one else "final.jsonl"), folder / name, form)
    for ending in ("json", "yaml", "toml", "jsonl", "parquet"):
        like = {"toml": "verifiers.toml", "jsonl": "final.jsonl", "parquet": "rubrichub.parquet"}
        shutil.copy(folder / like.get(ending, f"rubric.{ending}"), folder / f"linted.{ending}")
    shutil.copy(folder / "rubrichub.parquet", folder / "final.parquet")
    table = pa.table({"id": ["q0", "q1"], "question": ["Query 0?", "Query 1?"]})
    with pa.ipc.new_stream(folder / "queries.arrow", table.schema) as writer:
        writer.write_table(table)


def give_rewards(folder: Path) -> None:
    """What `serve` leaves behind: a ledger with rewards in it."""
    from autorubric import CriterionGrader, Rubric
    from autorubric.llm.records.ledger import Ledger
    from autorubric.runs.manifest import write_manifest
    from autorubric.training.rewarder import Sample
    from autorubric.training.rewards import RewardRule
    from autorubric.training.service.engine import RewardEngine

    check = {"name": "word_count", "parameters": {"at_least": 3}}
    rubric = Rubric.from_dict([{"name": "Long", "requirement": "Has 3 words.", "check": check}])

    async def give(ledger: Ledger) -> None:
        engine = RewardEngine(CriterionGrader.of_checks(), ledger, RewardRule())
        for number in range(8):
            asked = Sample("word " * number, rubric, "Why?", step=number)
            await engine.check([asked])
            await engine.reward(asked)
        await engine.finish(1.0)

    with Ledger.open(folder / "ledger") as ledger:
        asyncio.run(give(ledger))
    write_manifest(folder, {"kind": "service", "status": "completed"})


@dataclass
class Bench:
    """A folder with sound files in it, and an endpoint that counts what it is asked."""

    folder: Path
    endpoint: LoopbackEndpoint
    capture: pytest.CaptureFixture[str]
    sound: Path

    @contextmanager
    def restored(self) -> Iterator[None]:
        """A context after which the folder holds its sound files again, and nothing else."""
        try:
            yield
        finally:
            sound, now = _sound_states(self.sound), _states(self.folder)
            for name in [name for name in now if name not in sound or now[name] != sound[name]]:
                _remove(self.folder / name)
            for name in [name for name in sound if name not in now or now[name] != sound[name]]:
                if sound[name] is None:
                    (self.folder / name).mkdir(exist_ok=True)
                else:
                    shutil.copy2(self.sound / name, self.folder / name)

    def type(self, *words: str) -> Ended:
        """The end of a command, typed in the folder."""
        self.capture.readouterr()
        with _patience():
            status = run([word.replace("{url}", self.endpoint.base_url) for word in words])
        told = self.capture.readouterr()
        return Ended(status, told.out, told.err)

    def refuses(self, words: Sequence[str], *says: str) -> None:
        """Hold the command to the promise: status 2, one message, no call, nothing written."""
        before, asked = inventory(self.folder), self.endpoint.counts.requests
        ended = self.type(*words)
        shown = f"{' '.join(words)}\nstatus {ended.status}\n{ended.out}\n{ended.err}"
        assert ended.status == 2, shown
        assert "Traceback" not in ended.err, shown
        assert ended.err.startswith(("autorubric: ", "Usage: ")), shown
        assert ended.err.count("autorubric: ") == 1, shown
        assert len(ended.err) < 6000, shown
        for part in says:
            assert part in ended.err, f"{part!r} is not in:\n{shown}"
        assert self.endpoint.counts.requests == asked, shown
        assert inventory(self.folder) == before, shown

    def accepts(self, words: Sequence[str]) -> Ended:
        """Hold the command to carry this out."""
        ended = self.type(*words)
        assert ended.status == 0, f"{' '.join(words)}\nstatus {ended.status}\n{ended.out}\n{ended.err}"
        return ended


def _list_paths(folder: str, prefix: str = "") -> Iterator[tuple[str, os.stat_result]]:
    """Every path under a folder, parents first, with its state; several times as fast as `Path.rglob`."""
    with os.scandir(folder) as entries:
        for entry in entries:
            yield prefix + entry.name, entry.stat(follow_symlinks=False)
            if entry.is_dir(follow_symlinks=False):
                yield from _list_paths(entry.path, f"{prefix}{entry.name}/")


def inventory(folder: Path) -> Mapping[str, tuple[int, int]]:
    """Every path under a folder, with its kind and size."""
    return {name: (state.st_mode, state.st_size) for name, state in _list_paths(str(folder))}


def _states(folder: Path) -> dict[str, tuple[int, ...] | None]:
    """Every path under a folder, parents first: None for a folder, else what a change of the file would change."""
    return {
        name: None if stat.S_ISDIR(state.st_mode) else (state.st_mode, state.st_size, state.st_mtime_ns)
        for name, state in _list_paths(str(folder))
    }


@cache
def _sound_states(folder: Path) -> dict[str, tuple[int, ...] | None]:
    return _states(folder)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def _patience() -> Iterator[None]:
    def hung(number: int, frame: FrameType | None) -> None:
        raise AssertionError(f"the command has not ended within {SECONDS} s")

    previous = signal.signal(signal.SIGALRM, hung)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)
