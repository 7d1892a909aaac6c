"""Findings asked for by what they say in fields; their words are for eyes only."""

from collections.abc import Iterable

from tacit.inference.findings import Finding, Kind


def told(findings: Iterable[Finding], kind: Kind, **about) -> list[Finding]:
    """The findings of a kind about these things: told(f, Kind.ACTIVE, constraint=0)."""
    return [
        one
        for one in findings
        if one.kind is kind and all(getattr(one.about, name) == of for name, of in about.items())
    ]


def fields(findings: Iterable[Finding]) -> list[tuple]:
    """Kind and fields of every finding but the feature's name: what no name may change."""
    return [
        (one.kind, one.about.constraint, one.about.state, one.about.trajectory, one.about.number)
        for one in findings
    ]
