"""Rewards for verl: point `reward.custom_reward_function.path` at this file.

verl calls `compute_score` once per sample, with the settings of `reward_kwargs`, in several reward worker processes.
With `service`, they all call one `autorubric serve` over HTTP, which applies the limits and keeps the records.
"""

from __future__ import annotations

import asyncio
import math
import numbers
import os
import platform
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

from autorubric.core.rubric import Rubric
from autorubric.errors import ConfigError, InputError
from autorubric.files.keys import describe_unknown_key
from autorubric.llm.http.retry import read_retry_after
from autorubric.llm.http.secrets import NO_VARIABLE, is_private, is_variable_name
from autorubric.rows import Record, RowReader, join_names
from autorubric.rows.columns import ROLES
from autorubric.rows.record import find_rubric, is_blank, to_plain
from autorubric.training.observations import FailureLog
from autorubric.training.queries import as_conversation, read_rubric
from autorubric.training.rewarder import RewardSource, Sample, gather_all, judge_config, make_rewarder
from autorubric.training.rewards import DEFAULT_RULE, Reward, RewardRule, apply_policy, refuse_gap

if TYPE_CHECKING:
    import aiohttp


_LATER = frozenset({408, 429, 500, 502, 503, 504})
_PATIENCE = 300.0  # seconds that a submission waits for a busy service
_Problem: TypeAlias = tuple[str, int, float | None]
"""The message, the HTTP status (0 without one), and the seconds to wait if the service sends them."""


class HttpRewards:
    """Gives rewards from a reward service.

    The service decides how a report becomes a reward; the rule here has only the failure policy. An unreachable
    service counts as a failed judgment, never as 0. A submission waits up to 5 minutes for a busy service (HTTP 429).
    Retries are safe: the service pays for no judgment twice.

    Args:
        url: the address of the service, such as `http://rewards:8100`.
        rule: only its failure policy is used: what the trainer gets if the reward is missing.
        token_env: the environment variable that contains the service's token.
        timeout: maximum seconds per request.
        retries: maximum retries after transient failures.
        in_flight: maximum concurrent requests.
        allow_plain_http: send the token over plain HTTP to hosts outside this machine and private networks.

    Raises:
        ConfigError: the address is not valid, the variable is not set, the token would go over plain HTTP, or the
            rule has more than a failure policy.

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
        if rule != replace(DEFAULT_RULE, on_failure=rule.on_failure, neutral=rule.neutral):
            raise ConfigError("a service has its own rule; only on_failure and neutral of a rule apply here")
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
        self.should_stop = False  # set by a reward with `stop`
        self._url = f"{url.rstrip('/')}/v1/reward"
        self._token_env = token_env
        self._timeout = timeout
        self._retries = retries
        self._in_flight = in_flight
        self._failures = FailureLog(rule)

    async def rewards(self, samples: Sequence[Sample]) -> list[Reward]:
        """Return a reward for each sample, in order.

        Raises:
            InputError: the service refuses a sample.
            RewardFailed: the reward is missing, and the rule's policy is `raise`; or the service's judge refuses
                all samples before it has given a reward, as in `Rewarder.rewards`.
        """
        import aiohttp

        token = {"Authorization": f"Bearer {os.environ[self._token_env]}"} if self._token_env else {}
        timeout = aiohttp.ClientTimeout(total=self._timeout)
        turns = asyncio.Semaphore(self._in_flight)  # waiting in the connector's queue would count toward the timeout
        connector = aiohttp.TCPConnector(limit=self._in_flight)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout, headers=token) as session:
            rewards = await gather_all(self._request(session, turns, sample) for sample in samples)
        for reward in rewards:
            self.should_stop = self.should_stop or reward.stop
            if reward.failure is not None:
                self._failures.note(reward.failure)
        self._failures.check(rewards)
        return [apply_policy(reward, self.rule) for reward in rewards]

    async def _request(self, session: aiohttp.ClientSession, turns: asyncio.Semaphore, sample: Sample) -> Reward:
        problem = ""
        for attempt in range(self._retries + 1):
            async with turns:
                answer = await self._ask_until_admitted(session, sample)
            if isinstance(answer, Reward):
                return answer
            problem, _, wait = answer
            if attempt < self._retries:
                await _sleep(min(30.0, 0.5 * 2**attempt) if wait is None else wait)
        return Reward(None, {}, f"service: {problem}")

    async def _ask_until_admitted(self, session: aiohttp.ClientSession, sample: Sample) -> Reward | _Problem:
        """Return the service's answer; requests to a busy service are repeated for up to `_PATIENCE` seconds."""
        ends = time.monotonic() + _PATIENCE
        while True:
            answer = await self._ask(session, sample)
            if isinstance(answer, Reward) or answer[1] != 429 or time.monotonic() > ends:
                return answer
            await _sleep(1.0 if answer[2] is None else answer[2])

    async def _ask(self, session: aiohttp.ClientSession, sample: Sample) -> Reward | _Problem:
        import aiohttp

        try:
            async with session.post(self._url, json=_build_item(sample)) as answer:
                if answer.status in _LATER:
                    wait = read_retry_after(answer.headers)
                    wait = None if wait is None else min(wait, 60.0)
                    return f"HTTP {answer.status} from {self._url}", answer.status, wait
                if answer.status != 200:
                    raise InputError(f"{self._url}: HTTP {answer.status}: {(await answer.text())[:500]}")
                return _read_reward(await answer.json())
        except (aiohttp.ClientError, TimeoutError) as error:
            return f"{type(error).__name__} at {self._url}: {error}", 0, None


