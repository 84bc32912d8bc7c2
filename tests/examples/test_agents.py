"""The agent of the examples goes on where it was killed."""

import signal

import millstream
from examples.conftest import run, start

TEXT = [
    f"{n}. About its {topic}."
    for n, topic in enumerate(("origin", "method", "results", "criticism", "outlook"), 1)
]


def paragraphs(url: str) -> list[str]:
    with millstream.stream(f"{url}/text", live=False) as response:
        return [message["paragraph"] for message in response.read_json()]


def test_a_research_agent_goes_on_where_it_was_killed(url: str) -> None:
    seen: list[str] = []
    while len(seen) < 3:
        with start("agents/research.py", url) as agent:
            assert agent.stdout is not None
            seen += [agent.stdout.readline().rstrip()]
            agent.send_signal(signal.SIGKILL)
            seen += agent.stdout.read().splitlines()  # communicate would miss what is buffered
        assert seen == sorted(set(seen))  # no step is done twice
        assert paragraphs(url) == TEXT[: len(paragraphs(url))]
    run("agents/research.py", url)
    assert paragraphs(url) == TEXT
    assert run("agents/research.py", url) == ""  # and again, when it is done
    assert paragraphs(url) == TEXT
