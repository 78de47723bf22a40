"""The contract of a middleware: what every layer owes to the run it is part of, as checks."""
