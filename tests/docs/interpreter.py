"""The Python of a page, in a process of its own: its blocks run in order and share their names.

Reads one block a line from standard input, as JSON, and answers with what it printed or how it failed.
"""

import contextlib
import io
import json
import sys
import traceback

names: dict[str, object] = {"__name__": "__main__"}
answers = sys.stdout
for line in sys.stdin:
    block = json.loads(line)
    printed = io.StringIO()
    failure = None
    try:
        # As many empty lines before it as on the page, so that a traceback names the page's line.
        code = compile("\n" * block["line"] + block["text"], block["page"], "exec")
        with contextlib.redirect_stdout(printed):
            exec(code, names)
    except BaseException:
        failure = traceback.format_exc()
    answers.write(json.dumps({"printed": printed.getvalue(), "failure": failure}) + "\n")
    answers.flush()
