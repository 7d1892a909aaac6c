"""How numbers are made: backends, kernels, searches, workers, progress. Knows arrays, no noun."""
