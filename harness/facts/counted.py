"""Token counts of the dialects that owe them with every answer: where they stand, and which counters there are.

Source: RULES, section 1 (`usage.*`). A running total that its vendor documents is no repetition.
"""

from __future__ import annotations

from typing import Any, ClassVar

from harness.facts.base import Facts, Place


class CountedFacts(Facts):
    """Facts with usage. A counter is named by its path in the usage object: `tokens/input_tokens`."""

    usage_always_due: ClassVar[bool] = True
    base_counters: ClassVar[tuple[str, ...]] = ()
    running_total: ClassVar[bool] = False  # documented: more than one value says nothing then

    def __init__(self) -> None:
        super().__init__()
        self.counted: dict[str, Any] = {}  # base counter -> its last value
        self.usage_place: Place | None = None  # of the last usage object that counts
        self.usage_values = 0
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
            self.usage_values += 1
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
        """Whether counts came at all, whether they say anything, and whether they came more than once."""
        self.fact("usage.present", bool(self.counted), self.usage_place)
        if self.counted:
            place = self.usage_place or (self.last_at, 0)
            zero = not any(self.counted.values())
            self.fact("usage.zero", zero, place)
            if zero:
                self.note("usage.zero", *place)
            if not self.running_total:
                self.fact("usage.repeated", self.usage_values > 1, place)
                if self.usage_values > 1:
                    self.note("usage.repeated", *place, f"{self.usage_values} values")
        elif self.tree.get("result") == "ok":
            self.note("usage.missing", self.last_at, 0)
