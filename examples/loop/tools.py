"""What the agent can do."""

from typing import Annotated

from pydantic import Field

from interpose.loop import tool


@tool(effect="read")
def weather(city: Annotated[str, Field(examples=["Oslo"])]) -> str:
    """Return the weather in a city."""
    return f"In {city} it is 21 degrees and sunny, with a light wind from the west."
