"""What a wrong edit is."""

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class LostEditError(ValueError):
    """The text that an edit replaces is not there any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """One replacement in one file of a set."""

    expects: str
    """Rule that has to report it, or `unreadable`."""

    base: Path
    """File or folder that is right, relative to the repository."""

    file: str = ""
    """File below `base`; empty where `base` is the file."""

    old: str
    new: str
    nth: int = 0
    """Which occurrence of `old`."""

    @property
    def says(self) -> str:
        """What the edit does, on one line."""
        old, new = (" ".join(text.split()) for text in (self.old, self.new))
        prefix = 0
        while prefix < min(len(old), len(new)) and old[prefix] == new[prefix]:
            prefix += 1
        begin = max(0, prefix - 24)
        return f"{_short(old[begin:])} → {_short(new[begin:]) or 'nothing'}"

    def applied(self) -> dict[str, str]:
        """Return the texts of the set with the edit, by file name.

        Raises:
            LostEditError: the set does not hold the text to replace.
        """
        base = ROOT / self.base
        files = sorted(base.glob("*.yaml")) if base.is_dir() else [base]
        texts = {file.name: file.read_text(encoding="utf-8") for file in files}
        name = self.file or base.name
        parts = texts[name].split(self.old)
        if len(parts) < self.nth + 2:
            raise LostEditError(f"`{self.base}/{name}` does not hold `{_short(self.old)}`")
        before, after = self.old.join(parts[: self.nth + 1]), self.old.join(parts[self.nth + 1 :])
        return {**texts, name: f"{before}{self.new}{after}"}


def _short(text: str) -> str:
    return text if len(text) <= 56 else f"{text[:55]}…"
