"""Figures and the offline report: what was computed, drawn. The only place that draws.

comparison_figure, convergence_figure, study_figure, spread_figure, interval_figure
             data -> Figure; `svg` and `png` turn it into text and bytes
recovery_document
             Run -> Document, the report of a recovery
render       Document -> one HTML page that needs no network
"""

from tacit.show.arrows import draw_policy
from tacit.show.canvas import png, svg
from tacit.show.comparison import View, comparison_figure
from tacit.show.curves import (
    Convergence,
    Curve,
    convergence_figure,
    draw_history,
    draw_study,
    study_figure,
)
from tacit.show.digits import share, short
from tacit.show.document import (
    Choice,
    Code,
    Details,
    Document,
    Facts,
    Finding,
    Gallery,
    Items,
    Option,
    Paragraph,
    Section,
    Selector,
    Tone,
)
from tacit.show.grid import draw_values
from tacit.show.pictures import Cells, Picture
from tacit.show.recovery.page import recovery_document
from tacit.show.report import render
from tacit.show.spread import (
    Group,
    Interval,
    draw_intervals,
    draw_spread,
    interval_figure,
    spread_figure,
)
from tacit.show.tables import Bar, Best, Column, Kind, Row, Spread, Table

__all__ = [
    "Bar",
    "Best",
    "Cells",
    "Choice",
    "Code",
    "Column",
    "Convergence",
    "Curve",
    "Details",
    "Document",
    "Facts",
    "Finding",
    "Gallery",
    "Group",
    "Interval",
    "Items",
    "Kind",
    "Option",
    "Paragraph",
    "Picture",
    "Row",
    "Section",
    "Selector",
    "Spread",
    "Table",
    "Tone",
    "View",
    "comparison_figure",
    "convergence_figure",
    "draw_history",
    "draw_intervals",
    "draw_policy",
    "draw_spread",
    "draw_study",
    "draw_values",
    "interval_figure",
    "png",
    "recovery_document",
    "render",
    "share",
    "short",
    "spread_figure",
    "study_figure",
    "svg",
]
