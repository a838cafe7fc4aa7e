# ruff: noqa: E501 (the words are the endpoints')
"""Refusals of a limit in the words of endpoints; the allowed number is worked out by hand."""

from __future__ import annotations

from autorubric.llm.http.allowed_tokens import AllowedTokens, find_allowed_tokens
from tests.offenders import each

EVERY = [
    ("openai", "max_tokens is too large: 99999. This model supports at most 16384 completion tokens, whereas you "
     "provided 99999.", 16384),
    ("anthropic", "max_tokens: 32768 > 8192, which is the maximum allowed number of output tokens for claude-3-5", 8192),
    ("deepseek", "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", 8192),
    ("qwen", "<400> InternalError.Algo.InvalidParameter: Range of max_tokens should be [1, 8192]", 8192),
    ("gemini", "Unable to submit request because it has a maxOutputTokens value of 100000 but the supported range is "
     "from 1 (inclusive) to 8193 (exclusive). Update the value and try again.", 8192),
    ("gemini range", "The max_tokens value must be in the range [1, 8193).", 8192),
    ("groq", "`max_tokens` must be less than or equal to `8192`, the maximum value for `max_tokens` is less than the "
     "`context_window` for this model", 8192),
    ("doubao", "Invalid max_tokens: integer above maximum value, expected a value <= 12288, but got 16384 instead.", 12288),
    ("vllm", "max_tokens=8192 cannot be greater than max_model_len=max_total_tokens=4096. Please request fewer output tokens.",
     4096),
    ("nvidia", "max_completion_tokens=131072 cannot be greater than max_model_len=128000", 128000),
    ("databricks", "rpc error: code = InvalidArgument desc = max_tokens (200000) cannot exceed 8192. Please reduce the "
     "length of max output tokens generated.", 8192),
    ("cohere", "too many tokens: max tokens must be less than or equal to 4096", 4096),
    ("zhipu", "max_tokens参数非法。取值范围[1,4096]", 4096),
    ("bedrock", "The maximum tokens you requested exceeds the model limit of 32768", 32768),
    ("commas", "max_tokens must not exceed 4,096", 4096),
]  # fmt: skip
CONTEXT = [
    ("openai", "This model's maximum context length is 8192 tokens. However, you requested 9192 tokens (1192 in the "
     "messages, 8000 in the completion). Please reduce the length.", 8192 - 1192),
    ("vllm", "'max_tokens' or 'max_completion_tokens' is too large: 8192. This model's maximum context length is 4096 "
     "tokens and your request has 1200 input tokens (8192 > 4096 - 1200).", 4096 - 1200),
    ("vllm, newer", "This model's maximum context length is 8193 tokens. However, you requested 8192 output tokens and your "
     "prompt contains 110 characters (more than 0 characters, which is the upper bound for 1 input tokens).", 8191),
    ("vllm, older", "This model's maximum context length is 4096 tokens. However, you requested 8292 tokens (100 in the "
     "messages, 8192 in the completion).", 3996),
    ("sglang", "Requested token count exceeds the model's maximum context length of 4096 tokens. You requested a total "
     "of 9000 tokens: 1000 tokens from the input messages and 8000 tokens for the completion.", 3096),
    ("tgi", "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 100 `inputs` tokens and "
     "8192 `max_new_tokens`", 3996),
    ("openrouter", "This endpoint's maximum context length is 8192 tokens. However, you requested about 9000 tokens "
     "(1000 of text input, 8000 in the output).", 7192),
    ("anthropic", "input length and `max_tokens` exceed context limit: 198000 + 8192 > 200000, decrease input length or "
     "`max_tokens` and try again", 2000),
    ("mistral", "Prompt contains 1500 tokens and 0 draft tokens, too large for model with 4096 maximum context length",
     None),
]  # fmt: skip
OTHER = [
    "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
    "temperature must be less than or equal to 2",
    "This model's maximum context length is 4096 tokens. However, your messages resulted in 5000 tokens.",
    "max_tokens must be at least 1",
    "response_format is not supported",
    "This model's maximum context length is 4096 tokens, and your request has 5000 input tokens.",
]


@each(("name", "words", "highest"), EVERY)
def test_the_highest_limit_of_an_endpoint_is_read_from_its_refusal(name: str, words: str, highest: int) -> None:
    assert find_allowed_tokens(words, 200_000) == AllowedTokens(highest, always=True)


@each(("name", "words", "left"), CONTEXT)
def test_what_a_prompt_leaves_of_the_context_is_read_from_the_refusal(
    name: str, words: str, left: int | None
) -> None:
    assert find_allowed_tokens(words, 8192) == (None if left is None else AllowedTokens(left, always=False))


@each("words", OTHER)
def test_other_refusals_allow_nothing_else(words: str) -> None:
    assert find_allowed_tokens(words, 8192) is None


def test_a_limit_that_is_not_lower_than_the_one_sent_is_no_way_out() -> None:
    assert find_allowed_tokens("max_tokens must not exceed 4096", 4096) is None
