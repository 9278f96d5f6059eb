"""Which rows a statement reads or changes, as far as its text tells.

So an engine may ask early and write late.

Two statements do not meet if they have no table in common, or if for each common table both name one row-choosing
column (`session_id = :session_id`) with different values. What is not plainly understood (a subquery, OR, a set
operation) meets everything, so a text can only be judged too carefully. Enough is understood for what rooms ask
most: one row by its key, a row put or changed by its key. A column `team_id` is left out of account: what is
compared is of one team.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

_NOISE = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_SPACE = re.compile(r"\s+")
_UNCLEAR = re.compile(
    r"\b(or|not|union|except|intersect|with|left|right|full|using|between|case|returning|exists)\b|['\"]|::"
)
_SELECT = re.compile(
    r"select (?P<columns>.+?) from (?P<source>.+?)(?: where (?P<where>.+?))?"
    r"(?P<rest>$| (?:group by|having|order by|limit|offset|for)\b.*)"
)
_JOIN = re.compile(r" (?:inner )?join ")
_SOURCE = re.compile(r"(?P<table>\w+)(?: (?:as )?(?P<alias>\w+))?(?: on (?P<on>.+))?")
_UPDATE = re.compile(r"update (?P<table>\w+) set (?P<set>.+?) where (?P<where>.+)")
_DELETE = re.compile(r"delete from (?P<table>\w+) where (?P<where>.+)")
_INSERT = re.compile(
    r"insert into (?P<table>\w+) \((?P<columns>[\w, ]+)\) values \((?P<values>[^()]+)\)"
    r"(?: on conflict \((?P<target>[\w, ]+)\) do (?:nothing|update set (?P<set>.+)))?"
)
_CHOSEN = re.compile(r"(?:(?P<alias>\w+)\.)?(?P<column>\w+) = :(?P<parameter>\w+)")
_CHANGED = re.compile(r"(?:^|, ?)(\w+) = ")

_TEAM = "team_id"

Pins = Mapping[str, str]
"""The parameter that each row-choosing column of a table equals."""


@dataclass(frozen=True, slots=True)
class Touched:
    """What a statement touches. `tables` is None for one that is not understood."""

    tables: Mapping[str, Pins] | None
    lookup: bool = False
    """Whether it only reads, and gives for several sets of parameters what it gives for each, in any order."""


@lru_cache(maxsize=1024)
def touched(sql: str) -> Touched:
    """What the statement touches, from its text."""
    text = _SPACE.sub(" ", _NOISE.sub(" ", sql)).strip().lower()
    if _UNCLEAR.search(text) or text.count("select") > int(text.startswith("select ")):
        return Touched(None)
    if found := _SELECT.fullmatch(text):
        return _selected(found)
    if found := _UPDATE.fullmatch(text):
        changed = set(_CHANGED.findall(found["set"]))
        pins = {column: name for column, name in _chosen(found["where"]).items() if column not in changed}
        return Touched({found["table"]: pins})
    if found := _DELETE.fullmatch(text):
        return Touched({found["table"]: _chosen(found["where"])})
    if found := _INSERT.fullmatch(text):
        return _inserted(found)
    return Touched(None)


def _selected(found: re.Match[str]) -> Touched:
    sources = [_SOURCE.fullmatch(source) for source in _JOIN.split(found["source"])]
    tables: dict[str, dict[str, str]] = {}
    names: dict[str, str] = {}
    conditions = [found["where"] or ""]
    for source in sources:
        if source is None or source["table"] in tables:
            return Touched(None)
        tables[source["table"]] = {}
        names[source["alias"] or source["table"]] = source["table"]
        conditions.append(source["on"] or "")
    for condition in conditions:
        for one in condition.split(" and "):
            chosen = _CHOSEN.fullmatch(one.strip())
            if chosen is None:
                continue
            if chosen["column"] == _TEAM:
                continue
            if chosen["alias"] in names:
                tables[names[chosen["alias"]]][chosen["column"]] = chosen["parameter"]
            elif chosen["alias"] is None and len(tables) == 1:
                next(iter(tables.values()))[chosen["column"]] = chosen["parameter"]
    return Touched(tables, lookup=not found["rest"] and ":" in found[0])


def _inserted(found: re.Match[str]) -> Touched:
    columns = found["columns"].replace(" ", "").split(",")
    values = [value.strip() for value in found["values"].split(",")]
    if len(columns) != len(values):
        return Touched(None)
    pins = {
        column: value[1:]
        for column, value in zip(columns, values, strict=True)
        if value.startswith(":") and column != _TEAM
    }
    if found["target"] is not None:
        # The row that is already there may differ in all but these.
        target = set(found["target"].replace(" ", "").split(","))
        changed = set(_CHANGED.findall(found["set"] or ""))
        pins = {column: name for column, name in pins.items() if column in target - changed}
    return Touched({found["table"]: pins})


def _chosen(where: str) -> dict[str, str]:
    """The columns of the one table that must equal a parameter."""
    found = (_CHOSEN.fullmatch(one.strip()) for one in where.split(" and "))
    return {
        one["column"]: one["parameter"]
        for one in found
        if one is not None and one["alias"] is None and one["column"] != _TEAM
    }


@dataclass(slots=True)
class _Changes:
    """What was changed in one table: how often, and which values each row-choosing column had how often."""

    count: int = 0
    named: dict[str, int] = field(default_factory=dict[str, int])
    values: dict[str, set[object]] = field(default_factory=dict[str, "set[object]"])


class Traces:
    """What statements have changed, so that another can be asked whether it meets any of it."""

    __slots__ = ("_everything", "_tables")

    def __init__(self) -> None:
        self._everything = False
        self._tables: dict[str, _Changes] = {}

    def add(self, what: Touched, parameters: Mapping[str, object]) -> None:
        """Remembers what a statement changes."""
        if what.tables is None:
            self._everything = True
            return
        for table, pins in what.tables.items():
            changes = self._tables.get(table)
            if changes is None:
                changes = self._tables[table] = _Changes()
            changes.count += 1
            for column, name in pins.items():
                changes.named[column] = changes.named.get(column, 0) + 1
                changes.values.setdefault(column, set()).add(parameters[name])

    def meets(self, what: Touched, parameters: Mapping[str, object]) -> bool:
        """Whether a statement may touch what was changed."""
        if self._everything:
            return True
        if what.tables is None:
            return bool(self._tables)
        for table, pins in what.tables.items():
            changes = self._tables.get(table)
            if changes is not None and not any(
                changes.named.get(column) == changes.count and parameters[name] not in changes.values[column]
                for column, name in pins.items()
            ):
                return True
        return False
