"""inspect_ai, pydantic_evals, verifiers, OpenRLHF and LlamaFactory call us through their own code."""

from __future__ import annotations

import asyncio
import json
import math
import sys
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from autorubric import CriterionGrader
from autorubric.graders.criterion_judge import CriterionJudge
from autorubric.llm.request import Failure, Request
from autorubric.testing import PromptSections, ScriptedModel
from autorubric.training.rewarder import Rewarder, Sample
from autorubric.training.rewards import Reward

ROOT = Path(__file__).parents[1]
RUBRIC = [{"criterion": "Is right.", "points": 3}, {"criterion": "Is kind.", "points": 1}]
MET = '{"explanation": "Yes.", "criterion_status": "MET"}'
UNMET = '{"explanation": "No.", "criterion_status": "UNMET"}'


def says(request: Request) -> str | Failure:
    shown = PromptSections(request)
    if "down" in shown["submission"]:
        return Failure("server", "HTTP 503: overloaded")
    right = shown["criterion"] == "Is right." and "right" in shown["submission"]
    return MET if right else UNMET


def rewarder() -> Rewarder:
    return Rewarder(CriterionGrader(judge=CriterionJudge(ScriptedModel(says), "judge")))


def test_inspect_ai_scores_samples_and_leaves_failed_ones_out(tmp_path: Path) -> None:
    from inspect_ai import Task, eval
    from inspect_ai.dataset import Sample
    from inspect_ai.model import ModelOutput
    from inspect_ai.solver import solver

    from autorubric.training.adapters.inspect_ai import rubric_scorer

    said = {"Why 0?": "right", "Why 1?": "wrong", "Why 2?": "down"}

    @solver
    def answers() -> Any:
        async def solve(state: Any, generate: Any) -> Any:
            state.output = ModelOutput.from_content("none", said[state.input_text])
            return state

        return solve

    samples = [Sample(input=asked, metadata={"rubrics": RUBRIC}) for asked in said]
    task = Task(dataset=samples, solver=answers(), scorer=rubric_scorer(rewarder()))
    [log] = eval(task, model="mockllm/model", log_dir=str(tmp_path), display="none")
    assert log.status == "success", log.error
    assert log.samples is not None and log.results is not None
    values = [sample.scores["rubric"].value for sample in log.samples]
    assert values[:2] == [0.75, 0.0] and math.isnan(values[2])
    assert log.samples[0].scores["rubric"].metadata["criteria"] == {"C1": 1.0, "C2": 0.0}
    # The mean of the two that have a score; as a zero the third would make it 0.25.
    assert log.results.scores[0].metrics["mean"].value == 0.375


def test_pydantic_evals_reports_scores_and_evaluator_failures() -> None:
    from pydantic_evals import Case, Dataset

    from autorubric.training.adapters.pydantic_evals import rubric_evaluator

    said = {"Why 0?": "right", "Why 1?": "down"}
    cases = [Case(name=asked, inputs=asked, metadata={"rubric": RUBRIC}) for asked in said]
    data: Any = Dataset(name="d", cases=cases, evaluators=[rubric_evaluator(rewarder())])
    report = data.evaluate_sync(lambda asked: said[asked], progress=False)
    by_name = {case.name: case for case in report.cases}
    assert {name: found.value for name, found in by_name["Why 0?"].scores.items()} == {
        "rubric": 0.75, "rubric.C1": 1.0, "rubric.C2": 0.0
    }  # fmt: skip
    assert by_name["Why 1?"].scores == {}
    assert "overloaded" in by_name["Why 1?"].evaluator_failures[0].error_message


