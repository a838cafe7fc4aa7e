"""The published home of `Rubric`."""

from autorubric.core.rubric import Rubric

__all__ = ["Rubric"]
