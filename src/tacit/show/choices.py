"""What chooses between alternatives: buttons, a list or a slider."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from tacit.show.document import Choice, Option, Selector
from tacit.show.words import inline

MOST_CHIPS = 12  # more values than that are a list to open, not buttons


def controls(choice: Choice, name: str) -> str:
    """One control for each selector of the choice, with names that begin with this one."""
    first = choice.options[0].at
    return "".join(
        _selector(
            selector, f"{name}-{i}", sorted({option.at[i] for option in choice.options}), first[i]
        )
        for i, selector in enumerate(choice.selectors)
    )


def _selector(selector: Selector, name: str, values: Sequence[int], chosen: int) -> str:
    """What chooses among those values of a selector that some option has."""
    title = inline(selector.name)
    if len(values) == 1:
        return f'<input type="hidden" data-selector value="{chosen}">'
    if selector.slider:
        labels = escape("\n".join(selector.values[index] for index in values))
        return (
            f'<p class="slider"><label for="{name}">{title}</label> '
            f'<input type="range" id="{name}" data-selector min="0" '
            f'max="{len(values) - 1}" value="{values.index(chosen)}" '
            f'data-values="{" ".join(map(str, values))}" data-labels="{labels}"> '
            f'<output for="{name}">{escape(selector.values[chosen])}</output></p>'
        )
    if len(values) > MOST_CHIPS:
        options = "".join(
            f'<option value="{index}"{" selected" if index == chosen else ""}>'
            f"{escape(selector.values[index])}</option>"
            for index in values
        )
        return (
            f'<p class="list"><label for="{name}">{title}</label> '
            f'<select id="{name}" data-selector>{options}</select></p>'
        )
    chips = "".join(
        f'<label><input type="radio" name="{name}" value="{index}"'
        f"{' checked' if index == chosen else ''}>"
        f"<span>{inline(selector.values[index])}</span></label>"
        for index in values
    )
    return (
        f"<fieldset data-selector><legend>{title}</legend>"
        f'<div class="chips">{chips}</div></fieldset>'
    )


def left_out(choice: Choice) -> str:
    """A note on how many options are missing, and where they are; nothing if none is."""
    if not choice.left_out:
        return ""
    where = f"; they are in {choice.elsewhere}" if choice.elsewhere else ""
    text = f"{choice.left_out} more are left out to keep this page small{where}."
    return f'<p class="note">{inline(text)}</p>'


def option_name(choice: Choice, option: Option) -> str:
    """What was chosen where this option is shown."""
    pairs = zip(choice.selectors, option.at, strict=True)
    return ", ".join(f"{selector.name}: {selector.values[index]}" for selector, index in pairs)
