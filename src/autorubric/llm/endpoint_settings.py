"""The settings of every function that calls models: how endpoints are reached and retried, what calls may cost."""

from typing import Self

from pydantic import model_validator

from autorubric.llm.config import DEFAULT_CEILING
from autorubric.llm.http.secrets import VariableName, check_base_url
from autorubric.settings import FileName, Settings, setting


class EndpointSettings(Settings):
    """How models are reached, retried and paid."""

    base_url: str | None = setting(None, "OpenAI-compatible endpoint of models without an address.", group="Endpoint")
    api_key_env: VariableName | None = setting(
        None,
        "Variable with the API key (default: the provider's).",
        group="Endpoint",
        secret=True,
    )
    allow_plain_http: bool = setting(
        False, "Allow API keys over plain HTTP outside private networks.", group="Endpoint"
    )
    concurrency: int = setting(256, "Maximum concurrent requests.", short="-j", group="Endpoint", ge=1, le=10_000)
    timeout: float = setting(300.0, "Timeout of one attempt, in seconds.", group="Endpoint", gt=0, le=1e6)
    retry: int = setting(5, "Maximum retries after a transient error.", group="Endpoint", ge=0, le=100)
    max_tokens_ceiling: int = setting(
        DEFAULT_CEILING,
        "Upper bound of doubled token limits.",
        group="Endpoint",
        ge=1,
        le=10_000_000,
    )
    budget_usd: float | None = setting(
        None, "Budget in dollars, over all sessions in the run directory.", group="Budget", ge=0, le=1e9
    )
    budget_tokens: int | None = setting(
        None, "Budget in tokens, over all sessions in the run directory.", group="Budget", ge=1, le=10**15
    )
    prices: FileName | None = setting(
        None, "YAML file of dollars per million tokens by model.", group="Budget", reads=True
    )

    @model_validator(mode="after")
    def _check_base_url(self) -> Self:
        if self.base_url is not None:
            check_base_url(self.base_url, "--base-url")
        return self
