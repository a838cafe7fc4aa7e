from autorubric.graders.assembly import EscalationConfig as EscalationConfig
from autorubric.graders.assembly import JudgeSpec as JudgeSpec
from autorubric.graders.criterion_grader import CriterionGrader as CriterionGrader
from autorubric.graders.grader import Grader as Grader
