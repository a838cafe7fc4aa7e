"""Rewards from an `autorubric serve` elsewhere, over HTTP."""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from autorubric.errors import ConfigError, InputError
from autorubric.llm.http.secrets import NO_VARIABLE, is_private, is_variable_name
from autorubric.training.reward import DEFAULT_RULE, Reward, RewardRule, apply_policy
from autorubric.training.rewarder import Sample, log_failure

if TYPE_CHECKING:
    import aiohttp

_LATER = frozenset({408, 429, 500, 502, 503, 504})


class HttpRewards:
    """Gives rewards from a reward service.

    The service decides how a report becomes a reward; of the rule, only the failure policy applies here. An
    unreachable service counts as a failed judgment, never as 0. Retries are safe: the service pays for no judgment
    twice.

    Args:
        url: of the service, such as `http://rewards:8100`.
        rule: its policy says what the trainer gets if the reward is missing.
        token_env: the environment variable that holds the service's token.
        timeout: seconds one request may take.
        retries: maximum retries after transient failures.
        in_flight: maximum concurrent requests.
        allow_plain_http: send the token over plain HTTP to hosts outside this machine and private networks.

    Raises:
        ConfigError: the address is not valid, the variable is not set, or the token would go over plain HTTP.

    Example:
        >>> HttpRewards("rewards:8100")
        Traceback (most recent call last):
        autorubric.errors.ConfigError: service 'rewards:8100' is not an address; expected http://… or https://…
    """

    def __init__(  # noqa: PLR0913 (settings of one connection)
        self,
        url: str,
        rule: RewardRule = DEFAULT_RULE,
        *,
        token_env: str | None = None,
        timeout: float = 300.0,
        retries: int = 5,
        in_flight: int = 64,
        allow_plain_http: bool = False,
    ) -> None:
        if not url.startswith(("http://", "https://")):
            raise ConfigError(f"service {url!r} is not an address; expected http://… or https://…")
        host = urlsplit(url).hostname or ""
        if token_env and url.startswith("http://") and not allow_plain_http and not is_private(host):
            raise ConfigError(
                f"the token would go to {host} over plain HTTP, unencrypted; "
                "use an https:// address, or pass allow_plain_http=True"
            )
        if token_env is not None and not is_variable_name(token_env):
            raise ConfigError(f"token_env {NO_VARIABLE}")
        if token_env is not None and not os.environ.get(token_env):
            raise ConfigError(f"the service's token is expected in {token_env}, which is not set")
        self.rule = rule
        self.should_stop = False  # set by a reward of a service whose audit says so
        self._url = f"{url.rstrip('/')}/v1/reward"
        self._token_env = token_env
        self._timeout = timeout
        self._retries = retries
        self._in_flight = in_flight
        self._failed: Counter[str] = Counter()

    async def rewards(self, samples: Sequence[Sample]) -> list[Reward]:
        """A reward for each sample, in order.

        Raises:
            InputError: the service refuses a sample.
            RewardFailed: the reward is missing, and the rule's policy is `raise`.
        """
        import aiohttp

        token = {"Authorization": f"Bearer {os.environ[self._token_env]}"} if self._token_env else {}
        connector = aiohttp.TCPConnector(limit=self._in_flight)
        timeout = aiohttp.ClientTimeout(total=self._timeout)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout, headers=token) as session:
            found = await asyncio.gather(*(self._one(session, sample) for sample in samples), return_exceptions=True)
        rewards = []
        for one in found:
            if isinstance(one, BaseException):
                raise one
            rewards.append(self._told(one))
        return [apply_policy(reward, self.rule) for reward in rewards]

    def _told(self, reward: Reward) -> Reward:
        self.should_stop = self.should_stop or reward.stop
        if reward.failure is not None:
            kind = reward.failure.partition(":")[0]
            self._failed[kind] += 1
            log_failure(reward.failure, self._failed[kind], self.rule)
        return reward

    async def _one(self, session: aiohttp.ClientSession, sample: Sample) -> Reward:
        problem = ""
        for attempt in range(self._retries + 1):
            answer = await self._asked(session, sample)
            if isinstance(answer, Reward):
                return answer
            problem, wait = answer
            if attempt < self._retries:
                # Full jitter, so that trainers do not retry all at once.
                await asyncio.sleep(wait if wait is not None else random.uniform(0, min(30.0, 0.5 * 2**attempt)))
        return Reward(None, {}, f"service: {problem}")

    async def _asked(self, session: aiohttp.ClientSession, sample: Sample) -> Reward | tuple[str, float | None]:
        """The reward, or what went wrong and how long to wait."""
        import aiohttp

        try:
            async with session.post(self._url, json=_item(sample)) as answer:
                if answer.status in _LATER:
                    return f"HTTP {answer.status} from {self._url}", _seconds(answer.headers.get("Retry-After"))
                if answer.status != 200:
                    raise InputError(f"{self._url}: HTTP {answer.status}: {(await answer.text())[:500]}")
                return _reward(await answer.json())
        except (aiohttp.ClientError, TimeoutError) as error:
            return f"{type(error).__name__} at {self._url}: {error}", None


def _item(sample: Sample) -> dict[str, Any]:
    item: dict[str, Any] = {"submission": sample.submission, "rubric": sample.rubric.to_dict()}
    optional = {
        "query": sample.query,
        "reference": sample.reference,
        "length": sample.length,
        "id": sample.item or None,
        "step": sample.step,
    }
    return item | {name: value for name, value in optional.items() if value is not None}


def _reward(body: Any) -> Reward:
    if not isinstance(body, dict) or "reward" not in body:
        raise InputError(f"the service's reply has no 'reward': {str(body)[:200]}")
    failure = body.get("failure")
    if body["reward"] is None and failure is None:
        failure = "service: no reward, and no reason"
    value = body["reward"] if failure is None else None
    return Reward(
        value,
        body.get("criteria") or {},
        failure,
        tuple(body.get("closed") or ()),
        body.get("penalty") or 0.0,
        body.get("coverage"),
        tuple(body.get("dropped") or ()),
        "gap" if body.get("status") == "gap" else "ok",
        body.get("stop") is True,
        body.get("version"),
        body.get("compound"),
    )


def _seconds(header: str | None) -> float | None:
    try:
        return None if header is None else max(0.0, min(float(header), 60.0))
    except ValueError:
        return None
