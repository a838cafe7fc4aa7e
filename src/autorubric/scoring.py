"""The module of AutoRubric 1.6 for `score_reports`."""

from autorubric.core.report import score_reports

__all__ = ["score_reports"]
