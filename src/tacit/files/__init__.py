"""Arrays and tables on disk: atomic, checksummed, never pickle. Knows no noun of the library."""
