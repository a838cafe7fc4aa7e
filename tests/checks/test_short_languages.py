"""Short texts and capitals: the check on the language is right or cannot decide."""

from collections import Counter

from autorubric.checks import CheckFailure, CheckOutcome, run_check
from tests.offenders import each

# A greeting, a statement, a question, a sign and thanks in 18 languages, written for this test.
SHORT = {
    "en": "Good morning, everyone.|The train leaves at nine.|Where is the station?|"
    "No parking here|Thank you very much!",
    "es": "Buenos días a todos.|El tren sale a las nueve.|¿Dónde está la estación?|No aparcar aquí|¡Muchas gracias!",
    "fr": "Bonjour à tous.|Le train part à neuf heures.|Où est la gare ?|Défense de stationner|Merci beaucoup !",
    "de": "Guten Morgen zusammen.|Der Zug fährt um neun ab.|Wo ist der Bahnhof?|Parken verboten|Vielen Dank!",
    "it": "Buongiorno a tutti.|Il treno parte alle nove.|Dov'è la stazione?|Divieto di sosta|Grazie mille!",
    "pt": "Bom dia a todos.|O comboio parte às nove.|Onde fica a estação?|Proibido estacionar aqui|Muito obrigado!",
    "nl": "Goedemorgen allemaal.|De trein vertrekt om negen uur.|Waar is het station?|"
    "Hier niet parkeren|Hartelijk bedankt!",
    "sv": "God morgon allihopa.|Tåget går klockan nio.|Var ligger stationen?|Parkering förbjuden här|Tack så mycket!",
    "pl": "Dzień dobry wszystkim.|Pociąg odjeżdża o dziewiątej.|Gdzie jest dworzec?|"
    "Zakaz parkowania|Dziękuję bardzo!",
    "tr": "Herkese günaydın.|Tren saat dokuzda kalkıyor.|İstasyon nerede?|Buraya park etmeyin|Çok teşekkür ederim!",
    "vi": "Chào buổi sáng mọi người.|Tàu khởi hành lúc chín giờ.|Nhà ga ở đâu?|Cấm đỗ xe ở đây|Cảm ơn rất nhiều!",
    "ru": "Всем доброе утро.|Поезд отправляется в девять.|Где находится вокзал?|Стоянка запрещена|Большое спасибо!",
    "uk": "Усім доброго ранку.|Потяг відправляється о дев'ятій.|Де знаходиться вокзал?|"
    "Стоянка заборонена|Щиро дякую!",
    "ar": "صباح الخير للجميع.|يغادر القطار في التاسعة.|أين المحطة؟|ممنوع الوقوف هنا|شكرا جزيلا!",
    "hi": "सभी को सुप्रभात।|ट्रेन नौ बजे निकलती है।|स्टेशन कहाँ है?|यहाँ गाड़ी खड़ी न करें|बहुत धन्यवाद!",
    "ja": "皆さん、おはようございます。|電車は九時に出ます。|駅はどこですか。|駐車禁止です|ありがとうございます！",
    "ko": "여러분 안녕하세요.|기차는 아홉 시에 출발합니다.|역이 어디에 있습니까?|주차 금지|정말 감사합니다!",
    "zh": "大家早上好。|火车九点开。|车站在哪里？|禁止停车|非常感谢！",
}


def verdict(text: str, code: str) -> bool | None:
    said = run_check("language", {"code": code}, text)
    assert isinstance(said, CheckOutcome | CheckFailure)
    return said.passed if isinstance(said, CheckOutcome) else None


def test_short_texts_and_capitals_are_never_refused_in_their_own_language() -> None:
    texts = [(text, code) for code, line in SHORT.items() for text in line.split("|")]
    capitals = [(text.upper(), code) for text, code in texts if text.upper() != text]
    own, other = Counter[bool | None](), Counter[bool | None]()
    for text, code in texts + capitals:
        own[verdict(text, code)] += 1
        other.update(verdict(text, another) for another in SHORT if another != code)
    assert own[False] == 0
    assert own[True] >= 0.85 * own.total()
    # One Portuguese sign reads as Spanish to both detectors, as it stands and in capitals.
    assert other[True] <= 2
    assert other[None] <= 0.03 * other.total()


@each(
    ("text", "code", "passed"),
    [
        ("WIR FAHREN MIT DEM ZUG NACH Wien.", "de", True),  # mostly capitals
        ("駅はどこですか。", "zh", False),
        ("“はい”是日语里表示同意的词语，学生们在学校里很早就会学到它的写法。", "zh", True),
        ("東京駅", "ja", None),  # no kana: Chinese and Japanese alike
        ("営業中", "ja", None),
        ("这个城市的火车站在河的另一边。", "ja", False),
        ("火车站在哪里？", "en", False),
        ("OK", "pl", None),
    ],
)
def test_the_script_decides_first_and_two_letters_decide_nothing(text: str, code: str, passed: bool | None) -> None:
    assert verdict(text, code) is passed


def test_a_text_too_short_to_tell_names_each_language_once() -> None:
    said = run_check("language", {"code": "bg"}, "Добро утро")
    assert isinstance(said, CheckFailure)
    assert said.reason == "the language may be uk or bg; the submission is too short to tell"
