"""Rewards for NeMo Gym: a resources server whose `verify` grades the last reply by the rubric in the row."""

from collections.abc import Iterable, Mapping
from typing import Any

from autorubric.errors import InputError
from autorubric.training.queries import as_conversation, extract_text, find_rubric_column, read_rubric
from autorubric.training.rewarder import RewardSource, Sample
from autorubric.training.rewards import RewardFailed, refuse_gap

_TEXT = ("text", "input_text", "output_text")


def rubric_server(source: RewardSource, *, rubric: str | None = None, reference: str | None = None) -> Any:
    """Return a resources server class for NeMo Gym.

    Write the `app.py` of your server:

        RubricServer = rubric_server(HttpRewards("http://127.0.0.1:8100"))

        if __name__ == "__main__":
            RubricServer.run_webserver()

    A row has the rubric next to `responses_create_params`. The reply of `verify` repeats the row and has `reward`,
    `rubric_criteria`, `rubric_coverage` and `rubric_closed`. A reward that is missing raises Gym's `JudgeError`,
    so that the rollout counts as failed and not as 0; Gym before 0.5 lacks that error, so the request fails.
    It also fails if an audit says that training should stop (`RewardGap`).

    Args:
        source: gives the rewards.
        rubric: the field with the rubric; by default the one with a usual name, such as rubric or rubrics.
        reference: the field with the reference answer, if any.
    """
    from nemo_gym.base_resources_server import BaseVerifyRequest, BaseVerifyResponse, SimpleResourcesServer
    from pydantic import ConfigDict

    class RubricVerifyRequest(BaseVerifyRequest):  # type: ignore[misc]
        """A row with the policy's response."""

        model_config = ConfigDict(extra="allow")

    class RubricVerifyResponse(BaseVerifyResponse):  # type: ignore[misc]
        """The row with its reward."""

        model_config = ConfigDict(extra="allow")

        rubric_criteria: dict[str, float | None]
        rubric_coverage: float | None
        rubric_closed: list[str]

    class RubricServer(SimpleResourcesServer):  # type: ignore[misc]
        """Gives rewards by rubrics."""

        async def verify(self, body: Any) -> Any:
            """Return the row with its reward."""
            row = body.model_dump()
            [reward] = await source.rewards([read_row(row, rubric, reference)])
            refuse_gap([reward])
            if reward.value is None:
                raise _find_judge_error()(f"no reward: {reward.failure}")
            found = {
                "reward": reward.value,
                "rubric_criteria": dict(reward.criteria),
                "rubric_coverage": reward.coverage,
                "rubric_closed": list(reward.closed),
            }
            return RubricVerifyResponse(**row | found)

    # FastAPI reads these annotations, and cannot resolve the names of classes defined in a function.
    RubricServer.verify.__annotations__ = {"body": RubricVerifyRequest, "return": RubricVerifyResponse}
    return RubricServer


def read_row(row: Mapping[str, Any], rubric: str | None = None, reference: str | None = None) -> Sample:
    """Return the sample in the body of a verify request.

    The query is the messages of `responses_create_params.input`, after its `instructions`, without tool calls and
    their results. The submission is the text of the last message in `response.output`.

    Raises:
        InputError: the row has no rubric, or the rubric is wrong.

    Example:
        >>> said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Why not?"}]}
        >>> row = {"responses_create_params": {"input": "Why?"}, "response": {"output": [said]}}
        >>> sample = read_row(row | {"rubric": [{"criterion": "Is brief.", "points": 1}]})
        >>> sample.query, sample.submission
        ('Why?', 'Why not?')
    """
    extra = {name: value for name, value in row.items() if name not in ("responses_create_params", "response")}
    held = read_rubric(extra[find_rubric_column(extra, rubric, "rubric_server(rubric=NAME)")], "the row")
    if reference is not None and reference not in extra:
        raise InputError(f"the row has no field {reference!r}, which `reference` refers to")
    asked = row["responses_create_params"]
    given = asked["input"]
    turns = [{"role": "user", "content": given}] if isinstance(given, str) else _read_messages(given)
    if asked.get("instructions"):
        turns = [{"role": "system", "content": asked["instructions"]}, *turns]
    answers = [turn["content"] for turn in _read_messages(row["response"]["output"]) if turn["role"] == "assistant"]
    expected = None if reference is None else str(extra[reference])
    return Sample(answers[-1] if answers else "", held, as_conversation(turns), expected)


def _read_messages(items: Iterable[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return the messages among the items of a response or of its input."""
    messages = (item for item in items if item.get("type", "message") == "message" and item.get("role"))
    return [{"role": item["role"], "content": extract_text(item.get("content"), _TEXT)} for item in messages]


def _find_judge_error() -> type[Exception]:
    try:
        from nemo_gym.judge import JudgeError
    except ImportError:
        return RewardFailed
    error: type[Exception] = JudgeError
    return error
