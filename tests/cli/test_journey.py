"""From a CSV that another program wrote to an honest answer, by documented commands only."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tacit.cli import main

# Another program: plain Python, no tacit. A mouse in twelve rooms looks for food. The boiler room
# and the engine room lie on the short ways, and are hot: it goes round them, unless it errs.
ANOTHER_PROGRAM = '''
import csv, math, random, sys

out, known = sys.argv[1], sys.argv[2] == "known"
random.seed(7)
PLAN = [
    ["nest", "hall", "boiler room", "west stairs"],
    ["den", "attic", "yard", "east stairs"],
    ["burrow", "engine room", "Küche", "larder"],
]
ROOMS = [room for row in PLAN for room in row]
HEAT = {"boiler room": 2.0, "engine room": 1.5}
FOOD = {"larder": 1.0}
STEPS = {"north": (-1, 0), "south": (1, 0), "east": (0, 1), "west": (0, -1)}

def beside(room, action):
    place = ROOMS.index(room)
    row, column = place // 4 + STEPS[action][0], place % 4 + STEPS[action][1]
    return PLAN[row][column] if 0 <= row < 3 and 0 <= column < 4 else room

def law(room, action):
    """Where an action leads: nine times in ten where it should, else any way."""
    chances = {}
    for other in STEPS:
        there = beside(room, other)
        chances[there] = chances.get(there, 0) + (0.925 if other == action else 0.025)
    return chances

def worth(room):
    return FOOD.get(room, 0.0) - HEAT.get(room, 0.0)

# How good each room is for a mouse that errs a little, by going on for a long time.
NOISE, DISCOUNT = 0.3, 0.9
value = {room: 0.0 for room in ROOMS}
for _ in range(500):
    gain = {
        room: {a: worth(room) + DISCOUNT * sum(p * value[n] for n, p in law(room, a).items())
               for a in STEPS}
        for room in ROOMS
    }
    value = {
        room: NOISE * math.log(sum(math.exp(g / NOISE) for g in gain[room].values()))
        for room in ROOMS
    }

def choose(room):
    chances = [math.exp((gain[room][a] - value[room]) / NOISE) for a in STEPS]
    return random.choices(list(STEPS), chances)[0]

with open(f"{out}/features.csv", "w", newline="", encoding="utf-8") as file:
    table = csv.writer(file)
    table.writerow(["state", "food", *ROOMS])
    for room in ROOMS:
        table.writerow([room, FOOD.get(room, 0), *(int(room == other) for other in ROOMS)])
if known:
    with open(f"{out}/transitions.csv", "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["state", "action", "next_state", "probability"])
        for room in ROOMS:
            for action in STEPS:
                for there, share in law(room, action).items():
                    table.writerow([room, action, there, share])
with open(f"{out}/demonstrations.csv", "w", newline="", encoding="utf-8-sig") as file:
    table = csv.writer(file, delimiter=";")
    table.writerow(["episode", "step", "state", "action"])
    for episode in range(200):
        room = random.choice(["nest", "den", "burrow"])
        for step in range(40):
            action = choose(room)
            table.writerow([f"day {episode}", step, room, action])
            chances = law(room, action)
            room = random.choices(list(chances), list(chances.values()))[0]
'''

SETTINGS = """discount = 0.9

[features]
reward = ["food"]
costs = [["hall", "boiler room", "west stairs", "attic", "yard", "engine room", "Küche"]]
"""

FORBIDDEN = {"boiler room", "engine room"}


def shell(*words: object, cwd: Path) -> str:
    done = subprocess.run(
        [*map(str, words)], cwd=cwd, capture_output=True, text=True, check=False, encoding="utf-8"
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("dynamics", ["known", "estimated"])
def test_from_a_csv_to_an_honest_answer(dynamics, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def said(*words: str) -> str:
        """What a command prints that needs no process of its own."""
        assert main([*words]) == 0
        return capsys.readouterr().out

    problem = tmp_path / "mouse in rooms"
    problem.mkdir()
    shell(sys.executable, "-c", ANOTHER_PROGRAM, problem, dynamics, cwd=tmp_path)
    (problem / "problem.toml").write_text(SETTINGS, encoding="utf-8")
    tacit = Path(sys.executable).parent / "tacit"

    checked = json.loads(said("check", problem.name, "--json"))
    assert checked["ok"]
    assert checked["summary"]["states"] == 12
    estimated = any("estimated from" in note for note in checked["notes"])
    assert estimated == (dynamics == "estimated")

    told = shell(tacit, "recover", problem.name, "--out", "a run", cwd=tmp_path)
    assert "What it refuses" in told
    assert ("The dynamics were counted" in told) == estimated
    if estimated:  # once: the page is made of the run, whatever that was made of
        said("report", "a run")
        page = (tmp_path / "a run" / "report.html").read_text(encoding="utf-8")
        assert len(page.encode()) <= 1_000_000
        for name in ("boiler room", "food", "Küche"):
            assert name in page

    # The weights as documented for machines: a run compared with itself lists every number.
    numbers = json.loads(said("compare", "a run", "a run", "--json"))
    weights = {
        name.removeprefix("cost 0: "): number[0]
        for name, number in numbers["numbers"]["a run"].items()
        if name.startswith("cost 0: ")
    }
    assert set(sorted(weights, key=weights.__getitem__)[-2:]) == FORBIDDEN
    assert sum(weights[name] for name in FORBIDDEN) > 0.5


def test_the_other_program_knows_nothing_of_tacit(tmp_path):
    assert "import tacit" not in ANOTHER_PROGRAM
    (tmp_path / "p").mkdir()
    shell(sys.executable, "-I", "-c", ANOTHER_PROGRAM, tmp_path / "p", "known", cwd=tmp_path)
    with open(tmp_path / "p" / "demonstrations.csv", encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file, delimiter=";"))
    assert len(rows) == 200 * 40
    assert {row["state"] for row in rows} >= {"nest", "Küche", "larder"}
