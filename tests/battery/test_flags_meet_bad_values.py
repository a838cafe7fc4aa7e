"""Every flag of every command with values it cannot take."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from autorubric.jobs.synthesize import SynthesizeSettings
from autorubric.settings import build_flag, list_kinds
from tests.battery.bench import COMMANDS, Bench
from tests.offenders import offenders

NO_NUMBER = ("", "abc", "nan", "-inf", "1e999", "0x10", "no/such/file", "a\nb", "\udcff", "9" * 400)
NO_WHOLE_NUMBER = (*NO_NUMBER, "5.5")
NO_PATH = ("no/such/file", "\udcff", "x" * 5000, "queries.jsonl/under", "ftp://host/rows", "s3://")

SYNTHESIZE_NUMBERS: dict[str, type] = {
    name.replace("_", "-"): kind
    for name, field in SynthesizeSettings.model_fields.items()
    for kind in list_kinds(field.annotation)
    if kind in (int, float) and build_flag(name, field).shown
}
JUDGING: dict[str, type] = {
    "quorum": int,
    "few-shot": int,
    "budget-tokens": int,
    "budget-usd": float,
    "concurrency": int,
    "temperature": float,
    "max-tokens": int,
    "timeout": float,
    "retry": int,
    "seed": int,
    "repeat": int,
}
NUMBERS: dict[str, dict[str, type]] = {
    "synthesize": SYNTHESIZE_NUMBERS,
    "grade": {"limit": int, "fail-under": float} | JUDGING,
    "improve": {"candidates": int, "rounds": int, "most-criteria": int, "confidence-level": float}
    | {"writer-temperature": float, "writer-max-tokens": int, "budget-usd": float},
    "agree": {"confidence": float, "replicates": int, "rollouts": int, "seed": int, "items": int},
    "select": {"limit": int, "threshold": float, "margin": float} | JUDGING,
    "sample": {"k": int, "sample-temperature": float, "sample-max-tokens": int},
    "serve": {"port": int, "queue": int, "deadline": float, "max-body-mb": float, "grace": float}
    | {"audit-share": float, "audit-budget": float, "audit-tokens": int, "audit-tolerance": float}
    | {"repeat-share": float, "dropout": float}
    | JUDGING,
    "review": {name: kind for name, kind in JUDGING.items() if name not in ("quorum", "few-shot", "seed", "repeat")},
    "drift": {"windows": int, "criteria": int},
    "view": {"port": int},
}
BELOW: dict[str, tuple[str, ...]] = {
    "synthesize": tuple(SYNTHESIZE_NUMBERS),
    "grade": (
        "quorum",
        "repeat",
        "few-shot",
        "limit",
        "budget-tokens",
        "budget-usd",
        "concurrency",
        "fail-under",
        "timeout",
    ),
    "improve": ("candidates", "rounds", "most-criteria", "confidence-level", "writer-max-tokens", "budget-usd"),
    "agree": ("confidence", "replicates", "rollouts", "seed", "items"),
    "sample": ("k", "sample-max-tokens"),
    "select": ("threshold", "margin", "budget-usd", "budget-tokens", "limit"),
    "serve": ("port", "queue", "deadline", "max-body-mb", "grace", "audit-share", "dropout", "budget-usd", "timeout"),
    "review": ("budget-tokens", "budget-usd", "concurrency", "max-tokens", "timeout", "retry"),
    "drift": ("windows", "criteria"),
    "view": ("port",),
}
"""Flags that take nothing below zero."""

CHOICES = {
    "synthesize": ("until", "question-column", "refresh", "base-url", "api-key-env", "upload"),
    "grade": (
        "aggregation",
        "ordinal-aggregation",
        "nominal-aggregation",
        "calls",
        "on-failure",
        "cannot-assess",
        "format",
        "base-url",
        "api-key-env",
        "judge-key-env",
        "upload",
        "shard",
    ),
    "improve": ("measure", "split", "group-by", "criterion", "score", "calls", "column", "writer-key-env"),
    "agree": ("by", "cannot-assess", "na"),
    "select": ("keep", "trainer", "aggregation", "calls", "cannot-assess", "base-url", "api-key-env", "upload"),
    "serve": ("host", "formula", "aggregation", "calls", "cannot-assess", "token-env", "base-url", "api-key-env"),
    "lint": ("format", "fail-on", "select", "ignore"),
    "review": ("format", "fail-on", "base-url", "api-key-env"),
    "convert": ("from", "to", "polarity", "extras"),
    "report": ("format", "items"),
}
PATHS = {
    "synthesize": ("config", "prompts", "prices"),
    "grade": ("rubric", "submissions", "training-data", "prices", "prompts"),
    "improve": ("labels", "proposals", "prices", "prompts", "used"),
    "agree": ("dataset", "against"),
    "select": ("candidates", "training-data", "prices", "prompts", "log-json"),
    "serve": ("training-data", "prices", "prompts", "log-json"),
    "review": ("prices", "log-json"),
    "convert": ("against",),
    "report": ("against", "out"),
    "verify": ("against",),
}


def wrong(command: str) -> Iterator[tuple[str, str]]:
    """The flags of a command, each with the values it cannot take."""
    numbers = NUMBERS.get(command, {})
    for turn, (flag, kind) in enumerate(numbers.items()):
        # One parser reads all whole numbers of a command and one all others: the first flag of either meets every
        # value, each other one a third of them.
        values: tuple[str, ...] = NO_WHOLE_NUMBER if kind is int else NO_NUMBER
        if flag != next(name for name in numbers if numbers[name] is kind):
            values = values[turn % 3 :: 3]
        for value in (*values, "-1") if flag in BELOW[command] else values:
            # Every whole number is a seed of a judge.
            if (flag, value) != ("seed", "9" * 400) or command == "agree":
                yield flag, value
    for table, texts in ((CHOICES, ("no-such-choice", "\udcff", "9" * 5000)), (PATHS, NO_PATH)):
        yield from ((flag, value) for flag in table.get(command, ()) for value in texts)


def flagged(flag: str, value: str) -> tuple[str, ...]:
    """A flag with its value, as it is typed."""
    return (f"--{flag}={value}",) if len(flag) > 1 else (f"-{flag}", value)


@pytest.mark.parametrize("command", sorted({*NUMBERS, *CHOICES, *PATHS}))
def test_a_flag_says_what_it_takes(bench: Bench, command: str) -> None:
    with offenders() as case:
        for flag, value in wrong(command):
            with case(f"--{flag} {value[:8]!r}"):
                bench.refuses([*COMMANDS[command], *flagged(flag, value)])


def test_a_directory_that_cannot_be_one_is_refused(bench: Bench) -> None:
    names = (
        "",
        " ",
        "\udcff",
        "a\nb",
        "a\tb",
        "queries.jsonl",
        "queries.jsonl/run",
        "x" * 300,
        "s3://bucket/run",
        "ftp://host/run",
    )
    with offenders() as case:
        for command in ("synthesize", "grade", "select", "serve"):
            for name in names:
                with case(f"{command} {name[:20]!r}"):
                    bench.refuses([*COMMANDS[command], "--out", name])


OFFLINE = ["synthesize", "queries.jsonl", "--out", "out", "--models", "builtin/offline"]


WRONG_LINES: list[tuple[list[str], str]] = [
    (["frobnicate"], "frobnicate"),
    (["synthesize", "--nope"], "--nope"),
    (["synthesize"], "no queries; pass INPUT"),
    (["synthesize", "queries.jsonl", "--out", "out"], "no model; pass --models MODEL"),
    (["synthesize", "queries.jsonl", "more.jsonl"], "more.jsonl"),
    (["grade"], "nothing to grade"),
    (["grade", "essays.json", "--rubric", "rubric.json"], "has its own rubric"),
    (["grade", "--rubric", "rubric.json"], "nothing to grade"),
    (["grade", "essays.json", "--judge"], "--judge"),
    (["grade", "essays.json", "--judge", ""], "not a model name"),
    (["grade", "essays.json", "--judge", "a", "--judge", "a"], "a"),
    (["grade", "essays.json", "--judge", "a\nb"], "line break"),
    (["grade", "essays.json", "--judge", "opnai/gpt"], "did you mean 'openai'?"),
    (["grade", "essays.json", "--judge", "builtin/offline@{url}"], "remove its base URL"),
    (
        ["select", "final.jsonl", "--sample", "m@{url}", "--judge", "builtin/offline@{url}"],
        "remove its base URL",
    ),
    (
        ["select", "final.jsonl", "--sample", "builtin/offline@{url}", "--judge", "j@{url}"],
        "remove its base URL",
    ),
    (["serve", "--judge", "builtin/offline@{url}", "--port", "0"], "remove its base URL"),
    ([*OFFLINE, "--merge-base-url", "{url}"], "merge: a built-in model runs in this process and has no address"),
    (["grade", "essays.json", "--judge", "m", "--quorum", "2"], "more than the number of judges, 1"),
    (["grade", "essays.json", "--judge", "m", "--few-shot", "1"], "--training-data"),
    (["grade", "essays.json", "--judge", "m", "--judge-key-env", ""], "not the name of an environment variable"),
    (["agree"], "RUN"),
    (["agree", "prompts"], "prompts is not a run directory"),
    (["agree", "queries.jsonl"], "queries.jsonl"),
    (["agree", "run", "--json", "--csv"], "are mutually exclusive"),
    (["select", "final.jsonl", "--out", "out"], "or --sample MODEL (in Python: candidates, sample)"),
    (["select", "final.jsonl", "--candidates", "candidates.jsonl"], "pass --judge MODEL"),
    (["select", "final.jsonl", "--candidates", "candidates.jsonl", "--sample", "m"], "are mutually exclusive"),
    (["select", "final.jsonl", "--sample", "m", "--sample", "m", "--judge", "j"], "twice"),
    (["select", "graded", "--judge", "j", "--out", "out"], "graded is a finished grading run"),
    (["select", "graded", "--out", "graded"], "pass another --out"),
    (["select", "none.csv", "--judge", "j"], "Data not found: none.csv"),
    (["serve", "--judge", "m", "--host", "0.0.0.0"], "pass --token-env NAME"),
    (["serve", "--judge", "m", "--audit-share", "0"], "--audit-share is 0.0"),
    (["serve", "--audit", "m"], "pass --judge MODEL as well"),
    (["serve", "--judge", "m", "--log-prompts"], "or pass --log-json FILE"),
    (["serve", "--judge", "m@{url}", "--out", "out", "--host", "203.0.113.7", "--token-env", "HOME"], "listen"),
    (["lint"], "no input file"),
    (["lint", "essays.csv"], "essays.csv:2: the row has no rubric"),
    (["lint", "none.json", "gone.json"], "gone.json"),
    (["convert"], "no input file"),
    (["convert", "final.jsonl"], "no output file"),
    (["convert", "final.jsonl", "rows.jsonl"], "--to"),
    (["convert", "final.jsonl", "rows.csv", "--to", "rurl"], "rurl is stored in .parquet or .jsonl files"),
    (["convert", "final.jsonl", "final.jsonl", "--to", "rar", "--force"], "is also the input file"),
    (["convert", "final.jsonl", "other.jsonl", "--to", "rar"], "--force"),
    (["convert", "final.jsonl", "prompts", "--to", "rar"], "prompts"),
    (["convert", "final.jsonl", "none/rows.jsonl", "--to", "rar"], "the directory none does not exist"),
    (["convert", "final.jsonl", f"{'x' * 300}.jsonl", "--to", "rar"], "x"),
    (["convert", "final.jsonl", "a\0.jsonl", "--to", "rar"], "null byte"),
    (["convert", "a\0.jsonl", "b.jsonl", "--to", "rar"], "null byte"),
    (["convert", "final.jsonl", "/dev/full/x.jsonl", "--to", "rar"], "/dev/full"),
    (["convert", "final.jsonl", "/proc/x.jsonl", "--to", "rar"], "/proc/x.jsonl"),
    (["convert", "final.jsonl", "prometheus.json", "--to", "healthbench", "--strict"], "prometheus.json"),
    (["agree", "run", "--pairwise"], "one judge"),
    (["agree", "run", "--pairwise", "--criteria"], "use one of them"),
    (["agree", "run", "--items", "3"], "has no effect"),
    (["show"], "RUN"),
    (["show", "nowhere"], "nowhere does not exist; expected a run directory"),
    (["show", "rewards"], "rewards is a run of service"),
    (["show", "run", "e9"], "the run has no item 'e9'"),
    (["show", "run", "-1"], "-1"),
    (["show", "run", "e1", "--criterion", "Tone"], "it has Short, C2"),
    (["status"], "RUN"),
    (["status", "nowhere"], "nowhere does not exist"),
    (["status", "prompts"], "prompts is not a run directory"),
    (["status", "queries.jsonl"], "queries.jsonl is not a run directory: it is a file"),
    (["status", "a\0b"], "null byte"),
    (["status", "x" * 5000], "does not exist; expected a run directory"),
    (["view"], "RUN"),
    (["view", "nowhere"], "nowhere does not exist"),
    (["view", "prompts"], "prompts is not a run directory"),
    (["view", "run", "queries.jsonl"], "queries.jsonl is not a run directory"),
    (["view", "a\0b"], "null byte"),
    (["view", "run", "--host", "0.0.0.0"], "pass --token-env NAME"),
    (["view", "run", "--host", "203.0.113.7", "--token-env", "HOME"], "listen"),
    (["drift"], "RUN"),
    (["drift", "nowhere"], "nowhere does not exist"),
    (["drift", "prompts"], "prompts is not a run directory"),
    (["drift", "queries.jsonl"], "queries.jsonl is not a run directory"),
    (["drift", "a\0b"], "null byte"),
    (["drift", "x" * 5000], "does not exist; expected a run directory"),
    (["drift", "run"], "run contains no rewards yet"),
    (["drift", "rewards", "--json", "--md"], "are mutually exclusive"),
    (["report"], "RUN"),
    (["report", "nowhere"], "nowhere does not exist"),
    (["report", "prompts"], "prompts is not a run directory"),
    (["report", "rewards"], "has graded nothing"),
    (["report", "a\0b"], "null byte"),
    (["report", "x" * 5000], "does not exist; expected a run directory"),
    (["report", "run", "--out", "report.json"], "--force"),
    (["report", "run", "--items", "worst:-1"], "worst:50"),
    (["verify", "report.json"], "RUN"),
    (["verify", "queries.jsonl", "run"], "it does not say how it was made"),
    (["verify", "nowhere.html", "run"], "nowhere.html"),
    (["verify", "report.json", "nowhere"], "nowhere does not exist"),
    (["doctor", "--base-url", "file:///etc/passwd"], "file:///etc/passwd"),
    (["doctor", "--base-url", "http://169.254.169.254/"], "169.254.169.254"),
    (["doctor", "--base-url", "http://u:p@host/"], "credentials"),
    (["doctor", "--base-url", "http://localhost:9", "--api-key-env", "NO_SUCH_VARIABLE"], "NO_SUCH_VARIABLE"),
    (["doctor", "--api-key-env", "SOME_KEY"], "pass --base-url URL or --model MODEL as well"),
    (["doctor", "--base-url", "http://localhost:9", "--api-key-env", ""], "not the name of an environment variable"),
    (["doctor", "--base-url", "https://host/v1?api-key=planted"], "looks like a key"),
    (["doctor", "--model", ""], "is not a model name"),
    (["doctor", "--model", "m@http://u:p@host/v1"], "credentials"),
    (["agree", "run", "--criteria", "--against", "run"], "use one of them"),
]


def test_a_wrong_command_line_is_explained(bench: Bench) -> None:
    with offenders() as case:
        for words, says in WRONG_LINES:
            with case(" ".join(words)[:100]):
                bench.refuses(words, says)


NAMED = [
    *(("grade", flag, "no-such-choice") for flag in CHOICES["grade"]),
    *((command, "cannot-assess", "no-such-choice") for command in ("select", "serve")),
    *(
        (command, flag, "nan")
        for command in ("grade", "select", "serve")
        for flag in ("budget-usd", "escalate-below", "temperature", "timeout")
    ),
    ("sample", "sample-temperature", "nan"),
    ("sample", "temperature", "3"),
    *(("synthesize", flag, "-1") for flag in SYNTHESIZE_NUMBERS if SYNTHESIZE_NUMBERS[flag] is int),
    *(("lint", flag, " , ") for flag in ("select", "ignore")),
    ("synthesize", "evolved-share", "2"),
    ("doctor", "out", "\udcff"),
]


def test_a_wrong_value_is_told_under_the_name_of_its_flag(bench: Bench) -> None:
    with offenders() as case:
        for command, flag, value in NAMED:
            with case(f"{command} --{flag} {value!r}"):
                more = ("--escalate-to", "strong@{url}") if flag == "escalate-below" else ()
                bench.refuses([*COMMANDS[command], *more, f"--{flag}={value}"], f"--{flag}")


def test_the_key_of_a_role_is_named_by_its_variable(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUBRIC_A_API_KEY", "two words")
    bench.refuses(COMMANDS["synthesize"], "RUBRIC_A_API_KEY contains characters that no key has")


def checked(bench: Bench) -> None:
    """A dataset, and rows to select from, that need no judge."""
    check = {"name": "word_count", "parameters": {"at_least": 2}}
    rubric = [{"name": "Long", "requirement": "Has 2 words.", "check": check}]
    dataset = {"prompt": "Explain.", "rubric": rubric, "items": [{"submission": "So it is.", "description": "it"}]}
    (bench.folder / "checked.json").write_text(json.dumps(dataset))


OF_JUDGES = [
    ("--judge-key-env=SOME_KEY",),
    ("--aggregation=any", "--ordinal-aggregation=mean", "--nominal-aggregation=mode", "--quorum=1"),
    ("--calls=per_item", "--evidence", "--seed=3", "--no-prefix-first"),
    ("--escalate-to=strong@{url}", "--escalate-below=0.5"),
    ("--few-shot=1", "--training-data=labelled.json"),
    ("--temperature=0.0", "--max-tokens=2048", "--prompts=judging"),
    ("--repeat=3",),
]


def test_flags_of_judges_are_refused_where_nobody_judges(bench: Bench) -> None:
    checked(bench)
    with offenders() as case:
        for words in (("grade", "checked.json"), ("select", "checked.json"), ("serve", "--port", "0")):
            for flags in OF_JUDGES:
                with case(f"{words[0]} {' '.join(flags)}"):
                    named = ", ".join(flag.partition("=")[0] for flag in flags)
                    bench.refuses([*words, "--out", "out", *flags], f"{named} ", "judge")


def test_limits_hold_where_nobody_judges_too(bench: Bench) -> None:
    checked(bench)
    limits = ("--budget-usd", "1", "--timeout", "5", "--retry", "1", "-j", "4", "--cannot-assess", "fail")
    bench.accepts(["grade", "checked.json", "--out", "out", *limits])
