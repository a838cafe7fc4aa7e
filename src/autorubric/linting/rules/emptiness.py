"""Criteria without content: every word is about grading, about answers in general, or praise.

"The candidate earns the mark by fulfilling what this item demands" names nothing to look for, in any wording. So this
rule does not list wordings. It lists words that are not about the subject: function words, words for answers and for
acts of assessment, shell nouns ("aspect", "point"), and words of appraisal. Vague and subjective words are a known
fault of requirements too (INCOSE, Guide to Writing Requirements; the tool QuARS); the listing is our own, with words
of praise that the VADER lexicon (MIT) rates as positive.
"""

import re
from typing import Literal, NamedTuple, TypeAlias

from autorubric.core.wording import match_any
from autorubric.linting.criterion_words import Phrasing

Lack: TypeAlias = Literal["circular", "praise"]
"""The kinds of criteria without content."""


class Empty(NamedTuple):
    """The kind of a criterion without content, and the word that shows it."""

    lack: Lack
    word: str


def _split(text: str) -> frozenset[str]:
    return frozenset(text.split())


_PRAISE = _split(
    """
    good great nice excellent strong high deep clear engaging insightful insight insights thoughtful thorough
    comprehensive constructive practical actionable empathetic nuanced helpful useful coherent appropriate
    suitable adequate sufficient professional polished elegant clean compelling persuasive convincing effective
    logical balanced meaningful well quality interesting informative readable solid robust sound superb
    outstanding exceptional decent reasonable satisfactory acceptable proper smooth natural creative original
    detailed quickly depth clarity valuable beautiful impressive harmless mastery best ideal creativity
    originality professionalism empathy elegance helpfulness skillful skilful competent mature sophisticated rich
    vivid fluent sense pleasant charming attractive pleasing lovely wonderful fantastic no-nonsense memorable
    moving touching witty stunning remarkable exemplary flawless masterful brilliant amazing stylish tasteful
    graceful powerful refined splendid superior publishable top-notch first-rate world-class polish flair finesse
    maturity sophistication eloquence eloquent articulate lucid lucidity crisp tight punchy snappy catchy lively
    energetic dynamic inspiring inspirational motivating stimulating thought-provoking eye-opening enjoyable
    entertaining amusing fun funny delightful captivating fascinating absorbing gripping riveting intriguing
    provocative evocative poignant heartfelt sincere authentic genuine relatable warm warmth friendly kind
    considerate caring compassionate sympathetic supportive encouraging uplifting positive optimistic confident
    assured authoritative credible trustworthy reliable dependable responsible sensible wise intelligent smart
    clever ingenious inventive innovative imaginative imagination novel fresh unique distinctive special
    extraordinary phenomenal terrific marvelous marvellous magnificent glorious gorgeous awesome perfect optimal
    workable viable feasible realistic sustainable flexible versatile efficient efficiency intuitive user-friendly
    accessible approachable straightforward simple understandable comprehensible digestible easy seamless fluid
    fluency cohesive cohesion coherence consistency harmonious tidy neat orderly disciplined rigorous rigour rigor
    careful meticulous conscientious diligent exhaustive extensive in-depth substantive substantial weighty
    significant worthwhile fruitful productive beneficial advantageous fitting apt relevant pertinent timely
    tactful diplomatic sensitive mindful respectable admirable commendable praiseworthy laudable fine successful
    satisfying satisfactorily reasonably suitably remarkably value usefulness readability effectiveness
    suitability appropriateness excellence virtuosity style tone flow presence impact impactful resonance resonant
    charisma passion passionate spark charm judgment judgement taste nuance perceptive perception discerning
    critical analytical knowledgeable informed expert expertise masterly accomplished advanced proficient able
    adept command grasp awareness understanding profound reliably credibly authentically organically enough detail
    details thoroughness completeness conciseness correctness accuracy relevance politeness brevity simplicity
    truthfulness honesty fairness routine typical common generic customary ancillary suitableness right-sized
    """
)
_GRADING = _split(
    """
    criterion criteria rubric rubrics standard standards expectation expectations mark marks credit grade grades
    score scores rating ratings evaluation assessment grader judge marker examiner rater evaluator assessor
    requirement requirements guideline guidelines met unmet satisfied fulfilled passing pass passes passed
    passable checks benchmark benchmarks deserve deserves deserved deserving merit merits merited earn earns
    earned qualify qualifies qualified satisfy satisfies satisfying fulfil fulfils fulfill fulfills fulfilling
    meet meets meeting comply complies conform conforms conforming adhere adheres correct correctly right rightly
    graded scored rated marked tick ticks ticked box deduct deducted scripts script blank unmarked markers
    examiners full-mark full-marks judged awarded award awards reward rewarded worthy worth approval approve
    approved verdict scoring grading marking evaluated assessed checklist
    """
)
# Next to praise, these words are its object: "a good assessment".
_MILD = frozenset(
    {"", "assessment", "evaluation", "correct", "correctly", "right", "rightly", "requirement", "standard"}
)
# These occur in circular criteria, but also in others: "completes the task".
_TASK = _split(
    """
    item items point points task question prompt query request instruction instructions assignment demand demands
    demanded condition conditions objective objectives target targets goal goals level threshold bar line row list
    answered answers responded asked asks ask required requires require expected expects wanted wants want needed
    needs need requested requests called calls looked looks specified specifies given set stated listed above
    below this here exercise job purpose voice
    """
)
_PLAIN = _split(
    """
    into the a an its it is are be been being was were and or nor of in with to for from by on at as that which
    both very quite overall throughout also more so really truly extremely should must shall has have had having
    do does did done doing can could may might will would if then when whenever where because since while whether
    what whatever whichever who whoever whom those these such than like one ones any every each either all only
    just simply always never not no own their his her our your my me us we you i they he she them him up out about
    around over through within there some certain sort way means matter extent least most much many lot bit little
    too already completely fully entirely totally wholly generally basically absolutely definitely ever lines
    handed hand hands submit submits submitted submitting written looking reading skip gift free per else other
    another same again still even however whatsoever let lets provides provide providing provided give gives
    giving gave offer offers offering show shows showing demonstrate demonstrates demonstrating present presents
    presenting presented use uses using contain contains include includes make makes making made write writes
    writing handle handles handled handling deliver delivers display displays exhibit exhibits reflect reflects
    reveals convey conveys express expresses expressed communicate communicates communicating sounds sounding seem
    seems seeming feel feels feeling felt look flows explained explain explains explaining structured organized
    organised organize organizes thought put together crafted executed constructed developed develops formulated
    phrased worded composed created produced get gets getting receive receives obtain obtains gain gains achieve
    achieves reach reaches attain attains attained attaining reaching match matches hit hits clears accepted
    accept accepts deemed considered regarded counted counts count treated treats treat respond responds
    responding fit fits work works working serve serves accordance according terms respect regard view accord
    overview conclusion introduction analysis explanation description discussion summary argument arguments
    reasoning advice recommendation recommendations suggestions suggestion feedback review language structure
    format content contents coverage knowledge degree amount manner fashion presentation organization organisation
    example examples evidence information choice choices contribution engagement interpretation reflection
    treatment approach ideas idea concept concepts notion theme themes aspect aspects issue issues problem
    problems topic topics subject subjects material situation context thing things something anything everything
    nothing stuff part parts element elements side fact facts piece pieces paragraph prose output reader readers
    audience user users people person anyone everyone someone conversation discourse general thinking effort
    efforts possible ability abilities skill skills accurate concise brief complete specific honest adds add
    adding brings bring leaves leave impression negatively addresses addressed address covers covered cover
    manages managed communicated articulated poem song speech code program letter email plan proof solution
    literary academic artistic technical scientific storytelling intended usual answering concerning regarding
    asking puts attempt attempts genre register vocabulary grammar wording design layout
    """
)
_NOISE = _split("response responses submissions essays texts answers replies outputs papers candidates students")
# Words for the author of the submission, and for the submission.
_SUBJECTS = _split(
    """
    student candidate pupil learner writer author applicant participant examinee contestant model assistant
    chatbot bot ai llm system speaker respondent coder developer translator contributor response answer reply
    submission essay text report paper composition entry function story translation article derivation calculation
    diagram draft dialogue message note post outline table abstract caption definition comparison completion
    thesis narrative project demo recipe itinerary document sentence implementation class method test lyrics
    tutorial guide memo proposal spelling punctuation formatting handwriting graph chart figure title ending
    opening
    """
)
_ALLOWED = _PRAISE | _GRADING | _TASK | _PLAIN | _NOISE | _SUBJECTS
_LONGEST = 30

