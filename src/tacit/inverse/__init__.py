"""From demonstrations to an objective."""
