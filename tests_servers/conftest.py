"""One server after another; the tests of a server that is not installed are skipped with the reason."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests_servers.servers import ROOT, SERVERS, Server, running


@dataclass(frozen=True)
class Up:
    """A server that runs."""

    server: Server
    address: str
    folder: Path

    @property
    def base_url(self) -> str:
        return f"{self.address}/v1"

    def name(self, model: str) -> str:
        return model.format(folder=self.folder)

    @property
    def judges(self) -> tuple[str, ...]:
        return tuple(self.name(model) for model in self.server.judges)


def _reason(name: str) -> str:
    failed = ROOT / f"{name}.failed"
    if failed.exists():
        return failed.read_text()
    return "" if (ROOT / f"{name}.made").exists() else "not installed; run make test-servers"


@pytest.fixture(scope="session", params=SERVERS, ids=lambda server: server.name)
def up(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    server: Server = request.param
    if reason := _reason(server.name):
        pytest.skip(f"{server.name} is NOT tested: {reason}")
    folder = tmp_path_factory.mktemp(server.name)
    with running(server, folder) as address:
        yield Up(server, address, folder)
