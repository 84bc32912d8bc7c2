"""A self-signed certificate for this machine."""

import subprocess
from pathlib import Path

import pytest


def issue(folder: Path, name: str = "localhost") -> tuple[Path, Path]:
    """Make a certificate and its key in a folder, or skip the test where there is no openssl."""
    cert, key = folder / "cert.pem", folder / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    command += ["-days", "2", "-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name},IP:127.0.0.1"]
    try:
        subprocess.run([*command, "-keyout", str(key), "-out", str(cert)], check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("openssl is not installed: no certificate to test TLS with")
    return cert, key
