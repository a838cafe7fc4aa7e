"""Items to grade, with their human labels."""

from autorubric.dataset.collection import RubricDataset
from autorubric.dataset.item import DataItem

__all__ = ["DataItem", "RubricDataset"]
