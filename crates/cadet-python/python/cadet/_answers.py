"""What answers are that are no frames."""

from __future__ import annotations

from typing import Any, NamedTuple


class Verdict(NamedTuple):
    """Whether a model can be trusted: "green", "amber" or "red", and why."""

    colour: str
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join([self.colour.upper(), *self.reasons])


class Evaluation(dict[str, Any]):
    """What ``cadet eval --json`` prints, and, as `by_item`, a frame of how well each item's audience is told."""

    by_item: Any


class Explanation(dict[str, Any]):
    """What ``cadet explain --json`` prints; a notebook shows it as a page."""

    page: str

    def _repr_html_(self) -> str:
        return framed(self.page, 600)


class Added(dict[str, Any]):
    """What came after training, as ``cadet items add --json`` prints it."""


def framed(page: str, height: int) -> str:
    """A page within a notebook's, neither of which changes how the other looks."""
    import html

    quoted = html.escape(page, quote=True)
    return f'<iframe srcdoc="{quoted}" style="width:100%;height:{height}px;border:0"></iframe>'
