"""What a missing framework's error says: which extra to install."""


def missing(framework: str, extra: str, error: ImportError) -> ImportError:
    """Make the error of a module whose framework is not installed."""
    return ImportError(
        f"millstream.agents needs {framework}: pip install 'millstream[{extra}]' ({error})", name=error.name
    )
