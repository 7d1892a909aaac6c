"""Rows of measurements as few states: imputed, scaled and clustered, each state with a profile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tacit.data.demonstrations import Demonstrations
from tacit.data.measurements import Measurements
from tacit.data.sources.discretise import cluster_centres
from tacit.data.sources.logs import Log
from tacit.model.arguments import read_only
from tacit.model.features.imputing import Imputing
from tacit.model.layout import Layout


@dataclass(frozen=True, eq=False, kw_only=True)
class Profiles:
    """States of rows of measurements: what is missing has its median, columns have one scale.

    Attributes:
        imputing: what is put where a measurement is missing.
        scales: [d] standard deviation of each column, filled in.
        centres: [S, d] of the clusters, in units of the scales.
    """

    imputing: Imputing
    scales: np.ndarray
    centres: np.ndarray

    @classmethod
    def of(
        cls, observations: np.ndarray, columns: Sequence[str], count: int, *, seed: int = 0
    ) -> Profiles:
        """The states that rows [N, d] make.

        Args:
            observations: NaN where a measurement is missing.
            columns: d names.
            count: of states.
            seed: of the clusters' beginning.
        """
        imputing = Imputing.of(observations, columns)
        filled = imputing.filled(observations)
        spread = filled.std(axis=0)
        scales = np.where(spread > 0, spread, 1.0)
        centres = cluster_centres(filled / scales, count, seed)
        return cls(imputing=imputing, scales=read_only(scales), centres=read_only(centres))

    def __call__(self, observations: np.ndarray) -> np.ndarray:
        """[N] the state of each row [N, d]."""
        from scipy.spatial import KDTree

        rows = self.imputing.filled(observations) / self.scales
        return np.asarray(KDTree(self.centres).query(rows)[1], np.int64)

    @property
    def names(self) -> tuple[str, ...]:
        """What the states are called."""
        width = len(str(len(self.centres)))
        return tuple(f"state {s + 1:0{width}d}" for s in range(len(self.centres)))

    @property
    def profile(self) -> np.ndarray:
        """[S, d] the middle of each state, in units of the columns."""
        return self.centres * self.scales

    def stored(self) -> dict[str, Any]:
        """All that it is, as texts, numbers and lists: for JSON or TOML."""
        return {
            "imputing": self.imputing.stored(),
            "scales": self.scales.tolist(),
            "centres": self.centres.tolist(),
        }

    @classmethod
    def from_stored(cls, stored: Mapping[str, Any]) -> Profiles:
        """What `stored` gave, again."""
        return cls(
            imputing=Imputing.from_stored(stored["imputing"]),
            scales=np.array(stored["scales"], np.float64),
            centres=np.array(stored["centres"], np.float64),
        )

    def log(self, rows: Measurements, outcomes: Sequence[str] = ()) -> Log:
        """The rows as a `Log` of these states, in which outcomes are ends of their own.

        Args:
            rows: of measurements.
            outcomes: one for each episode, such as "died"; "" where none is known. None at all
                where no episode is known to have ended.
        """
        label = self(rows.observations)
        words = [*dict.fromkeys(word for word in outcomes if word)]
        count, size = len(self.centres), len(self.centres) + len(words)
        finals = np.where(rows.final_states >= 0, label[rows.final_states], -1)
        over = np.zeros(rows.episodes, bool)
        for e, word in enumerate(outcomes):
            if word:
                finals[e], over[e] = count + words.index(word), True
        layout = Layout(state_names=(*self.names, *words), action_names=rows.action_names)
        seen = Demonstrations(
            states=label[rows.states],
            actions=rows.actions,
            offsets=rows.offsets,
            ended=over,
            final_states=finals,
            partial=rows.partial,
            groups=rows.groups,
            individuals=rows.individuals,
            names=rows.names,
            layout=layout,
        )
        middle = self.profile.mean(axis=0)
        features = {}
        for j, name in enumerate(self.imputing.columns):
            features[name] = np.append(self.profile[:, j], np.full(len(words), middle[j]))
        for k, word in enumerate(words):
            features[word] = (np.arange(size) == count + k) * 1.0
        notes = list(rows.notes)
        if lost := int(self.imputing.missing.sum()):
            notes.append(f"{lost} measurements are missing: the median of the column is taken")
        notes.append(
            f"rows are {count} clusters of scaled measurements, with the profiles that the report "
            "shows; --adequacy says how much the answer depends on their number"
        )
        return Log(
            demonstrations=replace(seen, notes=tuple(notes)),
            layout=layout,
            features=features,
            spare=tuple(words),
            notes=tuple(notes),
        )
