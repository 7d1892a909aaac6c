"""`tacit map`: use of space as a file for other programs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Optional

from tacit.cli.terminal import Answer, Terminal, shown_default, table_text
from tacit.errors import InvalidModel

LISTED = 10  # cells shown to people


@dataclass(frozen=True)
class Map:
    """Write use of space, observed and simulated from the fit, as a GeoTIFF or a table.

    tacit map run --out use.tif

    A table has a row a cell with its coordinates, reward and costs; a GeoTIFF of square cells has
    the simulated use, or the values named by --what.
    """

    run_folder: Path
    """folder of the run, as `tacit recover` writes it"""
    out: Annotated[Optional[Path], shown_default("write nothing")] = None
    """.tif, .csv or .parquet file to write"""
    what: str = "expected"
    """column that a GeoTIFF holds: expected, observed, reward, or the name of a cost"""

    def run(self, terminal: Terminal) -> Answer:
        """Writes the file, and says how near simulation and observation are."""
        import numpy as np

        from tacit.checks.use_of_space import SpaceUse
        from tacit.files.tables import write_columns
        from tacit.files.wording import did_you_mean
        from tacit.folders.runs import Run
        from tacit.show.quantities import NamedRecovery

        run = Run.load(self.run_folder)
        if "space" not in run.extras:
            raise InvalidModel(
                f"{self.run_folder} must be a run of tracks, whose cells have coordinates, as "
                "tacit ingest --x --y makes them"
            )
        told = run.extras["space"]
        arrays = (np.asarray(told[name], float) for name in ("observed", "expected"))
        use, layout = SpaceUse(*arrays, correlation=float(told["correlation"])), run.layout
        frame = use.frame(layout)
        columns = {name: frame[name].to_numpy() for name in frame.columns}
        named = NamedRecovery(run.recovery, layout)
        columns["reward"] = named.reward
        columns |= {named.constraint(k): cost for k, cost in enumerate(named.costs)}
        if self.what not in columns:
            raise InvalidModel(
                f"what must be one of {', '.join([*columns][1:])}; got {self.what!r}"
                f"{did_you_mean(self.what, columns)}"
            )
        ending = "" if self.out is None else self.out.suffix.lower()
        if ending in (".tif", ".tiff"):
            from tacit.data.sources.rasters import write_geotiff

            assert self.out is not None
            if not layout.is_grid:
                raise InvalidModel("a GeoTIFF is of square cells (--cell); write a table: .csv")
            cells = layout.rows * layout.columns
            values = columns[self.what][:cells].reshape(layout.rows, layout.columns)
            write_geotiff(self.out, values, layout.corner, layout.cell_size)
        elif ending in (".csv", ".parquet"):
            assert self.out is not None
            write_columns(self.out, columns)
        elif ending:
            raise InvalidModel(f"out must be a .tif, .csv or .parquet file; got {ending}")
        order = np.argsort(-use.observed, kind="stable")[:LISTED]
        rows = [
            (
                str(columns["state"][s]),
                f"{columns['observed'][s]:.4f}",
                f"{columns['expected'][s]:.4f}",
            )
            for s in order
        ]
        parts = [
            table_text(
                ["state", "observed", "simulated"], rows, f"use of space, {self.run_folder}"
            ),
            *map(str, use.sentences),
            *([] if self.out is None else [f"written: {self.out}"]),
        ]
        data: dict[str, object] = {
            "run": str(self.run_folder),
            "correlation": use.correlation,
            "cells": {name: column.tolist() for name, column in columns.items()},
            "out": None if self.out is None else str(self.out),
        }
        return Answer(parts, data)
