"""From demonstrations to an objective: the estimators, each by the expert it assumes."""
