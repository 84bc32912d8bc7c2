"""Human-readable numbers."""


def number(value: float) -> str:
    """Format a count."""
    return f"{value:,.0f}"


def counted(value: int, one: str, many: str) -> str:
    """Format a count with its noun."""
    return f"{number(value)} {one if value == 1 else many}"


def size(value: float) -> str:
    """Format a number of bytes."""
    for unit in ("B", "kB", "MB", "GB"):
        if value < 999.5:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 99.95 else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:,.1f} TB"


def duration(seconds: float) -> str:
    """Format a duration."""
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"
