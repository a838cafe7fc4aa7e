"""Every shape of a reply for every role: read where its meaning is certain, requested again where it is not."""

from __future__ import annotations

from typing import Any

from autorubric.llm.request import Answer, Reply, Unreadable
from tests.offenders import each
from tests.replies.roles import ROLES, TEXTS, Role
from tests.replies.shapes import DOSE, Sent, replies
from tests.replies.shapes import TEXTS as SAID

# What becomes of each shape, by role in the order of `ROLES`: the texts; the four lists of criteria and the merge of
# sets; the judges of one criterion; the judge of all, licences and rewrites. A person wrote this down before a reader
# was asked.
#   V  read, nothing to note        N  read, and noted           F  the first entry alone is read, the rest is noted
#   A  the text after the thinking  0  read as no criteria       -  a reply for this role has no such shape
#   U  unreadable   E  empty   T  truncated (all requested again)   R  refused (not requested again)
EXPECTED = """
as asked for                          VV VVVVV VV VVV
a bare list                           VV VVVVV NN VVV
a fence                               VV VVVVV VV VVV
a fence with prose around             VV VVVVV VV VVV
prose around                          VV VVVVV VV VVV
a draft, then all                     VV NNNNN UU NNN
all, then an example                  VV UUUUU UU UUU
two parts                             VV UUUUU -- UUU
thinking with a draft                 AA VVVVV VV VVV
thinking without its start            AA VVVVV VV VVV
thinking in a channel                 AA VVVVV VV VVV
thinking in a channel, without its marks AA VVVVV VV VVV
thinking that never ends              EE EEEEE EE EEE
thoughts in their field and no text   EE EEEEE EE EEE
a wrapper                             VV VVVVV VV VVV
a wrapper in Chinese                  VV NNNNN NN NNN
another list next to it               VV NNNNV -- NNN
two lists under known keys            VV UUUU- -- ---
JSON in a string                      VV NNNNN NN NNN
JSON in a value                       VV NNNNN NN NNN
each entry as JSON in a string        VV NNNNN NN NNN
entries by name                       VV NNNNN -- NNN
entries by name, bare                 VV NNNNN -- NNN
groups of entries                     VV UUUUU -- UUU
groups by name                        VV UUUUU -- UUU
one entry a line                      VV NNNNN -- NNN
Python                                VV NNNNN NN NNN
trailing commas                       VV NNNNN NN NNN
comments                              VV NNNNN NN NNN
curly quotes                          VV NNNNN NN NNN
quotes not escaped                    VV NNNNN NN NNN
a raw line break                      VV VVVVV VV VVV
keys in camel case                    VV VVVVV VV VVV
underscores as in Markdown            VV VVVVV NN NNN
a bulleted list                       VV UUUUU NU NUU
a numbered list                       VV UUUUU NU UUU
a table                               VV UUUUU UU NUU
tags                                  VV UUUUU NN NUU
YAML                                  VV UUUUU NN NUU
an apology                            VV UUUUU UU UUU
a refusal in its field                RR RRRRR RR RRR
a content filter                      RR RRRRR RR RRR
an empty list                         VV UU00U UU UUU
an empty list under its key           VV UU00U UU UUU
entries left out                      VV UUUUU UU UUU
an entry that is none                 VV FFFFF -- FFF
entries run together                  VV UUUUU -- UUU
40 entries                            VV VVVVV -- VVV
nothing                               EE EEEEE EE EEE
closed, but cut off                   TT TTTTT TT TTT
"""

OTHER_TEXTS = {
    "quotes not escaped": 'Names 4 g as the "largest" dose [per day].',
    "a raw line break": "Names 4 g as the largest dose\n[per day].",
}
AGAIN = {
    "U": ("unreadable", True),
    "E": ("empty", True),
    "T": ("truncated", True),
    "R": ("refusal", False),
}


def table() -> dict[str, list[str]]:
    rows = (line.rsplit(maxsplit=4) for line in EXPECTED.strip().splitlines())
    return {name: list("".join(codes)) for name, *codes in rows}


def sent_by(role: Role, texts: tuple[str, ...]) -> Sent:
    entries = [role.entry(number, text) for number, text in enumerate(texts if role.key else texts[:1])]
    return Sent(entries, role.key, role.name, role.entry(1, "Or not?"))


def shape_for(shape: str, role: Role) -> tuple[Sent, Reply]:
    texts: tuple[str, ...] = (OTHER_TEXTS.get(shape, DOSE), *SAID[1:])
    if shape == "40 entries":
        texts = tuple(f"Names fact {number} of the forty [facts]." for number in range(40))
    sent = sent_by(role, texts)
    return sent, replies(shape, sent)


def fault(code: str, name: str, sent: Sent, reply: Reply) -> str:
    """What is wrong with what a reader makes of a reply; empty if it is as expected."""
    role = ROLES[name]
    found = role.read(reply, len(sent.entries))
    if code in AGAIN:
        good = isinstance(found, Unreadable) and (found.kind, found.again) == AGAIN[code]
        return "" if good else f"expected {AGAIN[code]}, got {found!r:.300}"
    if not isinstance(found, Answer):
        return f"expected a value, got {found}"
    value = found.value if name in TEXTS else role.shown(found.value)
    if name in TEXTS:
        wanted: Any = sent.json if code == "A" else reply.text.strip()
    else:
        wanted = [] if code == "0" else role.value(sent.entries[:1] if code == "F" else sent.entries)
    if value != wanted:
        return f"expected {wanted!r:.300}, got {value!r:.300}"
    # Whoever judges all criteria has a failure for each one without a verdict, which counts as a note.
    failures = sum(one.failure is not None for one in found.value.values()) if name == "judge of all" else 0
    noted = bool(found.notes or failures)
    return "" if noted == (code in "NF") else f"noted: {found.notes}, {failures} failures"


def test_every_shape_is_read_or_requested_again_for_every_role_and_never_guessed() -> None:
    faults = []
    for shape, codes in table().items():
        assert len(codes) == len(ROLES), shape
        for code, name in zip(codes, ROLES, strict=True):
            if code != "-" and (wrong := fault(code, name, *shape_for(shape, ROLES[name]))):
                faults.append(f"{shape} × {name}: {wrong}")
    assert faults == []


CUT = (
    "as asked for",
    "a fence",
    "a draft, then all",
    "thinking with a draft",
    "a wrapper",
    "JSON in a string",
    "Python",
)
CUT_LISTS = ("a bare list", "entries by name", "each entry as JSON in a string")


# Where the endpoint says itself that it cut the reply, every fifth position.
@each(("finish_reason", "step"), [("length", 5), ("stop", 1)])
def test_a_reply_cut_at_any_position_is_never_read_as_complete(finish_reason: Any, step: int) -> None:
    faults = []
    for name, role in ROLES.items():
        if name in TEXTS:
            continue
        for shape in (*CUT, *CUT_LISTS) if role.key else CUT:
            _, whole = shape_for(shape, role)
            last = max(whole.text.rfind(mark) for mark in '}]"')
            # Until the second reply has begun, a draft looks like the whole: nothing tells that more was to come.
            first = whole.text.rfind("{", 0, whole.text.find("Final:") + 20) + 1 if shape.startswith("a draft") else 0
            for cut in range(first, last + 1, step):
                reply = Reply(whole.text[:cut], finish_reason=finish_reason)
                found = role.read(reply, len(SAID))
                if not isinstance(found, Unreadable) or not found.again:
                    faults.append(f"{name} × {shape}, cut at {cut}: {reply.text[-20:]!r} gave {found!r:.200}")
    assert faults == []
