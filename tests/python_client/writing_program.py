"""A program that writes with a producer, as a user would: started twice, at once, and killed.

    python writing_program.py {sync|async} URL RUN COUNT

It appends [RUN, 0] to [RUN, COUNT - 1] as producer "writer-1", and prints each number that is stored, one a
line. A failure is its last line.
"""

import asyncio
import sys

from millstream import DurableStream, IdempotentProducer, MillstreamError, aio

BUNCH = 5


def write(url: str, run: str, count: int) -> None:
    with IdempotentProducer(DurableStream(url), "writer-1", max_batch_bytes=100) as producer:
        for number in range(count):
            producer.append([run, number])
            if number % BUNCH == BUNCH - 1:
                producer.flush()
                print(number, flush=True)


async def write_async(url: str, run: str, count: int) -> None:
    async with aio.IdempotentProducer(aio.DurableStream(url), "writer-1", max_batch_bytes=100) as producer:
        for number in range(count):
            await producer.append([run, number])
            if number % BUNCH == BUNCH - 1:
                await producer.flush()
                print(number, flush=True)


if __name__ == "__main__":
    _, kind, url, run, count = sys.argv
    try:
        if kind == "async":
            asyncio.run(write_async(url, run, int(count)))
        else:
            write(url, run, int(count))
    except MillstreamError as error:
        print(type(error).__name__, error, flush=True)
        sys.exit(1)
