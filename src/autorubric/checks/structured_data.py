"""Checks on submissions that are data: JSON, JSON Schema, YAML, XML."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import Annotated, Any, Literal

from pydantic import AfterValidator

from autorubric.checks.check import CannotCheck, CheckOutcome, check, quoted
from autorubric.checks.markdown import fenced_blocks, unfenced
from autorubric.checks.patterns import find_problem, found
from autorubric.files.strict_yaml import yaml_words

_MOST_STEPS = 100_000
_DRAFT = "https://json-schema.org/draft/2020-12/schema"


def schema_problem(schema: Any) -> str | None:
    """Why a schema cannot be used, or None when it can.

    Example:
        >>> schema_problem({"type": 3})
        'is not a valid JSON Schema: at type: 3 is not valid under any of the given schemas'
    """
    from jsonschema import SchemaError

    try:
        forbidden = next(_forbidden(schema), None)
        if forbidden is None:
            _validator_class(_draft(schema)).check_schema(schema)
    except SchemaError as error:
        return f"is not a valid JSON Schema: at {_place(error)}: {error.message}"
    except RecursionError:
        return "is nested too deeply"
    return forbidden


def problems_with(document: Any, schema: Any) -> str | None:
    """The first few places where the document breaks the schema, or None when it does not.

    Raises:
        CannotCheck: a reference leads nowhere, or the schema sends the validator in circles.

    Example:
        >>> problems_with([1, "2"], {"items": {"type": "integer"}})
        "at 1: '2' is not of type 'integer'"
    """
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    validator = _bounded(_draft(schema))(schema, registry=Registry())
    try:
        errors = list(islice(validator.iter_errors(document), 3))
    except Unresolvable as error:
        raise CannotCheck(f"the schema refers to {error.ref!r}, which it does not hold") from None
    except RecursionError:
        raise CannotCheck("the schema or the document is nested too deeply") from None
    return "; ".join(f"at {_place(error)}: {_short(error.message)}" for error in errors) or None


def _draft(schema: Any) -> str:
    declared = schema.get("$schema", _DRAFT) if isinstance(schema, Mapping) else _DRAFT
    return declared if isinstance(declared, str) else _DRAFT


@lru_cache(maxsize=16)
def _validator_class(draft: str) -> Any:
    from jsonschema import Draft202012Validator
    from jsonschema.validators import validator_for

    return validator_for({"$schema": draft}, default=Draft202012Validator)


def _bounded(draft: str) -> Any:
    """The draft's validator with our patterns and with a limit on the references it may follow."""
    from jsonschema.validators import extend

    plain, steps = _validator_class(draft), iter(range(_MOST_STEPS))

    def counted_ref(validator: Any, ref: Any, instance: Any, schema: Any) -> Iterator[Any]:
        if next(steps, None) is None:
            raise CannotCheck(f"the schema follows more than {_MOST_STEPS} references")
        yield from plain.VALIDATORS["$ref"](validator, ref, instance, schema)

    ours = {
        "$ref": counted_ref,
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "additionalProperties": _additional_properties,
    }
    return extend(plain, {keyword: function for keyword, function in ours.items() if keyword in plain.VALIDATORS})


def _pattern(validator: Any, wanted: str, instance: Any, _: Any) -> Iterator[Any]:
    from jsonschema.exceptions import ValidationError

    if validator.is_type(instance, "string") and not found(wanted, instance):
        yield ValidationError(f"{instance!r} does not match {wanted!r}")


def _pattern_properties(validator: Any, wanted: Any, instance: Any, _: Any) -> Iterator[Any]:
    if validator.is_type(instance, "object"):
        for name, below in wanted.items():
            for key in (key for key in instance if found(name, key)):
                yield from validator.descend(instance[key], below, path=key, schema_path=name)


def _additional_properties(validator: Any, below: Any, instance: Any, schema: Any) -> Iterator[Any]:
    from jsonschema.exceptions import ValidationError

    if not validator.is_type(instance, "object"):
        return
    named, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    for key in instance:
        if key in named or any(found(name, key) for name in patterns):
            continue
        if below is False:
            yield ValidationError(f"unexpected property {key!r}")
        else:
            yield from validator.descend(instance[key], below, path=key)


def _forbidden(part: Any) -> Iterator[str]:
    """What in a schema could reach outside or run without bound."""
    if isinstance(part, Mapping):
        yield from _forbidden_here(part)
    below = part.values() if isinstance(part, Mapping) else part if isinstance(part, list) else ()
    for item in below:
        yield from _forbidden(item)


def _forbidden_here(part: Mapping[str, Any]) -> Iterator[str]:
    for target in (part.get(keyword) for keyword in ("$ref", "$dynamicRef", "$recursiveRef")):
        if isinstance(target, str) and "://" in target:
            yield f"refers to {target!r}; only references inside the schema are followed"
    # The library matches these patterns itself, without a deadline.
    if "unevaluatedProperties" in part and "patternProperties" in _keywords(part):
        yield "combines unevaluatedProperties with patternProperties, which is not supported"
    named = part.get("patternProperties")
    for candidate in (*(named if isinstance(named, Mapping) else ()), part.get("pattern")):
        problem = find_problem(candidate) if isinstance(candidate, str) else None
        if problem is not None:
            yield f"has the pattern {quoted(candidate)}, which {problem}"


def _keywords(part: Any) -> Iterator[str]:
    if isinstance(part, Mapping):
        yield from part
        for item in part.values():
            yield from _keywords(item)
    elif isinstance(part, list):
        for item in part:
            yield from _keywords(item)


def _place(error: Any) -> str:
    return "/".join(map(str, error.absolute_path)) or "the top"


