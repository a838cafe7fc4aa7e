"""Names that lead to link-local addresses, and redirects, get no key."""

from __future__ import annotations

import asyncio
import socket

import aiohttp
import pytest
from aiohttp.abc import AbstractResolver, ResolveResult

from autorubric.llm.http.transport import Transport, TransportError
from autorubric.testing import LoopbackEndpoint


class _Leading(AbstractResolver):
    """Finds one address for every name, as a rebound name in the domain name system would."""

    address = "127.0.0.1"

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        kind = socket.AF_INET6 if ":" in self.address else socket.AF_INET
        return [ResolveResult(hostname=host, host=self.address, port=port, family=kind, proto=0, flags=0)]

    async def close(self) -> None:
        pass


async def sent_to(address: str, url: str, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(_Leading, "address", address)
    monkeypatch.setattr(aiohttp, "DefaultResolver", _Leading)
    transport = Transport()
    try:
        return (await transport.post(url, {"Authorization": "Bearer planted"}, b"{}", 5.0)).status
    finally:
        await transport.close()


@pytest.mark.parametrize("address", ["169.254.169.254", "fe80::1", "::ffff:169.254.169.254", "fd00:ec2::254"])
async def test_a_name_that_leads_to_a_link_local_address_is_not_followed(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(TransportError, match="link-local address, where keys are never sent") as caught:
        await sent_to(address, "http://harmless.example/v1/chat/completions", monkeypatch)
    assert not caught.value.maybe_billed


async def test_a_name_that_leads_elsewhere_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    async with LoopbackEndpoint() as endpoint:
        url = endpoint.base_url.replace("127.0.0.1", "harmless.example") + "/chat/completions"
        assert await sent_to("127.0.0.1", url, monkeypatch) == 400  # the loopback endpoint asks for messages


def test_the_key_does_not_follow_a_redirect() -> None:
    from autorubric import Criterion, Rubric
    from autorubric.graders import CriterionGrader
    from autorubric.llm.config import LLMConfig

    with LoopbackEndpoint(faults={"redirect": 1.0}).in_thread() as endpoint:
        config = LLMConfig("m", api_base=endpoint.base_url, api_key="sk-planted-0123456789", max_retries=0)
        rubric = Rubric([Criterion(requirement="Is brief.")])
        report = asyncio.run(rubric.grade("An essay.", CriterionGrader(judge_model_config=config)))
        assert report.score is None
        assert endpoint.counts.elsewhere == 0
        assert endpoint.counts.elsewhere_with_key == 0
