"""`tacit reproduce`: the paper's experiment over many draws, measured against the truth."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from tacit.cli.terminal import Answer, Terminal
from tacit.studies.records import Settings


@dataclass(frozen=True)
class Reproduce(Settings):
    """Reproduce the paper's experiment over many draws and measure it against the truth.

    Draws grids as section 5 of the paper does, simulates an optimal expert in each, recovers what
    it wants and refuses with every estimator, and writes results.json, figures and report.html. An
    interrupted run continues when it is started again with the same folder.
    """

    break_lock: bool = False
    """take the folder from a writer on another machine that is surely gone"""

    def run(self, terminal: Terminal) -> Answer:
        """Runs what is not done yet, and says what was found and where the report is."""
        from tacit.studies.conclusions import findings
        from tacit.studies.reproduce import load, reproduce

        options = asdict(self)
        broken = options.pop("break_lock")
        settings = Settings(**options)
        with terminal.progress() as tell:
            report = reproduce(settings, callbacks=[tell], break_lock=broken)
        found = findings(load(settings))
        data = {
            "report": report,
            "results": report.with_name("results.json"),
            "findings": [
                {"label": one.label, "text": one.text, "verdict": one.verdict} for one in found
            ],
        }
        return Answer([*(f"- {one.text}" for one in found), "", f"report: {report}"], data)
