"""Token counts of the dialects that owe them with every answer: where they stand, and which counters there are.

Source: RULES, section 1 (`usage.*`). A running total that its vendor documents is no repetition: no fact tells of it.
"""

from __future__ import annotations

from typing import Any, ClassVar

from harness.facts.base import Facts, Place


class CountedFacts(Facts):
    """Facts with usage. A counter is named by its path in the usage object: `tokens/input_tokens`."""

    usage_always_due: ClassVar[bool] = True
    base_counters: ClassVar[tuple[str, ...]] = ()

    def __init__(self) -> None:
        super().__init__()
        self.counted: dict[str, Any] = {}  # base counter -> its last value
        self.usage_place: Place | None = None  # of the last usage object that counts
        self._counters: set[str] = set()  # all that were seen: most objects of a stream have the same

    def count(self, usage: Any, place: Place) -> bool:
        """Take in one usage object. False if it counts nothing that its dialect owes (absent, null, only details)."""
        if type(usage) is not dict:
            return False
        counts = False
        for name, value in usage.items():
            if type(value) is dict:
                for inner, number in value.items():
                    counts = self._counter(f"{name}/{inner}", number, place) or counts
            else:
                counts = self._counter(name, value, place) or counts
        if counts:
            self.usage_place = place
        return counts

    def _counter(self, name: str, value: Any, place: Place) -> bool:
        if value is None:
            return False
        owed = name in self.base_counters
        if name not in self._counters:
            self._counters.add(name)
            self.member("usage.counters" if owed else "usage.details", name, place)
        if owed:
            self.counted[name] = value
        return owed

    def close_usage(self) -> None:
        """Whether counts came at all, and whether they say anything."""
        self.fact("usage.present", bool(self.counted), self.usage_place)
        if self.counted:
            zero = not any(self.counted.values())
            self.fact("usage.zero", zero, self.usage_place)
            if zero and self.usage_place is not None:
                self.note("usage.zero", *self.usage_place)
        elif self.tree.get("result") == "ok":
            self.note("usage.missing", self.last_at, 0)
