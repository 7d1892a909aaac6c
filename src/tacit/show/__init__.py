"""Figures and the offline report: what was computed, drawn. The only room that draws.

canvas, grid, arrows, curves   panels on axes; figures: whole figures of them
plot                   pictures of a recovery by one call each: the public `tacit.plot`
tables, document       what a report says; `report.render` makes one HTML page of it
page, headlines, maps, quantities, checks   what the report of a recovery says, part by part
summary                what a terminal and a notebook say about a recovery
"""