async def _sleep(seconds: float) -> None:
    """Sleep for a random 1 to 1.5 times this time, so that callers do not all retry at once."""
    await asyncio.sleep(seconds * random.uniform(1.0, 1.5))


def _build_item(sample: Sample) -> dict[str, Any]:
    names = ("submission", "query", "reference", "length", "step", "split")
    item = {"rubric": sample.rubric.to_dict(), "id": sample.item or None}
    item |= {name: getattr(sample, name) for name in names}
    return {name: value for name, value in item.items() if value is not None}


_FIELDS = tuple(spec.name for spec in fields(Reward) if spec.name != "value")


def _read_reward(body: Any) -> Reward:
    if not isinstance(body, dict) or "reward" not in body:
        raise InputError(f"the service's reply has no 'reward': {str(body)[:200]}")
    failure = body.get("failure")
    if body["reward"] is None and failure is None:
        failure = "service: no reward, and no reason"
    reward: dict[str, Any] = {"criteria": {}}
    reward |= {name: body[name] for name in _FIELDS if body.get(name) is not None}
    reward |= {name: tuple(reward[name]) for name in ("closed", "dropped") if name in reward}
    return Reward(body["reward"] if failure is None else None, **{**reward, "failure": failure})


_RULE = ("formula", "on_failure", "neutral", "gates", "dropout", "dropout_by", "dropout_seed")
_SERVICE = ("service", "token_env", "allow_plain_http")
_JUDGE = ("judge", "base_url", "api_key_env", "run_dir", "max_in_flight", "compound", "reasoning", *_SERVICE)
_COLUMNS = {"query": "prompt", "rubric": "reward_model"}
"""Settings that name a key of `extra_info`, with the default key that is tried first."""
_VERL = ("reward_router_address", "reward_model_tokenizer")


async def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: Any,
    extra_info: Mapping[str, Any] | None = None,
    **settings: Any,
) -> dict[str, float]:
    """Return the reward of one sample and its statistics, with the same keys for every sample.

    The query and the rubric are read from `extra_info`, under their usual names: first `prompt` and `reward_model`,
    which `convert --to verl` writes. Without a rubric there, `ground_truth` is its JSON text.

    Args:
        data_source: the row's data source; not used.
        solution_str: the response.
        ground_truth: the row's ground truth; may be empty.
        extra_info: the row's extra info; not changed.
        settings: `judge` (and `base_url`, `api_key_env`) or `service` (and `token_env`); `formula`, `on_failure`
            (raise, nan or neutral), `neutral`, `gates`, `dropout`, `dropout_by` and `dropout_seed`; `compound`,
            `reasoning`, `run_dir`, `max_in_flight`; `query` and `rubric` name keys of `extra_info`;
            `allow_plain_http` sends keys over plain HTTP to hosts outside this machine and private networks.

    The training step is the version of the weights that began the response, which verl's rollout servers report
    (`min_global_steps`); a rollout that reports none has no step. An `extra_info["split"]` that does not begin with
    `train` marks an evaluation, which `autorubric drift` leaves out.

    Raises:
        InputError: a setting is unknown, or the row has no rubric.
        RewardFailed: a judgment failed, and `on_failure` is `raise`, the default here.
        RewardGap: the service's audit says that training should stop.

    Example:
        >>> import asyncio
        >>> rubrics = [{"criterion": "Contains at most 5 words.", "points": 1}]
        >>> row = {"prompt": "Why?", "reward_model": {"rubrics": rubrics}}
        >>> found = asyncio.run(compute_score("chat", "Because of the moon.", "", row, judge="builtin/offline"))
        >>> found["score"], sorted(found)
        (1.0, ['acc', 'coverage', 'gate_closed', 'judge_failed', 'score'])
    """
    own = {key: _freeze(value) for key, value in settings.items() if key not in (*_VERL, *_COLUMNS)}
    source = _make_source(tuple(sorted(own.items())))
    info = to_plain(dict(extra_info or {}))
    query, rubric = _read_columns(info, ground_truth, {role: settings.get(role) for role in _COLUMNS})
    split = info.get("split") if isinstance(info.get("split"), str) else None
    [reward] = await source.rewards([Sample(solution_str, rubric, query, step=_read_step(info), split=split)])
    refuse_gap([reward])
    if reward.value is None:
        raise InputError("verl does not accept None; set on_failure to raise, nan or neutral")
    return {
        "score": float(reward.value),
        "acc": float(reward.value),
        "coverage": 0.0 if reward.coverage is None else float(reward.coverage),
        "judge_failed": float(reward.failure is not None),
        "gate_closed": float(bool(reward.closed)),
    }


