"""Criteria made of praise alone: "a good assessment", "thorough, insightful, and constructive"."""

from __future__ import annotations

import re

from autorubric.core.wording import any_of
from autorubric.linting.wording import Wording

_QUALITIES = frozenset(
    """
    good great nice excellent strong high deep clear engaging insightful insight insights thoughtful thorough
    comprehensive constructive practical actionable empathetic nuanced helpful useful coherent appropriate suitable
    adequate sufficient professional
    polished elegant clean compelling persuasive convincing effective logical balanced
    meaningful well well-written well-structured well-organized well-organised well-reasoned well-thought-out quality
    interesting informative readable solid robust sound superb outstanding exceptional decent reasonable satisfactory
    acceptable proper smooth natural creative original detailed quickly effectively properly adequately nicely
    appropriately thoughtfully thoroughly clearly convincingly elegantly depth clarity valuable beautiful impressive
    harmless mastery best ideal creativity originality professionalism empathy elegance helpfulness quality skillful
    competent mature sophisticated rich vivid fluent sense high-quality pleasant charming attractive pleasing lovely
    wonderful fantastic no-nonsense memorable moving touching witty stunning remarkable exemplary flawless
    masterful brilliant
    amazing stylish tasteful graceful powerful refined splendid superior publishable decent-quality top-notch
    first-rate world-class
    """.split()  # noqa: SIM905 - a list of words reads best as words
)
_FILLERS = frozenset(
    """
    into the a an
    this its it is are be been being was and or of in with to for from by on at as that which both very quite
    overall throughout also enough more so highly really truly extremely should must
    response answer submission essay text model assistant output report code author writer writing work solution piece
    provides provide gives give offers offer shows show demonstrates demonstrate presents present uses use contains
    contain has have having includes include makes make written handles handle delivers deliver displays display
    sounds seems feels looks reads flows explained structured organized organised thought out expressed done crafted
    overview conclusion introduction assessment analysis explanation description discussion summary argument arguments
    reasoning advice recommendation recommendations suggestions feedback insight evaluation review language tone style
    structure format content
    detail details coverage understanding knowledge grasp flow level manner way fashion standard
    degree amount presentation organization organisation examples evidence information
    topic subject problem issue question matter task prompt reader audience user users readers query situation context
    piece level paragraph prose output enough overall general
    use poem song speech code program prose letter email summary plan proof
    literary academic artistic technical scientific professional storytelling thought thinking effort job
    possible able ability accurate correct relevant concise brief complete specific honest
    """.split()  # noqa: SIM905
)
_QUALITIES_ZH = any_of(
    """高远, 深远, 新奇, 优雅, 感人, 动人, 细腻, 凝练, 漂亮, 精妙, 巧妙, 周密, 严丝合缝, 文采斐然, 言之有物
    发人深省
    耳目一新, 行云流水, 旁征博引, 深入浅出, 引人深思, 感人至深, 别具一格, 一针见血, 鞭辟入里, 引人入胜
    妙笔生花, 字字珠玑
    匠心独运, 情真意切, 朗朗上口, 恰如其分, 独树一帜, 高屋建瓴, 立意, 文采, 有文采, 有内涵, 有感染力, 重点突出
    主次分明, 层次分明, 令人印象深刻, 印象深刻, 无可挑剔, 滴水不漏
    高质量, 质量(?:很|较|非常)?[高好], 丰富, 深刻, 到位, 友好, 得体, 专业, 有?建设性, 有价值, 有帮助, 有意义
    有深度, 有见地, 简练, 精练, 亲切, 新颖, 独特, 翔实, 严密, 缜密, 周到, 贴切, 妥当, 适宜, 连贯, 较高, 很高, 详细
    详尽, 细致, 条理清晰, 有新意, 有创意, 有吸引力, 透彻, 独到, 精炼, 有力, 清楚, 清晰, 生动, 优美
    流畅, 自然, 有趣, 详实, 充实, 通顺, 恰当, 合理, 良好, 严谨, 完善, 全面, 深入, 充分, 优秀, 出色, 很好, 较好
    好, 精彩, 合适, 适当
    适中, 得当, 鲜明, 较强, 很强, 通俗易懂, 易于理解, 有条理, 有说服力, 有逻辑, 令人信服, 令人满意, 实用, 高, 强
    深"""
)
_FILLERS_ZH = any_of(
    """回答, 回复, 答案, 文章, 内容, 语言, 语气, 表达, 表述, 分析, 论述, 论证, 逻辑, 结构, 思路, 观点, 建议
    意见, 见解, 信息, 解释
    说明, 总结, 评价, 评估, 质量, 细节, 例子, 态度, 文笔, 给出, 提供, 具有, 具备, 有, 做出, 进行, 体现, 展示
    应该?, 应当, 需要?
    必须, 要, 是, 很, 非常, 较为?, 比较, 十分, 足够, 且, 而且, 并且?, 又, 和, 与, 及, 以及, 的, 地, 得, 了, 对
    问题, 主题, 整体, 总体
    准确, 完整, 简洁, 具体, 性, 一个, 一份, 该, 此, 在, 上, 写, 写得, 让人, 用户, 读者, 方面, 程度, 价值, 参考, 水平
    篇幅, 能力, 语句, 表现出, 显示出"""
)
_LONGEST = 40
_EMPTY_ZH = re.compile(rf"(?:{_QUALITIES_ZH}|{_FILLERS_ZH}|\W)++")
_PRAISED_ZH = re.compile(_QUALITIES_ZH)


def praise_alone(words: Wording) -> str:
    """The first word of praise in a criterion that asks for nothing else; empty where it asks for something.

    Example:
        >>> [praise_alone(Wording(text)) for text in ("A good assessment.", "A good assessment of costs.")]
        ['good', '']
    """
    if words.size > _LONGEST:
        return ""
    if words.chinese:
        text = words.own.strip()
        found = _PRAISED_ZH.search(text) if _EMPTY_ZH.fullmatch(text) else None
        return found.group() if found else ""
    tokens = words.tokens
    if any(not _praises(token) and token not in _FILLERS for token in tokens):
        return ""
    return next((token for token in tokens if _praises(token)), "")


def _praises(token: str) -> bool:
    return token in _QUALITIES or token.startswith("well-") or (token.endswith("ly") and token[:-2] in _QUALITIES)
