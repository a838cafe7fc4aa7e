"""All text sent to a model: one template file per prompt, and the JSON Schemas of replies."""

from autorubric.prompts.judging import JudgePrompts, load_judge_prompts, package_judge_prompts
from autorubric.prompts.library import PromptSet, load_prompts, load_schema, package_prompts
from autorubric.prompts.placeholders import PlaceholderTemplate, Prompt
from autorubric.prompts.template import Template, Turn

__all__ = [
    "JudgePrompts",
    "PlaceholderTemplate",
    "Prompt",
    "PromptSet",
    "Template",
    "Turn",
    "load_judge_prompts",
    "load_prompts",
    "load_schema",
    "package_judge_prompts",
    "package_prompts",
]
