"""Providers that an installed package registers as entry points."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from autorubric import plugins
from autorubric.errors import InputError
from autorubric.llm.config import LLMConfig
from autorubric.llm.http import providers
from autorubric.testing import LoopbackEndpoint
from tests.offenders import offenders
from tests.processes import finish_with_packages

RUBRIC = [{"name": "blue", "requirement": "Says that it is blue."}]


def install(folder: Path, source: str) -> dict[str, str]:
    """The environment in which a package with the provider `acme` is installed."""
    info = folder / "acme-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / "acme.py").write_text(source, encoding="utf-8")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("[autorubric.providers]\nacme = acme:ACME\n", encoding="utf-8")
    unset = {name: value for name, value in os.environ.items() if not name.endswith(("_API_KEY", "_BASE_URL"))}
    return {**unset, "PYTHONPATH": str(folder)}


def define(base_url: str) -> str:
    arguments = f'"{base_url}", ("ACME_API_KEY",), "ACME_BASE_URL"'
    return f"from autorubric.llm import Provider\n\nACME = Provider({arguments})\n"


WORDS = ["grade", "data.json", "-o", "run", "--judge"]


def lay_out(folder: Path) -> None:
    """Texts and the rubric that `WORDS` grades."""
    items = [{"submission": "It is blue.", "description": "one"}]
    data = {"prompt": "Which colour has the sky?", "rubric": RUBRIC, "items": items}
    (folder / "data.json").write_text(json.dumps(data), encoding="utf-8")


def met(body: dict[str, object]) -> str:
    return json.dumps({"criterion_status": "MET", "explanation": "It says so."})


def test_the_command_calls_a_provider_of_an_installed_package_with_its_own_key(tmp_path: Path) -> None:
    with LoopbackEndpoint(replier=met, key="planted-acme-key").in_thread() as endpoint:
        environment = install(tmp_path / "site", define(endpoint.base_url))
        keys = {"ACME_API_KEY": "planted-acme-key", "OPENAI_API_KEY": "planted-openai-key"}
        lay_out(tmp_path)
        command, variables = [sys.executable, "-m", "autorubric", *WORDS, "acme/colour-1"], environment | keys
        ended = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False)
        models = [received.body["model"] for received in endpoint.received]
    assert ended.returncode == 0, ended.stderr
    assert set(models) == {"colour-1"}
    [line] = (tmp_path / "run" / "items.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(line)["report"]["score"] == 1.0


WRONG = [
    (define("https://llm.acme.example/v1"), "acme/m", "no key for acme/m: set ACME_API_KEY"),
    # The host decides which key is sent, whatever the model is called.
    (define("https://llm.acme.example/v1"), "m@https://llm.acme.example/v1", "no key for m: set ACME_API_KEY"),
    (define("https://llm.acme.example/v1"), "acne/m", "did you mean 'acme'?"),
    (define("ftp://llm.acme.example"), "acme/m", "base_url of provider acme 'ftp://llm.acme.example' is not"),
    ("ACME = 'https://llm.acme.example/v1'", "acme/m", "in group 'autorubric.providers' is a str"),
    ("import nowhere", "acme/m", "No module named 'nowhere'"),
]


def resolve_in_process(folder: Path, source: str, model: str) -> str:
    """The error of resolving a model in a process where the package with the provider is installed."""
    install(folder, source)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        patch.delitem(sys.modules, "acme", raising=False)
        plugins.find_plugins.cache_clear()
        providers._load_provider.cache_clear()
        try:
            with pytest.raises(InputError) as caught:
                providers.resolve(LLMConfig(model), {"OPENAI_API_KEY": "planted-openai-key"})
        finally:
            sys.modules.pop("acme", None)
            plugins.find_plugins.cache_clear()
            providers._load_provider.cache_clear()
    return str(caught.value)


def test_what_is_wrong_with_a_provider_is_told_before_anything_is_sent(tmp_path: Path) -> None:
    with offenders() as case:
        for number, (source, model, message) in enumerate(WRONG):
            with case(f"{number} {model}"):
                assert message in resolve_in_process(tmp_path / str(number), source, model)


def test_the_command_refuses_a_wrong_provider_with_the_same_message(tmp_path: Path) -> None:
    source, model, message = WRONG[-1]
    environment = install(tmp_path / "site", source) | {"OPENAI_API_KEY": "planted-openai-key"}
    lay_out(tmp_path)
    ended = finish_with_packages(tmp_path / "site", [*WORDS, model], tmp_path, environment)
    assert ended.returncode == 2, ended.stderr
    assert message in " ".join(ended.stderr.split())
