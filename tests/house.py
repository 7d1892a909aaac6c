"""A house of named rooms: the way to the garden is short through the heat, and long around it."""

import numpy as np

import tacit
from tacit.model.layout import Layout

ROOMS = ("hall", "kitchen", "balcony", "boiler room", "garden", "cellar", "attic", "study")
DOORS = {
    "hall": ("kitchen", "study", "balcony"),
    "kitchen": ("hall", "boiler room"),
    "balcony": ("hall",),
    "boiler room": ("kitchen", "garden"),
    "garden": ("boiler room", "cellar"),
    "cellar": ("attic", "garden"),
    "attic": ("study", "cellar"),
    "study": ("hall", "attic"),
}
ACTIONS = ("stay", "first door", "second door", "third door")
HEAT = np.array([0, 0.2, 0, 1.0, 0, 0, 0.3, 0])
NOISE = np.array([0, 0.3, 0.1, 0.6, 0, 0.1, 0, 0])
SUN = np.array([0, 0.1, 0.3, 0, 1.0, 0, 0.2, 0.1])


def house() -> tuple[tacit.MDP, tacit.Features, tacit.Objective, Layout]:
    """The house, its features, what its inhabitant wants and refuses, and the names."""
    transitions = np.zeros((len(ROOMS), len(ACTIONS), len(ROOMS)))
    for state, room in enumerate(ROOMS):
        ways = [state, *(ROOMS.index(door) for door in DOORS[room])]
        for action in range(len(ACTIONS)):
            to = ways[action] if action < len(ways) else state
            transitions[state, action, to] += 0.9
            transitions[state, action, state] += 0.1
    mdp = tacit.MDP(transitions, np.full(len(ROOMS), 1 / len(ROOMS)), 0.9)
    costs = np.stack([HEAT, NOISE], axis=1)
    features = tacit.Features(SUN[:, None], [costs], ["sun"], [["heat", "noise"]])
    truth = features.objective([1.0], [np.array([0.85, 0.15])], [0.3])
    return mdp, features, truth, Layout(state_names=ROOMS, action_names=ACTIONS)
