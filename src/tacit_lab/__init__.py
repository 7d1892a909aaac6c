"""What is built on tacit by its public interface alone: the paper reproduced, methods compared.

families/    published methods, to compare with
worlds.py    published worlds, and what was recorded in them
judge.py     one draw of a world in which methods are tried, and their judge
studies/     many draws, resumable: the paper, Rust's bus engines, the leaderboard
commands.py  `tacit reproduce` and `tacit leaderboard`
"""
