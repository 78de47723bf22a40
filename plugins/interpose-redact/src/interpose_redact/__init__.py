"""Take personal data and secrets out of a run's text: the plugin ``redact`` of Interpose."""

from interpose_redact.layer import Redact
from interpose_redact.settings import RedactSettings

__all__ = ["Redact", "RedactSettings"]
