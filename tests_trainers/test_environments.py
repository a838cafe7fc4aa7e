"""OpenEnv, NeMo Gym and open-instruct call us through their own code."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from autorubric import CriterionGrader
from autorubric.core.rubric_from import rubric_from
from autorubric.errors import InputError
from autorubric.graders.criterion_judge import CriterionJudge
from autorubric.llm.request import Failure, Request
from autorubric.testing import PromptSections, ScriptedModel
from autorubric.training.rewarder import Rewarder, Sample
from autorubric.training.rewards import RewardFailed, RewardGap, RewardRule

RUBRIC = [{"criterion": "Is right.", "points": 3}, {"criterion": "Is kind.", "points": 1}]
MET = '{"explanation": "Yes.", "criterion_status": "MET"}'
UNMET = '{"explanation": "No.", "criterion_status": "UNMET"}'


def says(request: Request) -> str | Failure:
    shown = PromptSections(request)
    if "down" in shown["submission"]:
        return Failure("server", "HTTP 503: overloaded")
    return MET if shown["criterion"].partition(" ")[2].strip(".") in shown["submission"] else UNMET


def rewarder(**rule: Any) -> Rewarder:
    return Rewarder(CriterionGrader(judge=CriterionJudge(ScriptedModel(says), "judge")), RewardRule(**rule))


class TestOpenEnv:
    """An environment whose rubric is ours, and rubrics of OpenEnv's that become ours."""

    @pytest.fixture(autouse=True)
    def installed(self) -> None:
        pytest.importorskip("openenv.core.rubrics", reason="OpenEnv is not installed")

    def test_an_environment_s_step_takes_our_reward(self) -> None:
        from openenv.core.env_server.interfaces import Environment
        from openenv.core.env_server.types import Action, Observation, State

        from autorubric.training.adapters.openenv import environment_rubric

        class Say(Action):
            text: str

        class Said(Environment[Say, Observation, State]):
            def reset(self, *_: Any, **__: Any) -> Observation:
                return Observation()

            def step(self, action: Say, *_: Any, **__: Any) -> Observation:
                raise NotImplementedError

            async def step_async(self, action: Say, *_: Any, **__: Any) -> Observation:
                observation = Observation(done=True)
                observation.reward = await self._apply_rubric_async(action, observation)
                return observation

            @property
            def state(self) -> State:
                return State()

        named = [
            {"name": "fact.v1", "requirement": "Is right.", "weight": 3},
            {"requirement": "Is kind.", "weight": 1},
        ]
        rubric = environment_rubric(rewarder(), named, query=lambda *_: "Why?")
        environment = Said(rubric=rubric)
        seen: list[tuple[str, float]] = []
        for name, child in rubric.named_rubrics():
            child.register_forward_hook(lambda r, a, o, score, name=name: seen.append((name, score)))
        assert asyncio.run(environment.step_async(Say(text="right"))).reward == 0.75
        assert rubric.last_score == 0.75 and seen == [("fact_v1", 1.0), ("C2", 0.0)]
        assert {name: child.last_score for name, child in rubric.named_children()} == {"fact_v1": 1.0, "C2": 0.0}
        # A child on its own grades its criterion alone.
        assert asyncio.run(rubric.get_rubric("C2")(Say(text="kind"), Observation())) == 1.0
        with pytest.raises(RewardFailed, match="overloaded"):
            asyncio.run(environment.step_async(Say(text="down")))
        assert [child.last_score for child in rubric.children()] == [None, None]
        # A checkpoint brings its rubric back.
        other = environment_rubric(rewarder(), RUBRIC)
        other.load_state_dict(rubric.state_dict())
        assert [name for name, _ in other.named_children()] == ["fact_v1", "C2"]

    def test_a_criterion_that_was_dropped_has_no_score(self) -> None:
        from autorubric.training.adapters.openenv import environment_rubric

        rubric = environment_rubric(rewarder(dropout=0.5), RUBRIC)
        asyncio.run(rubric("right", None))
        assert [child.last_score for child in rubric.children()].count(None) == 1

    def test_an_audit_that_says_stop_ends_the_step(self, stopping: Callable[[], Rewarder]) -> None:
        from autorubric.training.adapters.openenv import environment_rubric

        with pytest.raises(RewardGap, match="on_gap is stop"):
            asyncio.run(environment_rubric(stopping(), RUBRIC)("right", None))

    def test_our_rubric_is_a_part_of_theirs(self) -> None:
        from openenv.core.rubrics import WeightedSum

        from autorubric.training.adapters.openenv import environment_rubric

        mine = [environment_rubric(rewarder(), [one]) for one in RUBRIC]
        assert asyncio.run(WeightedSum(mine, [0.6, 0.4])("kind", None)) == 0.4

    def test_their_rubrics_become_ours_with_the_same_reward(self) -> None:
        from openenv.core.llm_client import LLMClient
        from openenv.core.rubrics import Gate, LLMJudge, Sequential, WeightedSum

        from autorubric.training.adapters.openenv import read_environment_rubric

        class Client(LLMClient):
            def __init__(self) -> None:
                super().__init__("http://127.0.0.1", 1)

            async def complete(self, prompt: str, **_: Any) -> str:
                asked, __, said = prompt.partition("\n")
                return "1" if asked.partition(" ")[2].strip(".") in said else "0"

        def judge(asks: str) -> LLMJudge:
            return LLMJudge(f"{asks}\n{{action}}\nScore (0-1):", Client())

        parts = [judge("Is right."), WeightedSum([judge("Is kind."), judge("Is brief.")], [0.75, 0.25])]
        theirs = Sequential(Gate(judge("Is sane.")), judge("Is safe."), WeightedSum(parts, [0.2, 0.8]))
        ours = read_environment_rubric(theirs)
        assert [(one.requirement, round(one.weight, 9), one.tags) for one in ours] == [
            ("Is sane.", 0.0, ["gate"]), ("Is safe.", 0.0, ["gate"]),
            ("Is right.", 0.2, []), ("Is kind.", 0.6, []), ("Is brief.", 0.2, []),
        ]  # fmt: skip
        assert ours[0].metadata["openenv"]["prompt_template"] == "Is sane.\n{action}\nScore (0-1):"
        source = rewarder()
        for said in ("sane safe right", "sane safe kind brief", "safe right kind", "sane safe", "sane right kind"):
            [reward] = asyncio.run(source.rewards([Sample(said, ours)]))
            assert reward.value == pytest.approx(asyncio.run(theirs(said, None))), said

    def test_what_cannot_become_ours_is_named(self) -> None:
        from openenv.core.rubrics import Rubric, Sequential, WeightedSum

        from autorubric.training.adapters.openenv import read_environment_rubric

        class Compiles(Rubric):
            def forward(self, action: Any, observation: Any) -> float:
                return 1.0

        with pytest.raises(InputError) as refused:
            read_environment_rubric(WeightedSum([Compiles(), Sequential(Compiles())], [0.5, 0.5]))
        first, second = refused.value.problems
        assert first.startswith("rubric_0: Compiles computes its reward in code")
        assert second.startswith("rubric_1: a Sequential")


