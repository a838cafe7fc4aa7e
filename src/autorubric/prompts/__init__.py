"""Every word that is sent to a model: one template file a prompt.

`Template` fills one in, `load_prompts` gives a run its prompts, `load_schema` gives the shape of a reply.
"""

from autorubric.prompts.library import PromptSet, load_prompts, load_schema, package_prompts
from autorubric.prompts.placeholders import PlaceholderTemplate
from autorubric.prompts.template import Prompt, Template, Turn

__all__ = [
    "PlaceholderTemplate",
    "Prompt",
    "PromptSet",
    "Template",
    "Turn",
    "load_prompts",
    "load_schema",
    "package_prompts",
]
