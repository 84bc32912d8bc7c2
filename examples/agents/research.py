"""A research agent that goes on where it was killed, and whose text can be followed meanwhile.

    millstream serve
    python examples/agents/research.py http://127.0.0.1:4437/research/1
    millstream read /research/1/text                # in another terminal, at any time

Kill it with Ctrl-C or SIGKILL and start it again: finished steps are not repeated. The graph's state is a
thread of checkpoints, its text a stream with one message for each step. A fake model stands for a real one.
"""

import asyncio
import operator
import sys
from typing import Annotated, Any, TypedDict

from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langgraph.graph import END, START, StateGraph

from millstream.agents.langgraph import StreamCheckpointer
from millstream.aio import DurableStream, SequenceConflictError, StreamExistsError

TOPICS = ["origin", "method", "results", "criticism", "outlook"]


class State(TypedDict):
    """What the agent knows: one paragraph for each topic that is done."""

    paragraphs: Annotated[list[str], operator.add]


async def write(state: State) -> State:
    """Write the next paragraph."""
    number = len(state["paragraphs"])
    model = FakeListChatModel(responses=[f"{number + 1}. About its {TOPICS[number]}."], sleep=0.3)
    return {"paragraphs": [str((await model.ainvoke("Go on.")).content)]}


def is_done(state: State) -> str:
    """Decide whether a topic is left."""
    return END if len(state["paragraphs"]) == len(TOPICS) else "write"


async def main(url: str) -> None:
    """Run the graph, from its last checkpoint if there is one; publish each paragraph once."""
    builder = StateGraph(State)
    builder.add_node("write", write)
    builder.add_edge(START, "write")
    builder.add_conditional_edges("write", is_done)
    graph = builder.compile(checkpointer=StreamCheckpointer(f"{url}/graph"))
    thread: Any = {"configurable": {"thread_id": "1"}}
    begun = (await graph.aget_state(thread)).created_at is not None
    try:
        text = await DurableStream.create(f"{url}/text", content_type="application/json")
    except StreamExistsError:
        return  # it is closed: all is done
    given: Any = None if begun else {"paragraphs": []}
    async for state in graph.astream(given, thread, stream_mode="values", durability="sync"):
        for number, paragraph in enumerate(state["paragraphs"]):
            try:  # the number as `Stream-Seq`: a paragraph that is there is refused
                await text.append({"paragraph": paragraph}, seq=f"{number:04}")
                print(paragraph, flush=True)
            except SequenceConflictError:
                pass
    await text.close()


asyncio.run(main(sys.argv[1]))
