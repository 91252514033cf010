"""Stand-in until the engine's own module is merged."""


class FallbackError(Exception):
    """Raised in place of a fallback."""


class FallbackWarning(UserWarning):
    """Warned about a fallback."""
