"""From flags and config files to settings."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from autorubric.cli.app import COMMANDS, run
from autorubric.cli.command import read_config
from autorubric.errors import ConfigError
from autorubric.jobs.agree import AgreeSettings, CompareSettings
from autorubric.jobs.evolve import EvolveSettings
from autorubric.jobs.gates import GatesSettings
from autorubric.jobs.grade import GradeSettings
from autorubric.jobs.job import BatchSettings, RunSettings
from autorubric.jobs.label_source import LabelSettings
from autorubric.jobs.labels import LabelStatusSettings
from autorubric.jobs.merge import MergeSettings
from autorubric.jobs.reward import RewardSettings
from autorubric.jobs.rubric_files import LintSettings
from autorubric.jobs.select import SelectSettings
from autorubric.jobs.status import DriftSettings, ShowSettings, StatusSettings
from autorubric.jobs.synthesize import SynthesizeSettings
from autorubric.settings import Settings
from autorubric.synthesis.role_settings import ROLE_FLAGS
from autorubric.synthesis.slots import build_configs, find_refreshed_slots, find_slots
from autorubric.synthesis.synthesis_settings import SynthesisSettings
from autorubric.view.report.report_job import ReportSettings, VerifySettings
from autorubric.view.view_settings import ViewSettings
from tests.offenders import each, offenders

FILES = {"input": "q.jsonl", "out": "out"}


def tree(config: dict[str, Any] | None = None, models: str | None = None, **given: Any) -> dict[str, Any]:
    return {**FILES, **(config or {}), **given, **({"models": models} if models else {})}


def test_help_shows_no_type_of_flags_and_no_panel_twice(capsys: pytest.CaptureFixture[str]) -> None:
    with offenders() as case:
        for words in ([], *([name] for name in COMMANDS)):
            with case(" ".join(words)):
                assert run([*words, "--help"]) == 0
                told = capsys.readouterr().out
                panels = re.findall("^╭─ ([A-Z][a-z ]+) ─", told, re.MULTILINE)
                assert "Options" in panels and len(set(panels)) == len(panels), panels
                assert "<bool>" not in told


def test_the_help_of_every_flag_fits_one_line_of_100_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", 100)
    with offenders() as case:
        for name in COMMANDS:
            assert run([name, "--help"]) == 0
            more = re.findall(r"^│ {8,}(?!-)\S.*", capsys.readouterr().out, re.MULTILINE)
            with case(name):
                assert not more


def test_a_line_without_a_command_prints_the_help_and_no_empty_message(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 2
    told = capsys.readouterr()
    assert "Usage: autorubric" in told.out
    assert told.err == ""


def test_every_flag_fills_a_setting_that_exists() -> None:
    own, run = set(SynthesisSettings.model_fields), set(RunSettings.model_fields)
    alone = {"dry_run", "start_over", "replace", "export_only", "show", "notice", "upload", "shard"}
    alone |= {"processes", "engine", "ray_address"}
    alone |= set(BatchSettings.model_fields)
    assert set(SynthesizeSettings.model_fields) - run - alone == own - {"out"}
    assert own > set(ROLE_FLAGS)
    values: dict[str, Any] = {
        "pool": 7,
        "rounds": 3,
        "judging": "criterion",
        "pitfalls": "keep",
        "evolved_share": 0.5,
    }
    for name, setting in ROLE_FLAGS.items():
        value = values.get(name, "http://localhost:8000/v1" if name.endswith("base_url") else "reference")
        place: Any = SynthesisSettings.from_values(
            tree({"profile": "full"}, models="builtin/offline", **{name: value})
        )
        for part in setting.split("."):
            place = place[int(part)] if part.isdigit() else getattr(place, part)
        assert place == value, name


def test_one_model_can_play_every_role() -> None:
    settings = SynthesisSettings.from_values(tree(models="builtin/offline"))
    slots = [(slot.name, slot.role.model) for slot in find_slots(settings)]
    names = ["reference", "response_a", "response_b", "rubric_a", "rubric_b", "merge", "augment"]
    assert slots == [(name, "builtin/offline") for name in names]


def test_a_flag_wins_over_the_config_file_and_both_over_the_model_for_all() -> None:
    config = {"roles": {"merge": "openai/from-config", "augment": {"model": "openai/from-config"}}}
    settings = SynthesisSettings.from_values(tree(config, models="openai/for-all", augment_model="openai/from-flag"))
    assert settings.role_models.merge.model == "openai/from-config"
    assert settings.role_models.augment.model == "openai/from-flag"
    assert settings.role_models.reference is not None and settings.role_models.reference.model == "openai/for-all"


def test_a_reference_writer_is_needed_only_where_it_writes() -> None:
    roles = {"responses": ["m/a", "m/b"], "rubrics": ["m/a"], "merge": "m/c", "augment": "m/c", "judges": ["m/a"]}
    own = SynthesisSettings.from_values({"input": "q.jsonl", "profile": "full", "roles": roles})
    assert "reference" not in [slot.name for slot in find_slots(own)]
    for values in ({"profile": "full", "grounding": "reference"}, {"profile": "basic"}):
        with pytest.raises(ConfigError, match="no model for the role 'reference'; pass reference_model or set roles"):
            SynthesisSettings.from_values({"input": "q.jsonl", "roles": roles, **values})
    del roles["merge"]
    with pytest.raises(ConfigError, match=r"2 problems:\n  no model for the role 'reference'.*\n  .* 'merge'"):
        SynthesisSettings.from_values({"input": "q.jsonl", "roles": roles})


def test_a_config_may_name_any_number_of_models_a_step() -> None:
    roles = {
        "reference": "a/r",
        "responses": ["a/1", "a/2", {"model": "a/3", "base_url": "http://localhost:1/v1"}],
        "rubrics": ["b/1", "b/2", "b/3"],
        "merge": "a/m",
        "augment": "a/g",
    }
    settings = SynthesisSettings.from_values(tree({"roles": roles}))
    assert [r.model for r in settings.role_models.responses] == ["a/1", "a/2", "a/3"]
    assert settings.role_models.responses[2].base_url == "http://localhost:1/v1"


def refusal(values: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        SynthesisSettings.from_values(values)
    return str(caught.value)


def test_an_unknown_key_names_the_nearest_known_one() -> None:
    assert "unknown setting 'concurency'; did you mean 'concurrency'?" in refusal(
        tree({"concurency": 5}, models="builtin/offline")
    )


def test_a_key_that_is_not_text_is_unknown() -> None:
    """YAML has keys that are numbers."""
    found = refusal({**tree(models="builtin/offline"), 5: 1})  # type: ignore[dict-item]
    assert found.startswith("unknown setting '5'; expected one of ")
    assert {"input", "models", "concurrency"} <= set(found.partition("expected one of ")[2].split(", "))


def test_models_of_another_type_are_one_problem() -> None:
    assert refusal({**FILES, "models": 5}) == "models is 5; expected a string"


def test_an_unknown_key_deep_in_a_role_is_found() -> None:
    config = {"roles": {"merge": {"model": "a/b", "base_ulr": "http://x"}}}
    message = refusal(tree(config, models="builtin/offline"))
    assert "unknown key 'roles.merge.base_ulr'; did you mean 'base_url'?" in message
    config = {"roles": {"merge": {"model": "a/b", "extra_body": "x"}}}
    assert "expected one of " in (told := refusal(tree(config, models="builtin/offline"))) and ", extra" in told


def test_a_role_without_a_model_is_named_with_its_setting() -> None:
    message = refusal(tree(reference_model="a/b", response_model_a="a/b", response_model_b="a/b"))
    assert "no model for the role 'merge'; pass merge_model or set roles.merge in a config" in message
    assert "no model for the role 'rubrics'; pass rubric_model_a" in message


def test_a_model_for_slot_b_alone_is_refused() -> None:
    with pytest.raises(ConfigError, match="slot b was given, but none for slot a; pass r"):
        SynthesisSettings.from_values(tree(rubric_model_b="a/b"))


@each(
    ("key", "value"),
    [("concurrency", 0), ("timeout", -1), ("temperature", "hot"), ("until", "rubric"), ("budget_usd", float("nan"))],
)
def test_a_value_out_of_range_is_named(key: str, value: Any) -> None:
    message = refusal(tree({key: value}, models="builtin/offline"))
    assert message.startswith((f"{key} is {value!r}", f"{key} {value!r} is unknown"))


def test_refresh_takes_a_slot_or_all_slots_of_a_role() -> None:
    settings = SynthesisSettings.from_values({**tree(models="builtin/offline"), "refresh": ["response", "merge"]})
    assert find_refreshed_slots(settings) == {"response_a", "response_b", "merge"}
    assert "unknown role 'judge'" in refusal({**tree(models="builtin/offline"), "refresh": ["judge"]})


def test_paths_in_a_config_start_at_its_folder(tmp_path: Path) -> None:
    (tmp_path / "synth.toml").write_text('input = "q.jsonl"\nout = "run"\n')
    values = read_config(tmp_path / "synth.toml", SynthesizeSettings)
    assert values == {"input": str(tmp_path / "q.jsonl"), "out": str(tmp_path / "run")}


def test_keys_come_from_the_slots_variable_or_the_named_one() -> None:
    config = {"roles": {"merge": {"model": "openai/a", "api_key_env": "MY_KEY"}}}
    settings = SynthesisSettings.from_values(tree(config, models="openai/a"))
    made = build_configs(settings, {"MY_KEY": "k-merge", "RESPONSE_A_API_KEY": "k-a"})
    assert (made["merge"].api_key, made["response_a"].api_key, made["response_b"].api_key) == ("k-merge", "k-a", None)
    with pytest.raises(ConfigError, match="no key for merge: MY_KEY is not set"):
        build_configs(settings, {})


def test_a_role_may_keep_to_a_rate() -> None:
    config = {"roles": {"merge": {"model": "openai/a", "requests_per_minute": 60, "tokens_per_minute": 9000}}}
    made = build_configs(SynthesisSettings.from_values(tree(config, models="openai/a")), {})
    assert (made["merge"].requests_per_minute, made["merge"].tokens_per_minute) == (60, 9000)
    assert made["augment"].requests_per_minute is None


def test_each_role_gets_its_own_temperature_and_length() -> None:
    made = build_configs(SynthesisSettings.from_values(tree(models="openai/a")), {})
    assert (made["response_a"].temperature, made["reference"].temperature) == (1.0, 0.2)
    assert (made["reference"].max_tokens, made["rubric_a"].max_tokens) == (8192, 2048)
    assert (made["merge"].timeout, made["merge"].max_retries) == (1200, 5)


WRONG = [
    ("grade", "1: 2", "the key 1 is not a string"),
    ("grade", "null: 2", "the key None is not a string"),
    ("grade", "data: d.json\nfew_shot: 1", "few_shot has no effect without --judge MODEL"),
    ("synthesize", "input: q.jsonl\nmodels: m\nprotocol: new", "protocol is 'new'; expected one of 1, 2"),
    ("synthesize", "input: q.jsonl\nmodels: m\nroles: m", "expected a mapping at 'roles', got str"),
    ("synthesize", "input: q.jsonl\nmodels: m\nfull: 3", "full is 3"),
    ("grade", "judge: m\nllm_calls: per_item", "unknown key 'llm_calls'; the keys are the flags of --help"),
    ("grade", "judge: m\ncalls: each", "calls: 'each' is unknown; expected one of per_criterion, per_item"),
    ("grade", "judge: m\nescalate_below: 2", "escalate_below is 2; expected a number of at most 1"),
    (
        "grade",
        "judge: m\nescalate_below: 0.5",
        "escalate_below has no effect without --escalate-to MODEL",
    ),
    (
        "grade",
        "prefix_first: false",
        "prefix_first: false has no effect without --judge MODEL",
    ),
    ("synthesize", "input: q.jsonl\nmodels: m\nroles: {merge: {modl: m}}", "unknown key 'roles.merge.modl'"),
    ("synthesize", "input: q.jsonl\nmodels: m\nroles: {merge: {model: m, temperature: hot}}", "merge.temperature"),
]


def test_a_message_about_a_config_names_its_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "given.yaml"
    with offenders() as case:
        for command, config, told in WRONG:
            path.write_text(config)
            for words in ([], ["--out", str(tmp_path / "out")]):
                with case(f"{command} {config!r} {words}"):
                    assert run([command, "--config", str(path), *words]) == 2
                    message = capsys.readouterr().err
                    assert str(path) in message and told in message, message


def test_a_flag_that_was_typed_is_not_said_to_be_in_the_config(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "given.yaml"
    path.write_text("data: d.json")
    assert run(["grade", "--config", str(path), "--few-shot", "1"]) == 2
    assert str(path) not in capsys.readouterr().err


def test_one_column_needs_no_list() -> None:
    with offenders() as case:
        for model in (GradeSettings, SelectSettings, LintSettings, RewardSettings, LabelSettings):
            with case(model.__name__):
                base: dict[str, Any] = {name: "d" for name in ("data", "run") if name in model.model_fields}
                assert model.from_values({**base, "column": "id=name"}).collect_given()["column"] == ["id=name"]


OF_TEXTS: tuple[tuple[type[Settings], str], ...] = (
    (SynthesizeSettings, "input"),
    (GradeSettings, "data"),
    (GradeSettings, "submissions"),
)
OF_PATHS: tuple[tuple[type[Settings], str], ...] = (
    (GradeSettings, "labels"),
    (MergeSettings, "shards"),
    (ViewSettings, "runs"),
    (LintSettings, "data"),
)
OF_RUNS: tuple[type[Settings], ...] = (
    *(AgreeSettings, CompareSettings, ReportSettings, ShowSettings, EvolveSettings, LabelStatusSettings),
    *(VerifySettings, GatesSettings, StatusSettings, DriftSettings),
)


def test_texts_in_a_config_stay_as_they_are_and_paths_start_at_its_folder(tmp_path: Path) -> None:
    path, texts = tmp_path / "given.json", ["Why does ice float?", "a/b"]
    with offenders() as case:
        for model, name in OF_TEXTS:
            with case(f"{model.__name__} {name}"):
                path.write_text(json.dumps({name: texts}))
                assert read_config(path, model) == {name: texts}
        for model, name in OF_PATHS:
            with case(f"{model.__name__} {name}"):
                path.write_text(json.dumps({name: ["a", "../b"]}))
                assert read_config(path, model) == {name: [str(tmp_path / "a"), str(tmp_path / "../b")]}
        for model in OF_RUNS:
            for name in {"run", "against"} & model.model_fields.keys():
                with case(f"{model.__name__} {name}"):
                    path.write_text(json.dumps({name: "graded"}))
                    assert read_config(path, model) == {name: str(tmp_path / "graded")}
