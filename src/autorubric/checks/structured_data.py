"""Checks on submissions that are data: JSON, JSON Schema, YAML, XML."""

import json
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import Annotated, Any, Literal

from pydantic import AfterValidator

from autorubric.checks.check import CannotCheck, CheckOutcome, check, quote
from autorubric.checks.markdown import find_fenced_blocks, strip_fence
from autorubric.checks.patterns import find_problem, has_match
from autorubric.errors import clip
from autorubric.files.strict_yaml import format_yaml_error

_MOST_STEPS = 100_000
_QUADRATIC = {"unevaluatedItems": list, "unevaluatedProperties": dict}
_MOST_UNEVALUATED = 1000  # the library looks each entry up in a list
_DRAFT = "https://json-schema.org/draft/2020-12/schema"


def find_schema_problem(schema: Any) -> str | None:
    """Return why a schema cannot be used; None if it can.

    Example:
        >>> find_schema_problem({"type": 3})
        'is not a valid JSON Schema: at type: 3 is not valid under any of the given schemas'
    """
    from jsonschema import SchemaError

    try:
        forbidden = next(_find_forbidden(schema), None)
        if forbidden is None:
            _load_validator_class(_read_draft(schema)).check_schema(schema)
    except SchemaError as error:
        return f"is not a valid JSON Schema: at {_describe_place(error)}: {error.message}"
    except RecursionError:
        return "is nested too deeply"
    return forbidden


def describe_violations(document: Any, schema: Any) -> str | None:
    """Return the first few places where the document violates the schema; None if it does not.

    Raises:
        CannotCheck: a reference cannot be resolved, or references or nesting go too deep.

    Example:
        >>> describe_violations([1, "2"], {"items": {"type": "integer"}})
        "at 1: '2' is not of type 'integer'"
    """
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    validator = _build_validator_class(_read_draft(schema))(schema, registry=Registry())
    try:
        errors = list(islice(validator.iter_errors(document), 3))
    except Unresolvable as error:
        raise CannotCheck(f"the schema refers to {error.ref!r}, which it does not contain") from None
    except RecursionError:
        raise CannotCheck("the schema or the document is nested too deeply") from None
    return "; ".join(f"at {_describe_place(error)}: {clip(error.message, 161)}" for error in errors) or None


def _read_draft(schema: Any) -> str:
    declared = schema.get("$schema", _DRAFT) if isinstance(schema, Mapping) else _DRAFT
    return declared if isinstance(declared, str) else _DRAFT


@lru_cache(maxsize=16)
def _load_validator_class(draft: str) -> Any:
    from jsonschema import Draft202012Validator
    from jsonschema.validators import validator_for

    return validator_for({"$schema": draft}, default=Draft202012Validator)