def test_verifiers_records_the_reward_and_raises_on_a_failure() -> None:
    import verifiers.v1 as vf

    from autorubric.training.adapters.verifiers import trace_reward

    quality = trace_reward(rewarder())

    class Data(vf.TaskData):
        rubric: list[dict[str, Any]]

    class RubricTask(vf.Task[Data, vf.State, vf.TaskConfig]):
        @vf.reward(weight=2.0)
        async def rubric(self, trace: vf.Trace) -> float:
            return await quality(self.data, trace)

    data = Data(idx=0, prompt="Why?", rubric=RUBRIC)

    def trace(said: str) -> Any:
        made = vf.Trace.model_construct(rewards={}, metrics={}, nodes=[], calls=[], errors=[])
        made.root_reply = said
        return made

    graded = trace("right")
    asyncio.run(RubricTask(data).score(graded))
    assert graded.rewards["rubric"].value == 1.5 and graded.reward == 1.5
    with pytest.raises(Exception, match="overloaded"):
        asyncio.run(RubricTask(data).score(trace("down")))


TURNS = (
    {"role": "user", "content": "Hi."},
    {"role": "assistant", "content": "Hello."},
    {"role": "user", "content": "Why?"},
)


class Seen:
    """A source that keeps the queries of its samples."""

    def __init__(self) -> None:
        self.queries: list[Any] = []

    async def rewards(self, samples: Sequence[Sample]) -> list[Reward]:
        self.queries += [sample.query for sample in samples]
        return [Reward(1.0, {}) for _ in samples]


def test_a_conversation_is_shown_turn_by_turn_in_each_framework(tmp_path: Path) -> None:
    import verifiers.v1 as vf
    from inspect_ai import Task, eval
    from inspect_ai.dataset import Sample as InspectSample
    from inspect_ai.model import ChatMessageAssistant, ChatMessageUser, ModelOutput
    from inspect_ai.solver import solver
    from pydantic_evals import Case, Dataset

    from autorubric.training.adapters.inspect_ai import rubric_scorer
    from autorubric.training.adapters.pydantic_evals import rubric_evaluator
    from autorubric.training.adapters.verifiers import trace_reward

    class Data(vf.TaskData):
        rubric: list[dict[str, Any]]

    @solver
    def answers() -> Any:
        async def solve(state: Any, generate: Any) -> Any:
            state.output = ModelOutput.from_content("none", "right")
            return state

        return solve

    seen = Seen()
    data = Data(
        idx=0, prompt=[vf.UserMessage(content="Hi."), vf.AssistantMessage(content="Hello."), TURNS[2]], rubric=RUBRIC
    )
    asyncio.run(trace_reward(seen)(data, types.SimpleNamespace(last_reply="right")))
    kinds = {"user": ChatMessageUser, "assistant": ChatMessageAssistant}
    turns = [kinds[turn["role"]](content=turn["content"]) for turn in TURNS]
    asked = [InspectSample(input=turns, metadata={"rubrics": RUBRIC})]
    task = Task(dataset=asked, solver=answers(), scorer=rubric_scorer(seen))
    [log] = eval(task, model="mockllm/model", log_dir=str(tmp_path), display="none")
    assert log.status == "success", log.error
    cases = [Case(name="one", inputs=list(TURNS), metadata={"rubric": RUBRIC})]
    found: Any = Dataset(name="d", cases=cases, evaluators=[rubric_evaluator(seen)])
    found.evaluate_sync(lambda _: "right", progress=False)
    assert seen.queries == [TURNS] * 3


def test_openrlhf_loads_the_file_and_calls_it(tmp_path: Path) -> None:
    pytest.importorskip("openrlhf", reason="OpenRLHF is not installed")
    from openrlhf.utils.agent import SingleTurnAgentExecutor

    file = tmp_path / "reward_func.py"
    file.write_text(
        "from autorubric.training.adapters.openrlhf import reward_function\n"
        "from autorubric.training.rewarder import make_rewarder\n"
        "reward_func = reward_function(make_rewarder('builtin/offline'))\n"
    )
    executor = SingleTurnAgentExecutor(str(file))
    label = json.dumps({"query": "Why?", "rubrics": [{"criterion": "Contains at most 3 words.", "points": 1}]})

    async def asked() -> Any:
        return await executor._fetch_rewards_via_func(
            ["<user>Why?<bot>Because it is.<|im_end|>", "<user>Why?<bot>Nobody ever found out why."],
            ["<user>Why?<bot>"] * 2,
            [label] * 2,
        )

    first, second = asyncio.run(asked())
    assert first["rewards"].tolist() == [1.0] and second["rewards"].tolist() == [0.0]
    assert first["scores"].tolist() == [1.0]
    assert first["extra_logs"]["rubric_judge_failed"].tolist() == [0.0]


