"""Phrases that refer to what the judge does not see: documents, lessons, people's opinions, earlier messages."""

from autorubric.core.wording import compile_late, match_any
from autorubric.linting.criterion_words import Phrasing

_PLACE = match_any(
    """booklets?, handouts?, worksheets?, textbooks?, coursebooks?, workbooks?, lectures?, lessons?, seminars?
    syllabus, appendix, appendices, annex, style guide, answer key, answer sheet, mark scheme, marking scheme
    markscheme, exemplar, screenshots?, whiteboard, blackboard, hidden tests?
    course (?:book|notes|pack|materials?|reader), reading list
    set text, set book, teacher's book, moderation \\w+, standardi[sz]ation \\w+, shared drive, house style
    brand guidelines, lab manual
    revision (?:sheet|guide|notes), knowledge organi[sz]er, marking notes, rubric notes
    scoring notes, grading notes, examiner's report, past paper, appendix [a-z]
    previous turn, earlier turn, first turn, conversation history"""
)
_OWN_PLACE = match_any(
    """spreadsheets?, class, classroom, slides?, attachments?, memos?, manual, handbook, envelope, exhibit
    recording, transcripts?, meeting, briefing, workshop, tutorial, test suite, report card, file, folder, wiki
    intranet, playbook, style sheet, study guide, template, notebook"""
)
"""An answer can contain these as well (code has classes and files), so they need an owner or a date."""
_PREPOSITION = (
    r"(?:in|on|from|of|at|per|with|to|by|see|using|under|about|against|during|as|like|via|matching|following)"
)
_OWNER = (
    r"(?:our|my|last|yesterday's|today's|(?:mon|tues|wednes|thurs|fri|satur|sun)day's"
    r"|last week's|week \d+'s|ms \w+'s|mr \w+'s|dr \w+'s)"
)
_WHOSE = rf"(?:the|your|this|that|these|those|the \w+'s|{_OWNER})"
_NUMBERED = match_any(
    "figure, fig\\.?, table, page, p\\., chapter, appendix, exhibit, slide, annex, attachment, worksheet, handout, "
    "module, lesson, section, source, extract, item, resource"
)
_AGREES = match_any(
    """match(?:es|ing)?, agrees?(?: closely)? with, consistent with, corresponds? (?:to|with), equals?, same as
    in line with, conforms? (?:to|with), compl(?:y|ies) with, reproduces?, follows?, mirrors?
    aligns? (?:to|with), identical to, coincides? with, fits?, adheres? to, sticks? to, as close as possible to
    close to, faithful to, tall(?:y|ies) with, accords? with, in accordance with, echoes, replicates?
    in keeping with, within \\d+ ?% of, based on, quotes? from, deviates? from
    passes (?=\\w+ (?:hidden|unit|unseen))"""
)
_SOURCE = match_any(
    """answer key, gold standard, gold answer, ground truth, correct answer provided
    sample (?:answer|response|solution|essay|output), model (?:answer|solution|essay)
    official (?:answer|solution|translation|guidelines?|policy), published (?:answer|translation|result)s?
    expected (?:output|result|answer)s?, worked (?:solution|example|answer), hidden (?:unit )?tests?
    (?:linked|attached|enclosed|supplied|accompanying|uploaded) \\w+
    company (?:policy|style guide|guidelines|standards?|template), in-house \\w+
    internal (?:policy|guidelines?|document|standards?|memo|wiki), source (?:document|text|file|material)s?
    original (?:paper|document|file|recording|draft), patient's (?:chart|file|record)s?
    previous (?:turn|message|answer|response|draft|version|email|homework|assignment|test|paper|week)s?
    earlier (?:turn|message|answer|response|draft|version|email)s?
    user's (?:earlier|previous|other|first|last) \\w+, (?:first|last|second|rough) draft, house style
    style guide, ground[- ]truth, lab book, logbook"""
)
_PEOPLE = match_any(
    """teacher, tutor, professor, instructor, examiner, expert, supervisor, lecturer, editor, moderator, committee
    reviewer, specialist, chief examiner, head of department, boss, manager, panel, jury, client"""
)
_THEIRS = match_any(
    """answers?, solutions?, essay, notes, version, wording, translation, comments?, remarks, examples?, results?
    conclusions?, diagnosis, instructions?, slides, methods?, opinions?, views?, reading, verdict, findings?
    figures?, list"""
)
_TAUGHT = match_any(
    """discussed, taught, covered, demonstrated, shown, introduced, practi[sc]ed, agreed, presented, explained
    given, handed out, circled, underlined, marked, highlighted, set, assigned, read, studied, distributed
    learn(?:ed|t), seen, worked through, gone over, dictated, rehearsed, emailed, sent, pinned, displayed
    written up, sketched, drawn, modelled, pointed out, mentioned, stressed, recommended"""
)
_WHEN = (
    r"(?:in|on|during|at|by|before|after) (?:class|the (?:lecture|lesson|class|board|whiteboard|meeting|seminar"
    r"|workshop|briefing|tutorial|trip|visit|lab|session|exam|projector|screen|last|previous)\b|(?:mon|tues|wednes"
    r"|thurs|fri|satur|sun)day"
    r"|last (?:week|lesson|time|term|month|year)|(?:our|your|my|the) (?:\w+ )?(?:teacher|tutor|professor|instructor"
    r"|lecturer|examiner|lesson|class|meeting|session|call|chat)|school|assembly|week \d+|homework)"
    r"|(?:last|this) (?:week|lesson|time|term|month|session)|yesterday|earlier (?:in|this|today)|previously\W*$"
    r"|the other day"
)
_PERSON = (
    r"(?:teacher|tutor|professor|instructor|lecturer|examiner|supervisor|expert|coach|boss|client"
    r"|author of the rubric|head|moderator)"
)
POINTED = compile_late(
    rf"\b(?:{_PREPOSITION} (?:{_WHOSE} (?:[\w'-]+ ){{0,2}}?(?P<place>{_PLACE})"
    rf"|{_OWNER} (?:[\w'-]+ ){{0,2}}?(?P<own_place>{_OWN_PLACE}))\b(?! (?:of|for|size|action|struggle"
    rf"|actions?|file format|that (?:it|the (?:response|answer))))"
    rf"|(?:in|on|from|with|to|matches|match) the (?:\w+ed )?(?P<figure>diagram|graph|figure|chart)\b(?! (?:of|that"
    rf"|is|are|type|shows?)|'s)"
    rf"|(?P<source>{_AGREES} (?:the |our |your |its |with |all )+(?:\w+ ){{0,2}}?"
    rf"(?:{_SOURCE}|{_PEOPLE}(?:'s?)? (?:\w+ )?{_THEIRS}))\b"
    rf"|(?:{_AGREES}|shown in|see|as in|given in|from|on|in|per|according to) (?:the \w+ (?:in|on"
    rf"|of) )?(?P<numbered>{_NUMBERED} (?:\d[\d.]*|[a-d]))\b(?! ?\(| of (?!the (?:booklet|handout|textbook|manual"
    rf"|worksheet|pack|course|handbook|workbook|reader|guide|paper|report)))"
    rf"|(?P<taught>{_TAUGHT} (?:\w+ ){{0,3}}?(?:{_WHEN}))\b"
    rf"|(?P<i>(?<!\")(?:i|we) (?:have |had |also |all |already )?(?:discussed|covered|practi[sc]ed|studied|circled"
    rf"|marked|gave|said|wrote|told|sent|showed|taught|set|want|expect|drew) )"
    rf"|(?P<day>(?:yesterday|last week|(?:mon|tues|wednes|thurs|fri|satur|sun)day)'s (?:\w+ )?(?:discussion|email"
    rf"|call|homework|briefing|quiz|test|debate|class|lesson|meeting|session|chat|talk|visit|lab))\b"
    rf"|(?P<person>(?:what|which|as|how) (?:dr|mr|mrs|ms|prof|professor|miss)\.? \w+ (?:\w+ed|wrote|said|gave|drew"
    rf"|set|told|taught|showed|wants|expects|likes))"
    rf"|(?P<margin>in the margins?|(?:agreed|set|fixed|decided) (?:at|during|in) (?:the )?(?:kick-?off|stand-?up"
    rf"|retro|handover|board|call|review|meeting)|brand (?:colou?rs?|voice|font|book)|on page \d+|the (?:formula"
    rf"|data|information) sheet|(?:from|on|in) the (?:formula |data )?sheet)\b"
    rf"|(?P<said>(?:what|as|which|that|how) (?:the|our|your|their|my) {_PERSON}s? (?:\w+ )?(?:said|says|expects?"
    rf"|wants?|wrote|writes|taught|explained|told|prefers?|likes?|asked|asks|has in mind|would|gave|showed|did|does"
    rf"|described|demonstrated))"
    rf"|(?P<told>(?:as|did as|like) (?:was |were )?(?:told|instructed|shown|agreed|discussed|taught|practised"
    rf"|rehearsed)(?: \w+)? (?:in|by|on|at|during)\b))"
)
_WITH_ZH = "(?:见|与|和|同|按照?|据|参照|参考|符合|依据|引用|结合|使用|参见)"
POINTED_ZH = compile_late(
    r"(?:课堂|课上|会议上|在会上|昨天|上周|前几天|老师|教师)(?:所?[讲学说教布发批示强要给展画写提讨]|的?(?:批注|答案|示范|讲解|邮件|讨论))"
    r"|上节课|批改的|达成的共识|本单元|单元(?:所学|学过)|课堂笔记"
    rf"|{_WITH_ZH}[^，。；]{{0,4}}(?:附[件录表图]|教材|课本|讲义|课件|板书|笔记|档案)"
    r"|(?:教材|课本|讲义|课件|板书|笔记)(?:[中上里内]|所|第)|上图"
    r"|左图|右图|参考答案|标准答案|答案要点|范文|样卷|样题|教师手册|教研组|备课组|阅卷组|命题组|出题人|红笔|圈出的|初稿"
    r"|上一轮|前一轮|之前的(?:对话|消息|回复|邮件)|早先的|第[一二三四五六七八九十\d]+[页章节课](?!内容)|[图表]\s?\d"
    r"|提供的(?:文档|材料|文件|资料|数据|表格|图)|给定的?(?:文档|材料|文件|资料|数据)|密封|存档的|内部(?:文件"
    r"|规定|手册|资料|标准)|(?:本公司|我司|本校|贵司)的?[^，。；]{0,4}?(?:规范|规定|手册|模板|风格|制度|要求"
    r"|政策)|公司的?(?:写作|内部|品牌|文案)?(?:规范|手册|模板)"
    r"|发下来?的|(?:文末|链接)中?的|如(?:前|上|下)(?:文)?所(?:述|示|列)|见(?:上|下|附)[文图表件录]|原件|原稿"
    r"|隐藏(?:的)?测试|金标准|(?<!评分)标准译文|官方(?:答案|译文|题解)|专家(?:意见|诊断|的?答案|结论|给出)"
    r"|我(?:们)?(?:上课|讲[过的]|说[过的]|要求的|给的|给出的|教[过的]|布置的|发的|圈)"
)
_HEADS = frozenset(
    """spreadsheet spreadsheets booklet booklets handout handouts worksheet worksheets textbook textbooks
    coursebook workbook lecture lectures lesson lessons class classroom seminar seminars syllabus slide slides
    appendix appendices annex attachment attachments memo memos manual handbook guide key sheet scheme
    markscheme envelope exemplar screenshot screenshots exhibit recording transcript transcripts meeting
    whiteboard blackboard briefing workshop tutorial test tests suite book notes pack material materials reader
    list text report card file folder drive wiki intranet playbook style guidelines organizer organiser paper
    template notebook turn history figure fig table page chapter module section source extract resource
    standard answer response solution essay output truth translation result results example policy document
    original draft message email version teacher teacher's tutor tutor's professor professor's instructor
    instructor's examiner examiner's expert expert's supervisor supervisor's lecturer lecturer's author's
    client client's editor editor's moderator moderator's committee reviewer reviewer's specialist specialist's
    department boss manager panel jury chart record records lab logbook trip visit session exam projector
    screen school assembly homework yesterday week term month year today day i we told instructed monday
    tuesday wednesday thursday friday saturday sunday monday's tuesday's wednesday's thursday's friday's
    yesterday's last diagram graph answers margin margins kick-off kickoff stand-up handover brand solutions
    coach head dr mr mrs ms prof discussion user's essays responses
    earlier previously call chat board internal""".split()  # noqa: SIM905
)


def find_outside_reference(words: Phrasing, asked: str) -> str:
    """Return the words of a criterion that refer to something outside; empty if none do or the query has them.

    Example:
        >>> criterion = Phrasing("Uses the method shown in the lecture.")
        >>> [find_outside_reference(criterion, query) for query in ("what is osmosis?", "sum up the lecture: ...")]
        ['shown in the lecture', '']
    """
    chinese = words.chinese
    if not chinese and words.vocabulary.isdisjoint(_HEADS):
        return ""
    for found in (POINTED_ZH if chinese else POINTED).finditer(words.bare):
        phrase = found.group().strip()
        named = phrase if chinese else next((group for group in found.groups() if group), phrase)
        last = named if chinese else named.split()[-1].rstrip("s")
        if last not in asked and not (found.lastgroup == "numbered" and named.split()[0] in asked):
            return phrase
    return ""
