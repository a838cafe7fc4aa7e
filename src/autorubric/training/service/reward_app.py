"""The HTTP interface of the service: routes, statuses, checks of a call, and admission of submissions."""

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from aiohttp import ClientError, web
from aiohttp.http_exceptions import HttpProcessingError

from autorubric.errors import AutorubricError, InputError, LedgerError, NotSavedError, pluralize
from autorubric.files.strict_json import encode_json
from autorubric.llm.http.access import is_allowed, is_own_name
from autorubric.training.adapters.openrlhf import remote_reply
from autorubric.training.observations import parse_failure_kind
from autorubric.training.rewards import Reward
from autorubric.training.service.calls import RewardCall, Shape, read_call
from autorubric.training.service.door import SharedSeats
from autorubric.training.service.engine import RewardEngine
from autorubric.training.service.metrics import CONTENT_TYPE, ServiceMetrics

_WINDOW = 256  # recent submissions that the throughput is measured on
_LONGEST_WAIT = 60


class Refused(AutorubricError):
    """A rejected call; `status` is its HTTP status."""

    def __init__(self, status: int, problems: str | Sequence[str], **headers: str) -> None:
        self.status = status
        self.problems = (problems,) if isinstance(problems, str) else tuple(problems)
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}
        super().__init__("; ".join(self.problems))


class OwnSeats:
    """The count of open submissions in a service with one process."""

    open = 0

    def reserve(self, count: int, room: int) -> int:
        """Add `count` open submissions and return 0; if they exceed the room, add none and return the excess."""
        if self.open + count > room:
            return self.open + count - room
        self.open += count
        return 0

    def release(self, count: int) -> None:
        """Subtract `count` open submissions."""
        self.open -= count


class Admission:
    """Admits submissions while there is room."""

    def __init__(self, room: int, seats: OwnSeats | SharedSeats | None = None) -> None:
        self.room = room
        self._seats = seats or OwnSeats()
        self._ended: deque[float] = deque(maxlen=_WINDOW)

    @property
    def open(self) -> int:
        """The number of open submissions in the service."""
        return self._seats.open

    @contextmanager
    def entered(self, count: int) -> Iterator[None]:
        """Reserve room for `count` submissions until the end of the `with` block.

        Raises:
            Refused: there is no room; the error says when to try again.
        """
        if over := self._seats.reserve(count, self.room):
            wait = str(self._estimate_wait(over))
            raise Refused(429, f"the service is busy; retry in {wait} s", Retry_After=wait)
        try:
            yield
        finally:
            self._seats.release(count)
            self._ended.extend([time.monotonic()] * count)

    def _estimate_wait(self, over: int) -> int:
        """Return the estimated whole seconds until `over` submissions have ended."""
        if len(self._ended) < 2:
            return 1
        span = self._ended[-1] - self._ended[0]
        pace = (len(self._ended) - 1) / span if span > 0 else math.inf
        return max(1, min(_LONGEST_WAIT, math.ceil(over / pace)))


_MOST_PROBLEMS = 100  # in one response
_MOST_WORDS = 1000  # characters of one problem
_LOG = logging.getLogger(__name__)
_BODY_SECONDS = 30.0  # maximum time for the body to arrive


@dataclass(frozen=True, slots=True)
class ServiceLimits:
    """The token that a request needs, and the limits of its body and duration."""

    token: str | None = None
    most_bytes: int = 8 << 20
    deadline: float = 300.0


Whole: TypeAlias = Callable[[dict[str, Any]], Awaitable[ServiceMetrics]]
"""Adds the counts of the service's other processes to those of this one."""


