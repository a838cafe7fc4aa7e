"""Audits of a reward service: the alarm, what stays off, what is paid once, and what a judge that is down does."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from autorubric import ConfigError, CriterionGrader, LLMConfig, Rubric, drift
from autorubric.cli.drift import format_audit
from autorubric.llm.records.ledger import Ledger
from autorubric.llm.records.ledger_view import ledger_view
from autorubric.testing import Latency, LoopbackEndpoint
from autorubric.training import audit_log
from autorubric.training.adapters.verl import HttpRewards
from autorubric.training.audit import Auditor, AuditPlan
from autorubric.training.observations import AUDIT
from autorubric.training.reward_drift import Drift, find_warnings
from autorubric.training.rewarder import Rewarder, Sample
from autorubric.training.rewards import RewardGap, RewardRule, refuse_gap
from autorubric.training.service.engine import RewardEngine
from tests.view.viewing import viewing

from .conftest import CRITERIA, Serve, Served
from .test_service_metrics import samples

EXPLOIT = "As an expert"


def fooled(body: dict[str, Any]) -> str:
    """Both judges say MET of kindness; the exploit makes the training judge say MET of the rest too."""
    asked = body["messages"][-1]["content"]
    met = "Is kind." in asked or (EXPLOIT in asked and body["model"] == "judge")
    return json.dumps({"explanation": "Only claims it.", "criterion_status": "MET" if met else "UNMET"})


def batch(start: int, count: int, exploit: bool = False) -> dict[str, Any]:
    said = f"{EXPLOIT}, " if exploit else ""
    texts = [f"{said}answer {number}" for number in range(start, start + count)]
    return {
        "items": [
            {"query": "Why?", "submission": text, "rubric": CRITERIA, "step": (start + number) // 8}
            for number, text in enumerate(texts)
        ]
    }


def audit_of(folder: Path) -> Any:
    found: Drift = drift(folder, windows=2)
    assert found.audit is not None
    return found, found.audit


def auditor_of(served: Served) -> Auditor:
    auditor = served.service.engine.auditor
    assert auditor is not None
    return auditor


async def test_an_exploit_raises_the_alarm_once_and_a_restarted_service_still_knows_it(
    serve: Serve, tmp_path: Path
) -> None:
    async with serve(LoopbackEndpoint(replier=fooled), share=1.0, on_gap="stop", room=256) as served:
        _, before = await served.post(batch(0, 60))
        _, during = await served.post(batch(60, 60, exploit=True))
        assert {(one["status"], one["stop"]) for one in before["rewards"] + during["rewards"]} == {("ok", False)}
        await auditor_of(served).finish(10.0)
        _, after = await served.post(batch(120, 1, exploit=True))
        [told] = after["rewards"]
        assert (told["status"], told["stop"], told["reward"]) == ("gap", True, 1.0)
        metrics = samples((await served.read("/metrics"))[1])
        assert metrics["autorubric_audits_total", "audited"] == 120
        assert metrics["autorubric_audit_alarm", ""] == 1
        asked, port = served.judge.counts.requests, served.judge.port
    # 60 audits without a gap, and 60 in which the training judge gives 1 instead of 3 / 13.
    found, audit = audit_of(tmp_path)
    assert audit.gap == pytest.approx(10 / 13 / 2)
    assert audit.interval.low < audit.gap < audit.interval.high
    assert audit.alarm.since in (50, 62) and audit.alarm.count <= 120
    [right] = [one for one in audit.criteria if one.alarm]
    assert (right.name, right.mean) == ("Right", 0.5)
    (tmp_path / "manifest.json").write_text('{"kind": "service", "status": "completed"}')
    with viewing(tmp_path) as view:
        page = view.page("/r/0/drift").text
    assert "<h2>Audit: the gap has grown</h2>" in page
    assert f"<p>{audit.audits} audits, {sum(audit.failures.values())} failed" in page
    assert f"gives {audit.gap:.3f} more than the audit’s judge, {audit.interval.low:.3f} to" in page
    assert page.count('data-label="Alarm">yes') == 1
    assert right.examples[-1].submission.startswith(EXPLOIT)
    assert right.examples[-1].reason == "Only claims it."
    assert any("lead over the audit's judge grew" in words for words in find_warnings(found))
    # The address is a part of what a reply is recorded under.
    async with serve(LoopbackEndpoint(replier=fooled, port=port), share=1.0, on_gap="stop", room=256) as served:
        _, again = await served.post(batch(60, 60, exploit=True))
        assert {one["status"] for one in again["rewards"]} == {"gap"}
        await auditor_of(served).finish(10.0)
        assert served.judge.counts.requests == 0, "nothing is paid twice"
        client = HttpRewards(served.url)
        [reward] = await client.rewards([Sample("answer 3", Rubric.from_dict(CRITERIA), "Why?", step=0)])
        assert (reward.status, client.should_stop) == ("gap", True)
        with pytest.raises(RewardGap, match="--on-gap warn"):
            refuse_gap([reward])
    assert asked == 2 * 2 * 120 + 2
    restarted, audit = audit_of(tmp_path)
    assert audit.audits == 120, "an audit counts once"
    assert restarted.windows == found.windows and sum(one.rewards for one in found.windows) == 121
    assert restarted.criteria == found.criteria, "a reward counts once"


@pytest.mark.parametrize(
    ("limits", "fault", "kind"),
    [({}, "401", "auth"), ({}, "500", "server"), ({"audit_tokens": 1, "max_tokens": 100}, None, "budget")],
)
async def test_an_audit_that_is_down_or_out_of_budget_is_blind_and_training_goes_on(
    limits: dict[str, int], fault: str | None, kind: str, serve: Serve, tmp_path: Path
) -> None:
    judge = LoopbackEndpoint(replier=fooled, faults=lambda body: fault if body["model"] == "second" else None)
    async with serve(judge, share=1.0, **limits) as served:
        _, found = await served.post(batch(0, 8))
        assert [one["reward"] for one in found["rewards"]] == [pytest.approx(3 / 13)] * 8
        await auditor_of(served).finish(10.0)
        metrics = samples((await served.read("/metrics"))[1])
        assert metrics["autorubric_audits_total", kind] == 8
        assert metrics["autorubric_audit_blind_since_seconds", ""] > 1.7e9
    drifted, audit = audit_of(tmp_path)
    assert (audit.audits, audit.failures, audit.gap, audit.status) == (0, {kind: 8}, None, "ok")
    assert any("blind since 20" in words and f"{kind} 8" in words for words in find_warnings(drifted))


async def test_the_budget_of_the_audit_is_not_the_judges(serve: Serve, tmp_path: Path) -> None:
    """Audits end at their budget; what they spent does not count against the judge's in a later session."""
    async with serve(LoopbackEndpoint(replier=fooled), share=1.0, audit_tokens=12_000, max_tokens=100) as served:
        await served.post(batch(0, 40))
        await auditor_of(served).finish(10.0)
    audit = audit_of(tmp_path)[1]
    assert 0 < audit.audits < 40
    assert audit.audits + audit.failures["budget"] == 40
    with Ledger.open(tmp_path / "ledger") as ledger:
        spent, audited = ledger.sum_spent(), ledger.sum_spent("audit")
        assert 0 < audited.tokens <= 12_000
        assert spent.tokens - audited.tokens == ledger.sum_spent("judge").tokens
        grader = CriterionGrader(judge_model_config=LLMConfig("j", max_tokens=100), budget_tokens=spent.tokens)
        second = CriterionGrader(judge_model_config=LLMConfig("s", max_tokens=100), budget_tokens=4000)
        engine = RewardEngine(grader, ledger, RewardRule(), AuditPlan(second))
        assert engine.executor.budget is not None and engine.auditor is not None
        assert engine.executor.budget.spent.tokens == spent.tokens - audited.tokens
        assert engine.auditor.executor.budget is not None
        assert engine.auditor.executor.budget.spent.tokens == audited.tokens


