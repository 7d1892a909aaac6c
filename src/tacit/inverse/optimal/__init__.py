"""The set of all explanations of an optimal expert: its cone, its programs, its questions."""
