"""Startup: each phase returns data and problems; :mod:`preparing` calls them in order."""
