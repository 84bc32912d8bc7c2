"""A millstream server, a certificate, and a proxy in front with the configuration that we ship."""

import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from certificates import issue
from running import Server, free_port, listening_on, millstream, started

DEPLOY = Path(__file__).parents[2] / "deploy"


@contextmanager
def nginx(folder: Path, *arguments: str, has_tls: bool = True) -> Iterator[tuple[Server, str]]:
    """millstream behind nginx; gives the server and the proxy's URL."""
    port = free_port()
    issue(folder)
    with millstream("--trust-forwarded", *arguments) as server:
        # On a slow machine a thousand readers take their time, which a reader would not wait.
        patience = {} if has_tls else {"proxy_cache_lock_timeout 25s;": "proxy_cache_lock_timeout 100s;"}
        config = replaced(
            (DEPLOY / "nginx.conf").read_text(),
            {
                "server 127.0.0.1:4437;": f"server {server.url.removeprefix('http://')};",
                "listen 443 ssl http2;": f"listen 127.0.0.1:{port}{' ssl http2' if has_tls else ''};",
                "/etc/nginx/tls/cert.pem": str(folder / "cert.pem"),
                "/etc/nginx/tls/key.pem": str(folder / "key.pem"),
                "/var/cache/nginx/millstream": str(folder / "cache"),
            }
            | patience,
        )
        (folder / "nginx.conf").write_text(_AROUND % {"folder": folder, "ours": config})
        command = ["nginx", "-e", "stderr", "-p", str(folder), "-c", str(folder / "nginx.conf")]
        with started(command, listening_on(port)) as proxy:
            yield server, f"{'https' if has_tls else 'http'}://127.0.0.1:{port}"
            assert proxy.exit_code is None


# What a distribution's nginx.conf has around the files that it includes, for one process and no root.
_AROUND = """
daemon off;
master_process off;
pid %(folder)s/nginx.pid;
error_log stderr warn;
worker_rlimit_nofile 8192;
events { worker_connections 4096; }
http {
    access_log off;
    client_body_temp_path %(folder)s/body;
    proxy_temp_path %(folder)s/proxy;
    fastcgi_temp_path %(folder)s/fastcgi;
    uwsgi_temp_path %(folder)s/uwsgi;
    scgi_temp_path %(folder)s/scgi;
    %(ours)s
}
"""


@contextmanager
def caddy(folder: Path, *arguments: str) -> Iterator[tuple[Server, str]]:
    """millstream behind Caddy, which makes its own certificate for this machine."""
    port = free_port()
    with millstream("--trust-forwarded", *arguments) as server:
        config = replaced(
            (DEPLOY / "Caddyfile").read_text(),
            {"\tadmin off\n": "\tadmin off\n\tauto_https disable_redirects\n\tdefault_sni localhost\n"},
        )
        (folder / "Caddyfile").write_text(config)
        variables = {
            "MILLSTREAM_SITE": f"https://localhost:{port}",
            "MILLSTREAM_UPSTREAM": server.url.removeprefix("http://"),
            "XDG_DATA_HOME": str(folder),
            "XDG_CONFIG_HOME": str(folder),
            "HOME": str(folder),
        }
        command = ["caddy", "run", "--config", str(folder / "Caddyfile"), "--adapter", "caddyfile"]
        with started(command, secured_on(port), variables) as proxy:
            yield server, f"https://localhost:{port}"
            assert proxy.exit_code is None


def secured_on(port: int) -> Callable[[Server], None]:
    """Wait until a certificate is there: Caddy listens before it has made one."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

    def is_secured() -> bool:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1) as plain:
                context.wrap_socket(plain, server_hostname="localhost").close()
        except OSError:
            return False
        return True

    return lambda server: server.wait_until(is_secured)


def replaced(text: str, changes: dict[str, str]) -> str:
    """Change what only this machine knows; all else is as it is shipped."""
    for old, new in changes.items():
        assert text.count(old) == 1, f"{old!r} is in the file {text.count(old)} times"
        text = text.replace(old, new)
    return text
