"""Let a person decide about a tool call, and get the answer as an object."""

import asyncio

from pydantic import BaseModel

from interpose import Host
from interpose.loop import LoopAgent, ScriptedModel, tool


@tool(approval=lambda args: f"Book {args['nights']} nights in {args['city']}?")
def book(city: str, nights: int) -> str:
    """Book a hotel."""
    return f"Booked: {nights} nights in {city}."


class Trip(BaseModel):
    city: str
    nights: int


MODEL = ScriptedModel(  # what the model says and calls, turn by turn, to be offline
    {"calls": [{"name": "book", "args": {"city": "Oslo", "nights": 2}}]},
    "You are going to Oslo.",
    '{"city": "Oslo", "nights": 3}',
)


async def main() -> None:
    async with Host(agent=LoopAgent(MODEL, [book])) as host:
        result = await host.run("Two nights in Oslo, please.", thread_id="trip", output=Trip)
        [question] = result.interrupts  # a person decides, now or in a week
        print(question.message)
        answer = {"approved": True, "editedArgs": {"city": "Oslo", "nights": 3}}
        result = await host.run(
            result.messages, thread_id="trip", resume={question.id: answer}, output=Trip
        )
        print(result.output)


if __name__ == "__main__":
    asyncio.run(main())
