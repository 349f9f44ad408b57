"""What every catalog row says about itself."""

from hyperpod_dpd.spec.value import record


@record
class Source:
    """Where a fact comes from and when it was read. A fact without both is a rumour."""

    text: str
    """Document, repository path or measurement."""

    as_of: str
    """Date on which it was read or published, ISO 8601."""

    confirmed: bool = True
    """False where the value is inferred or has a single unofficial source."""


class UnknownCatalogEntryError(LookupError):
    """A name that the catalog does not have; the message lists the names it has.

    Attributes:
        kind: of what it is the name, such as `region`.
        name: the name.
        known: the names that the catalog has.
    """

    kind: str
    name: str
    known: tuple[str, ...]

    def __init__(self, kind: str, name: str, known: tuple[str, ...], help_text: str = "") -> None:
        self.kind, self.name, self.known = kind, name, known
        listed = ", ".join(f"`{entry}`" for entry in known)
        # imported for a mistake only: reading the catalog needs no difflib
        from hyperpod_dpd.spec.violation import close_to  # noqa: PLC0415

        fix = help_text or close_to(name, known) or "give one of them"
        super().__init__(f"unknown {kind} `{name}`; the catalog has {listed}. help: {fix}")
