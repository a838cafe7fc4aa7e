from __future__ import annotations

import re
from pathlib import Path

import pytest

from autorubric.errors import InputError, MissingFileError
from autorubric.prompts import Template
from tests.offenders import each

TWO = "{% block system %}\nBe brief.\n{% endblock %}\n{% block user %}\n{{ query }}\n{% endblock %}\n"


def test_blocks_become_messages_and_the_query_stays_as_it_was_written() -> None:
    query = "  Two\n\nlines  \n"
    assert Template("t", TWO).render(query=query) == (("system", "Be brief."), ("user", query))


def test_a_file_without_blocks_is_one_user_message() -> None:
    assert Template("t", "Ask: {{ query }}\n").render(query="why?") == (("user", "Ask: why?"),)


def test_an_empty_system_block_sends_no_message() -> None:
    source = "{% block system %}{% if False %}x{% endif %}{% endblock %}{% block user %}a{% endblock %}"
    assert Template("t", source).render() == (("user", "a"),)


@each(
    "query",
    [
        "{{ reference }}",
        "<<reference>>",
        "{|response1|}",
        "{% raw %}",
        "{# note #}",
        "%}{{ 7 * 7 }}",
        "</request>",
        "&lt;",
    ],
)
def test_a_query_that_looks_like_a_placeholder_stays_text(query: str) -> None:
    for name in ("reference", "rubric"):
        rendered = Template.from_package(name).render(query=query, reference="SECRET")
        assert query in rendered[1][1]
        assert rendered[1][1].count("SECRET") == (name == "rubric")


def test_a_missing_value_is_named_with_its_template() -> None:
    with pytest.raises(InputError, match="prompt 'augment' needs 'responses', 'rubrics'; given: query"):
        Template.from_package("augment").render(query="why?")


def test_nothing_given_is_said_as_well() -> None:
    with pytest.raises(InputError, match="prompt 'reask' needs 'problem'; given: nothing"):
        Template.from_package("reask").render()


def test_a_missing_key_inside_a_value_is_an_error_too() -> None:
    with pytest.raises(InputError, match=r"prompt 't'.*'title'"):
        Template("t", "{{ item.title }}").render(item={})


@each(
    ("source", "message"),
    [
        ("{{ query", r"prompt 't':1: "),
        ("a\nb {% if %}", r"prompt 't':2: "),
        ("{{ query | fense('q') }}", r"fense"),
        ("{% block sytem %}a{% endblock %}{% block user %}b{% endblock %}", "unknown block 'sytem'"),
        ("{% block system %}a{% endblock %}", "has no user block"),
        ("Please: {% block user %}a{% endblock %}", "outside the system and user blocks"),
        ("{{ query }}{% block user %}a{% endblock %}", "outside the system and user blocks"),
    ],
)
def test_a_template_that_cannot_work_is_refused_when_it_is_loaded(source: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Template("t", source)


def test_a_template_is_no_program() -> None:
    with pytest.raises(InputError, match="unsafe"):
        Template("t", "{{ query.__class__.__mro__ }}").render(query="x")
    beginning = (
        "{% block user %}{{ 'a' * 10 ** 9 }}{% endblock %}{% block criterion %}{{ requirement }}{% endblock %}"
    )
    with pytest.raises(InputError, match=r"prompt 't': '\*\*?' takes numbers up to 10000 here$"):
        Template("t", beginning).begin(query="x")


def test_the_fingerprint_is_of_name_and_source() -> None:
    prints = {Template("a", "x").fingerprint, Template("a", "y").fingerprint, Template("b", "x").fingerprint}
    assert len(prints) == 3
    assert Template("a", "x").fingerprint == Template("a", "x", origin="elsewhere").fingerprint
    assert all(re.fullmatch("[0-9a-f]{12}", mark) for mark in prints)


def test_variables_are_the_names_the_text_uses() -> None:
    assert Template.from_package("augment").variables == {
        *("query", "rubrics", "responses", "verdicts", "chinese"),
    }
    assert Template("t", "{% for x in range(3) %}{{ x }}{{ loop.index }}{% endfor %}{{ y }}").variables == {"y"}


def test_a_file_is_read_with_or_without_a_byte_order_mark(tmp_path: Path) -> None:
    file = tmp_path / "hello.jinja"
    file.write_bytes(b"\xef\xbb\xbf\xe4\xbd\xa0\xe5\xa5\xbd {{ query }}")
    template = Template.from_file(file)
    assert (template.name, template.origin) == ("hello", str(file))
    assert template.render(query="x") == (("user", "你好 x"),)


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    blank, binary = tmp_path / "blank.jinja", tmp_path / "binary.jinja"
    blank.write_text(" \n")
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match=r"blank\.jinja: the prompt is blank"):
        Template.from_file(blank)
    with pytest.raises(InputError, match=r"binary\.jinja: the text is UTF-16"):
        Template.from_file(binary)
    with pytest.raises(MissingFileError, match=r"Prompt file not found: .*none\.jinja"):
        Template.from_file(tmp_path / "none.jinja")
    with pytest.raises(MissingFileError, match="unknown prompt 'jugde'"):
        Template.from_package("jugde")
