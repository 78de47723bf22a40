"""Models of OpenAI, Anthropic and others: the plugin ``models`` of Interpose.

Importing it imports no provider: :class:`Models` does so when it makes a model.
"""

from interpose_models.factory import Models
from interpose_models.settings import CallSettings, ModelsSettings

__all__ = ["CallSettings", "Models", "ModelsSettings"]
