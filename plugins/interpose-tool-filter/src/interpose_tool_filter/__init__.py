"""Hide tool calls from the consumer of a run: the plugin ``tool-filter`` of Interpose."""

from interpose_tool_filter.layer import ToolFilter
from interpose_tool_filter.settings import ToolFilterSettings

__all__ = ["ToolFilter", "ToolFilterSettings"]
