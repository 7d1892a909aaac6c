"""Figures and the offline report: what was computed, drawn. The only room that draws.

canvas, grid, arrows, curves   panels on axes; figures: whole figures of them
plot                   pictures of a recovery by one call each: the public `tacit.plot`
tables, document       what a report says; `report.render` makes one HTML page of it
recovery/              what the report of a recovery says; `page.recovery_document`
summary                what a terminal and a notebook say about a recovery
"""
