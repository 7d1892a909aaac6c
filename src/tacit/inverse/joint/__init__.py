"""Several tasks, and trips to many goals, recovered together."""
