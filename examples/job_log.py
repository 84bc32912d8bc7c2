"""A job whose log ends: run a command, stream its output, and let anybody follow it to the exit code.

    python examples/job_log.py run http://127.0.0.1:4437/jobs/17 -- make test
    python examples/job_log.py follow http://127.0.0.1:4437/jobs/17

The follower may start before, while or after the job runs, in any number, and sees the whole log.
Closing the stream with the exit code tells it apart from a job that is only quiet.
"""

import subprocess
import sys
import time

from millstream import DurableStream, IdempotentProducer, JsonBatch, stream


def run(url: str, command: list[str]) -> int:
    """Run a command with its output in the stream; the last event is its exit code."""
    log = DurableStream.create(url, content_type="application/json", ttl_seconds=7 * 24 * 3600)
    producer = IdempotentProducer(log, "job", auto_claim=True)
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
    """Print the log as it grows; give the job's exit code when it ends."""
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