_PRAISE_ZH = match_any(
    """高远, 深远, 新奇, 优雅, 感人, 动人, 细腻, 凝练, 漂亮, 精妙, 巧妙, 周密, 严丝合缝, 言之有物, 发人深省
    耳目一新, 行云流水, 旁征博引, 深入浅出, 引人深思, 别具一格, 一针见血, 鞭辟入里, 引人入胜, 妙笔生花
    字字珠玑, 匠心独运, 情真意切, 朗朗上口, 恰如其分, 独树一帜, 高屋建瓴, 立意, 文采斐然, 有?文采, 有?内涵
    有?感染力, 重点突出, 主次分明, 层次分明, 印象深刻, 无可挑剔, 滴水不漏, 高质量, 质量很?[高好], 丰富, 深刻
    到位, 友好, 得体, 专业, 有?建设性, 有?价值, 有?帮助, 有?意义, 有?深度, 有?广度, 有?见地, 简练, 精练, 亲切
    新颖, 独特, 翔实, 严密, 缜密, 周到, 贴切, 妥当, 适宜, 连贯, 较高, 很高, 详细, 详尽, 细致, 条理, 分明
    有?新意, 有?创意, 有?吸引力, 透彻, 独到, 精炼, 有力, 清楚, 清晰, 生动, 优美, 流畅, 自然, 有趣, 详实, 充实
    通顺, 恰当, 合理, 良好, 严谨, 完善, 全面, 深入, 充分, 优秀, 优良, 优异, 优质, 出色, 很好, 较好, 好, 精彩
    合适, 适当, 适中, 得当, 鲜明, 较强, 很强, 通俗易懂, 易于理解, 说服力, 有?逻辑, 令人信服, 令人满意, 实用, 高
    强, 深, 佳, 妙, 美, 真挚, 真实, 饱满, 饱含, 大气, 灵动, 灵活, 成熟, 老练, 扎实, 厚实, 稳健, 娴熟, 熟练
    高雅, 典雅, 雅致, 隽永, 含蓄, 幽默, 风趣, 睿智, 智慧, 巧思, 匠心, 亮点, 出彩, 创新, 创造性, 想象力, 感染力
    吸引力, 可读性, 思想性, 文学性, 条理性, 逻辑性, 专业性, 实用性, 启发性, 创造力, 温暖, 真诚, 诚恳, 耐心
    体贴, 贴心, 积极, 正面, 向上, 规范, 标准化, 工整, 美观, 大方, 精致, 精美, 精准, 精当, 得法, 合情合理
    言简意赅, 简明扼要, 中心突出, 首尾呼应, 前后呼应, 自圆其说, 入木三分, 恰到好处, 尽善尽美, 面面俱到, 张力
    意蕴, 意味, 余味悠长, 悠长, 韵味, 格调, 韵律感, 节奏感, 舒服, 舒适, 大方, 饱满, 老到, 深厚, 浓厚, 深邃
    深沉, 细心, 用心, 认真, 走心, 打动人心, 感人至深, 回味无穷, 意味深长, 耐人寻味, 启迪, 启发"""
)
_GRADING_ZH = match_any(
    """评分标准, 评分细则, 评分要求, 评分, 标准, 要求, 细则, 准则, 指标, 条件, 得分, 给分, 得满分, 满分, 高分
    及格, 合格, 达标, 通过, 满足, 符合, 达到, 达成, 评审, 评判, 评价, 评估, 判定, 判断, 判为, 判, 考核, 采分点
    得分点, 答对, 正确, 对, 评委, 裁判, 阅卷老师, 阅卷人, 老师, 评卷, 阅卷, 分数, 分, 值得, 应得, 配得上, 水平
    水准, 档次, 认可, 肯定, 好评, 奖励"""
)
_PLAIN_ZH = match_any(
    """回答, 回复, 答案, 答复, 作答, 文章, 作文, 论文, 内容, 语言, 语气, 表达, 表述, 分析, 论述, 论证, 逻辑, 结构
    思路, 观点, 建议, 意见, 见解, 信息, 解释, 说明, 总结, 质量, 细节, 例子, 态度, 文笔, 文字, 思想, 情感, 感情
    主题, 题材, 选材, 材料, 层次, 提供, 具有, 具备, 做出, 作出, 给出, 进行, 体现, 展示, 展现, 显示, 表现, 富有
    富于, 充满, 给人, 带来, 引起, 使人, 使, 能够, 考生, 学生, 同学, 作者, 作品, 模型, 系统, 输出, 成果, 答卷
    试卷, 卷面, 书写, 字迹, 全文, 通篇, 整篇, 整体, 总体, 各方面, 题目, 本题, 此题, 该题, 题意, 任务, 问题
    主旨, 用户, 读者, 观众, 他人, 人们, 方面, 程度, 价值, 参考, 篇幅, 能力, 语句, 词句, 用词, 措辞, 句子, 段落
    开头, 结尾, 中心, 意境, 手法, 写法, 写作, 写得, 写, 做得, 做, 答得, 答, 说得, 讲得, 读来, 所有, 全部, 各项
    各条, 每项, 本项, 此项, 该项, 本条, 此条, 该条, 上述, 以上, 各, 项, 条, 个, 篇, 份, 一, 这, 那, 某, 本, 该
    此, 应该, 应当, 应, 需要, 需, 必须, 须, 要, 可以, 可, 能, 会, 是否, 是, 为, 很, 非常, 较为, 比较, 较, 十分
    足够, 相当, 极其, 极, 特别, 更加, 更, 最, 真正, 真, 都, 均, 皆, 即可, 即, 就, 则, 才, 便, 也, 还, 又, 且
    而且, 而, 并且, 并, 和, 与, 及, 以及, 或, 的, 地, 得, 了, 着, 过, 对于, 对, 在, 上, 中, 里, 内, 下, 有
    没有, 不, 让, 让人, 令, 令人, 被, 把, 将, 由, 用, 以, 按照, 按, 根据, 依据, 如果, 若, 当, 时, 者, 那么, 所
    其, 它, 他, 她, 我, 你, 准确, 完整, 简洁, 具体, 性, 感, 度, 力, 一定, 给予, 给, 获得, 获, 得到, 拿到, 视为
    算, 算作, 成, 成为, 完成, 到, 出, 起来, 来, 去, 好好, 完全, 基本, 充足, 一个, 一篇, 一种, 一份"""
)
# The longest first, because the pattern does not backtrack.
_EMPTY_WORDS_ZH = sorted(
    (_PRAISE_ZH[3:-1] + "|" + _GRADING_ZH[3:-1] + "|" + _PLAIN_ZH[3:-1]).split("|"), key=len, reverse=True
)
_EMPTY_ZH = re.compile(rf"(?:{'|'.join(_EMPTY_WORDS_ZH)}|\W)*+")
_CIRCLE_ZH = re.compile(
    r"评分|标准|要求|细则|准则|条件|得分|给分|满分|高分|及格|合格|达标|通过|满足|评审|评判|判定|考核|采分|答对"
    r"|答案正确"
    r"|回答正确|值得|应得|好评|认可"
)
_PRAISED_ZH = re.compile(_PRAISE_ZH)


