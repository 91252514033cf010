"""Types of the native module, built from ``crates/py``."""

__version__: str
"""The version of the workspace that the module was built from; equal to the package's."""

def content_hash(data: bytes, /) -> bytes:
    """Return the 128-bit content hash of ``data``.

    The hash is XXH3-128 without a seed. It depends on the bytes alone, so every process on every machine
    gives the same bytes the same name. It is not cryptographic.

    Parameters
    ----------
    data : bytes
        What to hash. From 64 KiB on the interpreter is released meanwhile.

    Returns
    -------
    bytes
        16 bytes, the least significant one first.

    Raises
    ------
    TypeError
        If ``data`` is not ``bytes``. Other buffers are refused because they could change meanwhile.

    Examples
    --------
    >>> from craton._native import content_hash
    >>> content_hash(b"craton").hex()
    '3437de2148c34605fe9e6ac139f6c010'
    """
