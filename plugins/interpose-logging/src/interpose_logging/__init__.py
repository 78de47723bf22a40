"""Log runs with loguru: the plugin ``logging`` of Interpose."""

from interpose_logging.layer import Logging
from interpose_logging.settings import LoggingSettings

__all__ = ["Logging", "LoggingSettings"]
