"""The module of AutoRubric 1.6 for `Rubric`."""

from autorubric.core.rubric import Rubric

__all__ = ["Rubric"]
