"""The checks themselves, a module for each thing that is owed."""
