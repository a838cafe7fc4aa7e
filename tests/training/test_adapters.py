"""What trainers call, as their source calls it; with the real trainers in tests_trainers."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import math
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from aiohttp import web

from autorubric import CriterionGrader, Rubric
from autorubric.core.rubric_from import rubric_from
from autorubric.errors import ConfigError, InputError
from autorubric.formats import Record, find_format, write_records
from autorubric.graders.criterion_judge import CriterionJudge
from autorubric.llm.request import Failure, Request
from autorubric.testing import LoopbackEndpoint, PromptSections, ScriptedModel
from autorubric.training.adapters import open_instruct, openrlhf, trl, verifiers, verl
from autorubric.training.adapters.verl import HttpRewards
from autorubric.training.observations import FailureLog
from autorubric.training.queries import read_rubric
from autorubric.training.rewarder import Rewarder, Sample, make_rewarder, rewards_now
from autorubric.training.rewards import RewardFailed, RewardGap, RewardRule
from tests.offenders import each, offenders

RUBRIC = [{"criterion": "Is right.", "points": 3}, {"criterion": "Is kind.", "points": 1}]
MET = '{"explanation": "Yes.", "criterion_status": "MET"}'
UNMET = '{"explanation": "No.", "criterion_status": "UNMET"}'


def says(request: Request) -> str | Failure:
    """A submission that holds 'right' is right, none is kind; on one that holds 'down' the judge fails."""
    shown = PromptSections(request)
    if "down" in shown["submission"]:
        return Failure("server", "HTTP 503: overloaded")
    right = shown["criterion"] == "Is right." and "right" in shown["submission"]
    return MET if right else UNMET


def rewarder(**rule: Any) -> Rewarder:
    return Rewarder(CriterionGrader(judge=CriterionJudge(ScriptedModel(says), "judge")), RewardRule(**rule))


def test_rewards_come_in_order_and_a_failure_is_no_zero(caplog: pytest.LogCaptureFixture) -> None:
    rubric = rubric_from(RUBRIC, "here")
    texts = ["right", "wrong", "down"]
    with caplog.at_level(logging.WARNING, "autorubric.training"):
        found = rewards_now(rewarder(), [Sample(text, rubric, "Why?") for text in texts])
    assert [reward.value for reward in found] == [0.75, 0.0, None]
    [record] = caplog.records
    assert "HTTP 503: overloaded" in record.getMessage() and "the trainer gets none" in record.getMessage()
    caplog.clear()
    for rule in (RewardRule(on_failure="raise"), RewardRule(on_failure="neutral", neutral=0.5)):
        FailureLog(rule).note("timeout: no answer")
    told = " ".join(record.getMessage() for record in caplog.records)
    assert "the trainer gets an error)" in told and "the trainer gets 0.5)" in told


def test_a_judge_that_stays_down_is_logged_ever_more_rarely(caplog: pytest.LogCaptureFixture) -> None:
    rubric = rubric_from(RUBRIC, "here")
    samples = [Sample(f"down {n}", rubric) for n in range(9)]
    with caplog.at_level(logging.WARNING, "autorubric.training"):
        found = rewards_now(rewarder(on_failure="neutral", neutral=0.5), samples)
    assert [reward.value for reward in found] == [0.5] * 9
    # The 1st, 2nd, 4th and 8th failure, and that the whole call has no reward.
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 4 + ["ERROR"]


def test_raise_still_judges_and_logs_the_other_samples(caplog: pytest.LogCaptureFixture) -> None:
    model = ScriptedModel(says)
    source = Rewarder(CriterionGrader(judge=CriterionJudge(model, "judge")), RewardRule(on_failure="raise"))
    rubric = rubric_from(RUBRIC, "here")
    with caplog.at_level(logging.WARNING, "autorubric.training"), pytest.raises(RewardFailed):
        rewards_now(source, [Sample("down", rubric), Sample("right", rubric)])
    assert len(caplog.records) == 1
    assert sum(PromptSections(request)["submission"] == "right" for request in model.requests) == 2


@each(("ask_again", "expected"), [(0.0, 0.75), (3600.0, None)])
def test_a_judge_that_was_away_at_the_start_is_asked_again_in_time(ask_again: float, expected: float | None) -> None:
    away = [True]
    model = ScriptedModel(lambda request: Failure("unreachable", "no answer") if away[0] else says(request))
    grader = CriterionGrader(judge=CriterionJudge(model, "judge"))
    source = Rewarder(grader, ask_again=ask_again)
    rubric = rubric_from(RUBRIC, "here")
    with pytest.raises(RewardFailed, match=r"cannot give one: .*unreachable: no answer"):
        rewards_now(source, [Sample("right", rubric)])
    away[0] = False
    with pytest.raises(RewardFailed) if expected is None else nullcontext():
        assert rewards_now(source, [Sample("right", rubric)])[0].value == expected


def test_a_judge_that_refuses_from_the_start_ends_a_training_and_a_later_refusal_follows_the_policy(
    caplog: pytest.LogCaptureFixture,
) -> None:
    refusal: list[Failure | None] = [None]
    rubric, texts = rubric_from(RUBRIC, "here"), ["right", "wrong"]
    kinds = {"auth": True, "no_model": True, "quota": True, "unreachable": True, "no_reply": True, "server": False}
    for kind, ends in kinds.items():
        refusal[0] = Failure(kind, "HTTP 401: no")  # type: ignore[arg-type]
        model = ScriptedModel(lambda request: refusal[0] or says(request))
        source = Rewarder(CriterionGrader(judge=CriterionJudge(model, "judge")), ask_again=0.0)
        function = trl.reward_function(source)
        calls = {"prompts": ["Why?"] * 2, "completions": texts, "rubrics": [RUBRIC] * 2}
        with pytest.raises(RewardFailed, match=f"cannot give one: .*{kind}: HTTP 401: no") if ends else nullcontext():
            assert function(**calls) == [None, None], kind
        refusal[0] = None
        assert function(**calls) == [0.75, 0.0], kind
        refusal[0], caplog.records[:] = Failure("auth", "HTTP 401: no"), []
        with caplog.at_level(logging.ERROR, "autorubric.training"):
            later = rewards_now(source, [Sample(f"new {text}", rubric, "Why?") for text in texts])
        assert [reward.value for reward in later] == [None, None], kind
        [record] = caplog.records
        assert record.getMessage().startswith("no reward for any of 2 samples; the first: criterion 'C1': auth"), kind


def test_a_judge_that_gives_no_usable_reply_from_the_start_ends_a_training() -> None:
    """A grader drops it after eight requests about four submissions; the samples have no ids."""
    asked: list[Request] = []

    def answer(request: Request) -> str:
        asked.append(request)
        return "I would rather talk about the weather."

    source = Rewarder(CriterionGrader(judge=CriterionJudge(ScriptedModel(answer), "judge")))
    rubric = rubric_from(RUBRIC, "here")
    samples = [Sample(f"Answer {number}.", rubric, "Why?") for number in range(16)]
    assert [reward.value for reward in rewards_now(source, samples)] == [None] * 16
    sent = len(asked)
    with pytest.raises(RewardFailed, match=r"cannot give one: .*unusable: .* ended without a usable reply"):
        rewards_now(source, samples)
    assert len(asked) == sent < 16 * len(rubric) * 3 / 2


def test_a_service_whose_judge_refuses_from_the_start_ends_a_training() -> None:
    failed: dict[str, Any] = {"reward": None, "criteria": {}, "failure": "criterion 'C1': no_model: HTTP 404: none"}
    for rule in (RewardRule(), RewardRule(on_failure="nan")):
        with pytest.raises(RewardFailed, match="no_model: HTTP 404"):
            over_http([(200, failed)], [], 3, rule=rule)
    found = over_http([(200, FINE), (200, failed)], [], 2, in_flight=1)
    assert [reward.value for reward in found] == [0.75, None]


def test_a_rubric_that_cannot_be_rewarded_is_refused_before_the_judge_is_asked() -> None:
    model = ScriptedModel(says)
    source = Rewarder(CriterionGrader(judge=CriterionJudge(model, "judge")))
    bad = rubric_from([{"criterion": "Lies.", "points": 0}], "here")
    with pytest.raises(InputError, match="weight 0"):
        rewards_now(source, [Sample("right", rubric_from(RUBRIC, "here")), Sample("right", bad)])
    assert model.requests == []


def test_a_missing_key_is_told_when_the_rewarder_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ConfigError, match="OPENAI_API_KEY"):
        make_rewarder("openai/gpt-5.1")
    with pytest.raises(ConfigError, match="leave out base_url"):
        make_rewarder(CriterionGrader.of_checks(), base_url="http://localhost:1/v1")


def test_rubrics_of_a_table_are_read_whatever_fields_the_others_have() -> None:
    tone = {"name": "Tone", "requirement": "How is the tone?", "weight": 2.0, "scale_type": "ordinal"}
    tone["options"] = [
        {"label": "bad", "value": 0.0},
        {"label": "good", "value": 1.0},
        {"label": "n/a", "value": 0.0, "na": True},
    ]
    rubrics = [
        [tone, {"name": "Brief", "requirement": "Is brief.", "weight": 1.0}],
        [{"criterion": "Names a cause.", "points": 3, "tags": {"verifier": "llm"}}],
        [{"title": "Cause", "description": "Names a cause.", "weight": 5.0}],
    ]
    # In a table, each criterion has the fields of all the others, and what it does not have is null there.
    table = pa.array(rubrics).to_pylist()
    assert table[1][0]["requirement"] is None and table[0][1]["options"] is None
    for place, (held, rubric) in enumerate(zip(table, rubrics, strict=True)):
        expected = rubric_from(rubric, "here")
        assert read_rubric(held, "here") == read_rubric(json.dumps(held), "here") == expected, place
    with pytest.raises(InputError, match=r"here: rubric\[0\].points is nan; expected a finite number"):
        read_rubric([{"criterion": "Names a cause.", "points": math.nan, "weight": None}], "here")


TRL: dict[str, Any] = {
    "prompts": [[{"role": "user", "content": "Why?"}]] * 3,
    "completions": [[{"role": "assistant", "content": text}] for text in ("right", "wrong", "down")],
    "completion_ids": [[1, 2], [3], [4]],
    "rubrics": [RUBRIC] * 3,
    "trainer_state": None,
    "log_extra": None,
    "log_metric": None,
}


def test_trl_gets_a_list_of_numbers_and_none_from_a_function_and_from_a_coroutine_function() -> None:
    plain = trl.reward_function(rewarder(), name="quality")
    assert plain(**TRL) == [0.75, 0.0, None]
    assert plain.__name__ == "quality"
    coroutine = trl.async_reward_function(rewarder())
    assert inspect.iscoroutinefunction(coroutine) and not inspect.iscoroutinefunction(plain)
    assert asyncio.run(coroutine(**TRL)) == [0.75, 0.0, None]


def test_ms_swift_passes_completions_by_position_and_whole_conversations_by_name() -> None:
    model = ScriptedModel(says)
    source = Rewarder(CriterionGrader(judge=CriterionJudge(model, "judge")))
    texts = ["right", "wrong", "down"]
    asked = [{"role": "user", "content": "Why?"}]
    columns = {"messages": [[*asked, {"role": "assistant", "content": text}] for text in texts], "names": ["a"] * 3}
    columns |= {"rubrics": [RUBRIC] * 3, "prompt_id": ["1", "1", "2"], "rollout_infos": [{}] * 3}
    assert trl.reward_function(source)(texts, **columns, trainer_state=None) == [0.75, 0.0, None]
    assert {PromptSections(request)["request"] for request in model.requests} == {"Why?"}
    assert asyncio.run(trl.async_reward_function(source)(texts, **columns, trainer_state=None)) == [0.75, 0.0, None]


def test_trl_s_plain_texts_and_overlong_lengths_are_used() -> None:
    from autorubric.training.rewards import SoftOverlong

    function = trl.reward_function(rewarder(overlong=SoftOverlong(max_length=4, buffer=2, factor=1.0)))
    given = {"prompts": ["Why?"] * 2, "completions": ["right"] * 2, "completion_ids": [[1] * 2, [1] * 3]}
    # 3 tokens are half of the buffer behind 4 - 2.
    assert function(**given, rubric=[json.dumps(RUBRIC)] * 2) == [0.75, 0.25]


def test_a_prompt_s_calls_of_tools_are_shown_to_the_judge() -> None:
    model = ScriptedModel(says)
    source = Rewarder(CriterionGrader(judge=CriterionJudge(model, "judge")))
    call = {"function": {"name": "look_up", "arguments": '{"word": "tide"}'}}
    asked = [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": None, "tool_calls": [call]}]
    prompts = [[*asked, {"role": "tool", "content": "the moon"}]]
    assert trl.reward_function(source)(prompts=prompts, completions=["right"], rubrics=[RUBRIC]) == [0.75]
    assert 'calls look_up({"word": "tide"})' in PromptSections(model.requests[0])["request"]


@each(
    ("version", "policy", "told"),
    [
        ("1.5.1", {}, "TRL 1.5.1 counts a missing reward as 0; install trl>=1.6"),
        ("0.24.0.dev0", {"on_failure": "nan"}, "TRL 0.24.0.dev0 counts a missing reward as 0"),
        ("0.24.0", {"on_failure": "raise"}, None),
        ("1.6.0", {}, None),
        ("1.16.0", {}, None),
        ("1.6rc1", {}, None),
    ],
)
def test_a_trl_that_counts_none_as_zero_is_refused(version: str, policy: dict[str, Any], told: str | None) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        (Path(folder) / f"trl-{version}.dist-info").mkdir()
        (Path(folder) / f"trl-{version}.dist-info" / "METADATA").write_text(f"Name: trl\nVersion: {version}\n")
        patch.syspath_prepend(folder)
        with pytest.raises(ConfigError, match=told) if told else nullcontext():
            trl.reward_function(rewarder(**policy))


def test_trl_rows_without_a_rubric_are_named() -> None:
    function = trl.reward_function(rewarder())
    with pytest.raises(InputError, match="no rubric column; expected one of rubrics, rubric"):
        function(prompts=["Why?"], completions=["x"], completion_ids=[[1]], answer=["y"])
    with pytest.raises(InputError, match="row 1: the list of criteria is empty"):
        function(prompts=["Why?"] * 2, completions=["x"] * 2, completion_ids=[[1]] * 2, rubrics=[RUBRIC, []])
    with pytest.raises(InputError, match="row 0: the list of criteria is empty"):
        function(prompts=["Why?"] * 2, completions=["x"] * 2, completion_ids=[[1]] * 2, rubrics=[None, RUBRIC])


def test_trl_columns_of_unequal_length_are_counted() -> None:
    function = trl.reward_function(rewarder())
    with pytest.raises(InputError, match=r"2 prompts, 2 completions, 1 rubrics, .*expected the same number of each"):
        function(prompts=["Why?"] * 2, completions=["x"] * 2, completion_ids=[[1]] * 2, rubrics=[RUBRIC])
    with pytest.raises(InputError, match="1 completion_ids; expected the same number of each"):
        function(prompts=["Why?"] * 2, completions=["x"] * 2, completion_ids=[[1]], rubrics=[RUBRIC] * 2)


def verl_row() -> dict[str, Any]:
    return find_format("verl").write(Record(tuple(rubric_from(RUBRIC, "here")), "Why?", "q", domain="chat")).row


def verl_call(text: str, **settings: Any) -> dict[str, float]:
    row = verl_row()
    truth = row["reward_model"]["ground_truth"]
    return asyncio.run(verl.compute_score("chat", text, truth, row["extra_info"], **settings))


def test_verl_finds_a_plain_coroutine_function_that_returns_the_same_numeric_keys() -> None:
    assert inspect.iscoroutinefunction(verl.compute_score)
    first = verl_call("It is.", judge="builtin/offline", on_failure="neutral", neutral=0.25)
    second = verl_call("It is not.", judge="builtin/offline", on_failure="neutral", neutral=0.25, formula="signed")
    assert list(first) == list(second)
    assert all(type(value) is float for value in (*first.values(), *second.values()))


@pytest.mark.usefixtures("forked")
def test_a_restarted_verl_worker_pays_for_no_reward_again(tmp_path: Path) -> None:
    with LoopbackEndpoint(replier=lambda body: MET).in_thread() as endpoint:
        settings = {"judge": f"judge@{endpoint.base_url}", "run_dir": str(tmp_path / "run")}
        assert verl_call("right", **settings)["score"] == 1.0
        asked = endpoint.counts.requests
        code = (
            f"from tests.training.test_adapters import verl_call\nprint(verl_call('right', **{settings!r})['score'])"
        )
        again = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert (again.stdout.strip(), endpoint.counts.requests) == ("1.0", asked) == ("1.0", 2)


def test_verl_sends_a_key_over_plain_http_to_a_remote_host_only_where_that_is_allowed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOUSE_KEY", "planted-key")
    remote = {"judge": "judge", "base_url": "http://192.0.2.1:9/v1", "api_key_env": "HOUSE_KEY"}
    with pytest.raises(ConfigError, match="plain HTTP"):
        verl_call("x", **remote)
    assert verl._make_source((*remote.items(), ("allow_plain_http", True)))
    service = {"service": "http://192.0.2.1:9", "token_env": "HOUSE_KEY"}
    with pytest.raises(ConfigError, match="plain HTTP"):
        verl_call("x", **service)
    assert verl._make_source((*service.items(), ("allow_plain_http", True)))


def test_verl_s_failures_raise_by_default_and_none_is_refused() -> None:
    down = {"judge": "judge", "base_url": "http://127.0.0.1:9/v1"}
    with pytest.raises(ConfigError, match="verl does not accept None"):
        verl_call("x", **down, on_failure="none")
    with pytest.raises(InputError, match="unknown key 'jugde' in reward_kwargs; did you mean 'judge'"):
        verl_call("x", jugde="builtin/offline")
    with pytest.raises(ConfigError, match="neither judge nor service"):
        verl_call("x")
    with pytest.raises(ConfigError, match="would have no effect: formula, judge; pass them to `autorubric serve`"):
        verl_call("x", judge="builtin/offline", service="http://127.0.0.1:9", formula="positive")
    with pytest.raises(ConfigError, match="a service has its own rule"):
        HttpRewards("http://127.0.0.1:9", RewardRule(formula="positive"))
    with pytest.raises(InputError, match=r"the row has no rubric: expected one of rubrics, .* its keys are 'index'"):
        asyncio.run(verl.compute_score("chat", "x", "", {"index": 1}, judge="builtin/offline"))


def test_verl_s_extra_info_has_its_query_and_rubric_under_usual_names_or_those_given() -> None:
    own = {"reward_model": {"rubrics": RUBRIC}, "prompt": [{"role": "user", "content": "Why?"}]}
    other = [{"criterion": "Is kind.", "points": 1}]
    rows: list[tuple[dict[str, Any], str, dict[str, str], tuple[str | None, int]]] = [
        (own, "", {}, ("Why?", 2)),
        (own | {"question": "Who?", "rubrics": other}, json.dumps(other), {}, ("Why?", 2)),
        ({"reward_model": {"style": "rule", "ground_truth": "72"}, "rubrics": other}, "72", {}, (None, 1)),
        (own | {"asked": "Who?", "held": other}, "", {"query": "asked", "rubric": "held"}, ("Who?", 1)),
        ({"question": "Who?", "rubrics": json.dumps(other)}, "", {}, ("Who?", 1)),
        (
            {"messages": np.array(own["prompt"], dtype=object), "rubric": np.array(RUBRIC, dtype=object)},
            "",
            {},
            ("Why?", 2),
        ),
        ({"index": 3}, json.dumps(other), {}, (None, 1)),
    ]
    for info, truth, names, expected in rows:
        query, rubric = verl._read_columns(dict(info), truth, names)
        assert (query, len(rubric)) == expected, (info, names)
    with pytest.raises(InputError, match=r"the query may be column 'question' or 'query'; choose .*query: NAME"):
        verl._read_columns({"question": "Who?", "query": "Why?", "rubric": RUBRIC}, "", {})


def test_verl_rows_have_one_schema_and_mirror_their_reward_model(tmp_path: Any) -> None:
    import pyarrow.parquet as pq

    check = {"name": "CommaChecker", "parameters": {}}
    rule = rubric_from([{"requirement": "No commas", "weight": 2.5, "check": check}], "here")
    records = [Record(tuple(rule), "Why?", "a"), Record(tuple(rubric_from(RUBRIC, "here")), "Why?", "b")]
    write_records(tmp_path / "train.parquet", "verl", records)
    first, second = pq.read_table(tmp_path / "train.parquet").to_pylist()
    for row in (first, second):
        assert row["extra_info"]["reward_model"] == row["reward_model"]
        assert row["extra_info"]["prompt"] == row["prompt"]
        assert row["reward_model"]["ground_truth"] == ""
    assert read_rubric(first["reward_model"], "row")[0].check == check
    assert read_rubric(first["reward_model"], "row")[0].weight == 2.5


def test_openrlhf_s_queries_are_cut_at_their_prompt_and_special_tokens_go() -> None:
    label = json.dumps({"query": "Why?", "rubrics": RUBRIC})
    prompt = "<|im_start|>user\nWhy?<|im_end|>\n<|im_start|>assistant\n"
    samples = openrlhf.remote_samples(
        [f"{prompt}right<|im_end|>\n<|endoftext|>", f"<s>{prompt}a </s> b</s>"], [prompt] * 2, [label] * 2
    )
    assert [(one.submission, one.query) for one in samples] == [("right", "Why?"), ("a </s> b", "Why?")]
    [deepseek] = openrlhf.remote_samples([f"{prompt}right<｜end▁of▁sentence｜>"], [prompt], [label])
    assert deepseek.submission == "right"
    reply = openrlhf.remote_reply(rewards_now(rewarder(), samples))
    assert reply["rewards"] == [0.75, 0.0]
    assert reply["extra_logs"] == {
        "rubric_coverage": [1.0, 1.0],
        "rubric_judge_failed": [0.0, 0.0],
        "rubric_audit_gap": [0.0, 0.0],
    }
    with pytest.raises(InputError, match="does not begin with its prompt"):
        openrlhf.remote_samples(["other"], ["prompt"], [label])
    with pytest.raises(InputError, match=r"(?s)labels\[0\].*\na label is JSON with the row's rubric"):
        openrlhf.remote_samples(["prompt a"], ["prompt"], ["42 apples"])
    with pytest.raises(InputError, match="the same number of each"):
        openrlhf.remote_samples(["a"], [], [label])


def test_verifiers_gets_a_number_or_an_exception() -> None:
    reward = verifiers.trace_reward(rewarder())
    task = SimpleNamespace(rubric=RUBRIC, prompt="Why?")
    assert asyncio.run(reward(task, SimpleNamespace(last_reply="right"))) == 0.75
    with pytest.raises(RewardFailed, match="overloaded"):
        asyncio.run(reward(task, SimpleNamespace(last_reply="down")))
    with pytest.raises(InputError, match="has no 'rubric'"):
        asyncio.run(reward(SimpleNamespace(prompt="Why?"), SimpleNamespace(last_reply="right")))


@asynccontextmanager
async def service(answers: Sequence[tuple[int, Any]], seen: list[Any], slow: float = 0.0) -> AsyncIterator[str]:
    """A service that gives these statuses and bodies in turn, the last one for ever, after so many seconds."""

    async def reward(request: web.Request) -> web.Response:
        await asyncio.sleep(slow)
        seen.append((request.headers.get("Authorization"), await request.json()))
        status, body = answers[min(len(seen), len(answers)) - 1]
        return web.json_response(body, status=status, headers={"Retry-After": "0"})

    app = web.Application()
    app.router.add_post("/v1/reward", reward)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def over_http(
    answers: Sequence[tuple[int, Any]], seen: list[Any], count: int = 1, slow: float = 0.0, **settings: Any
) -> list[Any]:
    async def asked() -> list[Any]:
        async with service(answers, seen, slow) as url:
            source = HttpRewards(url, **settings)
            samples = [Sample(f"text {n}", rubric_from(RUBRIC, "here"), "Why?") for n in range(count)]
            return await source.rewards(samples)

    return asyncio.run(asked())


FINE = {"reward": 0.75, "criteria": {"C1": 1.0, "C2": 0.0}, "coverage": 1.0, "failure": None}


def test_a_service_whose_audit_says_stop_ends_a_training_by_an_exception() -> None:
    stop = {**FINE, "status": "gap", "stop": True}
    task = SimpleNamespace(rubric=RUBRIC, prompt="Why?")

    async def by_verl(url: str) -> None:
        row = verl_row()
        await verl.compute_score("chat", "right", "", row["extra_info"], service=url)

    async def by_verifiers(url: str) -> None:
        await verifiers.trace_reward(HttpRewards(url))(task, SimpleNamespace(last_reply="right"))

    async def ended(call: Callable[[str], Awaitable[None]]) -> None:
        async with service([(200, stop)], []) as url:
            await call(url)

    with offenders() as case:
        for call in (by_verl, by_verifiers):
            with case(call.__name__), pytest.raises(RewardGap, match="on_gap is stop"):
                asyncio.run(ended(call))


def test_verl_s_step_is_the_version_of_the_weights_that_began_the_response() -> None:
    seen: list[Any] = []
    row = verl_row()
    given: list[Any] = [7, np.int64(8), None, -1, "9"]

    async def asked() -> None:
        async with service([(200, FINE)], seen) as url:
            for step in given:
                info = {**row["extra_info"], "min_global_steps": step}
                await verl.compute_score("chat", "right", "", info, service=url)

    asyncio.run(asked())
    assert [body.get("step") for _, body in seen] == [7, 8, None, None, None]


def test_open_instruct_learns_which_criteria_an_evolution_added() -> None:
    rubric = rubric_from(RUBRIC, "here")
    evolved = rubric[0].model_copy(update={"metadata": {"evolved": {"version": 1}}})
    criteria = [rubric[1], evolved, evolved.model_copy(update={"tags": ["persistent"]})]
    criteria.append(rubric[1].model_copy(update={"tags": ["evolving"]}))
    truth = json.loads(open_instruct.ground_truth("Why?", Rubric(criteria)))
    assert truth["rubrics_types"] == ["persistent", "evolving", "persistent", "evolving"]


def test_rewards_come_over_http_with_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REWARD_TOKEN", "secret")
    seen: list[Any] = []
    found = over_http([(200, FINE)], seen, count=3, token_env="REWARD_TOKEN")
    assert [(reward.value, reward.criteria["C1"]) for reward in found] == [(0.75, 1.0)] * 3
    token, body = seen[0]
    assert token == "Bearer secret"
    assert set(body) == {"submission", "rubric", "query"}
    assert body["rubric"][0]["requirement"] == "Is right."


def test_a_busy_service_is_asked_again_and_a_dead_one_is_a_failure() -> None:
    seen: list[Any] = []
    assert over_http([(429, {}), (503, {}), (200, FINE)], seen)[0].value == 0.75
    assert len(seen) == 3
    [dead] = over_http([(503, {})], [], retries=1)
    assert dead.value is None and "HTTP 503" in dead.failure
    nobody = HttpRewards("http://127.0.0.1:9", RewardRule(on_failure="nan"), retries=0)
    [found] = rewards_now(nobody, [Sample("x", rubric_from(RUBRIC, "here"))])
    assert found.value is not None and math.isnan(found.value)


def test_a_busy_service_is_waited_for_however_few_the_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    assert over_http([*[(429, {})] * 12, (200, FINE)], seen, retries=0)[0].value == 0.75
    assert len(seen) == 13
    monkeypatch.setattr(verl, "_PATIENCE", 0.0)
    [sent_away] = over_http([(429, {})], [], retries=0)
    assert sent_away.value is None and "HTTP 429" in sent_away.failure


def test_a_sample_that_waits_for_its_turn_does_not_time_out() -> None:
    # Six of half a second each, one at a time: the last waits longer than a request may take.
    found = over_http([(200, FINE)], [], 6, slow=0.5, in_flight=1, timeout=2.0, retries=0)
    assert [one.value for one in found] == [0.75] * 6


def test_a_reward_of_null_follows_the_policy_and_is_never_zero() -> None:
    failed: dict[str, Any] = {"reward": None, "criteria": {}, "coverage": 0.0, "failure": "server: HTTP 503"}
    [found] = over_http([(200, failed)], [], rule=RewardRule(on_failure="neutral", neutral=0.5))
    assert (found.value, found.failure) == (0.5, "server: HTTP 503")
    with pytest.raises(RewardFailed):
        over_http([(200, failed)], [], rule=RewardRule(on_failure="raise"))


async def test_verl_s_nan_of_a_command_line_is_the_policy_nan() -> None:
    failed: dict[str, Any] = {"reward": None, "criteria": {}, "coverage": 0.0, "failure": "server: HTTP 503"}
    async with service([(200, failed)], []) as url:
        for policy in ("nan", math.nan):  # `on_failure=nan` is a number where OmegaConf reads it
            found = await verl.compute_score("chat", "x", RUBRIC, {}, service=url, on_failure=policy)
            assert math.isnan(found["score"]) and found["judge_failed"] == 1.0, policy


def test_what_the_service_refuses_is_the_caller_s_mistake() -> None:
    seen: list[Any] = []
    with pytest.raises(InputError, match="HTTP 400"):
        over_http([(400, {"error": "no rubric"})], seen)
    assert len(seen) == 1
    with pytest.raises(InputError, match="no 'reward'"):
        over_http([(200, {"rewards": 1})], [])
    with pytest.raises(ConfigError, match="which is not set"):
        HttpRewards("http://x", token_env="NO_SUCH_VARIABLE_HERE")


def test_a_services_token_goes_over_plain_http_only_where_that_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOUSE_TOKEN", "token")
    for url in ("http://rewards:8100", "http://10.0.0.5:8100", "https://rewards.example.com"):
        HttpRewards(url, token_env="HOUSE_TOKEN")
    with pytest.raises(ConfigError, match=r"go to rewards\.example\.com over plain HTTP.*allow_plain_http=True"):
        HttpRewards("http://rewards.example.com", token_env="HOUSE_TOKEN")
    HttpRewards("http://rewards.example.com")
    HttpRewards("http://rewards.example.com", token_env="HOUSE_TOKEN", allow_plain_http=True)
