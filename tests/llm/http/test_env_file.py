"""Keys of `.env` files, read where endpoints are resolved."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from autorubric import ConfigError, LLMConfig
from autorubric.llm.http.providers import resolve
from autorubric.llm.http.secrets import parse_keys
from tests.offenders import each


def key_of(model: str, **settings: str) -> str | None:
    key = resolve(LLMConfig(model, **settings)).key  # type: ignore[arg-type]
    return None if key is None else key.reveal()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory two levels below a `.env`."""
    for name in ("OPENAI_API_KEY", "GROQ_API_KEY", "TEAM_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / ".env").write_text(
        "OPENAI_API_KEY=sk-from-file  # comment\nexport GROQ_API_KEY='gsk-2'\nTEAM_KEY=sk-team\n"
        "OPENAI_BASE_URL=http://10.0.0.1/v1\nHTTPS_PROXY=http://10.0.0.1:1\n"
    )
    (tmp_path / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a" / "b")
    monkeypatch.setenv("HOME", str(tmp_path / "none"))  # as in containers, where it may also be another user's
    return tmp_path


def test_the_nearest_file_has_keys_and_the_environment_goes_first(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert key_of("openai/gpt-5.1") == "sk-from-file"
    assert key_of("openai/gpt-5.1", api_key_env="TEAM_KEY") == "sk-team"
    assert key_of("openai/gpt-5.1", api_key="sk-own") == "sk-own"
    monkeypatch.setenv("OPENAI_API_KEY", "sk-environment")
    assert key_of("openai/gpt-5.1") == "sk-environment"
    monkeypatch.delenv("OPENAI_API_KEY")
    (project / "a" / ".env").write_text("OPENAI_API_KEY=sk-nearer\n")
    assert key_of("openai/gpt-5.1") == "sk-nearer"


def test_a_file_moves_no_endpoint_and_changes_no_environment(project: Path) -> None:
    before = dict(os.environ)
    assert resolve(LLMConfig("openai/gpt-5.1")).base_url == "https://api.openai.com/v1"
    assert dict(os.environ) == before


@pytest.mark.skipif(getattr(os, "getuid", int)() != 0 or os.name == "nt", reason="only root can give a file away")
def test_the_file_of_another_user_is_not_read(project: Path) -> None:
    os.chown(project / ".env", 12345, 12345)
    with pytest.raises(ConfigError, match="set OPENAI_API_KEY"):
        resolve(LLMConfig("openai/gpt-5.1"))


@each(
    ("line", "value"),
    [
        ("A_API_KEY=sk-1", "sk-1"),
        ("  export  A_API_KEY = 'sk 1'  # note", "sk 1"),
        ('A_API_KEY="sk-1"#note', "sk-1"),
        ("A_API_KEY=sk-1#2", "sk-1#2"),
        ("A_API_KEY=sk-1 # note", "sk-1"),
        ("A_API_KEY=", None),
        ("A_API_KEY='unclosed", None),
        ("# A_API_KEY=sk-1", None),
        ("A_KEY=sk-1", None),
        ("A_API_KEY", None),
    ],
)
def test_a_line_sets_a_key_as_a_shell_reads_it(line: str, value: str | None) -> None:
    assert parse_keys(f"B=1\n{line}\nC=2\n").get("A_API_KEY") == value
