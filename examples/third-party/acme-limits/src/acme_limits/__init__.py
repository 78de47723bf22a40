"""Limit how many runs may start: the plugin ``limits`` of Interpose."""

from acme_limits.layer import QUOTA, Grant, Limits, LimitsSettings, Quota

__all__ = ["QUOTA", "Grant", "Limits", "LimitsSettings", "Quota"]