def find_emptiness(words: Phrasing) -> Empty | None:
    """Return how a criterion lacks content; None if it names something to look for.

    Example:
        >>> [find_emptiness(Phrasing(text)) for text in ("A good assessment.", "Deserves this point.", "Good costs.")]
        [Empty(lack='praise', word='good'), Empty(lack='circular', word='deserves'), None]
    """
    if words.size > _LONGEST:
        return None
    return _find_in_chinese(words.own.strip()) if words.chinese else _find_in_english(words.tokens)


def _find_in_english(tokens: tuple[str, ...]) -> Empty | None:
    if not all(token in _ALLOWED or _is_praise(token) or token.removesuffix("'s") in _ALLOWED for token in tokens):
        return None
    circle = next((token for token in tokens if token in _GRADING), "")
    praise = next((token for token in tokens if _is_praise(token)), "")
    if praise and circle in _MILD:
        return Empty("praise", praise)
    return Empty("circular", circle) if circle else None


def _is_praise(token: str) -> bool:
    return (
        token in _PRAISE or token.startswith(("well-", "high-")) or (token.endswith("ly") and token[:-2] in _PRAISE)
    )


def _find_in_chinese(text: str) -> Empty | None:
    if _EMPTY_ZH.fullmatch(text) is None:
        return None
    circle, praise = _CIRCLE_ZH.search(text), _PRAISED_ZH.search(text)
    if circle:
        return Empty("circular", circle.group())
    return Empty("praise", praise.group()) if praise else None
