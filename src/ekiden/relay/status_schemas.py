"""JSON Schemas that status values can be held to, within a bound of work that the schema itself sets.

A schema comes from outside and is run against values from outside, so only the part of JSON Schema 2020-12 is
taken whose cost is the product of both sizes: no references (they multiply), no patterns (a regular expression
can take for ever), no `uniqueItems` (it compares all with all). See `docs/decisions/0009-status-schemas.md`.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, cast

from ekiden.kernel import limits
from ekiden.kernel.canonical import encode
from ekiden.kernel.errors import Invalid
from ekiden.relay.status_rules import RuleBroken

_ANY = {
    "type", "enum", "const", "title", "description", "default", "examples", "deprecated", "$comment", "$schema",
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength",
    "minItems", "maxItems", "minContains", "maxContains", "minProperties", "maxProperties", "required",
    "dependentRequired", "format",
}  # fmt: skip
_ONE = {"items", "contains", "additionalProperties", "propertyNames", "not", "if", "then", "else"}
_LISTS = {"allOf", "anyOf", "oneOf", "prefixItems"}
_MAPS = {"properties", "dependentSchemas"}
_WORDS = _ANY | _ONE | _LISTS | _MAPS
_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def check_schema(schema: Mapping[str, Any]) -> None:
    """Raises:
    Invalid: if the schema is not one, is too large or deep, or uses words that are not taken here.
    """
    size = len(encode(schema))
    if size > limits.STATUS_SCHEMA_BYTES_MAX:
        raise Invalid("The schema is too large.", size=size, max=limits.STATUS_SCHEMA_BYTES_MAX)
    _check_words(schema, 1)
    if schema.get("$schema", _DIALECT) != _DIALECT:
        raise Invalid(f"Schemas are of {_DIALECT}.")
    from jsonschema import Draft202012Validator, SchemaError

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        raise Invalid(f"The schema is not valid: {error.message[: limits.REASON_CHARS_MAX]}") from None


def _check_words(schema: object, depth: int) -> None:
    if isinstance(schema, bool):
        return
    if not isinstance(schema, Mapping):
        raise Invalid("A schema is an object, or true or false.")
    if depth > limits.STATUS_SCHEMA_DEPTH_MAX:
        raise Invalid("The schema is nested too deeply.", max=limits.STATUS_SCHEMA_DEPTH_MAX)
    for word, value in cast("Mapping[str, object]", schema).items():
        if word not in _WORDS:
            raise Invalid(
                f"{word[:40]!r} is not taken in schemas here.",
                hint="No references, patterns or uniqueItems: their cost has no bound.",
            )
        if word in _ONE:
            _check_words(value, depth + 1)
        elif word in _LISTS and isinstance(value, list):
            for part in cast("list[object]", value):
                _check_words(part, depth + 1)
        elif word in _MAPS and isinstance(value, dict):
            for part in cast("dict[str, object]", value).values():
                _check_words(part, depth + 1)


def refuse_misshapen(schema: Mapping[str, Any], pattern: str, key: str, value: object) -> None:
    """Raises:
    RuleBroken: if `value` is not what the schema asks for; says where.
    Invalid: if schema and value together are too much work.
    """
    if _steps(schema) * _steps(value) > limits.STATUS_SCHEMA_STEPS_MAX:
        raise Invalid("Value and schema together are too large to be compared.", key=key)
    error = next(_validator(encode(schema)).iter_errors(value), None)
    if error is None:
        return
    place = "/".join(str(part) for part in error.absolute_path)
    raise RuleBroken(
        f"{key!r} is not what its schema asks for: {error.message[: limits.REASON_CHARS_MAX]}",
        key=key,
        pattern=pattern,
        place=place,
        needs=["schema"],
    )


@lru_cache(maxsize=limits.STATUS_RULES_MAX)
def _validator(schema: bytes) -> Any:
    import msgspec
    from jsonschema import Draft202012Validator

    return Draft202012Validator(msgspec.json.decode(schema))


def _steps(value: object) -> int:
    """How many values there are in a value."""
    if isinstance(value, Mapping):
        return 1 + sum(_steps(part) for part in cast("Mapping[str, object]", value).values())
    if isinstance(value, list):
        return 1 + sum(_steps(part) for part in cast("list[object]", value))
    return 1
