"""A table of a TOML file, read key by key; an error names the table in which it stands."""

from collections.abc import Collection
from typing import Any, TypeVar

from hakmem.errors import LabError

T = TypeVar("T")


class Entry:
    """One table. LabError for what is no table and, if `known` keys are given, for any other key:
    else a misspelt key would be ignored silently.

    A key without an `otherwise` must be there.
    """

    def __init__(self, content: object, where: str, known: Collection[str] = ()) -> None:
        self.where = where
        if not isinstance(content, dict):
            raise self.wrong("a table is expected")
        self.content: dict[str, Any] = content
        unknown = [key for key in content if known and key not in known]
        if unknown:
            raise self.wrong(f"unknown: {', '.join(unknown)}; known: {', '.join(known)}")

    def __contains__(self, key: str) -> bool:
        return key in self.content

    def wrong(self, why: str) -> LabError:
        return LabError(f"{self.where}: {why}")

    def of(self, kind: type[T], what: str, key: str, otherwise: T | None = None) -> T:
        """The value of a key, LabError where it is of another type. An integer is a number too."""
        found = self.content.get(key, otherwise)
        if found is None:
            raise self.wrong(f"{key} is missing")
        allowed = (float, int) if kind is float else kind
        if isinstance(found, bool) or not isinstance(found, allowed):
            raise self.wrong(f"{key} must be {what}, not {found!r}")
        return kind(found)  # type: ignore[call-arg]

    def text(self, key: str, otherwise: str | None = None) -> str:
        """A text; an empty one only if `otherwise` is given."""
        found = self.of(str, "a text", key, otherwise)
        if not found and otherwise is None:
            raise self.wrong(f"{key} is missing")
        return found

    def number(self, key: str, otherwise: float | None = None) -> float:
        return self.of(float, "a number", key, otherwise)

    def positive(self, key: str, otherwise: float | None = None) -> float:
        found = self.number(key, otherwise)
        if found <= 0:
            raise self.wrong(f"{key} must be a number above 0")
        return found

    def table(self, key: str) -> dict[str, Any]:
        """A table; empty where there is none."""
        return self.of(dict, "a table", key, {})

    def rows(self, key: str) -> list[Any]:
        """A list of at least one entry."""
        found = self.of(list, "a list", key)
        if not found:
            raise self.wrong(f"{key} is missing")
        return found

    def names(self, key: str) -> tuple[str, ...]:
        """A list of names; empty where the key is not there."""
        found = self.of(list, "a list of names", key, [])
        if not all(isinstance(name, str) for name in found):
            raise self.wrong(f"{key} must be a list of names")
        return tuple(found)