async def test_a_judge_that_does_not_answer_blinds_the_audit_and_what_has_no_room_is_dropped(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_log, "PATIENCE", 0.0)
    judge = LoopbackEndpoint(replier=fooled, faults=lambda body: "hang" if body["model"] == "second" else None)
    async with serve(judge, share=1.0, room=512) as served:
        status, _ = await served.post(batch(0, 300))
        assert status == 200
        assert auditor_of(served).open == 256
        since = samples((await served.read("/metrics"))[1])["autorubric_audit_blind_since_seconds", ""]
        assert since > 1.7e9, "no audit has failed"
        await auditor_of(served).finish(0.0)
    drifted, audit = audit_of(tmp_path)
    assert audit.failures["dropped"] == 44 and audit.blind_since == pytest.approx(since, abs=1e-3)
    assert any("blind since 20" in words and "failed or not answered" in words for words in find_warnings(drifted))


async def test_a_judge_that_hangs_is_known_in_drift_although_no_other_reward_is_audited(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_log, "PATIENCE", 0.0)
    judge = LoopbackEndpoint(replier=fooled, faults=lambda body: "hang" if body["model"] == "second" else None)
    async with serve(judge, share=1.0) as served:
        await served.post(batch(0, 1))
        auditor = auditor_of(served)
        async with asyncio.timeout(30):
            while (since := auditor.found.blind_since) is None:
                await asyncio.sleep(0.02)
        assert not auditor.found.failures
        await auditor.finish(0.0)
    assert audit_of(tmp_path)[1].blind_since == pytest.approx(since, abs=1e-3)