class TestNeMoGym:
    """A resources server of NeMo Gym's own, asked over its routes."""

    @pytest.fixture(autouse=True)
    def installed(self) -> None:
        pytest.importorskip("nemo_gym", reason="NeMo Gym is not installed; it needs a newer Python")

    def test_verify_gives_our_reward_and_a_failed_judge_is_a_failed_rollout(self) -> None:
        from fastapi.testclient import TestClient
        from nemo_gym.base_resources_server import BaseResourcesServerConfig
        from nemo_gym.server_utils import ServerClient

        from autorubric.training.adapters.nemo_gym import rubric_server

        made = rubric_server(rewarder())
        config = BaseResourcesServerConfig(
            host="127.0.0.1", port=1, entrypoint="app.py", name="rubrics", domain="other"
        )
        server = made(config=config, server_client=ServerClient.model_construct())
        with TestClient(server.setup_webserver(), raise_server_exceptions=False) as client:
            answer = client.post("/verify", json=self.row("right"))
            assert answer.status_code == 200, answer.text
            graded = answer.json()
            assert graded["reward"] == 0.75 and graded["rubric_criteria"] == {"C1": 1.0, "C2": 0.0}
            assert graded["rubric_coverage"] == 1.0 and graded["rubric_closed"] == []
            assert graded["responses_create_params"]["input"][0]["content"] == "Why?"
            failed = client.post("/verify", json=self.row("down"))
            refused = client.post("/verify", json=self.row("right") | {"rubric": []})
        # Before Gym 0.5 a failed judge fails the request.
        assert failed.status_code == 500 or failed.json()["_ng_failure_class"] == "judge_failed"
        if failed.status_code == 200:
            assert "overloaded" in failed.json()["_ng_failure_judge_error"]
        assert refused.status_code == 500

    def test_an_audit_that_says_stop_fails_the_request(self, stopping: Callable[[], Rewarder]) -> None:
        from fastapi.testclient import TestClient
        from nemo_gym.base_resources_server import BaseResourcesServerConfig
        from nemo_gym.server_utils import ServerClient

        from autorubric.training.adapters.nemo_gym import rubric_server

        config = BaseResourcesServerConfig(
            host="127.0.0.1", port=1, entrypoint="app.py", name="rubrics", domain="other"
        )
        server = rubric_server(stopping())(config=config, server_client=ServerClient.model_construct())
        # The client of the test raises what the server answers with status 500.
        with TestClient(server.setup_webserver()) as client, pytest.raises(RewardGap, match="on_gap is stop"):
            client.post("/verify", json=self.row("right"))

    @staticmethod
    def row(said: str) -> dict[str, Any]:
        content = [{"type": "output_text", "text": said, "annotations": []}]
        message = {"id": "m", "type": "message", "role": "assistant", "status": "completed", "content": content}
        response = {
            "id": "r", "object": "response", "created_at": 0.0, "model": "policy", "output": [message],
            "parallel_tool_calls": True, "tool_choice": "auto", "tools": [],
        }  # fmt: skip
        asked = {"input": [{"role": "user", "content": "Why?"}]}
        return {"responses_create_params": asked, "response": response, "rubric": RUBRIC}


