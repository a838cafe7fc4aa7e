from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from autorubric.cli.app import run
from autorubric.testing import LoopbackEndpoint
from tests.battery.bench import KEY, Bench, give_rewards, lay_out, lay_out_formats


@pytest.fixture(scope="session")
def counting_endpoint() -> Iterator[LoopbackEndpoint]:
    with LoopbackEndpoint().in_thread() as endpoint:
        yield endpoint


@pytest.fixture(scope="session")
def sound_folder(counting_endpoint: LoopbackEndpoint, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sound files, a finished run in `run` and in copies of it, its shards, and rewards in `rewards`."""
    folder = tmp_path_factory.mktemp("sound")
    lay_out(folder)
    lay_out_formats(folder)
    give_rewards(folder / "rewards")
    judge = f"judge@{counting_endpoint.base_url}"
    assert run(["grade", str(folder / "essays.json"), "--judge", judge, "--out", str(folder / "run")]) == 0
    for part in ("1", "2"):
        words = ["grade", str(folder / "essays.json"), "--judge", judge, "--shard", f"{part}/2"]
        assert run([*words, "--out", str(folder / f"part-{part}")]) == 0
    for name in ("graded", "shown", "rollouts"):
        shutil.copytree(folder / "run", folder / name)
    assert run(["report", str(folder / "run"), "--out", str(folder / "report.json")]) == 0
    return folder


@pytest.fixture(scope="session")
def workplace(sound_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sound files in which commands run; each test leaves it as it found it."""
    return Path(shutil.copytree(sound_folder, tmp_path_factory.mktemp("bench") / "here"))


@pytest.fixture
def bench(
    sound_folder: Path,
    workplace: Path,
    counting_endpoint: LoopbackEndpoint,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Bench]:
    monkeypatch.chdir(workplace)
    for name in [name for name in os.environ if name.endswith(("_API_KEY", "_BASE_URL"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("OPENAI_BASE_URL", counting_endpoint.base_url)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    made = Bench(workplace, counting_endpoint, capsys, sound_folder)
    with made.restored():
        yield made
