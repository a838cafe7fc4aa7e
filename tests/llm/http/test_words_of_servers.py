# ruff: noqa: E501 (the words are the endpoints')
"""Refusals as servers word them: which end a run, which one request, which pass, and what is sent instead."""

from __future__ import annotations

import json
from typing import Any

from autorubric.llm.http.negotiation import Terms, is_about_reply, revise
from autorubric.llm.http.retry import classify_error_object, classify_response
from autorubric.llm.http.transport import HttpReply
from tests.offenders import each


def read(status: int, body: Any) -> Any:
    raw = body if isinstance(body, str) else json.dumps(body)
    return classify_response(HttpReply(status, raw.encode(), {}))


ACCOUNTS = [
    ("gemini", 400, [{"error": {"code": 400, "message": "API key not valid. Please pass a valid API key.", "status": "INVALID_ARGUMENT"}}], "auth"),
    ("gemini", 400, [{"error": {"code": 400, "message": "API key expired. Please renew the API key.", "status": "INVALID_ARGUMENT"}}], "auth"),
    ("gemini", 400, [{"error": {"code": 400, "message": "Missing or invalid Authorization header.", "status": "INVALID_ARGUMENT"}}], "auth"),
    ("gemini", 400, [{"error": {"code": 400, "message": "User location is not supported for the API use.", "status": "FAILED_PRECONDITION"}}], "auth"),
    ("xai", 400, {"code": "Client specified an invalid argument", "error": "Incorrect API key provided: xa***bc. You can obtain an API key from https://console.x.ai."}, "auth"),
    ("groq", 400, {"error": {"message": "Organization has been restricted. Please reach out to support.", "code": "organization_restricted"}}, "auth"),
    ("anthropic", 400, {"type": "error", "error": {"type": "invalid_request_error", "message": "This organization has been disabled."}}, "auth"),
    ("anthropic", 400, {"type": "error", "error": {"message": "You have reached your specified API usage limits. You will regain access on 2026-12-01."}}, "quota"),
    ("litellm", 400, {"error": {"message": "Budget has been exceeded! Current cost: 0.1, Max budget: 0.05", "type": "budget_exceeded", "param": None, "code": "400"}}, "quota"),
    ("litellm", 429, {"error": {"message": "ExceededBudget: User=x over budget. Spend=1.0, Budget=0.5", "type": "budget_exceeded", "code": "429"}}, "quota"),
    ("openrouter", 403, {"error": {"message": "Key limit exceeded (total limit). Manage it using https://openrouter.ai/settings/keys", "code": 403}}, "quota"),
    ("xai", 403, {"code": "The caller does not have permission", "error": "Your newly created teams doesn't have any credits yet."}, "quota"),
    ("xai", 429, {"code": "Some resource has been exhausted", "error": "Your team has either used all available credits or reached its monthly spending limit."}, "quota"),
    ("fireworks", 412, {"error": {"message": "Account x is suspended, possibly due to reaching the monthly spending limit or failure to pay past invoices.", "code": "PRECONDITION_FAILED"}}, "quota"),
    ("dashscope", 403, {"error": {"message": "The free tier of the model has been exhausted.", "code": "AllocationQuota.FreeTierOnly"}}, "quota"),
    ("ollama", 429, {"StatusCode": 429, "error": "you (x) have reached your weekly usage limit, upgrade for higher limits: https://ollama.com/upgrade"}, "quota"),
    ("cohere", 429, {"message": "You are using a Trial key, which is limited to 1000 API calls / month."}, "quota"),
    ("zhipu", 429, {"error": {"code": "1113", "message": "余额不足或无可用资源包,请充值。"}}, "quota"),
    ("minimax", 500, {"type": "error", "error": {"type": "api_error", "message": "insufficient balance (1008)"}}, "quota"),
    ("moonshot", 429, {"error": {"type": "exceeded_current_quota_error", "message": "You exceeded your current token quota: 0, please check your account balance"}}, "quota"),
    ("hugging face", 400, {"error": {"message": "The requested model 'x' is not supported by any provider you have enabled.", "code": "model_not_supported"}}, "no_model"),
    ("bedrock", 400, {"message": "The provided model identifier is invalid."}, "no_model"),
    ("bedrock", 400, {"message": "Invocation of model ID x with on-demand throughput isn’t supported. Retry your request with the ID or ARN of an inference profile."}, "no_model"),
    ("squid", 407, "<html><h1>Proxy Authentication Required</h1></html>", "unreachable"),
    ("lm studio", 400, {"error": "No models loaded. Please load a model in the developer page or use the 'lms load' command."}, "no_model"),
    ("lm studio", 400, {"error": "Multiple models are loaded. Please specify a model by providing a 'model' field in the request body."}, "no_model"),
    ("lm studio", 400, {"error": {"message": 'Failed to load model "x". Error: insufficient system resources.', "param": "model"}}, "no_model"),
    ("litellm", 400, {"error": {"message": "Authentication Error - Expired Key. Key Expiry time 2026-01-01 00:00:00+00:00 and current time 2026-11-28", "type": "expired_key", "code": "400"}}, "auth"),
    ("litellm", 429, {"error": {"message": "No deployments available - crossed budget: Exceeded budget for deployment model_name: m, model_id: x: 0.36 >= 0.1", "code": "429"}}, "quota"),
    ("groq", 400, {"error": {"message": "The model `m` requires terms acceptance. Please have the org admin accept the terms at https://console.groq.com", "code": "model_terms_required"}}, "auth"),
    ("bedrock", 400, {"detail": "An error occurred (AccessDeniedException) when calling the Converse operation: You don't have access to the model with the specified model ID."}, "auth"),
    ("bedrock", 500, {"detail": "An error occurred (ExpiredTokenException) when calling the Converse operation: The security token included in the request is expired"}, "auth"),
    ("minimax", 500, {"error": {"message": "login fail: Please carry the API secret key in the 'Authorization' field of the request header"}}, "auth"),
    ("volcengine", 429, {"error": {"code": "SetLimitExceeded", "message": "Your account [21] has reached the set inference limit for the [m] model, and the model service has been paused."}}, "quota"),
    ("new api", 503, {"error": {"message": "No available channel for model gpt-9 under group default (distributor)", "type": "new_api_error", "code": "model_not_found"}}, "no_model"),
    ("one api", 503, {"error": {"message": "当前分组 default 下对于模型 gpt-9 无可用渠道", "type": "one_api_error"}}, "no_model"),
    ("new api", 403, {"error": {"message": "用户额度不足, 剩余额度: ＄0.000000", "code": "insufficient_user_quota"}}, "quota"),
    ("azure", 400, {"error": {"code": "OperationNotSupported", "message": "The chatCompletion operation does not work with the specified model, text-embedding-ada-002."}}, "no_model"),
    ("nginx", 400, "<html><head><title>400 The plain HTTP request was sent to HTTPS port</title></head></html>", "no_model"),
    ("moonshot", 403, {"error": {"type": "exceeded_current_quota_error", "message": "Your account org-x is suspended, please check your plan and billing details"}}, "quota"),
    ("zhipu", 429, {"error": {"code": "1308", "message": "已达到 5 小时的使用上限。您的限额将在 2026-01-01 10:00:00 重置。"}}, "quota"),
    ("apache", 400, f"<p>{60 * 'x'}<br />Reason: You're speaking plain HTTP to an SSL-enabled server port.", "no_model"),
    ("go", 400, "Client sent an HTTP request to an HTTPS server.", "no_model"),
]  # fmt: skip
ONE_REQUEST = [
    ("xai", 403, {"code": "The caller does not have permission", "error": "Content violates usage guidelines. Team: x, Model: grok-4, Failed check: SAFETY_CHECK_TYPE_BIO"}, "refusal"),
    ("openai", 400, {"error": {"message": "Invalid prompt: your prompt was flagged as potentially violating our usage policy.", "code": "invalid_prompt"}}, "refusal"),
    ("zhipu", 400, {"error": {"code": "1301", "message": "系统检测到输入或生成内容可能包含不安全或敏感内容。"}}, "refusal"),
    ("minimax", 400, {"type": "error", "error": {"type": "bad_request_error", "message": "input new_sensitive (1026)"}}, "refusal"),
    ("minimax", 500, {"error": {"type": "api_error", "message": "output new_sensitive (1027)"}}, "refusal"),
    ("volcengine", 400, {"error": {"code": "InputTextRiskDetection", "message": "The request failed because the input text may contain risk."}}, "refusal"),
    ("litellm", 400, {"error": {"message": "{'error': 'Violated guardrail policy'}", "code": "400"}}, "refusal"),
    ("deepseek", 400, {"error": {"message": "Content Exists Risk", "code": "invalid_request_error"}}, "refusal"),
    ("volcengine", 400, {"error": {"code": "InputTextSensitiveContentDetected", "message": "The request failed because the input text may contain sensitive information."}}, "refusal"),
    ("stepfun", 451, {"error": {"message": "The content you provided or machine outputted is blocked.", "type": "censorship_blocked"}}, "refusal"),
    ("together", 403, {"error": {"message": "The request's input token count + max_tokens parameter must be less than the model context length", "type": "invalid_request_error"}}, "rejected"),
    ("llama.cpp", 400, {"error": {"code": 400, "message": "request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it", "type": "exceed_context_size_error"}}, "rejected"),
    ("lm studio", 400, {"error": "Trying to keep the first 4567 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens"}, "rejected"),
    ("dashscope", 400, {"error": {"message": "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 30720]", "code": "invalid_parameter_error"}}, "rejected"),
    ("moonshot", 400, {"error": {"type": "invalid_request_error", "message": "Invalid request: Your request exceeded model token limit: 8192"}}, "rejected"),
    # What an endpoint quotes of the request says nothing about the account.
    ("fastapi", 400, {"detail": [{"msg": "x" * 200 + " invalid api key"}]}, "rejected"),
]  # fmt: skip
PASSING = [
    ("new api", 503, {"error": {"message": "Failed to get available channel for model m under group default (distributor): timeout", "code": "model_not_found"}}, "server"),
    ("tgi", 424, {"error": "Request failed during generation: Server error: CUDA error", "error_type": "generation"}, "server"),
    ("groq", 498, {"error": {"message": "Flex tier capacity exceeded. Please try again later.", "code": "capacity_exceeded"}}, "server"),
    ("nginx", 499, "", "timeout"),
    ("llama.cpp", 500, {"error": {"code": 500, "message": "Failed to parse input at pos 0: the account has an insufficient balance", "type": "server_error"}}, "server"),
    ("cloudflare", 520, "error code: 520", "server"),
    ("lm studio", 400, {"error": "The model has crashed without additional information. (Exit code: 6)"}, "server"),
    ("lm studio", 400, {"error": "Channel Error"}, "server"),
    ("nvidia", 400, {"status": 400, "title": "Bad Request", "detail": "Function id 'x': DEGRADED function cannot be invoked"}, "server"),
    ("lm studio", 400, {"error": "Error in predicting: the model has unloaded or crashed"}, "server"),
    ("ollama", 429, {"error": "you've reached your hourly usage limit, please upgrade to continue"}, "rate_limit"),
    ("cohere", 429, {"message": "You are using a Trial key, which is limited to 20 API calls / minute."}, "rate_limit"),
    ("together", 429, {"error": {"message": "You have been rate limited. Your rate limit is 60 queries per minute. Please navigate to https://api.together.xyz/settings/billing to upgrade your plan.", "type": "rate_limit"}}, "rate_limit"),
    ("cerebras", 429, {"message": "Tokens per minute limit exceeded - too many tokens processed.", "param": "quota", "code": "token_quota_exceeded"}, "rate_limit"),
    ("zhipu", 429, {"error": {"code": "1302", "message": "您当前使用该API的并发数过高，请降低并发，或联系客服增加限额。"}}, "rate_limit"),
]  # fmt: skip