def _read_step(info: Mapping[str, Any]) -> int | None:
    value = info.get("min_global_steps")
    return int(value) if isinstance(value, numbers.Integral) and int(value) >= 0 else None


def _read_columns(info: dict[str, Any], truth: Any, names: Mapping[str, str | None]) -> tuple[Any, Rubric]:
    """Return the query and the rubric of a row."""
    usual = {role: name for role, name in _COLUMNS.items() if not is_blank(find_rubric(info.get(name)))}
    given = usual | {role: name for role, name in names.items() if name is not None}
    reader = RowReader("extra_info", tuple(_COLUMNS), "{role}: NAME in reward_kwargs", given)
    row = reader.read(Record("extra_info", 1, info))
    query, own = row.read_value("query"), row.read_value("rubric")
    held, where = (to_plain(truth), "ground_truth") if own is None else (own, "extra_info")
    if is_blank(held):
        known, found = ", ".join(ROLES["rubric"].quiet), join_names(info)
        raise InputError(f"the row has no rubric: expected one of {known} in extra_info; its keys are {found}")
    return None if query is None else as_conversation(query), read_rubric(held, where)


def _freeze(value: Any) -> Any:
    """Return a setting as a hashable value; OmegaConf has its own list type, and parses `nan` as a number."""
    if isinstance(value, float) and math.isnan(value):
        return "nan"
    return value if isinstance(value, str | int | float | bool | None) else tuple(value)


@lru_cache(maxsize=16)
def _make_source(settings: tuple[tuple[str, Any], ...]) -> RewardSource:
    given = dict(settings)
    if unknown := [key for key in given if key not in (*_RULE, *_JUDGE)]:
        raise InputError(describe_unknown_key(key, (*_RULE, *_JUDGE, *_COLUMNS), "reward_kwargs") for key in unknown)
    rule = RewardRule(**{"on_failure": "raise", **{key: given[key] for key in _RULE if given.get(key) is not None}})
    if rule.on_failure == "none":
        raise ConfigError("verl does not accept None; set on_failure to raise, nan or neutral")
    service, plain = given.get("service"), given.get("allow_plain_http") or False
    if service is not None:
        ours = (*_SERVICE, "on_failure", "neutral")
        if ignored := [key for key, value in settings if value is not None and key not in ours]:
            told = "reward_kwargs has service, so these settings would have no effect"
            raise ConfigError(f"{told}: {', '.join(ignored)}; pass them to `autorubric serve`")
        return HttpRewards(service, rule, token_env=given.get("token_env"), allow_plain_http=plain)
    if given.get("judge") is None:
        raise ConfigError("reward_kwargs has neither judge nor service; set one of them")
    run_dir = given.get("run_dir")
    return make_rewarder(
        judge_config(given["judge"], given.get("base_url"), given.get("api_key_env"), allow_plain_http=plain),
        rule,
        # Workers of one machine share a ledger; SQLite cannot share a ledger over a network.
        run_dir=None if run_dir is None else Path(run_dir) / f"reward-{platform.node()}",
        max_in_flight=given.get("max_in_flight", 64),
        compound=given.get("compound") or "as_is",
        reasoning=given.get("reasoning") or "drop",
    )
