"""Stream the tokens of a language model to readers that resume after every disconnect.

    python examples/token_stream.py write http://127.0.0.1:4437/chat/1
    python examples/token_stream.py read  http://127.0.0.1:4437/chat/1 chat.state

Stop the reader with Ctrl+C at any time and start it again: it continues with the next token, because it
stores the offset of what it has shown in a file. `token_stream.html` does the same in a browser, across
reloads.
"""

import sys
import time
from collections.abc import Iterator
from pathlib import Path

from millstream import DurableStream, IdempotentProducer, stream

ANSWER = """A stream is a place, not a connection. What is written stays, in order, and has an
address; so a reader that is cut off comes back with the last offset it saw, and misses nothing."""


def model(pause_s: float) -> Iterator[str]:
    """Simulate a language model."""
    for word in ANSWER.split():
        time.sleep(pause_s)
        yield word + " "


def write(url: str, pause_s: float = 0.1) -> None:
    """Write tokens as they are generated, and close the stream after the last one."""
    answer = DurableStream.create(url, content_type="text/plain")
    producer = IdempotentProducer(answer, "model", linger_ms=0)
    for token in model(pause_s):
        producer.append(token)
    producer.close()


def read(url: str, state: Path) -> Iterator[str]:
    """Yield the text after the offset in the state file, which persists across runs."""
    offset = state.read_text() if state.exists() else "-1"
    with stream(url, offset=offset, live="sse") as response:
        for chunk in response.iter_text_chunks():
            yield chunk.data
            # Only after the text was used: a crash before this line repeats a token but loses none.
            remember(state, chunk.offset)


def remember(state: Path, offset: str) -> None:
    """Replace the state atomically: a crash leaves the old one or the new one."""
    new = state.with_suffix(".new")
    new.write_text(offset)
    new.replace(state)


def main() -> int:
    """Write a stream of tokens, or read one."""
    match sys.argv[1:]:
        case ["write", url, *pause]:
            write(url, *map(float, pause))
        case ["read", url, state]:
            for text in read(url, Path(state)):
                print(text, end="", flush=True)
        case _:
            print(__doc__)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
