"""What everybody knows: MDP, Objective, Features, names, and dynamics estimated from counts."""
