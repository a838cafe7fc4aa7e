"""Every flag of every command with values it cannot take."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from autorubric.cli.flags import FLAGS
from tests.battery.bench import COMMANDS, Bench

NO_NUMBER = ("", "abc", "nan", "-inf", "1e999", "0x10", "no/such/file", "a\nb", "\udcff", "9" * 400)
NO_WHOLE_NUMBER = (*NO_NUMBER, "5.5")
NO_PATH = ("no/such/file", "\udcff", "x" * 5000, "queries.jsonl/under")

SYNTHESIZE_NUMBERS = {flag.name: flag.type for flag in FLAGS if flag.type in (int, float)} | {"show": int}
NUMBERS: dict[str, dict[str, type]] = {
    "synthesize": SYNTHESIZE_NUMBERS,
    "grade": {
        "quorum": int,
        "few-shot": int,
        "limit": int,
        "budget-tokens": int,
        "budget-usd": float,
        "concurrency": int,
        "fail-under": float,
        "temperature": float,
        "max-tokens": int,
        "timeout": float,
        "retry": int,
        "seed": int,
    },
    "agree": {"confidence": float, "replicates": int, "seed": int},
}
BELOW: dict[str, tuple[str, ...]] = {
    "synthesize": tuple(SYNTHESIZE_NUMBERS),
    "grade": ("quorum", "few-shot", "limit", "budget-tokens", "budget-usd", "concurrency", "fail-under", "timeout"),
    "agree": ("confidence", "replicates", "seed"),
}
"""Flags that take nothing below zero."""

CHOICES = {
    "synthesize": ("until", "question-column", "refresh"),
    "grade": (
        "aggregation",
        "ordinal-aggregation",
        "nominal-aggregation",
        "calls",
        "on-failure",
        "cannot-assess",
        "format",
    ),
    "agree": ("by", "cannot-assess", "na"),
}
PATHS = {
    "synthesize": ("config", "prompts", "prices"),
    "grade": ("rubric", "submissions", "training-data", "prices", "prompts"),
    "agree": ("dataset", "against"),
}


def numbers() -> Iterator[object]:
    for command, flags in NUMBERS.items():
        for flag, kind in flags.items():
            values = NO_WHOLE_NUMBER if kind is int else NO_NUMBER
            values = (*values, "-1") if flag in BELOW[command] else values
            for value in values:
                yield pytest.param(command, flag, value, id=f"{command} --{flag} {value[:8]!r}")


def texts() -> Iterator[object]:
    for table, values in ((CHOICES, ("no-such-choice", "\udcff", "9" * 5000)), (PATHS, NO_PATH)):
        for command, flags in table.items():
            for flag in flags:
                for value in values:
                    yield pytest.param(command, flag, value, id=f"{command} --{flag} {value[:8]!r}")


@pytest.mark.parametrize(("command", "flag", "value"), [*numbers(), *texts()])
def test_a_flag_says_what_it_takes(bench: Bench, command: str, flag: str, value: str) -> None:
    # A seed is any whole number, and a file of labels may be of any length.
    if (flag, value) in {("seed", "9" * 400)} and command == "grade":
        pytest.skip("every whole number is a seed")
    bench.refuses([*COMMANDS[command], f"--{flag}={value}"])


@pytest.mark.parametrize("command", ["synthesize", "grade"])
@pytest.mark.parametrize("name", ["", " ", "\udcff", "a\nb", "a\tb", "queries.jsonl", "queries.jsonl/run", "x" * 300])
def test_a_directory_that_cannot_be_one_is_refused(bench: Bench, command: str, name: str) -> None:
    bench.refuses([*COMMANDS[command], "--out", name])


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["frobnicate"], "frobnicate"),
        (["synthesize", "--nope"], "--nope"),
        (["synthesize"], "no input; pass INPUT"),
        (["synthesize", "queries.jsonl", "--models", "m"], "no out; pass --out DIR"),
        (["synthesize", "queries.jsonl", "--out", "out"], "no model plays any role"),
        (["synthesize", "queries.jsonl", "more.jsonl"], "more.jsonl"),
        (["grade"], "nothing to grade"),
        (["grade", "essays.json", "--rubric", "rubric.json"], "brings its own rubric"),
        (["grade", "--rubric", "rubric.json"], "nothing to grade"),
        (["grade", "essays.json", "--judge"], "--judge"),
        (["grade", "essays.json", "--judge", ""], "no model name"),
        (["grade", "essays.json", "--judge", "a", "--judge", "a"], "a"),
        (["grade", "essays.json", "--judge", "a\nb"], "line break"),
        (["grade", "essays.json", "--judge", "opnai/gpt"], "did you mean 'openai'?"),
        (["grade", "essays.json", "--judge", "m", "--quorum", "2"], "more than the 1 judges"),
        (["grade", "essays.json", "--judge", "m", "--few-shot", "1"], "--training-data"),
        (["grade", "essays.json", "--judge", "m", "--judge-key-env", ""], "names no variable"),
        (["agree"], "RUN"),
        (["agree", "prompts"], "prompts holds no experiment"),
        (["agree", "queries.jsonl"], "queries.jsonl"),
        (["agree", "run", "--json", "--csv"], "exclude each other"),
        (["agree", "run", "--criteria", "--against", "run"], "ask one of them"),
    ],
)
def test_a_wrong_command_line_is_explained(bench: Bench, words: list[str], says: str) -> None:
    bench.refuses(words, says)
