"""What callers of the reward service get, and what it costs."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from autorubric import CriterionGrader, LLMConfig, Rubric
from autorubric.llm.records.ledger_view import ledger_view
from autorubric.testing import LoopbackEndpoint
from autorubric.training.adapters.verl import HttpRewards
from autorubric.training.observations import AUDIT, REWARD, RUBRIC
from autorubric.training.rewarder import Rewarder, Sample
from autorubric.training.rewards import RewardRule, SoftOverlong
from autorubric.training.service.engine import RewardEngine
from autorubric.training.service.reward_app import ServiceLimits
from tests.offenders import offenders

from .conftest import CRITERIA, Serve

TOKEN = "planted-token-of-the-service"
LABEL = json.dumps(CRITERIA)


def verdict(body: dict[str, Any]) -> str:
    """MET on kindness and UNMET on the rest, whatever is submitted."""
    met = "Is kind." in body["messages"][-1]["content"]
    return json.dumps({"explanation": "So it is.", "criterion_status": "MET" if met else "UNMET"})


def one(submission: str = "Because.", **more: Any) -> dict[str, Any]:
    return {"query": "Why?", "submission": submission, "rubric": CRITERIA, **more}


def fails_on(word: str, fault: str = "500") -> Any:
    return lambda body: fault if word in json.dumps(body) else None


async def test_a_submission_gets_its_reward_and_the_values_it_is_made_of(serve: Serve) -> None:
    async with serve(LoopbackEndpoint(replier=verdict)) as served:
        status, found = await served.post(one())
    assert status == 200
    # weights 3 (met) and 10, the default (not met): 3 / 13.
    assert found["reward"] == pytest.approx(3 / 13)
    assert found["criteria"] == {"Kind": 1.0, "Right": 0.0}
    assert (found["coverage"], found["failure"]) == (1.0, None)


async def test_a_query_s_calls_of_tools_are_shown_to_the_judge(serve: Serve) -> None:
    shown: list[str] = []

    def replies(body: Any) -> Any:
        shown.append(body["messages"][-1]["content"])
        return verdict(body)

    call = {"id": "1", "type": "function", "function": {"name": "look_up", "arguments": '{"word": "tide"}'}}
    asked = {"role": "user", "content": [{"type": "text", "text": "Why?"}]}
    async with serve(LoopbackEndpoint(replier=replies)) as served:
        for content in ("", None, "Wait."):
            turns = [asked, {"role": "assistant", "content": content, "tool_calls": [call]}]
            status, found = await served.post(one(query=[*turns, {"role": "tool", "content": "the moon"}]))
            assert (status, found["failure"]) == (200, None), content
            assert 'calls look_up({"word": "tide"})' in shown[-1] and "the moon" in shown[-1], content
        odd = [{"role": "user", "content": [{"type": ["text"], "thought": True, "text": "Why?"}]}]
        assert (await served.post(one(query=odd)))[0] == 200  # a type that is not a string
        image = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}
        assert (await served.post(one(query=[image])))[0] == 400


async def test_a_batch_is_answered_in_order_and_a_repeated_call_asks_nothing(serve: Serve) -> None:
    async with serve(LoopbackEndpoint(replier=verdict)) as served:
        items = [one("a"), one("b", rubric=CRITERIA[:1]), one("c")]
        status, found = await served.post({"items": items})
        asked = served.judge.counts.requests
        _, again = await served.post({"items": items})
        assert served.judge.counts.requests == asked == 5
    assert status == 200
    assert [one["reward"] for one in found["rewards"]] == [pytest.approx(3 / 13), 1.0, pytest.approx(3 / 13)]
    assert again == found


@pytest.mark.parametrize("fault", ["500", "timeout", "422", "refusal", "empty"])
async def test_a_failed_judgment_gives_null_and_its_failure_and_never_a_zero(
    serve: Serve, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    kind = {"timeout": "hang"}.get(fault, fault)
    judge = LoopbackEndpoint(replier=verdict, faults=fails_on("Is right.", kind))
    async with serve(judge, timeout=2.0 if fault == "timeout" else 60.0) as served:
        status, found = await served.post({"items": [one(), one(rubric=CRITERIA[:1])]})
        _, metrics = await served.read("/metrics")
    assert status == 200
    failed, fine = found["rewards"]
    assert failed["reward"] is None
    assert failed["criteria"] == {"Kind": 1.0, "Right": None}
    assert failed["coverage"] == 0.5
    assert failed["failure"].startswith("criterion 'Right': ")
    assert fine["reward"] == 1.0
    assert [record.getMessage() for record in caplog.records if "no reward (1 of this kind" in record.getMessage()]
    assert 'autorubric_rewards_total{outcome="reward"} 1' in metrics


async def test_openrlhf_is_answered_in_its_own_shape(serve: Serve) -> None:
    prompts = ["<|user|>Why?<|assistant|>", "<|user|>How?<|assistant|>"]
    body = {
        "query": [prompts[0] + "Because.<|im_end|>", prompts[1] + "Thus."],
        "prompts": prompts,
        "labels": [json.dumps(CRITERIA), json.dumps(CRITERIA[:1])],
    }
    async with serve(LoopbackEndpoint(replier=verdict, faults=fails_on("How?"))) as served:
        status, found = await served.post(body)
        shown = [received.body["messages"] for received in served.judge.received]
    assert status == 200
    assert found["rewards"] == [pytest.approx(3 / 13), None]
    assert found["scores"] == found["rewards"]
    assert found["extra_logs"]["rubric_coverage"] == [1.0, 0.0]
    assert not any("<|im_end|>" in json.dumps(messages) for messages in shown)


async def test_openrlhf_gets_an_error_for_a_sample_without_reward_and_lists_for_none(serve: Serve) -> None:
    def body(*questions: str) -> dict[str, list[str]]:
        return {
            "query": [f"{q} Because." for q in questions],
            "prompts": [*questions],
            "labels": [LABEL] * len(questions),
        }

    nothing: dict[str, list[float]] = {
        name: [] for name in ("rubric_coverage", "rubric_judge_failed", "rubric_audit_gap")
    }
    cases: list[tuple[dict[str, list[str]], int, Any]] = [
        (body("Why?"), 200, {"rewards": [pytest.approx(3 / 13)]}),
        (body("How?"), 502, "labels[0]: no reward: criterion 'Kind': "),
        (body("How?", "How so?"), 502, "labels[1]: no reward: "),
        (body(), 200, {"rewards": [], "scores": [], "extra_logs": nothing}),  # to all but the first of its addresses
    ]
    async with serve(LoopbackEndpoint(replier=verdict, faults=fails_on("How"))) as served:
        with offenders() as case:
            for sent, status, expected in cases:
                with case(str(sent["prompts"])):
                    got, found = await served.post(sent)
                    assert got == status
                    if status == 200:
                        assert {name: found[name] for name in expected} == expected
                    else:
                        assert any(one.startswith(expected) for one in found["error"]["problems"]), found


async def test_callers_who_ask_the_same_at_the_same_time_make_one_call(serve: Serve) -> None:
    async with serve(LoopbackEndpoint(replier=verdict, latency="fixed:0.2")) as served:
        answers = await asyncio.gather(*(served.post(one()) for _ in range(20)))
        assert served.judge.counts.requests == 2
    assert all(answer == answers[0] for answer in answers)
    assert answers[0][0] == 200


async def test_more_than_there_is_room_for_is_sent_away_with_the_time_to_come_back(serve: Serve) -> None:
    async with serve(LoopbackEndpoint(replier=verdict, latency="fixed:1"), room=2) as served:
        held = asyncio.create_task(served.post({"items": [one("a"), one("b")]}))
        while not served.service.admission.open:
            await asyncio.sleep(0.01)
        url = f"{served.url}/v1/reward"
        async with served.session.post(url, json=one("c")) as answer:
            assert answer.status == 429
            assert int(answer.headers["Retry-After"]) >= 1
        assert (await held)[0] == 200
        assert (await served.post(one("c")))[0] == 200
        status, found = await served.post({"items": [one(text) for text in "abc"]})
    assert status == 413
    assert "accepts at most 2 per call" in found["error"]["problems"][0]


async def test_a_call_past_its_deadline_gets_504_and_what_was_asked_is_paid_once(serve: Serve) -> None:
    async with serve(LoopbackEndpoint(replier=verdict, latency="fixed:0.4")) as served:
        body = one(rubric=CRITERIA[:1])
        status, found = await served.post({**body, "deadline_seconds": 0.1})
        assert status == 504
        assert "no reward within 0.1 s" in found["error"]["problems"][0]
        assert served.service.admission.open == 0
        status, found = await served.post(body)
        assert (status, found["reward"]) == (200, 1.0)
        assert served.judge.counts.requests == 1


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"{", 400, "the body: "),
        (b"\xff{}", 400, "not UTF-8"),
        (b"[]", 400, "the body is a JSON array; expected an object"),
        (b"[" * 100_000, 400, "nested too deeply"),
        (b'{"reward": NaN}', 400, "JSON numbers are finite"),
        (b'{"query": "a", "query": "b"}', 400, "the key 'query' twice"),
        ({"submision": "x", "rubric": CRITERIA}, 400, "did you mean 'submission'?"),
        (one(rubric=[]), 400, "rubric: the list of criteria is empty"),
        ({"query": "Why?", "submission": "x"}, 400, "rubric"),
        (one(rubric=[{"requirement": "x", "weight": 0}]), 400, "every criterion has weight 0"),
        (one(rubric=[{"requirement": "x", "check": {"name": "no_such_check"}}]), 400, "no_such_check"),
        (one(length="long"), 400, "length is a JSON text; expected a whole number"),
        (one(deadline_seconds=-1), 400, "deadline_seconds is -1"),
        ({"items": []}, 400, "items is empty"),
        ({"items": [one(), {"submission": 3, "rubric": CRITERIA}]}, 400, "items[1]: submission is a JSON number"),
        ({"query": ["a"], "prompts": ["a", "b"], "labels": ["[]"]}, 400, "1, 2, 1 entries"),
        ({"query": ["a"], "prompts": ["a"], "labels": ["no rubric"]}, 400, "labels[0]"),
        (json.dumps(one("x" * 3000)).encode(), 413, "longer than 2000 bytes"),
    ],
)
async def test_a_wrong_call_is_refused_with_its_problems_before_anything_is_asked(
    serve: Serve, body: Any, status: int, words: str
) -> None:
    async with serve(limits=ServiceLimits(most_bytes=2000 if status == 413 else 1 << 20)) as served:
        got, found = await served.post(body)
        assert served.judge.counts.requests == 0
    assert got == status
    assert any(words in problem for problem in found["error"]["problems"]), found


async def test_a_body_without_a_length_is_cut_off_where_it_gets_too_long(serve: Serve) -> None:
    async def endless() -> Any:
        while True:
            yield b"x" * 1000

    async with serve(limits=ServiceLimits(most_bytes=10_000)) as served:
        url, headers = f"{served.url}/v1/reward", {"Content-Type": "application/json"}
        try:
            async with served.session.post(url, data=endless(), headers=headers) as answer:
                assert answer.status == 413
        except aiohttp.ClientError:
            pass  # the service had answered and left before the client stopped sending
        assert (await served.read("/healthz"))[0] == 200


async def test_without_a_token_only_this_machine_may_call_and_no_web_page(serve: Serve) -> None:
    async with serve() as served:
        assert (await served.post(one(), Host="evil.example"))[0] == 421
        assert (await served.post(json.dumps(one()).encode(), Content_Type="text/plain"))[0] == 415
        assert (await served.read("/metrics", Host="evil.example"))[0] == 421
        assert served.judge.counts.requests == 0


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (None, 401),
        ("Bearer wrong", 401),
        ("Bearer ", 401),
        (TOKEN, 401),
        (f"Bearer {TOKEN}", 200),
        (f"bearer {TOKEN}", 200),
        ("Basic " + base64.b64encode(f"trainer:{TOKEN}".encode()).decode(), 200),
        ("Basic not base64", 401),
    ],
)
async def test_a_caller_must_send_the_token(serve: Serve, sent: str | None, status: int) -> None:
    async with serve(limits=ServiceLimits(token=TOKEN)) as served:
        headers = {} if sent is None else {"Authorization": sent}
        got, found = await served.post(one(), **headers)
        assert got == status
        assert TOKEN not in json.dumps(found)
        assert (await served.read("/metrics", **headers))[0] == status
        assert (await served.read("/healthz"))[0] == 200
        assert bool(served.judge.counts.requests) == (status == 200)


async def test_a_judge_that_was_away_is_asked_again_when_it_is_back(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autorubric.training.service.engine.READMIT_SECONDS", 0.0)
    away = {"now": True}
    judge = LoopbackEndpoint(replier=verdict, faults=lambda body: "401" if away["now"] else None)
    async with serve(judge) as served:
        _, found = await served.post(one())
        assert found["reward"] is None
        assert "auth" in found["failure"]
        away["now"] = False
        _, found = await served.post(one())
        assert found["reward"] == pytest.approx(3 / 13)


async def test_every_reward_leaves_its_verdicts_in_the_ledger(serve: Serve, tmp_path: Path) -> None:
    judge = LoopbackEndpoint(replier=verdict, faults=fails_on("broken"))
    async with serve(judge) as served:
        await served.post({"items": [one("long enough", step=7), one("broken")]})
    with ledger_view(tmp_path / "ledger") as view:
        [rubric] = [value for _, value in view.list_observations(RUBRIC)]
        rewards = sorted(
            (value for _, value in view.list_observations(REWARD)), key=lambda value: value["characters"]
        )
    assert [criterion["name"] for criterion in rubric["criteria"]] == ["Kind", "Right"]
    broken, fine = rewards
    assert fine["values"] == [1.0, 0.0]
    assert (fine["step"], fine["characters"], fine["failure"]) == (7, 11, None)
    assert (broken["reward"], broken["failure"], broken["failed"]) == (None, "server", [0, 1])
    assert fine["group"] == broken["group"] and fine["answer"] != broken["answer"]


async def test_a_caller_who_gave_up_frees_its_place_and_is_counted_once_when_it_comes_back(
    serve: Serve, tmp_path: Path
) -> None:
    async with serve(LoopbackEndpoint(replier=verdict, latency="fixed:0.3"), room=1) as served:
        for _ in range(3):
            before = served.judge.counts.requests
            asking = asyncio.create_task(served.post(one(step=7)))
            while not served.service.admission.open:
                await asyncio.sleep(0.01)
            asking.cancel()
            while served.service.admission.open:
                await asyncio.sleep(0.01)
            assert served.judge.counts.requests <= before + 1
        assert (await served.post(one(step=7)))[0] == 200
        assert served.judge.counts.requests == 2, "one a criterion: nothing is paid twice"
    with ledger_view(tmp_path / "ledger") as view:
        assert [value["step"] for _, value in view.list_observations(REWARD)] == [7]


async def test_a_second_judge_sees_its_share_through_the_same_ledger_and_holds_nobody_up(
    serve: Serve, tmp_path: Path
) -> None:
    def stricter(body: dict[str, Any]) -> str:
        return (
            verdict(body)
            if body["model"] == "judge"
            else json.dumps({"explanation": "No.", "criterion_status": "UNMET"})
        )

    async with serve(LoopbackEndpoint(replier=stricter), share=0.5) as served:
        answers = [await served.post(one(f"submission {n}")) for n in range(20)]
        assert [answer["reward"] for _, answer in answers] == [pytest.approx(3 / 13)] * 20
        engine: RewardEngine = served.service.engine
        await engine.finish(5.0)
    with ledger_view(tmp_path / "ledger") as view:
        pairs = [value for _, value in view.list_observations(AUDIT)]
        models = {total.model: total.calls for total in view.add_up()}
    # Chosen by digest, so always the same ones; 20 fair coins stay within 2 and 18 with a chance of 0.99996.
    assert 2 <= len(pairs) <= 18
    assert {pair["second"] for pair in pairs} == {0.0}
    assert sorted(models.values()) == sorted([40, 2 * len(pairs)])


async def test_a_ledger_that_takes_nothing_more_stops_the_asking(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    async with serve(LoopbackEndpoint(replier=verdict)) as served:
        served.service.engine.ledger.close()
        status, found = await served.post(one())
        assert status == 503
        assert "nothing can be recorded" in found["error"]["problems"][0]
        assert (await served.post(one()))[0] == 503
        assert (await served.read("/healthz"))[0] == 503
        assert served.judge.counts.requests == 0
    [told] = [record.message for record in caplog.records if record.levelname == "ERROR"]
    assert told.startswith("every call gets HTTP 503 from now on, and no judge is asked: ")


async def test_a_repeated_verdict_is_a_hit_even_when_only_one_criterion_is_new(serve: Serve) -> None:
    async with serve(LoopbackEndpoint(replier=verdict)) as served:
        await served.post(one())
        changed = [*CRITERIA, {"name": "New", "requirement": "Is new."}]
        await served.post(one(rubric=changed))
        assert served.judge.counts.requests == 3


async def test_an_empty_submission_is_answered_without_a_call(serve: Serve) -> None:
    async with serve(LoopbackEndpoint(replier=verdict)) as served:
        status, found = await served.post(one("  "))
        assert served.judge.counts.requests == 0
    assert (status, found["reward"], found["failure"]) == (200, 0.0, None)


async def test_the_client_of_this_package_gets_what_the_service_gives(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    rubric = Rubric.from_dict(CRITERIA)
    judge = LoopbackEndpoint(replier=verdict, faults=fails_on("broken"))
    async with serve(judge, limits=ServiceLimits(token=TOKEN), room=2) as served:
        monkeypatch.setenv("HOUSE_TOKEN", TOKEN)
        client = HttpRewards(served.url, token_env="HOUSE_TOKEN")
        fine, broken, *more = await client.rewards(
            [Sample("fine", rubric, "Why?"), Sample("broken", rubric), *(Sample(f"{n}", rubric) for n in range(4))]
        )
    assert fine.value == pytest.approx(3 / 13)
    assert dict(fine.criteria) == {"Kind": 1.0, "Right": 0.0}
    assert broken.value is None and broken.failure is not None and "server" in broken.failure
    # There was room for two at a time: the others were sent away, came back and were answered.
    assert [one.value for one in more] == [pytest.approx(3 / 13)] * 4


async def test_a_rewarder_in_this_process_leaves_its_verdicts_too(tmp_path: Path) -> None:
    async with LoopbackEndpoint(replier=verdict) as judge:
        config = LLMConfig("judge", api_base=judge.base_url, temperature=0.0)
        grader = CriterionGrader(judge_model_config=config, run_dir=tmp_path)
        [reward] = await Rewarder(grader).rewards([Sample("fine", Rubric.from_dict(CRITERIA), "Why?")])
        grader.close()
    assert reward.value == pytest.approx(3 / 13)
    with ledger_view(tmp_path) as view:
        [seen] = [value for _, value in view.list_observations(REWARD)]
        assert view.count_observations(RUBRIC) == 1
    assert (seen["reward"], seen["values"]) == (pytest.approx(3 / 13), [1.0, 0.0])


async def test_the_client_brings_home_what_closed_and_what_the_length_has_cost(serve: Serve) -> None:
    rubric = Rubric.from_dict(CRITERIA)
    async with serve(LoopbackEndpoint(replier=verdict), rule=RewardRule(overlong=SoftOverlong())) as served:
        [long] = await HttpRewards(served.url).rewards([Sample("fine", rubric, "Why?", length=6144)])
    # Half of the soft zone of 4096 tokens below 8192 costs half of 0.5.
    assert long.value == pytest.approx(3 / 13 - 0.25)
    assert (long.penalty, long.closed) == (0.25, ())
    async with serve(LoopbackEndpoint(replier=verdict), rule=RewardRule(gates=("Right",))) as served:
        [shut] = await HttpRewards(served.url).rewards([Sample("fine", rubric, "Why?")])
    assert (shut.value, shut.closed) == (0.0, ("Right",))


async def test_a_rule_with_a_gate_closes_on_it(serve: Serve) -> None:
    async with serve(LoopbackEndpoint(replier=verdict), rule=RewardRule(gates=("Right",))) as served:
        _, found = await served.post(one())
    assert (found["reward"], found["closed"], found["failure"]) == (0.0, ["Right"], None)
