"""How models are reached: one address and one key for all of them, or for each its own."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from autorubric import Criterion, LLMConfig, Rubric
from autorubric.cli.app import run
from autorubric.errors import ConfigError
from autorubric.graders import CriterionGrader
from autorubric.graders.assembly import JudgeSpec
from autorubric.jobs.evolve import EvolveSettings
from autorubric.jobs.judges import JudgeSettings
from autorubric.llm.http.providers import resolve
from autorubric.pytest_plugin import assert_rubric
from autorubric.synthesis.slots import build_configs
from autorubric.synthesis.synthesis_settings import SynthesisSettings
from autorubric.testing import LoopbackEndpoint
from autorubric.training import Sample, make_rewarder, rewards_now
from autorubric.training.adapters.verl import HttpRewards, compute_score
from tests.offenders import each
from tests.warm_commands import WarmProcess

KEY = "key-of-the-test-8d1f"
RUBRICS = [{"criterion": "Is right.", "points": 6}]
KEYED = ("--api-key-env", "TEST_MODELS_KEY")


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TEST_MODELS_KEY", KEY)
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    Path("q.csv").write_text("question\nWhy is the sky blue?\n", encoding="utf-8")
    Path("final.jsonl").write_text(
        json.dumps({"question": "Why?", "id": "q0", "rubrics": RUBRICS}) + "\n", encoding="utf-8"
    )
    Path("answers.jsonl").write_text(json.dumps({"id": "q0", "answer": "Because."}) + "\n", encoding="utf-8")
    Path("rubric.json").write_text(json.dumps([{"requirement": "Is kind."}]), encoding="utf-8")
    Path("essays.jsonl").write_text(json.dumps({"id": "e1", "submission": "An essay."}) + "\n", encoding="utf-8")
    return tmp_path


@pytest.fixture
def endpoint() -> Iterator[LoopbackEndpoint]:
    with LoopbackEndpoint(key=KEY, models=("m",)).in_thread() as running:
        yield running


def models(endpoint: LoopbackEndpoint) -> Counter[str]:
    return Counter(str(received.body["model"]) for received in endpoint.received)


ROLES = {
    f"--{role}-model{letter}": f"{role}{letter}"
    for role, letters in {"reference": [""], "response": ["-a", "-b"], "rubric": ["-a", "-b"]}.items()
    for letter in letters
} | {"--merge-model": "merge", "--augment-model": "augment"}
SYNTHESIZE = ("synthesize", "q.csv", "-o", "out")
GRADE = ("grade", "--submissions", "essays.jsonl", "--rubric", "rubric.json", "-o", "out")
SELECT = ("select", "final.jsonl", "-o", "out")
ANSWERS = ("--candidates", "answers.jsonl")
DOCTOR = ("doctor", "--out", ".")

REACHED: dict[str, tuple[tuple[str, ...], dict[str, int]]] = {
    "synthesize, one address": ((*SYNTHESIZE, "--models", "m", "--base-url", "{url}", *KEYED), {"m": 7}),
    "synthesize, in the name": ((*SYNTHESIZE, "--models", "m@{url}", *KEYED), {"m": 7}),
    "synthesize, role by role": (
        (*SYNTHESIZE, *KEYED, *(word for flag, name in ROLES.items() for word in (flag, f"{name}@{{url}}"))),
        dict.fromkeys(ROLES.values(), 1),
    ),
    "grade": ((*GRADE, "--judge", "m", "--base-url", "{url}", *KEYED), {"m": 1}),
    "grade, in the name": ((*GRADE, "--judge", "org/m@{url}", *KEYED), {"org/m": 1}),
    "grade, old flag": ((*GRADE, "--judge", "m@{url}", "--judge-key-env", "TEST_MODELS_KEY"), {"m": 1}),
    "grade, two judges": (
        (*GRADE, "--judge", "a", "--judge", "b@{url}", "--base-url", "{url}", *KEYED),
        {"a": 1, "b": 1},
    ),
    "select": ((*SELECT, *ANSWERS, "--judge", "m", "--base-url", "{url}", *KEYED), {"m": 1}),
    "select, samples": (
        (*SELECT, "--sample", "s", "--judge", "j", "-k", "1", "--base-url", "{url}", *KEYED),
        {"s": 1, "j": 1},
    ),
    "doctor": ((*DOCTOR, "--model", "m", "--base-url", "{url}", *KEYED), {"m": 1}),
    "doctor, in the name": ((*DOCTOR, "--model", "other@{url}", *KEYED), {"other": 1}),
}


@pytest.mark.parametrize(("words", "asked"), REACHED.values(), ids=REACHED)
def test_every_command_takes_an_address_and_a_key_for_its_models(
    words: tuple[str, ...], asked: dict[str, int], endpoint: LoopbackEndpoint
) -> None:
    # The endpoint lets nobody in without the key.
    assert run([word.format(url=endpoint.base_url) for word in words]) == 0
    assert models(endpoint) == asked


def test_an_address_of_a_role_wins_over_that_of_all_models(endpoint: LoopbackEndpoint) -> None:
    with LoopbackEndpoint(key=KEY).in_thread() as other:
        words = ["--models", f"m@{endpoint.base_url}", "--reference-base-url", other.base_url]
        assert run([*SYNTHESIZE, *words, *KEYED]) == 0
        assert (models(endpoint), models(other)) == ({"m": 6}, {"m": 1})
        words = ["--models", "m", "--base-url", endpoint.base_url, "--merge-model", f"n@{other.base_url}"]
        assert run(["synthesize", "q.csv", "-o", "out2", *words, *KEYED]) == 0
        assert (models(endpoint), models(other)) == ({"m": 12}, {"m": 1, "n": 1})


def test_a_config_file_sets_address_and_key_of_all_roles_and_a_role_its_own(
    endpoint: LoopbackEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    roles = "{reference: r, responses: [m, m], rubrics: [m, {model: m, temperature: 0.5}], merge: m, augment: m}"
    Path("synth.yaml").write_text(
        f"input: q.csv\nout: out\nbase_url: {endpoint.base_url}\napi_key_env: WRONG_KEY_OF_RUN\nroles: {roles}\n",
        encoding="utf-8",
    )
    monkeypatch.setenv("WRONG_KEY_OF_RUN", "wrong-key-of-run")
    assert run(["synthesize", "--config", "synth.yaml"]) == 2  # 401: the run's key is used, and is wrong
    assert run(["synthesize", "--config", "synth.yaml", *KEYED]) == 0
    assert models(endpoint)["r"] >= 1 and models(endpoint)["m"] == 6


def test_a_key_of_a_role_wins_over_that_of_all_roles(
    endpoint: LoopbackEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["synthesize", "q.csv", "--models", f"m@{endpoint.base_url}", *KEYED]
    monkeypatch.setenv("MERGE_API_KEY", "wrong-key-of-merge")
    assert run([*words, "-o", "merge-refused"]) == 1
    monkeypatch.setenv("TEST_MODELS_KEY", "wrong-key-of-all")
    assert run([*words, "-o", "all-refused"]) == 2
    for role in ("REFERENCE", "RESPONSE_A", "RESPONSE_B", "RUBRIC_A", "RUBRIC_B", "MERGE", "AUGMENT"):
        monkeypatch.setenv(f"{role}_API_KEY", KEY)
    assert run([*words, "-o", "out"]) == 0


def test_serve_sends_each_judge_its_own_key(endpoint: LoopbackEndpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY_OF_THE_AUDIT", "key-of-the-audit")
    words = ["--judge", "m", "--base-url", endpoint.base_url, *KEYED]
    with LoopbackEndpoint(key="key-of-the-audit").in_thread() as other:
        words += ["--audit", f"n@{other.base_url}", "--audit-key-env", "KEY_OF_THE_AUDIT", "--audit-share", "1"]
        _reward_once(words)
    assert (models(endpoint), models(other)) == ({"m": 1}, {"n": 1})


def _reward_once(words: list[str]) -> None:
    """Start a service, ask for one reward, and stop it."""
    pipe = subprocess.PIPE
    with WarmProcess(["serve", *words, "--port", "0"], stdout=pipe, stderr=subprocess.STDOUT) as process:
        try:
            assert process.stdout is not None
            told = process.stdout.readline()
            url = told.partition("rewards at ")[2].partition("/v1/")[0]
            [reward] = rewards_now(HttpRewards(url), [Sample("So.", Rubric([Criterion(requirement="Is kind.")]))])
            assert reward.value == 1.0
        finally:
            process.terminate()
            process.communicate()


def test_one_key_is_never_sent_to_two_providers() -> None:
    cases: dict[str, tuple[dict[str, Any], bool]] = {
        "a panel": ({"judge": ["openai/a", "anthropic/b"], "judge_key_env": "K"}, False),
        "a cascade": ({"judge": ["openai/a"], "escalate_to": ["anthropic/b"], "api_key_env": "K"}, False),
        "an alias": ({"judge": ["openai/a", "google/b"], "api_key_env": "K"}, False),
        "no named key": ({"judge": ["openai/a", "anthropic/b"]}, True),
        "one provider": ({"judge": ["openai/a", "openai/b"], "api_key_env": "K"}, True),
        "one gateway": ({"judge": ["openai/a", "anthropic/b"], "api_key_env": "K", "base_url": "http://h/v1"}, True),
        "own servers": ({"judge": ["openai/a", "vllm/b", "c@http://h/v1"], "api_key_env": "K"}, True),
        "another host": ({"judge": ["openai/a", "b@https://llm.example.com/v1"], "api_key_env": "K"}, False),
        "addresses": ({"judge": ["a@https://api.openai.com/v1", "b@https://a.ai/v1"], "api_key_env": "K"}, False),
        "regions": ({"judge": ["openai/a", "b@https://eu.api.openai.com/v1"], "api_key_env": "K"}, True),
        "one domain": ({"judge": ["a@https://n1.x.org/v1", "b@https://n2.x.org/v1"], "api_key_env": "K"}, True),
        "subdomains": ({"judge": ["a@https://x.org/v1", "b@https://n1.gpu.x.org/v1"], "api_key_env": "K"}, True),
        "Azure": (
            {"judge": ["a@https://r.openai.azure.com/v1", "b@https://r.services.ai.azure.com/models"]}
            | {"judge_key_env": "K"},
            True,
        ),
        "Bedrock": (
            {"judge": [f"m@https://bedrock-runtime.{r}.amazonaws.com/v1" for r in ("us-east-1", "eu-central-1")]}
            | {"judge_key_env": "K"},
            True,
        ),
        "Bedrock and a machine": (
            {"judge": [f"m@https://{h}.amazonaws.com/v1" for h in ("bedrock.us-east-1", "ec2.us-east-1.compute")]}
            | {"judge_key_env": "K"},
            False,
        ),
        "numbers": ({"judge": ["a@https://8.8.8.8/v1", "b@https://9.8.8.8/v1"], "judge_key_env": "K"}, False),
    }
    for name, (given, accepted) in cases.items():
        try:
            JudgeSettings(**given)
        except ConfigError as error:
            assert re.search(r"the key in K would be sent to [\w.*]+ and ", str(error)), name
            assert not accepted, name
        else:
            assert accepted, name
    evolving = {"run": "r", "judge": "openai/a", "writer": "m@https://llm.example.com/v1", "api_key_env": "K"}
    with pytest.raises(ConfigError, match=r"would be sent to openai and example\.com"):
        EvolveSettings(**evolving)
    assert EvolveSettings(**evolving, writer_key_env="L")
    roles = {"reference": "openai/r", "responses": ["openai/a", "anthropic/b"], "rubrics": ["openai/c"]}
    roles |= {"merge": "openai/m", "augment": "openai/m"}
    settings = SynthesisSettings.model_validate({"input": "q.jsonl", "roles": roles, "api_key_env": "K"})
    with pytest.raises(ConfigError, match="the key in K would be sent to openai and anthropic"):
        build_configs(settings, {})
    assert build_configs(settings, {"RESPONSE_B_API_KEY": "k"})


def test_python_takes_the_address_in_the_name_wherever_a_model_is_named(endpoint: LoopbackEndpoint) -> None:
    rubric = Rubric([Criterion(requirement="Is kind.")])
    name = f"m@{endpoint.base_url}"
    with pytest.MonkeyPatch.context() as surroundings:
        surroundings.setenv("OPENAI_API_KEY", KEY)
        assert_rubric("An essay.", rubric, judge=name)
        assert rubric.grade_sync("An essay.", CriterionGrader(judge_model_config=name)).score == 1.0
        config = LLMConfig(name)
        assert (config.model, config.api_base) == ("m", endpoint.base_url)
        panel = CriterionGrader(judges=[JudgeSpec(name, "one"), JudgeSpec(config, "two")])
        assert rubric.grade_sync("An essay.", panel).score == 1.0
    [reward] = rewards_now(make_rewarder(name, api_key_env="TEST_MODELS_KEY"), [Sample("An essay.", rubric)])
    assert reward.value == 1.0
    row = {"prompt": "Why?", "reward_model": {"rubrics": RUBRICS}}
    found = asyncio.run(
        compute_score("", "So.", "", row, judge="m", base_url=endpoint.base_url, api_key_env="TEST_MODELS_KEY")
    )
    assert found["score"] == 1.0
    assert models(endpoint) == {"m": 6}


def test_one_model_at_two_addresses_is_two_judges(
    endpoint: LoopbackEndpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    with LoopbackEndpoint(key=KEY, models=("m",)).in_thread() as other:
        second = f"m@{other.base_url}"
        words = ["grade", "answers.csv", "--rubric", "rubric.json", "--judge", f"m@{endpoint.base_url}"]
        Path("answers.csv").write_text("submission\nBecause.\n", encoding="utf-8")
        assert run([*words, "--judge", second, *KEYED, "-o", "run", "-f", "csv"]) == 0
        assert (models(endpoint), models(other)) == ({"m": 1}, {"m": 1})
    assert Path("run/results.csv").read_text(encoding="utf-8").splitlines()[0].endswith(f"verdict_m,verdict_{second}")


def test_two_addresses_of_one_model_contradict_each_other() -> None:
    with pytest.raises(ConfigError, match=r"model 'm' has two addresses, in its name and in api_base"):
        LLMConfig("m@http://localhost:1/v1", api_base="http://localhost:2/v1")
    assert LLMConfig("m@http://localhost:1/v1", api_base="http://localhost:1/v1").model == "m"


@each("name", ["vertex/claude@20250929", "org/m@rev", "a@b.example", "m@ftp://h"])
def test_a_name_with_an_at_sign_and_no_web_address_stays_as_it_is(name: str) -> None:
    assert LLMConfig(name).model == name
    assert resolve(LLMConfig(name, api_base="http://localhost:1/v1")).model == name


@pytest.mark.parametrize("command", [(*GRADE, "--judge", "m"), (*SYNTHESIZE, "--models", "m")])
@pytest.mark.parametrize("url", ["", "localhost:8000", "http://a/v1,http://b/v1"])
def test_an_address_that_is_none_is_refused_under_its_flag(
    command: tuple[str, ...], url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*command, "--base-url", url]) == 2
    assert "--base-url" in capsys.readouterr().err
