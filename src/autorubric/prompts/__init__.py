"""Every word that is sent to a model: one template file a prompt.

`Template` fills one in, `load_prompts` gives a synthesis run its prompts and `load_judge_prompts` a judge,
`load_schema` gives the shape of a reply.
"""

from autorubric.prompts.judging import JudgePrompts, load_judge_prompts, package_judge_prompts
from autorubric.prompts.library import PromptSet, load_prompts, load_schema, package_prompts
from autorubric.prompts.placeholders import PlaceholderTemplate
from autorubric.prompts.template import Prompt, Template, Turn

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
