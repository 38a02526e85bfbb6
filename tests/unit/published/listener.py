"""A recogniser for tests, given as `unit.published.listener:hear`."""


def hear(samples, language):
    """Hears the same words in whatever it is given, and counts them as heard."""
    heard.append((len(samples), language))
    return "beep beep"


heard: list[tuple[int, str]] = []
