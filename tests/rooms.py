"""A small problem in plain text for the tests of the command line: three rooms, one of them hot."""

from pathlib import Path

ROOMS = {
    "problem.toml": """
discount = 0.9
initial = "hall"
[features]
reward = ["sun"]
costs = [["heat"]]
""",
    "features.csv": "state,sun,heat\nhall,0,0\nKüche,0.5,1\nsun room,1,0\n",
    "transitions.csv": """state,action,next_state,probability
hall,go on,Küche,0.75
hall,go on,hall,0.25
hall,wait,hall,1
Küche,go on,sun room,1
Küche,wait,Küche,1
sun room,go on,hall,1
sun room,wait,sun room,1
""",
    "demonstrations.csv": """episode,step,state,action
0,0,hall,go on
0,1,Küche,go on
0,2,sun room,wait
1,0,hall,wait
1,1,hall,go on
""",
}


def folder(path: Path, **changes: str | None) -> Path:
    """The rooms, with files replaced or, by None, left out; `__` in a name stands for a dot."""
    path.mkdir(parents=True, exist_ok=True)
    files = ROOMS | {name.replace("__", "."): text for name, text in changes.items()}
    for name, text in files.items():
        if text is not None:
            (path / name).write_text(text, encoding="utf-8")
    return path


def changed(path: Path, file: str, old: str, new: str) -> Path:
    """The rooms with one piece of one file replaced."""
    assert old in ROOMS[file]
    return folder(path, **{file.replace(".", "__"): ROOMS[file].replace(old, new, 1)})