@pytest.fixture
def llamafactory(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers")
    monkeypatch.setenv("DISABLE_VERSION_CHECK", "1")
    # It imports torchaudio for audio alone, and that has no build for this torch.
    if "torchaudio" not in sys.modules:
        stub = types.ModuleType("torchaudio")
        stub.__spec__ = __import__("importlib.machinery").machinery.ModuleSpec("torchaudio", None)
        monkeypatch.setitem(sys.modules, "torchaudio", stub)
    try:
        import llamafactory.hparams.parser  # noqa: F401
    except ImportError as error:
        pytest.skip(f"LlamaFactory cannot be imported here: {error}")


@pytest.mark.usefixtures("llamafactory")
def test_llamafactory_s_parser_takes_the_recipe(tmp_path: Path) -> None:
    from llamafactory.hparams.parser import get_train_args

    recipe = yaml.safe_load((ROOT / "recipes" / "llamafactory_sft.yaml").read_text())
    here = {"output_dir": str(tmp_path), "use_cpu": True}
    _, data, training, finetuning, _ = get_train_args({**recipe, **here})
    assert (training.num_train_epochs, training.learning_rate, training.warmup_steps) == (3.0, 1e-5, 20)
    assert training.lr_scheduler_type == "cosine_with_min_lr"
    assert training.lr_scheduler_kwargs == {"min_lr": 1e-6}
    assert training.per_device_train_batch_size * training.gradient_accumulation_steps * 8 == 64
    assert (data.cutoff_len, data.dataset, finetuning.finetuning_type) == (20480, ["autorubric_sft"], "full")


@pytest.mark.usefixtures("llamafactory")
@pytest.mark.parametrize("name", ["autorubric_sft", "autorubric_dpo"])
def test_llamafactory_reads_what_select_writes(tmp_path: Path, name: str) -> None:
    from datasets import load_dataset
    from llamafactory.data.converter import align_dataset
    from llamafactory.data.parser import get_dataset_list
    from llamafactory.hparams import DataArguments

    from autorubric.cli.app import run

    rubric = [{"criterion": "Contains at most 3 words.", "points": 2}]
    (tmp_path / "final.jsonl").write_text(json.dumps({"question": "Why?", "id": "q", "rubrics": rubric}))
    answers = {"id": "q", "answers": ["Because it is.", "Nobody has ever found that out."]}
    (tmp_path / "answers.jsonl").write_text(json.dumps(answers))
    command = ["select", str(tmp_path / "final.jsonl"), "--candidates", str(tmp_path / "answers.jsonl")]
    command += ["--keep", "pairs", "--judge", "builtin/offline", "-o", str(tmp_path / "run")]
    assert run(command) == 0
    folder = tmp_path / "run" / "llamafactory"
    [described] = get_dataset_list([name], str(folder))
    data = load_dataset("json", data_files=str(folder / described.dataset_name), split="train")
    arguments = DataArguments(dataset_dir=str(folder))
    aligned = align_dataset(
        data, described, arguments, types.SimpleNamespace(local_process_index=0, should_log=False)
    )
    assert aligned[0]["_prompt"] == [{"role": "user", "content": "Why?"}]
    said = [turn["content"] for turn in aligned[0]["_response"]]
    assert said == ["Because it is.", "Nobody has ever found that out."][: 2 if name.endswith("dpo") else 1]
