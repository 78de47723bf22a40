"""The agents that come with Interpose."""