@each(("server", "status", "body", "kind"), ACCOUNTS)
def test_a_key_an_account_or_a_model_that_is_refused_ends_the_run(
    server: str, status: int, body: Any, kind: str
) -> None:
    found = read(status, body)
    assert (found.kind, found.again) == (kind, False)


@each(("server", "status", "body", "kind"), ONE_REQUEST)
def test_a_refusal_of_one_text_ends_one_request(server: str, status: int, body: Any, kind: str) -> None:
    found = read(status, body)
    assert (found.kind, found.again) == (kind, False)


@each(("server", "status", "body", "kind"), PASSING)
def test_trouble_that_passes_is_waited_for(server: str, status: int, body: Any, kind: str) -> None:
    found = read(status, body)
    assert (found.kind, found.again) == (kind, True)


GROQ = "Rate limit reached for model `m` in organization `o` service tier `on_demand` on {}. Need more tokens? Upgrade to Dev Tier today at https://console.groq.com/settings/billing"
GEMINI = "You exceeded your current quota, please check your plan and billing details. For more information on this error, head to: https://ai.google.dev/gemini-api/docs/rate-limits."
ANTHROPIC = "Number of request tokens has exceeded your {} rate limit (https://docs.anthropic.com/en/api/rate-limits); see the response headers for current usage. Please reduce the prompt length or the maximum tokens requested, or try again later."


