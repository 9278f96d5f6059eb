"""JSON Schema (2020-12) of the shapes that travel through the door.

Made from `msgspec.inspect` instead of `msgspec.json.schema_components`, which cannot write down a shape with a
default of already encoded JSON (`msgspec.Raw`), and items and approvals have such fields.
"""

import inspect as python_inspect
from collections.abc import Sequence
from typing import Any

from msgspec import inspect

Schema = dict[str, Any]
REFERENCE = "#/components/schemas/"


class Schemas:
    """Collects named shapes as components while schemas of types are asked for."""

    def __init__(self, *, hidden: Sequence[str] = ()) -> None:
        """`hidden` fields are left out: they never stand in a body."""
        self.components: dict[str, Schema] = {}
        self._owners: dict[str, type] = {}
        self._hidden = frozenset(hidden)

    def of(self, shape: Any) -> Schema:
        """The schema of a type."""
        return self._of(inspect.type_info(shape))

    def _of(self, info: inspect.Type) -> Schema:
        match info:
            case inspect.StructType():
                return self._reference(info.cls, lambda: self._struct(info))
            case inspect.EnumType():
                return self._reference(info.cls, lambda: self._enum(info))
            case inspect.UnionType():
                return self._union(info)
            case inspect.BytesType():
                return {"type": "string", "contentEncoding": "base64"}
            case inspect.StrType():
                return {"type": "string"}
            case inspect.BoolType():
                return {"type": "boolean"}
            case inspect.IntType():
                return {"type": "integer"}
            case inspect.FloatType():
                return {"type": "number"}
            case inspect.NoneType():
                return {"type": "null"}
            case inspect.LiteralType():
                return {"enum": list(info.values)}
            case inspect.DictType():
                return {"type": "object", "additionalProperties": self._of(info.value_type)}
            case inspect.TupleType():
                items = [self._of(item) for item in info.item_types]
                return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
            case inspect.ListType() | inspect.VarTupleType() | inspect.SetType() | inspect.FrozenSetType():
                return {"type": "array", "items": self._of(info.item_type)}
            case inspect.AnyType() | inspect.RawType():
                return {}
            case _:
                raise AssertionError(f"{info} has no form at the door")

    def _reference(self, shape: type, describe: Any) -> Schema:
        name = shape.__name__
        if self._owners.setdefault(name, shape) is not shape:
            # Another room has a shape of that name: this one is told apart by its own room.
            name = shape.__module__.split(".")[1].capitalize() + name
            owner = self._owners.setdefault(name, shape)
            assert owner is shape, f"{owner} and {shape} have one name"
        if name not in self.components:
            self.components[name] = {}
            self.components[name] = {"title": name, **_description(shape), **describe()}
        return {"$ref": REFERENCE + name}

    def _struct(self, info: inspect.StructType) -> Schema:
        properties: dict[str, Schema] = {}
        required: list[str] = []
        if info.tag_field is not None:
            properties[info.tag_field] = {"const": info.tag}
            required.append(info.tag_field)
        for field in info.fields:
            if field.encode_name in self._hidden:
                continue
            schema = self._of(field.type)
            if field.required:
                required.append(field.encode_name)
            elif isinstance(field.default, bool | int | float | str) and "$ref" not in schema:
                schema = {**schema, "default": field.default}
            properties[field.encode_name] = schema
        return {"type": "object", "properties": properties, "required": required}

    def _enum(self, info: inspect.EnumType) -> Schema:
        return {"enum": sorted(member.value for member in info.cls)}

    def _union(self, info: inspect.UnionType) -> Schema:
        schema: Schema = {"anyOf": [self._of(one) for one in info.types]}
        structs = [one for one in info.types if isinstance(one, inspect.StructType)]
        if len(structs) > 1:
            schema["discriminator"] = {
                "propertyName": structs[0].tag_field,
                "mapping": {str(one.tag): REFERENCE + one.cls.__name__ for one in structs},
            }
        return schema


def _description(shape: type) -> Schema:
    text = python_inspect.cleandoc(shape.__doc__) if shape.__doc__ else ""
    return {"description": text} if text else {}