def _build_validator_class(draft: str) -> Any:
    """Return the draft's validator with our patterns, and a limit on the references that it follows."""
    from jsonschema.validators import extend

    plain, steps = _load_validator_class(draft), iter(range(_MOST_STEPS))

    def follow_ref(validator: Any, ref: Any, instance: Any, schema: Any) -> Iterator[Any]:
        if next(steps, None) is None:
            raise CannotCheck(f"the schema follows more than {_MOST_STEPS} references")
        yield from plain.VALIDATORS["$ref"](validator, ref, instance, schema)

    def limit(keyword: str) -> Any:
        def validate(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[Any]:
            if isinstance(instance, _QUADRATIC[keyword]) and len(instance) > _MOST_UNEVALUATED:
                raise CannotCheck(f"{len(instance)} entries; {keyword} is checked for at most {_MOST_UNEVALUATED}")
            yield from plain.VALIDATORS[keyword](validator, wanted, instance, schema)

        return validate

    ours = {
        "$ref": follow_ref,
        "uniqueItems": _validate_unique_items,
        **{keyword: limit(keyword) for keyword in _QUADRATIC},
        "pattern": _validate_pattern,
        "patternProperties": _validate_pattern_properties,
        "additionalProperties": _validate_additional_properties,
    }
    return extend(plain, {keyword: function for keyword, function in ours.items() if keyword in plain.VALIDATORS})


def _validate_pattern(validator: Any, wanted: str, instance: Any, _: Any) -> Iterator[Any]:
    from jsonschema.exceptions import ValidationError

    if validator.is_type(instance, "string") and not has_match(wanted, instance):
        yield ValidationError(f"{instance!r} does not match {wanted!r}")


def _validate_unique_items(validator: Any, wanted: bool, instance: Any, _: Any) -> Iterator[Any]:
    """In linear time; the library compares every two items."""
    from jsonschema.exceptions import ValidationError

    is_checked = wanted and validator.is_type(instance, "array")
    if is_checked and len({repr(_normalize_equal(item)) for item in instance}) < len(instance):
        yield ValidationError(f"{instance!r} has non-unique elements")


def _normalize_equal(value: Any) -> Any:
    """Return a JSON value with the same `repr` as the values that are equal to it: key order and 1.0 do not count."""
    if isinstance(value, dict):
        return {key: _normalize_equal(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_normalize_equal(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _validate_pattern_properties(validator: Any, wanted: Any, instance: Any, _: Any) -> Iterator[Any]:
    if validator.is_type(instance, "object"):
        for name, below in wanted.items():
            for key in (key for key in instance if has_match(name, key)):
                yield from validator.descend(instance[key], below, path=key, schema_path=name)


def _validate_additional_properties(validator: Any, below: Any, instance: Any, schema: Any) -> Iterator[Any]:
    from jsonschema.exceptions import ValidationError

    if not validator.is_type(instance, "object"):
        return
    named, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    for key in instance:
        if key in named or any(has_match(name, key) for name in patterns):
            continue
        if below is False:
            yield ValidationError(f"unexpected property {key!r}")
        else:
            yield from validator.descend(instance[key], below, path=key)


def _find_forbidden(part: Any) -> Iterator[str]:
    """Yield the parts of a schema that could reach outside it or run without bound."""
    if isinstance(part, Mapping):
        yield from _find_forbidden_keywords(part)
    below = part.values() if isinstance(part, Mapping) else part if isinstance(part, list) else ()
    for item in below:
        yield from _find_forbidden(item)


def _find_forbidden_keywords(part: Mapping[str, Any]) -> Iterator[str]:
    for target in (part.get(keyword) for keyword in ("$ref", "$dynamicRef", "$recursiveRef")):
        if isinstance(target, str) and "://" in target:
            yield f"refers to {target!r}; only references inside the schema are followed"
    # The library matches these patterns itself, without a deadline.
    if "unevaluatedProperties" in part and "patternProperties" in _iter_keywords(part):
        yield "combines unevaluatedProperties with patternProperties, which is not supported"
    named = part.get("patternProperties")
    for candidate in (*(named if isinstance(named, Mapping) else ()), part.get("pattern")):
        problem = find_problem(candidate) if isinstance(candidate, str) else None
        if problem is not None:
            yield f"has the pattern {quote(candidate)}, which {problem}"


def _iter_keywords(part: Any) -> Iterator[str]:
    if isinstance(part, Mapping):
        yield from part
        for item in part.values():
            yield from _iter_keywords(item)
    elif isinstance(part, list):
        for item in part:
            yield from _iter_keywords(item)


def _describe_place(error: Any) -> str:
    return "/".join(map(str, error.absolute_path)) or "the top"


LONGEST = 1_000_000
LONGEST_YAML = 200_000
Where = Literal["whole", "block"]


@check("json_valid")
def json_valid(text: str, *, where: Where = "whole") -> CheckOutcome:
    """Passed when the submission is JSON; NaN, comments and trailing commas are not.

    `whole` reads the entire submission, without one enclosing fence; `block` reads each code block
    marked `json`, and there must be one.

    Example:
        >>> json_valid('{"a": 1,}').passed
        False
    """
    return _judge_bodies(text, where, ("json",), _find_json_problem)


def _check_schema(schema: dict[str, Any] | bool) -> dict[str, Any] | bool:
    problem = find_schema_problem(schema)
    if problem is not None:
        raise ValueError(problem)
    return schema


Schema = Annotated[dict[str, Any] | bool, AfterValidator(_check_schema)]


@check("json_schema", packages=("jsonschema", "regex"))
def json_schema(text: str, *, schema: Schema, where: Where = "whole") -> CheckOutcome:
    """Passed when the submission is JSON that the schema accepts (draft 2020-12, or as `$schema` says).

    References are followed inside the schema only, patterns have a deadline, and `format` is not checked.

    Example:
        >>> json_schema('{"age": "12"}', schema={"properties": {"age": {"type": "integer"}}}).reason
        "at age: '12' is not of type 'integer'"
    """

    def find_body_problem(body: str) -> str | None:
        broken = _find_json_problem(body)
        return broken if broken is not None else describe_violations(_read_json(body), schema)

    return _judge_bodies(text, where, ("json",), find_body_problem)


@check("yaml_valid")
def yaml_valid(
    text: str,
    *,
    root: Literal["any", "mapping", "sequence", "collection"] = "collection",
    where: Where = "whole",
) -> CheckOutcome:
    r"""Passed when the submission is YAML with the given root; no value in it is constructed.

    Plain prose is YAML too (one long string), so by default the root must be a mapping or a sequence.

    Example:
        >>> yaml_valid("name: Ada\nborn: 1815").passed, yaml_valid("Just prose.").passed
        (True, False)
    """
    return _judge_bodies(text, where, ("yaml", "yml"), lambda body: _find_yaml_problem(body, root))


@check("xml_valid", packages=("defusedxml",))
def xml_valid(text: str, *, root: str | None = None, where: Where = "whole") -> CheckOutcome:
    """Passed when the submission is well-formed XML, with the root element `root` if that is given.

    Raises:
        CannotCheck: it declares a document type; those can expand without bound and are not read.

    Example:
        >>> xml_valid("<note><to>Ada</to></note>", root="note").passed
        True
    """
    return _judge_bodies(text, where, ("xml",), lambda body: _find_xml_problem(body, root))


def _judge_bodies(
    text: str, where: Where, languages: tuple[str, ...], problem: Callable[[str], str | None]
) -> CheckOutcome:
    if len(text) > LONGEST:
        raise CannotCheck(f"the submission has {len(text)} characters; at most {LONGEST} are read")
    if where == "whole":
        bodies = [strip_fence(text)]
    else:
        bodies = [block.body for block in find_fenced_blocks(text) if block.language in languages]
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


def _find_json_problem(body: str) -> str | None:
    try:
        _read_json(body)
    except ValueError as error:
        return f"it is not JSON: {error}"
    return None


def _read_json(body: str) -> Any:
    return json.loads(body, parse_constant=_refuse_constant, parse_int=_parse_integer)


def _refuse_constant(constant: str) -> None:
    raise ValueError(f"{constant} is not a JSON value")


def _parse_integer(digits: str) -> int:
    # JSON has no limit; Python refuses to read more than 4,300 digits.
    if len(digits) > 4_000:
        raise CannotCheck(f"the JSON contains an integer of {len(digits)} digits")
    return int(digits)


def _find_yaml_problem(body: str, root: str) -> str | None:
    import yaml

    if len(body) > LONGEST_YAML:
        raise CannotCheck(f"the YAML has {len(body)} characters; at most {LONGEST_YAML} are read")
    try:
        # Composing builds the tree of nodes and constructs no values, so aliases cannot multiply.
        documents: Iterator[Any] = yaml.compose_all(body, Loader=yaml.SafeLoader)
        roots = [node.id for node in documents]
    except yaml.YAMLError as error:
        return f"it is not valid YAML: {format_yaml_error(error)}"
    wanted = {"collection": ("mapping", "sequence")}.get(root, (root,))
    wrong = [found for found in roots if root != "any" and found not in wanted]
    if wrong or not roots:
        return f"its root is {f'a {wrong[0]}' if wrong else 'empty'}; expected a {' or '.join(wanted)}"
    return None


def _find_xml_problem(body: str, root: str | None) -> str | None:
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
