"""The verbs of the command line: arguments in, one function called, an `Answer` out."""
