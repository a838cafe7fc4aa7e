"""What files and models call the parts of a criterion, in order of preference."""

from __future__ import annotations

TEXT_KEYS = ("requirement", "criterion", "description", "text", "rubric_item", "rubric_str", "描述", "标准", "说明")
WEIGHT_KEYS = ("weight", "points", "score", "权重", "分值", "分数")
NAME_KEYS = ("name", "title", "标题", "名称")
