"""Run a command, stream its output, and let readers follow it up to the exit code.

    python examples/job_log.py run http://127.0.0.1:4437/jobs/17 -- make test
    python examples/job_log.py follow http://127.0.0.1:4437/jobs/17

Any number of followers may start during or after the job; each sees the whole log. The stream is
closed with the exit code, so followers can tell a finished job from an idle one.
"""

import subprocess
import sys
import time

from millstream import DurableStream, IdempotentProducer, JsonBatch, stream


def run(url: str, command: list[str]) -> int:
    """Run a command and stream its output; the last event has its exit code."""
    log = DurableStream.create(url, content_type="application/json", ttl_seconds=7 * 24 * 3600)
    producer = IdempotentProducer(log, "job")
    producer.append({"type": "start", "command": command})
    started = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as job:
        assert job.stdout is not None
        for line in job.stdout:
            producer.append({"type": "log", "line": line.rstrip("\n")})
    seconds = round(time.monotonic() - started, 3)
    producer.close({"type": "complete", "exit_code": job.returncode, "seconds": seconds})
    return job.returncode


def follow(url: str) -> int:
    """Print the log as it grows; return the job's exit code at its end."""
    exit_codes: list[int] = []

    def show(batch: "JsonBatch[dict[str, object]]") -> None:
        for event in batch.items:
            if event["type"] == "log":
                print(event["line"], flush=True)
            elif event["type"] == "complete":
                exit_codes.append(int(str(event["exit_code"])))
        if batch.stream_closed:
            print("-- the job has ended --", flush=True)

    with stream(url) as response:
        response.subscribe_json(show).wait()
    return exit_codes[-1] if exit_codes else 1


def main() -> int:
    """Run a job, or follow one."""
    match sys.argv[1:]:
        case ["run", url, "--", *command] if command:
            return run(url, command)
        case ["follow", url]:
            return follow(url)
    print(__doc__)
    return 2


if __name__ == "__main__":
    sys.exit(main())
