"""Numbers, sizes and durations as narrow columns of a table write them."""


def short_number(value: float) -> str:
    """Return a number in at most five characters: 12345, 123k, 12.3M."""
    for unit, size in (("T", 10**12), ("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if value >= 100 * size or value >= size > 10**3:
            scaled = value / size
            return f"{scaled:.1f}{unit}" if scaled < 100 else f"{scaled:.0f}{unit}"
    return str(round(value))


def short_bytes(value: float) -> str:
    """Return a size in octets with a binary unit, in at most six characters."""
    for unit, size in (("G", 2**30), ("M", 2**20), ("K", 2**10)):
        if value >= size:
            return f"{value / size:.1f}{unit}" if value < 100 * size else f"{value / size:.0f}{unit}"
    return f"{value:.0f}"


def duration(seconds: float) -> str:
    """Return a duration in the form 5s, 3m05s, 2h03m, 4d02h or 120d."""
    seconds = int(seconds)
    if seconds < 60:
        return f"{seconds}s"
    if seconds < 3600:
        return f"{seconds // 60}m{seconds % 60:02}s"
    if seconds < 86400:
        return f"{seconds // 3600}h{seconds % 3600 // 60:02}m"
    days = seconds // 86400
    return f"{days}d" if days > 99 else f"{days}d{seconds % 86400 // 3600:02}h"
