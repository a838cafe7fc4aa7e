"""The service's HTTP: routes, statuses, and what stands in the way of a call."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from autorubric.errors import AutorubricError, InputError, LedgerError
from autorubric.files.quick_json import json_bytes
from autorubric.training.adapters.openrlhf import remote_reply
from autorubric.training.observations import failure_kind
from autorubric.training.reward import Reward
from autorubric.training.service.access import is_allowed, is_own_name
from autorubric.training.service.admission import Admission, TooBusy
from autorubric.training.service.calls import RewardCall, Shape, read_call
from autorubric.training.service.figures import CONTENT_TYPE, Figures
from autorubric.training.service.judging import RewardDesk

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

_MOST_PROBLEMS = 100  # told in one answer
_MOST_WORDS = 1000  # characters of one of them
_BODY_SECONDS = 30.0  # a body that takes longer to arrive is not waited for


@dataclass(frozen=True, slots=True)
class Doors:
    """What a call has to pass.

    Attributes:
        token: what callers must send; None where only this machine can call.
        most_bytes: the longest body.
        deadline: seconds a call may take, where it asks for no shorter time.
    """

    token: str | None = None
    most_bytes: int = 8 << 20
    deadline: float = 300.0


class Refused(AutorubricError):
    """A call that is not carried out; `status` is its HTTP status."""

    def __init__(self, status: int, problems: str | Sequence[str], **headers: str) -> None:
        self.status = status
        self.problems = (problems,) if isinstance(problems, str) else tuple(problems)
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}
        super().__init__("; ".join(self.problems))


class RewardService:
    """Answers calls; one object for the life of the service.

    Args:
        desk: who gives rewards.
        admission: who is let in.
        doors: what a call has to pass.
    """

    def __init__(self, desk: RewardDesk, admission: Admission, doors: Doors) -> None:
        self.desk = desk
        self.admission = admission
        self.figures = Figures()
        self._doors = doors
        self._broken = ""

    def app(self) -> Starlette:
        """The ASGI application: `POST /v1/reward`, `GET /healthz`, `GET /metrics`."""
        from starlette.applications import Starlette
        from starlette.routing import Route

        return Starlette(
            routes=[
                Route("/v1/reward", self.reward, methods=["POST"]),
                Route("/healthz", self.health, methods=["GET"]),
                Route("/metrics", self.metrics, methods=["GET"]),
            ],
            exception_handlers={404: self._not_found, 405: self._wrong_method, Exception: self._faulty},
        )

    async def reward(self, request: Request) -> Response:
        """Answer a call for rewards."""
        try:
            self._check_caller(request)
            call = read_call(await self._body(request))
            await self.desk.check(call.asked)
            rewards = await self._rewards(call)
        except InputError as error:
            return self._refused(Refused(400, error.problems))
        except TooBusy as error:
            return self._refused(Refused(429, str(error), Retry_After=str(error.retry_after)))
        except LedgerError as error:
            self._broken = str(error)
            return self._refused(Refused(503, f"nothing can be recorded, so nothing is asked: {error}"))
        except Refused as error:
            return self._refused(error)
        return self._response(200, answer(call.shape, rewards))

    async def health(self, request: Request) -> Response:
        """Say whether calls can be answered; open to everybody, and free of anything to hide."""
        if self._broken:
            return self._response(503, {"status": "broken", "reason": "the ledger cannot be written"})
        return self._response(200, {"status": "ok", "open": self.admission.open, "room": self.admission.room})

    async def metrics(self, request: Request) -> Response:
        """Say the figures, for Prometheus."""
        from starlette.responses import Response

        try:
            self._check_name(request)
        except Refused as error:
            return self._refused(error)
        activity = self.desk.executor.snapshot()
        text = self.figures.text(activity, self.admission.open, self.admission.room)
        return Response(text, media_type=CONTENT_TYPE)

    async def _not_found(self, request: Request, error: Exception) -> Response:
        return self._refused(Refused(404, "there is no such path; expected /v1/reward, /healthz or /metrics"))

    async def _wrong_method(self, request: Request, error: Exception) -> Response:
        words = f"{request.method[:20]} is not taken here; expected POST /v1/reward, GET /healthz or GET /metrics"
        return self._refused(Refused(405, words, **getattr(error, "headers", None) or {}))

    async def _faulty(self, request: Request, error: Exception) -> Response:
        """The answer where the service itself is wrong; the server writes the traceback to its log."""
        return self._refused(Refused(500, f"a fault of the service, please report it: {type(error).__name__}"))

    async def _rewards(self, call: RewardCall) -> list[Reward]:
        count = len(call.asked)
        if count > self.admission.room:
            most = self.admission.room
            raise Refused(413, f"{count} submissions in one call; this service takes {most} at a time: send fewer")
        deadline = min(call.deadline or self._doors.deadline, self._doors.deadline)
        started = time.perf_counter()
        try:
            with self.admission.entered(count):
                async with asyncio.timeout(deadline):
                    rewards = await asyncio.gather(*map(self.desk.reward, call.asked))
        except TimeoutError:
            words = f"no reward within {deadline:g} s; what the judge still answers is recorded, so ask again"
            raise Refused(504, words) from None
        seconds = time.perf_counter() - started
        for one in rewards:
            self.figures.reward(seconds, None if one.failure is None else failure_kind(one.failure))
        return rewards

    def _check_caller(self, request: Request) -> None:
        self._check_name(request)
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        # A form or a plain text is what a web page can send here without being asked whether it may.
        if kind != "application/json":
            raise Refused(415, f"Content-Type is {kind[:80] or 'missing'}; expected application/json")
        if request.headers.get("content-encoding", "identity").lower() != "identity":
            raise Refused(415, "the body is compressed; send it as it is")

    def _check_name(self, request: Request) -> None:
        token = self._doors.token
        if token is None:
            if not is_own_name(request.headers.get("host")):
                raise Refused(421, "without a token, calls come from this machine only and name it as localhost")
        elif not is_allowed(request.headers.get("authorization"), token):
            raise Refused(401, "send the token of this service as Authorization: Bearer", WWW_Authenticate="Bearer")

    async def _body(self, request: Request) -> bytes:
        most = self._doors.most_bytes
        too_long = Refused(413, f"the body is longer than {most} bytes; send fewer submissions in one call")
        length = request.headers.get("content-length", "")
        if length.isdecimal() and (len(length) > 18 or int(length) > most):
            raise too_long
        from starlette.requests import ClientDisconnect

        chunks, size = [], 0
        try:
            async with asyncio.timeout(_BODY_SECONDS):
                async for chunk in request.stream():
                    size += len(chunk)
                    if size > 2 * most:
                        raise too_long
                    if size <= most:
                        chunks.append(chunk)
        except TimeoutError:
            raise Refused(408, f"the body did not arrive within {_BODY_SECONDS:g} s") from None
        except ClientDisconnect:
            raise Refused(400, "the caller left before the body was whole") from None
        # A little more than is taken is read and dropped: a caller whose bytes are left unread may miss the answer.
        if size > most:
            raise too_long
        return b"".join(chunks)

    def _refused(self, error: Refused) -> Response:
        problems = [problem[:_MOST_WORDS] for problem in error.problems[:_MOST_PROBLEMS]]
        if more := len(error.problems) - len(problems):
            problems.append(f"and {more:,} more")
        value = {"error": {"status": error.status, "problems": problems}}
        # The rest of a body that is not read would be taken for the next request.
        headers = {**error.headers, "Connection": "close"} if error.status in (408, 413) else error.headers
        return self._response(error.status, value, headers)

    def _response(self, status: int, value: Any, headers: dict[str, str] | None = None) -> Response:
        from starlette.responses import Response

        self.figures.request(status)
        return Response(json_bytes(value), status, headers, "application/json")


def answer(shape: Shape, rewards: Sequence[Reward]) -> dict[str, Any]:
    """The body that answers a call.

    Where there is no reward there is null, in every shape.

    Example:
        >>> answer("single", [Reward(None, {"C1": None}, "criterion 'C1': infrastructure: timeout: no answer")])
        {'reward': None, 'criteria': {'C1': None}, 'coverage': None, 'failure': "criterion 'C1': infrastructure: ...
        >>> answer("openrlhf", [Reward(0.5, {"C1": 0.5}, coverage=1.0)])["rewards"]
        [0.5]
    """
    if shape == "single":
        return _one(rewards[0])
    if shape == "batch":
        return {"rewards": [_one(reward) for reward in rewards]}
    return remote_reply(rewards)


def _one(reward: Reward) -> dict[str, Any]:
    return {
        "reward": reward.value,
        "criteria": dict(reward.criteria),
        "coverage": reward.coverage,
        "failure": reward.failure,
        "closed": list(reward.closed),
        "penalty": reward.penalty,
    }