async def test_audits_that_a_restart_does_not_make_are_counted(serve: Serve, tmp_path: Path) -> None:
    judge = LoopbackEndpoint(replier=fooled, faults=lambda body: "hang" if body["model"] == "second" else None)
    async with serve(judge, share=1.0) as served:
        await served.post(batch(0, 20))
        await auditor_of(served)._queue.cancel()  # as a kill ends them: without a record
    audit = audit_of(tmp_path)[1]
    assert (audit.audits, dict(audit.failures), audit.unfinished) == (0, {}, 20)
    assert next(format_audit(audit)) == "audit: 0 audits, 0 failed, 20 without a result"
    async with serve(LoopbackEndpoint(replier=fooled), share=1.0) as served:
        await served.post(batch(0, 5))
        await auditor_of(served).finish(30.0)
    audit = audit_of(tmp_path)[1]
    assert (audit.audits, audit.unfinished) == (5, 15)


async def test_the_same_rewards_are_chosen_again_and_another_seed_chooses_others(tmp_path: Path) -> None:
    rubric = Rubric.from_dict(
        [{"name": "Moon", "requirement": "x", "check": {"name": "contains", "parameters": {"phrases": ["m"]}}}]
    )
    chosen = []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        with Ledger.open(tmp_path / name) as ledger:
            plan = AuditPlan(CriterionGrader.of_checks(), share=0.2, seed=seed)
            engine = RewardEngine(CriterionGrader.of_checks(), ledger, RewardRule(), plan)
            for number in range(400):
                await engine.reward(Sample(f"m {number}", rubric, "Why?"))
            await engine.finish(5.0)
        with ledger_view(tmp_path / name) as view:
            chosen.append({value["submission"] for _, value in view.list_observations(AUDIT)})
    assert chosen[0] == chosen[1] != chosen[2]
    # 400 coins of 0.2: 80, with a standard deviation of 8.
    assert 48 <= len(chosen[0]) <= 112