class RewardService:
    """Answers HTTP requests.

    Args:
        engine: gives the rewards.
        admission: admits submissions.
        limits: the limits of a call.
        whole: sums the counts of all processes; None if this is the only one.
    """

    def __init__(
        self, engine: RewardEngine, admission: Admission, limits: ServiceLimits, whole: Whole | None = None
    ) -> None:
        self.engine = engine
        self.admission = admission
        self.counts = ServiceMetrics()
        self._limits = limits
        self._whole = whole
        self._routes = {
            "/v1/reward": ("POST", self.answer_reward),
            "/healthz": ("GET", self.answer_health),
            "/metrics": ("GET", self.answer_metrics),
        }

    async def handle(self, request: web.BaseRequest) -> web.Response:
        """Answer one HTTP request: `POST /v1/reward`, `GET /healthz`, `GET /metrics`."""
        route = self._routes.get(request.path)
        if route is None:
            return self._reject(Refused(404, f"no such path; expected {', '.join(self._routes)}"))
        method, answer_to = route
        if request.method != method and (method, request.method) != ("GET", "HEAD"):
            problem = f"{request.method[:20]} is not supported; expected {method} {request.path}"
            return self._reject(Refused(405, problem, Allow=method))
        try:
            return await answer_to(request)
        except Exception as error:
            _LOG.exception("internal error, please report this bug")
            return self._reject(Refused(500, f"internal error, please report this bug: {type(error).__name__}"))

    async def answer_reward(self, request: web.BaseRequest) -> web.Response:
        """Answer a call for rewards."""
        try:
            self._check_caller(request)
            call = read_call(await self._read_body(request))
            await self.engine.check(call.samples)  # before evolution: a refused call must begin no step and no rubric
            if self.engine.evolution is not None:
                call = replace(call, samples=tuple(self.engine.evolution.assign_versions(call.samples)))
            body = build_answer(call.shape, await self._compute_rewards(call))
        except InputError as error:
            return self._reject(Refused(400, error.problems))
        except NotSavedError as error:
            return self._reject(Refused(503, f"no call is made: {error}"))
        except LedgerError as error:
            if not self.engine.broken:
                _LOG.error("every call gets HTTP 503 from now on, and no judge is asked: %s", error)
            self.engine.broken = str(error)
            return self._reject(Refused(503, f"nothing can be recorded, so no call is made: {error}"))
        except Refused as error:
            return self._reject(error)
        return self._build_response(200, body)

    async def answer_health(self, request: web.BaseRequest) -> web.Response:
        """Report whether the service can answer calls; needs no token and reveals nothing else."""
        if self.engine.broken:
            return self._build_response(503, {"status": "broken", "reason": "the ledger cannot be written"})
        return self._build_response(200, {"status": "ok", "open": self.admission.open, "room": self.admission.room})

    async def answer_metrics(self, request: web.BaseRequest) -> web.Response:
        """Answer with the metrics, for Prometheus."""
        try:
            self._check_name(request)
        except Refused as error:
            return self._reject(error)
        auditor, activity, counts = self.engine.auditor, self.engine.executor.snapshot(), self.counts
        if auditor is not None:
            activity |= auditor.executor.snapshot()
        if self._whole is not None:
            counts = await self._whole(self.collect_counts())
            activity = counts.activity
        text = counts.render(activity, self.admission.open, self.admission.room, auditor, self.engine.evolution)
        return web.Response(body=text.encode(), headers={"Content-Type": CONTENT_TYPE})

    def collect_counts(self) -> dict[str, Any]:
        """Return the counts of this process as JSON values for another process."""
        return self.counts.to_dict(self.engine.executor.snapshot())

    async def _compute_rewards(self, call: RewardCall) -> list[Reward]:
        count = len(call.samples)
        if count > self.admission.room:
            most = self.admission.room
            raise Refused(
                413, f"{pluralize(count, 'submission')} in one call; this service accepts at most {most} per call"
            )
        deadline = min(call.deadline or self._limits.deadline, self._limits.deadline)
        started = time.perf_counter()
        try:
            with self.admission.entered(count):
                async with asyncio.timeout(deadline):
                    rewards = await asyncio.gather(*map(self.engine.reward, call.samples))
        except TimeoutError:
            words = f"no reward within {deadline:g} s; later verdicts are recorded, so retry"
            raise Refused(504, words) from None
        seconds = time.perf_counter() - started
        for reward in rewards:
            kind = None if reward.failure is None else parse_failure_kind(reward.failure)
            self.counts.count_reward(seconds, kind, reward.compound)
        return rewards

    def _check_caller(self, request: web.BaseRequest) -> None:
        self._check_name(request)
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        # Web pages can send forms and plain text across origins without a preflight request.
        if kind != "application/json":
            raise Refused(415, f"Content-Type is {kind[:80] or 'missing'}; expected application/json")
        if request.headers.get("content-encoding", "identity").lower() != "identity":
            raise Refused(415, "the body is compressed; send it uncompressed")

    def _check_name(self, request: web.BaseRequest) -> None:
        token = self._limits.token
        if token is None:
            if not is_own_name(request.headers.get("host")):
                raise Refused(421, "without a token, only requests from this machine to localhost are accepted")
        elif not is_allowed(request.headers.get("authorization"), token):
            raise Refused(401, "send the token of this service as Authorization: Bearer", WWW_Authenticate="Bearer")

    async def _read_body(self, request: web.BaseRequest) -> bytes:
        """Read the request's body. After a rejection, the server's lingering close discards the rest of it."""
        most = self._limits.most_bytes
        too_long = Refused(413, f"the body is longer than {most} bytes; send fewer submissions in one call")
        if (request.content_length or 0) > most:
            raise too_long
        if request.headers.get("expect", "").lower() == "100-continue":
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            request.writer.output_size = 0
        body = bytearray()
        try:
            async with asyncio.timeout(_BODY_SECONDS):
                async for chunk in request.content.iter_any():
                    body += chunk
                    if len(body) > most:
                        raise too_long
        except TimeoutError:
            raise Refused(408, f"the body did not arrive within {_BODY_SECONDS:g} s") from None
        except (ConnectionError, ClientError, HttpProcessingError) as error:
            raise Refused(400, f"the body could not be read to its end: {error}") from None
        return bytes(body)

    def _reject(self, error: Refused) -> web.Response:
        problems = [problem[:_MOST_WORDS] for problem in error.problems[:_MOST_PROBLEMS]]
        if more := len(error.problems) - len(problems):
            problems.append(f"and {more:,} more")
        value = {"error": {"status": error.status, "problems": problems}}
        response = self._build_response(error.status, value, error.headers)
        if error.status in (408, 413):
            response.force_close()  # otherwise, the rest of the body would be read as the next request
        return response

    def _build_response(self, status: int, value: Any, headers: dict[str, str] | None = None) -> web.Response:
        self.counts.count_request(status)
        return web.Response(body=encode_json(value), status=status, headers=headers, content_type="application/json")


_TOLD = ("criteria", "coverage", "failure", "closed", "penalty", "dropped", "compound", "status", "stop")


def build_answer(shape: Shape, rewards: Sequence[Reward]) -> dict[str, Any]:
    """Build the body of the response to a call.

    Raises:
        Refused: no sample of an OpenRLHF call has a reward. OpenRLHF sends one sample per call, makes a tensor of the
            reply, and crashes on a null; it retries an error, and then leaves the sample without a reward.
    """
    if shape == "single":
        return _describe_reward(rewards[0])
    if shape == "batch":
        return {"rewards": [_describe_reward(reward) for reward in rewards]}
    if rewards and all(reward.value is None for reward in rewards):
        raise Refused(502, [f"labels[{place}]: no reward: {reward.failure}" for place, reward in enumerate(rewards)])
    return remote_reply(rewards)


def _describe_reward(reward: Reward) -> dict[str, Any]:
    body = {"reward": reward.value, **{name: getattr(reward, name) for name in _TOLD}}
    return body if reward.version is None else {**body, "version": reward.version}
