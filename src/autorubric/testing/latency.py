"""How long a simulated call takes."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from random import Random

from autorubric.errors import ConfigError

_NUMBER = r"\d+(?:\.\d+)?(?:e-?\d+)?"
_FORM = re.compile(
    rf"(?:fixed:(?P<fixed>{_NUMBER})|lognormal:(?P<median>{_NUMBER}),(?P<sigma>{_NUMBER}))"
    rf"(?:\+(?P<share>{_NUMBER})@(?P<slow>{_NUMBER}))?"
)


@dataclass(frozen=True, slots=True)
class Latency:
    """A distribution of latencies: a median, a spread, and a share of very slow calls.

    Attributes:
        median: seconds that half of the calls stay under.
        sigma: the standard deviation of the logarithm (lognormal); 0 makes every call take `median`.
        slow_share: the share of calls, 0 to 1, that take `slow_seconds` instead.
        slow_seconds: seconds a slow call takes.
    """

    median: float = 0.0
    sigma: float = 0.0
    slow_share: float = 0.0
    slow_seconds: float = 0.0

    @classmethod
    def parse(cls, text: str) -> Latency:
        """The distribution that `text` names.

        Args:
            text: `fixed:SECONDS` or `lognormal:MEDIAN,SIGMA`, either followed by `+SHARE@SECONDS`.

        Raises:
            ConfigError: `text` has another form, or a share above 1.

        Example:
            >>> Latency.parse("lognormal:0.2,0.8+0.002@20")
            Latency(median=0.2, sigma=0.8, slow_share=0.002, slow_seconds=20.0)
        """
        match = _FORM.fullmatch(text.strip())
        if match is None or float(match["share"] or 0) > 1:
            raise ConfigError(
                f"latency {text!r} is not 'fixed:SECONDS' or 'lognormal:MEDIAN,SIGMA',"
                " either followed by '+SHARE@SECONDS' with a share from 0 to 1"
            )
        return cls(
            float(match["fixed"] or match["median"]),
            float(match["sigma"] or 0),
            float(match["share"] or 0),
            float(match["slow"] or 0),
        )

    def sample(self, random: Random) -> float:
        """Seconds that the next call takes.

        Example:
            >>> Latency.parse("fixed:0.2").sample(Random(1))
            0.2
        """
        if self.slow_share and random.random() < self.slow_share:
            return self.slow_seconds
        if not self.sigma or not self.median:
            return self.median
        return random.lognormvariate(math.log(self.median), self.sigma)