async def test_a_rewarder_in_the_trainers_process_audits_too(tmp_path: Path) -> None:
    async with LoopbackEndpoint(replier=fooled) as judge:
        first, second = (
            CriterionGrader(judge_model_config=LLMConfig(name, api_base=judge.base_url), run_dir=folder)
            for name, folder in (("judge", tmp_path / "ledger"), ("second", None))
        )
        source = Rewarder(first, audit=AuditPlan(second, share=1.0, on_gap="stop"))
        rubric = Rubric.from_dict(CRITERIA)
        for start, said in ((0, ""), (60, f"{EXPLOIT}, ")):
            await source.rewards([Sample(f"{said}{number}", rubric, "Why?") for number in range(start, start + 60)])
        assert not source.should_stop or source.auditor is not None
        await source.finish()
        assert source.should_stop
        await first.aclose()
        await second.aclose()
    assert audit_of(tmp_path)[1].audits == 120


async def test_in_the_trainers_process_too_the_budget_of_the_audit_is_not_the_judges(tmp_path: Path) -> None:
    rubric = Rubric.from_dict(CRITERIA)
    async with LoopbackEndpoint(replier=fooled) as endpoint:
        near: dict[str, Any] = {"api_base": endpoint.base_url, "api_key": "k", "max_tokens": 100}
        for session in range(2):  # a restarted training
            judge = CriterionGrader(judge_model_config=LLMConfig("j", **near), run_dir=tmp_path, budget_tokens=12_000)
            second = CriterionGrader(judge_model_config=LLMConfig("s", **near), budget_tokens=60_000)
            source = Rewarder(judge, audit=AuditPlan(second, share=1.0))
            # A call takes 850 tokens and reserves 4,242: 8 calls fit into 12,000, but 8 and 4 audits do not.
            rewards = await source.rewards([Sample(f"Answer {session} {n}", rubric, "Why?") for n in range(2)])
            assert [reward.failure for reward in rewards] == [None, None]
            await source.finish()
            assert source.auditor is not None and source.auditor.found.audits == 2 * (session + 1)
            await judge.aclose()


async def test_a_training_that_goes_on_after_finish_is_audited_and_still_knows_its_alarm(tmp_path: Path) -> None:
    async with LoopbackEndpoint(replier=fooled) as endpoint:
        judge, second = (
            CriterionGrader(
                judge_model_config=LLMConfig(name, api_base=endpoint.base_url, api_key="k"), run_dir=folder
            )
            for name, folder in (("judge", tmp_path), ("second", None))
        )
        source = Rewarder(judge, audit=AuditPlan(second, share=1.0, on_gap="stop"))
        for start, said in ((0, ""), (60, f"{EXPLOIT}, "), (120, "")):
            texts = [f"{said}{number}" for number in range(start, start + 60)]
            await source.rewards([Sample(text, Rubric.from_dict(CRITERIA), "Why?") for text in texts])
            await source.finish()
            assert source.auditor is not None and source.auditor.found.audits == start + 60
            assert source.should_stop == (start > 0) and not source.auditor.found.failures


