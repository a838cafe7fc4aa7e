from autorubric.checks.length import split_by_rules, split_sentences, tokenize_words
from tests.offenders import each


@each(
    ("text", "expected"),
    [
        ("", ()),
        ("   ", ()),
        ("One. Two.", ("One.", "Two.")),
        ("Dr. Fox met J. Smith. They spoke.", ("Dr. Fox met J. Smith.", "They spoke.")),
        ("He works for Acme Inc. The pay is good.", ("He works for Acme Inc.", "The pay is good.")),
        ("Pay $3.50 now! Why?", ("Pay $3.50 now!", "Why?")),
        ('She said "no." He left.', ('She said "no."', "He left.")),
        # Curly quotes hide the end, as they did when the published verdicts were made.
        ("She said “no.” He left.", ("She said “no.” He left.",)),
        ("a\r\n\r\nb", ("a\r\n\r\nb",)),
    ],
)
def test_punkt_sentences(text: str, expected: tuple[str, ...]) -> None:
    assert split_sentences(text) == expected


@each(
    ("text", "expected"),
    [
        ("", ()),
        ("One. Two", ("One.", "Two")),
        ("Mr. Fox ran.", ("Mr. Fox ran.",)),
        ("See example.com now. Go.", ("See example.com now.", "Go.")),
        ("It is 3.5 km. Far.", ("It is 3.5 km.", "Far.")),
        ("Wait... what?", ("Wait...", "what?")),
        ("A Ph.D. is hard.", ("A Ph.D. is hard.",)),
        ("I met J. Smith.", ("I met J. Smith.",)),
        ("The U.S. He left.", ("The U.S.", "He left.")),
        ("The U.S. army left.", ("The U.S. army left.",)),
        ("Acme Inc. It grew.", ("Acme Inc", "It grew.")),  # the published splitter loses this dot
        ("Acme Inc. grew.", ("Acme Inc. grew.",)),
        ('He said "go!" Then left.', ('He said "go"!', "Then left.")),
        ("He said “go.” Then left.", ("He said “go”.", "Then left.")),
        ("One.\nTwo.", ("One.", "Two.")),
        ("Signs ~ and | stay. Yes.", ("Signs ~ and | stay.", "Yes.")),
        ("?!", ("?", "!")),
    ],
)
def test_rule_sentences(text: str, expected: tuple[str, ...]) -> None:
    assert split_by_rules(text) == expected


@each(
    ("text", "expected"),
    [
        ("", ()),
        ("Don't stop.", ("Do", "n't", "stop", ".")),
        ("It costs $5.50, really", ("It", "costs", "$", "5.50", ",", "really")),
        ("WELL-KNOWN (yes)", ("WELL-KNOWN", "(", "yes", ")")),
        ("now—then", ("now—then",)),  # not parted at a long dash, as when the published verdicts were made
        ("Go. Now.", ("Go", ".", "Now", ".")),
    ],
)
def test_word_tokens(text: str, expected: tuple[str, ...]) -> None:
    assert tokenize_words(text) == expected
