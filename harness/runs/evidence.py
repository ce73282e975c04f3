"""What a finding breaks: the client models proven on the quirk corpus to fail under its rule (DESIGN, "Evidence")."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from harness.clients.evidence import breaks_of
from harness.findings import Finding


def with_breaks(findings: Iterable[Finding]) -> list[Finding]:
    """The findings, each with the names of the client models that fail under its rule."""
    return [msgspec.structs.replace(finding, breaks=breaks_of(finding.rule)) for finding in findings]
