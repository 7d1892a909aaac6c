"""Recovery where nothing is known of the world but what was logged: rows of measurements."""
