"""Figures and the offline report: what was computed, drawn. The only room that draws.

comparison, curves, spread   data -> Figure; `canvas.svg` and `canvas.png` turn it into a file
document, tables             what a report says; `report.render` makes one HTML page of it
recovery/                    what the report of a recovery says; `page.recovery_document`
summary                      what a terminal and a notebook say about a recovery
"""
