from __future__ import annotations

import pytest

from autorubric.errors import InputError
from autorubric.llm.request import CallError, Failure, Message, Model, Reply, Request, Usage
from autorubric.testing import ScriptedModel


def asked(role: str = "response", text: str = "Twelve chars") -> Request:
    return Request((Message("user", text),), role=role)


async def test_a_function_sees_the_request_and_its_text_becomes_the_reply() -> None:
    model = ScriptedModel(lambda request: f"You said {request.messages[0].content}.")
    assert (await model.complete(asked(text="hello"))).text == "You said hello."


async def test_a_coroutine_function_is_awaited() -> None:
    async def script(request: Request) -> str:
        return request.role

    assert (await ScriptedModel(script).complete(asked("merge"))).text == "merge"


async def test_one_line_serves_every_request_and_a_list_one_each() -> None:
    model = ScriptedModel({"reference": "Always.", "rubric": ["First.", "Second."]})
    texts = [(await model.complete(asked(role))).text for role in ("reference", "rubric", "reference", "rubric")]
    assert texts == ["Always.", "First.", "Always.", "Second."]


async def test_a_list_that_ran_out_is_an_error_that_says_so() -> None:
    model = ScriptedModel({"rubric": ["Only."]}, name="mine")
    await model.complete(asked("rubric"))
    with pytest.raises(InputError, match="'mine' has 1 lines for 'rubric'; it was called once more"):
        await model.complete(asked("rubric"))


async def test_a_role_without_lines_is_an_error_that_lists_the_others() -> None:
    with pytest.raises(InputError, match="no lines for role 'merge'; it has 'reference', 'rubric'"):
        await ScriptedModel({"reference": "a", "rubric": "b"}).complete(asked("merge"))


async def test_a_failure_is_raised_and_a_reply_is_passed_on_untouched() -> None:
    failure = Failure("server", "out of order", status=500, attempts=3)
    reply = Reply("cut", finish_reason="length", usage=None)
    model = ScriptedModel({"response": [failure, reply]})
    with pytest.raises(CallError) as caught:
        await model.complete(asked())
    assert caught.value.failure is failure
    assert await model.complete(asked()) is reply


async def test_every_request_is_remembered_the_failed_ones_included() -> None:
    model = ScriptedModel({"response": [Failure("timeout", "too late"), "Fine."]})
    first, second = asked(text="one"), asked(text="two")
    with pytest.raises(CallError):
        await model.complete(first)
    await model.complete(second)
    assert model.requests == [first, second]


async def test_usage_is_a_quarter_of_the_characters_rounded_up_and_priced() -> None:
    # 12 characters asked = 3 tokens, 5 characters said = 2 tokens;
    # at $10 and $100 per million: 3 * 10 / 1e6 + 2 * 100 / 1e6 = 0.00023.
    reply = await ScriptedModel(lambda _: "Done.", price=(10, 100)).complete(asked())
    assert reply.usage == Usage(3, 2)
    assert reply.cost == pytest.approx(0.00023)


async def test_without_a_price_the_cost_is_unknown_and_not_zero() -> None:
    assert (await ScriptedModel(lambda _: "Done.").complete(asked())).cost is None


def test_the_ceiling_is_known_only_where_something_bounds_the_reply() -> None:
    assert ScriptedModel({}).ceiling(asked()) is None
    assert ScriptedModel({}, max_tokens=50).ceiling(asked()) == Usage(3, 50)


async def test_it_is_a_model() -> None:
    model: Model = ScriptedModel({}, name="x")
    assert (model.name, model.identity()) == ("x", ("scripted", "x"))
    await model.close()