def _short(message: str, longest: int = 160) -> str:
    return message if len(message) <= longest else f"{message[:longest]}…"


LONGEST = 1_000_000
LONGEST_YAML = 200_000
Where = Literal["whole", "block"]


@check("json_valid")
def json_valid(text: str, *, where: Where = "whole") -> CheckOutcome:
    """Passed when the submission is JSON; NaN, comments and trailing commas are not.

    `whole` reads the entire submission, without one enclosing fence; `block` reads each code block
    marked `json`, and there has to be one.

    Example:
        >>> json_valid('{"a": 1,}').passed
        False
    """
    return _each(text, where, ("json",), _json_problem)


def _valid_schema(schema: dict[str, Any] | bool) -> dict[str, Any] | bool:
    problem = schema_problem(schema)
    if problem is not None:
        raise ValueError(problem)
    return schema


Schema = Annotated[dict[str, Any] | bool, AfterValidator(_valid_schema)]


@check("json_schema", packages=("jsonschema", "regex"))
def json_schema(text: str, *, schema: Schema, where: Where = "whole") -> CheckOutcome:
    """Passed when the submission is JSON that the schema accepts (draft 2020-12, or as `$schema` says).

    References reach inside the schema only, patterns run under a deadline, and `format` asserts nothing.

    Example:
        >>> json_schema('{"age": "12"}', schema={"properties": {"age": {"type": "integer"}}}).reason
        "at age: '12' is not of type 'integer'"
    """

    def problem(body: str) -> str | None:
        broken = _json_problem(body)
        return broken if broken is not None else problems_with(_read_json(body), schema)

    return _each(text, where, ("json",), problem)


@check("yaml_valid")
def yaml_valid(
    text: str,
    *,
    root: Literal["any", "mapping", "sequence", "collection"] = "collection",
    where: Where = "whole",
) -> CheckOutcome:
    r"""Passed when the submission is YAML of the given root; nothing in it is ever constructed.

    Plain prose is YAML too (one long string), so the root has to be a mapping or a sequence by default.

    Example:
        >>> yaml_valid("name: Ada\nborn: 1815").passed, yaml_valid("Just prose.").passed
        (True, False)
    """
    return _each(text, where, ("yaml", "yml"), lambda body: _yaml_problem(body, root))


@check("xml_valid", packages=("defusedxml",))
def xml_valid(text: str, *, root: str | None = None, where: Where = "whole") -> CheckOutcome:
    """Passed when the submission is well-formed XML, its root element named `root` where that is given.

    Raises:
        CannotCheck: it declares a document type; those can expand without bound and are not read.

    Example:
        >>> xml_valid("<note><to>Ada</to></note>", root="note").passed
        True
    """
    return _each(text, where, ("xml",), lambda body: _xml_problem(body, root))


def _each(text: str, where: Where, languages: tuple[str, ...], problem: Callable[[str], str | None]) -> CheckOutcome:
    if len(text) > LONGEST:
        raise CannotCheck(f"the submission has {len(text)} characters; at most {LONGEST} are read")
    if where == "whole":
        bodies = [unfenced(text)]
    else:
        bodies = [block.body for block in fenced_blocks(text) if block.language in languages]
        if not bodies:
            return CheckOutcome(False, f"no code block is marked {languages[0]}")
    for body in bodies:
        try:
            found = problem(body)
        except RecursionError:
            raise CannotCheck("the submission is nested too deeply to be read") from None
        if found is not None:
            return CheckOutcome(False, found)
    return CheckOutcome(True, f"it is valid {languages[0].upper()}")


def _json_problem(body: str) -> str | None:
    try:
        _read_json(body)
    except ValueError as error:
        return f"it is not JSON: {error}"
    return None


def _read_json(body: str) -> Any:
    return json.loads(body, parse_constant=_refused, parse_int=_integer)


def _refused(constant: str) -> None:
    raise ValueError(f"{constant} is not a JSON value")


def _integer(digits: str) -> int:
    # JSON has no limit; Python refuses to read more than 4,300 digits.
    if len(digits) > 4_000:
        raise CannotCheck(f"the JSON holds an integer of {len(digits)} digits")
    return int(digits)


def _yaml_problem(body: str, root: str) -> str | None:
    import yaml

    if len(body) > LONGEST_YAML:
        raise CannotCheck(f"the YAML has {len(body)} characters; at most {LONGEST_YAML} are read")
    try:
        # Composing builds the tree of nodes and constructs no values, so aliases cannot multiply.
        documents: Iterator[Any] = yaml.compose_all(body, Loader=yaml.SafeLoader)
        roots = [node.id for node in documents]
    except yaml.YAMLError as error:
        return f"it is not valid YAML: {yaml_words(error)}"
    wanted = {"collection": ("mapping", "sequence")}.get(root, (root,))
    wrong = [found for found in roots if root != "any" and found not in wanted]
    if wrong or not roots:
        return f"its root is {f'a {wrong[0]}' if wrong else 'empty'}; expected a {' or '.join(wanted)}"
    return None


def _xml_problem(body: str, root: str | None) -> str | None:
    from xml.etree.ElementTree import ParseError

    from defusedxml import DefusedXmlException
    from defusedxml.ElementTree import fromstring

    try:
        element = fromstring(body.strip(), forbid_dtd=True)
    except DefusedXmlException:
        raise CannotCheck("the XML declares a document type, which is not read") from None
    except (ParseError, ValueError) as error:
        return f"it is not XML: {error}"
    if root is not None and element.tag != root:
        return f"its root element is {element.tag!r}; expected {root!r}"
    return None
