"""What threads decode is known before they do: a type that several threads decode for the first time at once
ends the process without a word (msgspec 0.22, types with other types in them).

So decoders of types are made where modules are imported, which one thread does.
"""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import millstream

SOURCES = Path(millstream.__file__).parent
THREADED = ("agents", "client", "protocol", "server", "store")
BUILT_IN = {"Any", "dict", "int", "list", "str"}

TOGETHER = """
import sys, threading
from millstream.client.core.subscriptions import models, requests

sys.setswitchinterval(1e-6)
begin = threading.Barrier(8)

class Found:
    url = "http://somewhere"
    body = b'{"id": "a", "keys": [{"kid": "b"}], "subscriptions": [{"id": "c"}], "streams": [{"path": "d"}]}'

def work():
    for kind in kinds:
        begin.wait()
        try:
            requests._decode(Found, Found, kind)
        except Exception:
            pass

names = "SubscriptionInfo", "SubscriptionPage", "RotatedKeys", "Claim", "Acknowledged"
kinds = [getattr(models, name) for name in names]
threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


def _decoded_types(path: Path) -> list[str]:
    """Give the types of ours that are given to a function that decodes."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "decode":
            for keyword in node.keywords:
                names = {one.id for one in ast.walk(keyword.value) if isinstance(one, ast.Name)}
                if keyword.arg == "type" and not names <= BUILT_IN:
                    found.append(ast.unparse(node))
    return found


@pytest.mark.parametrize("package", THREADED)
def test_types_are_decoded_by_decoders_that_are_made_once(package: str) -> None:
    found = {
        str(path.relative_to(SOURCES)): calls
        for path in (SOURCES / package).rglob("*.py")
        if (calls := _decoded_types(path))
    }
    assert not found, "make a decoder when the module is imported, and use its method"


def test_threads_that_begin_together_decode_what_none_has_decoded_before() -> None:
    for _ in range(20):
        subprocess.run([sys.executable, "-c", TOGETHER], check=True, timeout=60)