def gemini(*quotas: str) -> Any:
    violations = [{"quotaId": f"GenerateRequestsPer{quota}PerProjectPerModel-FreeTier"} for quota in quotas]
    details = [{"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": violations}]
    details += [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "35s"}]
    return [{"error": {"code": 429, "message": GEMINI, "status": "RESOURCE_EXHAUSTED", "details": details}}]


DAILY = "when the daily limit is reset"
LIMITS = [
    ("groq", {"error": {"message": GROQ.format("tokens per day (TPD): Limit 100000, Used 97050, Requested 3619. Please try again in 9m38.016s"), "code": "rate_limit_exceeded"}}, {}, "in 10 minutes"),
    ("groq", {"error": {"message": GROQ.format("tokens per day (TPD): Limit 100000, Used 99990, Requested 30. Please try again in 17.28s"), "code": "rate_limit_exceeded"}}, {}, None),
    ("groq", {"error": {"message": GROQ.format("tokens per minute (TPM): Limit 6000, Used 5034, Requested 1443. Please try again in 4.77s"), "code": "rate_limit_exceeded"}}, {}, None),
    ("openai", {"error": {"message": "Rate limit reached for m in organization o on requests per day (RPD): Limit 200, Used 200, Requested 1. Please try again in 7m12s. Visit https://platform.openai.com/account/rate-limits to learn more.", "type": "requests", "code": "rate_limit_exceeded"}}, {}, "in 8 minutes"),
    ("openai", {"error": {"message": "Rate limit reached for m in organization o on requests per day (RPD): Limit 200, Used 200, Requested 1. Please try again in 8.64s. Visit https://platform.openai.com/account/rate-limits to learn more.", "type": "requests", "code": "rate_limit_exceeded"}}, {}, None),
    ("openrouter", {"error": {"message": "Rate limit exceeded: free-models-per-day. Add 10 credits to unlock 1000 free model requests per day", "code": 429, "metadata": {"headers": {"X-RateLimit-Limit": "50", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1741305600000"}}}}, {}, DAILY),
    ("openrouter", {"error": {"message": "Rate limit exceeded: free-models-per-min. Add 10 credits to unlock 1000 free model requests per day", "code": 429}}, {}, None),
    ("gemini", gemini("Minute", "Day"), {}, DAILY),
    ("gemini", gemini("Minute"), {}, None),
    ("anthropic", {"type": "error", "error": {"type": "rate_limit_error", "message": ANTHROPIC.format("daily")}}, {}, DAILY),
    ("anthropic", {"type": "error", "error": {"type": "rate_limit_error", "message": ANTHROPIC.format("per-minute")}}, {}, None),
    ("mistral", {"object": "error", "message": "Rate limit exceeded", "type": "rate_limited", "code": "1300"}, {}, None),
    ("any", {"error": {"message": "slow down"}}, {"Retry-After": "82800"}, "in 23 hours"),
    ("any", {"error": {"message": "slow down"}}, {"Retry-After": "300"}, None),
    ("a gateway, of both", {"error": {"message": "Limits: 10 requests per minute, 500 per day. Try again in 20s."}}, {}, None),
    ("a gateway, in passing", {"error": {"message": "slow down: 60/min (10,000 per day)"}}, {}, None),
    ("a gateway, in passing", {"error": {"message": "slow down. Upgrade for 50,000 requests per day."}}, {"Retry-After": "5"}, None),
    ("a gateway, in passing", {"error": {"message": "Too many requests. Upgrade for 50,000 per day."}}, {}, None),
    ("a gateway, of a day", {"error": {"message": "50 requests per day are used up. Upgrade for 50,000."}}, {}, DAILY),
]  # fmt: skip


@each(("server", "body", "headers", "when"), LIMITS)
def test_a_limit_that_lasts_longer_than_a_call_waits_ends_the_run(
    server: str, body: Any, headers: dict[str, str], when: str | None
) -> None:
    found = classify_response(HttpReply(429, json.dumps(body).encode(), headers))
    assert found is not None
    expected = ("rate_limit", True) if when is None else ("quota", False)
    assert (found.kind, found.again) == expected
    assert found.message.endswith(f"' (run the same command again {when}, or use another model)") == (
        when is not None
    )


@each(
    ("error", "kind", "again"),
    [
        ("Unexpected endpoint or method. (POST /chat/completions)", "no_model", False),  # LM Studio
        ({"message": "No auth credentials found", "code": "401"}, "auth", False),
        ({"message": "slow down", "code": "429"}, "rate_limit", True),
        ({"message": "no", "code": "4290"}, "server", True),
    ],
)
def test_an_error_in_a_200_is_told_by_its_words_and_by_a_code_in_digits(error: Any, kind: str, again: bool) -> None:
    found = classify_error_object(error)
    assert (found.kind, found.again, found.maybe_billed) == (kind, again, True)


SENT = {
    "model": "m",
    "messages": [{"role": "user", "content": "Why?"}],
    "temperature": 0.5,
    "top_p": 0.9,
    "seed": 3,
    "reasoning_effort": "low",
    "max_tokens": 100,
    "response_format": {"type": "json_schema"},
}
OTHERWISE = [
    ("litellm", {"error": {"message": "litellm.UnsupportedParamsError: gemini does not support parameters: ['seed'], for model=x.", "type": "None", "param": "None", "code": "400"}}, "seed"),
    ("moonshot", {"error": {"message": "invalid temperature: only 1 is allowed for this model", "type": "invalid_request_error"}}, "temperature"),
    ("anthropic", {"error": {"message": "`temperature` may only be set to 1 when thinking is enabled."}}, "temperature"),
    ("mistral", {"message": "top_p must be 1 when using greedy sampling."}, "top_p"),
    ("xai", {"code": "Client specified an invalid argument", "error": "Model grok-4 does not support parameter reasoningEffort."}, "reasoning_effort"),
    ("ollama", {"error": {"message": '"llama3" does not support thinking', "type": "api_error", "param": None}}, "reasoning_effort"),
    ("cerebras", {"message": "body -> seed: property 'body.seed' is unsupported", "param": "validation_error", "code": "wrong_api_format"}, "seed"),
    ("llama.cpp", {"error": {"code": 400, "message": "JSON schema conversion failed:\nUnrecognized schema: {}"}}, "response_format"),
    ("fireworks", {"error": {"message": "JSON Schema not supported: could not understand the instance"}}, "response_format"),
    ("mistral", {"detail": [{"type": "literal_error", "loc": ["body", "response_format", "type"], "msg": "Input should be 'text' or 'json_object'"}]}, "response_format"),
    ("perplexity", {"error": {"message": "['response_format'] -> Input tag 'json_object' found using 'type' does not match any of the expected tags: 'text', 'regex'"}}, "response_format"),
    ("gemini", [{"error": {"message": "Invalid JSON payload received. Unknown name \"additionalProperties\" at 'generation_config.response_schema': Cannot find field."}}], "response_format"),
    ("gemini", {"error": {"message": "The specified schema produces a constraint that has too many states for serving."}}, "response_format"),
    ("lm studio", {"error": "'response_format.type' must be 'json_schema'"}, "response_format"),
    ("tgi", "Failed to deserialize the JSON body into the target type: response_format: unknown variant `json_schema`, expected one of `json`, `json_object`", "response_format"),
    ("gemini", [{"error": {"message": "Request contains an invalid argument.", "status": "INVALID_ARGUMENT"}}], "response_format"),
    ("volcengine", {"error": {"code": "InvalidParameter", "message": "One or more parameters specified in the request are not valid."}}, "response_format"),
    ("siliconflow", {"code": 20015, "message": "The parameter is invalid. Please check again.", "data": None}, "response_format"),
    ("zhipu", {"error": {"code": "1210", "message": "API 调用参数有误，请检查文档。"}}, "response_format"),
    ("minimax", {"error": {"message": "invalid params (2013)"}}, "response_format"),
    ("cloudflare", {"success": False, "errors": [{"code": 5025, "message": "AiError: This model doesn't support JSON Schema."}]}, "response_format"),
    ("dashscope", {"error": {"message": "parameter.enable_thinking must be set to false for non-streaming calls"}}, "stream"),
    ("dashscope", {"error": {"message": "parameter.enable_thinking必须设置为false才能进行非流式调用"}}, "stream"),
    ("dashscope", {"error": {"message": "This model only support stream mode, please enable the stream parameter to access the model. "}}, "stream"),
    ("modelscope", {"error": {"message": "enable thinking can not be support when `stream=False`."}}, "stream"),
    ("fireworks", {"error": {"message": "Requests with max_tokens > 4096 must have stream=true"}}, "stream"),
    ("a gateway", {"error": {"message": "`stream` must be set to true for this model"}}, "stream"),
    # Another field of the request is at fault, whatever else the words name.
    ("openai", {"error": {"message": "This is not supported; set temperature instead", "param": "messages"}}, None),
    ("fastapi", {"error": {"message": "temperature: Input should be less than or equal to 2", "param": "None"}}, None),
]  # fmt: skip


@each(("server", "body", "refused"), OTHERWISE)
def test_the_part_of_a_request_that_a_server_refuses_is_found_in_its_words(
    server: str, body: Any, refused: str | None
) -> None:
    fault = read(422, body)
    revised = revise(Terms(), SENT, fault)
    if refused is None:
        assert revised is None
    elif refused == "response_format":
        assert revised == Terms(schema_form="json_object")
    elif refused == "stream":
        assert revised == Terms(streams=True)
    else:
        assert revised == Terms(left_out=frozenset({refused}))


WRITTEN = [
    ({"error": {"message": "Failed to validate JSON. Please adjust your prompt. See 'failed_generation' for more details.", "code": "json_validate_failed", "failed_generation": "{"}}, True),
    ({"error": {"message": "Generated JSON does not match the expected schema. See 'failed_generation' for more details.", "code": "json_validate_failed"}}, True),
    ({"error": {"message": "The model produced output that does not match the expected peg-native format"}}, True),
    ({"error": {"message": "JSON schema conversion failed: Unrecognized schema"}}, False),
]  # fmt: skip


@each(("body", "expected"), WRITTEN)
def test_what_a_model_wrote_is_no_refusal_of_a_schema(body: Any, expected: bool) -> None:
    fault = read(400, body)
    assert (is_about_reply(fault), revise(Terms(), SENT, fault) is None) == (expected, expected)


EFFORTS = [
    ("gemini", [{"error": {"code": 400, "message": "Request contains an invalid argument.", "status": "INVALID_ARGUMENT"}}]),
    ("sglang", {"object": "error", "message": "1 validation error: {'loc': ('body', 'reasoning_effort'), 'msg': \"Input should be 'low', 'medium' or 'high'\", 'input': 'none'}"}),
    ("volcengine", {"error": {"message": "The parameter `reasoning_effort` specified in the request are not valid: invalid value: `none`, supported values are: `minimal`, `low`", "param": "reasoning_effort"}}),
]  # fmt: skip


@each(("server", "body"), EFFORTS)
def test_an_effort_of_none_that_a_server_does_not_have_is_left_out(server: str, body: Any) -> None:
    fault = read(400, body)
    sent = {**SENT, "reasoning_effort": "none", "response_format": {"type": "json_schema"}}
    assert revise(Terms(), sent, fault) == Terms(left_out=frozenset({"reasoning_effort"}))
    assert revise(Terms(), {**sent, "reasoning_effort": "low"}, fault) != Terms(
        left_out=frozenset({"reasoning_effort"})
    )
