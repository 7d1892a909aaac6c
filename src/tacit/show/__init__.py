"""Figures and the offline report: what was computed, drawn. The only place that draws."""
