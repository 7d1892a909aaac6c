"""The page of a watch: its level, what changed, and the evidence over time."""

from __future__ import annotations

import numpy as np

from tacit.show import Document, Gallery, Headline, Items, Paragraph, Section, Tone
from tacit.show.curves import line_picture
from tacit.stream.watch import Watch

VERDICTS = {"none": "no change seen", "warning": "warning", "alarm": "alarm"}
TONES = {"none": Tone.GOOD, "warning": Tone.CAUTION, "alarm": Tone.CAUTION}


def evidence_document(watch: Watch, *, title: str, refresh: int = 0) -> Document:
    """The page of a watch, which a browser reads again after so many seconds."""
    history, parts = watch.history, []
    if len(history):
        parts.append(
            line_picture(
                "Evidence of a change",
                "steps",
                history[:, 0],
                {"evidence": 10.0 ** np.clip(history[:, 1], -300.0, 300.0)},
                level=watch.run_length,
                level_name="alarm",
                logarithmic=True,
            )
        )
    waiting = Paragraph("No batch of steps has come yet.")
    change = "Nothing speaks for a change."
    if watch.changed is not None:
        change = f"{watch.changed.capitalize()} changed after about {watch.since} steps."
    return Document(
        title=title,
        headlines=[
            Headline(
                change,
                label="Still the same?",
                verdict=VERDICTS[watch.level],
                tone=TONES[watch.level],
                detail=f"{watch.steps} steps seen; evidence {watch.evidence:.3g}",
            )
        ],
        sections=[
            Section("Evidence over time", [Gallery(parts) if parts else waiting]),
            Section("What is promised", [Items([str(one) for one in watch.findings])]),
        ],
        refresh=refresh,
    )
