"""The wire formats, by name."""

from harness.dialects.base import Dialect
from harness.dialects.chat import Chat

DIALECTS: dict[str, type[Dialect]] = {cls.name: cls for cls in (Chat,)}