class TestOpenInstruct:
    """open-instruct finds our verifier, calls it, and reads our ground truths and overrides."""

    @pytest.fixture(autouse=True)
    def installed(self) -> None:
        pytest.importorskip("open_instruct.ground_truth_utils", reason="open-instruct is not on PyPI")

    def test_its_rewards_are_ours(self) -> None:
        from types import SimpleNamespace

        from open_instruct.ground_truth_utils import apply_verifiable_reward, build_all_verifiers

        from autorubric.training.adapters.open_instruct import ground_truth, rubric_verifier

        rubric_verifier(rewarder())
        settings = SimpleNamespace(
            remap_verifier="general_rubric=rubric", code_api_url="", code_max_execution_time=1.0
        )
        settings.code_pass_rate_reward_threshold, settings.code_apply_perf_penalty = 0.0, False
        for name in ("max_tokens", "max_context_length", "timeout"):
            setattr(settings, f"llm_judge_{name}", 1)
        settings.llm_judge_model, settings.llm_judge_temperature, settings.seed = "none", 0.0, 0
        verifiers = build_all_verifiers(settings, settings)
        assert type(verifiers["general_rubric"]).__name__ == "AutorubricVerifier"
        truth = ground_truth("Why?", rubric_from(RUBRIC, "here"))

        def rewarded(*said: str) -> Any:
            tokens, truths, sets = [[1]] * len(said), [[truth]] * len(said), [["general_rubric"]] * len(said)
            return asyncio.run(apply_verifiable_reward(verifiers, tokens, list(said), truths, sets, reward_mult=10.0))

        rewards, by_verifier = rewarded("right <answer>kind</answer>", "right")
        assert rewards == [2.5, 7.5] and by_verifier[0] == {"rubric": 2.5}
        with pytest.raises(RewardFailed, match="overloaded"):
            rewarded("down")

    def test_an_audit_that_says_stop_ends_the_generation(self, stopping: Callable[[], Rewarder]) -> None:
        from autorubric.training.adapters.open_instruct import ground_truth, rubric_verifier

        verifier = rubric_verifier(stopping())()
        truth = ground_truth("Why?", rubric_from(RUBRIC, "here"))
        with pytest.raises(RewardGap, match="on_gap is stop"):
            asyncio.run(verifier.async_call([1], "right", truth))

    def test_its_buffer_and_its_loader_read_our_ground_truths(self) -> None:
        from open_instruct.rubrics.evolving_rubric_step import _build_ground_truth_overrides
        from open_instruct.rubrics.rubric_utils import initialize_rubric_buffer

        from autorubric.training.adapters.open_instruct import ground_truth, ground_truth_overrides

        rubric = rubric_from(RUBRIC, "here")
        truth = ground_truth("Why?", rubric)
        assert [one["description"] for one in initialize_rubric_buffer([[truth]])["Why?"]["persistent_rubrics"]] == [
            "Is right.", "Is kind.",
        ]  # fmt: skip
        assert ground_truth_overrides({7: ("Why?", rubric)}) == _build_ground_truth_overrides([[truth]], [7])