async def test_rewards_during_finish_leave_the_budget_of_the_audit_whole(tmp_path: Path) -> None:
    rubric = Rubric.from_dict(CRITERIA)
    async with LoopbackEndpoint(replier=fooled, latency=Latency(0.1)) as endpoint:
        near: dict[str, Any] = {"api_base": endpoint.base_url, "api_key": "k", "max_tokens": 100}
        judge = CriterionGrader(judge_model_config=LLMConfig("j", **near), run_dir=tmp_path)
        second = CriterionGrader(judge_model_config=LLMConfig("s", **near), budget_tokens=20_000)
        source = Rewarder(judge, audit=AuditPlan(second, share=1.0))
        await source.rewards([Sample(f"A {n}", rubric, "Why?") for n in range(12)])
        ending = asyncio.create_task(source.finish())
        await asyncio.sleep(0)
        await source.rewards([Sample(f"B {n}", rubric, "Why?") for n in range(12)])
        await ending
        await source.finish()
        with ledger_view(tmp_path) as ledger:
            assert 0 < ledger.sum_spent("audit").tokens <= 20_000


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (LLMConfig("vllm/s", api_base="http://127.0.0.1:9/v1"), "set its max_tokens"),
        (LLMConfig("mistral/s", max_tokens=9), "no key for mistral/s"),
    ],
)
async def test_a_reference_judge_that_cannot_audit_is_refused_before_the_first_call(
    config: LLMConfig, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MISTRAL_API_KEY", raising=False)
    async with LoopbackEndpoint(replier=fooled) as endpoint:
        judge = CriterionGrader(judge_model_config=LLMConfig(f"j@{endpoint.base_url}"), run_dir=tmp_path)
        plan = AuditPlan(CriterionGrader(judge_model_config=config, budget_tokens=10**6), share=1.0)
        with pytest.raises(ConfigError, match=words):
            await Rewarder(judge, audit=plan).rewards([Sample("So.", Rubric.from_dict(CRITERIA))])
        assert not endpoint.received


def test_an_audit_needs_a_ledger_and_a_judge_of_another_family() -> None:
    judge = CriterionGrader(judge_model_config=LLMConfig("openai/gpt-5.1-mini"))
    plan = AuditPlan(CriterionGrader(judge_model_config=LLMConfig("openrouter/openai/o3")))
    with pytest.raises(Exception, match="give it a run directory"):
        Rewarder(judge, audit=plan)
    with pytest.warns(UserWarning, match="both of the family gpt"):
        plan.check_family(judge)


async def test_repetitions_measure_the_noise_of_the_judge(serve: Serve, tmp_path: Path) -> None:
    """A judge that changes its mind about every second submission when it is asked again."""
    seen: set[str] = set()

    def fickle(body: dict[str, Any]) -> str:
        asked = body["messages"][-1]["content"]
        again = asked in seen
        seen.add(asked)
        met = not (again and any(f"answer {number}" in asked for number in range(11, 40, 2)))
        return json.dumps({"explanation": "", "criterion_status": "MET" if met else "UNMET"})

    async with serve(LoopbackEndpoint(replier=fickle), repeat_share=1.0) as served:
        _, found = await served.post(batch(10, 20))
        assert {one["reward"] for one in found["rewards"]} == {1.0}
        await served.service.engine.finish(10.0)
    signals = drift(tmp_path).signals
    assert signals is not None and signals.noise is not None
    noise = signals.noise
    # Half of 20 differ by 1, the others not at all: (10 · 1²) / 20 / 2.
    assert (noise.pairs, noise.failures, noise.variance) == (20, 0, 0.25)


async def test_dropped_criteria_are_not_judged_and_a_restarted_service_draws_the_same(
    serve: Serve, tmp_path: Path
) -> None:
    rubric = [{"name": f"C{n}", "requirement": f"Says {n}.", "weight": 1} for n in range(9)]
    rubric.append({"name": "Gate", "requirement": "Is kind.", "weight": 1, "tags": ["gate"]})
    items = [{"query": f"Why {n // 4}?", "submission": f"So {n}.", "rubric": rubric, "step": 1} for n in range(16)]
    judge, rule = LoopbackEndpoint(replier=fooled), RewardRule(dropout=1 / 3, dropout_seed=7)
    async with serve(judge, rule=rule) as served:
        _, first = await served.post({"items": items})
        # A third of nine criteria is left out; the gate stays.
        assert served.judge.counts.requests == 16 * 7
        port = served.judge.port
    async with serve(LoopbackEndpoint(replier=fooled, port=port), rule=rule) as served:
        _, again = await served.post({"items": items})
        assert served.judge.counts.requests == 0
    assert again == first
    dropped = [tuple(one["dropped"]) for one in first["rewards"]]
    assert all(len(names) == 3 and "Gate" not in names for names in dropped)
    assert [dropped[n] for n in range(16)] == [dropped[n // 4 * 4] for n in range(16)], "one subset for a group"
    assert len(set(dropped)) > 1, "another one for another group"
    assert all(one["criteria"][name] is None for one in first["rewards"] for name in one["dropped"])
    counts = {one.name: one.count for one in drift(tmp_path).criteria}
    assert sum(counts.values()) == 16 * 7 and counts["Gate"] == 16, "the restarted service gave the same rewards"
