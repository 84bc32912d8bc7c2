"""nginx and a static file: what serving bytes costs when there is nothing to decide."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.running import Server, free_port, listening_on, started

# One process, in the foreground, that touches nothing outside its own folder.
CONFIGURATION = """
daemon off;
master_process off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log stderr error;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    sendfile on;
    tcp_nopush on;
    keepalive_requests 1000000000;
    default_type text/plain;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{ listen 127.0.0.1:{port}; root {folder}/files; }}
}}
"""


def is_installed() -> bool:
    return shutil.which("nginx") is not None


@contextmanager
def static_file(path: str, size_bytes: int) -> Iterator[Server]:
    """nginx with one file of `size_bytes` at the URL path `path`."""
    with tempfile.TemporaryDirectory(prefix="bench-nginx-") as name:
        folder = Path(name)
        file = folder / "files" / path.lstrip("/")
        file.parent.mkdir(parents=True)
        file.write_bytes(b"x" * size_bytes)
        port = free_port()
        configuration = folder / "nginx.conf"
        configuration.write_text(CONFIGURATION.format(folder=folder, port=port))
        # TemporaryDirectory is private to its owner; workers of a root nginx are the same process here.
        command = ["nginx", "-p", name, "-c", str(configuration), "-e", "stderr"]
        with started(command, listening_on(port)) as server:
            yield server
