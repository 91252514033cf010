"""Types of the part of ``craton._native`` that counts interrupts (SIGINT)."""

def interrupts_seen() -> int:
    """Return the number of interrupts (SIGINT) since :func:`watch_interrupts`.

    A counted interrupt has also been passed on to the kept signal action, so the interpreter raises `KeyboardInterrupt`
    before it continues.
    """

def keep_interrupt_action() -> bool:
    """Remember the current signal action of SIGINT, which the handler of :func:`watch_interrupts` calls for each interrupt.

    Call it once, while the installed action is that of a library whose handler calls the interpreter's.

    Returns
    -------
    bool
        False if SIGINT is ignored or has the default action, or an action was kept before.
    """

def watch_interrupts() -> bool:
    """Install a handler of SIGINT that counts interrupts and calls the kept action, in place of the interpreter's handler.

    At the first call, the interpreter's own handler must be installed (``signal.signal`` installs it). Later calls install the counting
    handler again if the interpreter has replaced it; they leave other handlers in place. A blocking system call fails with EINTR when an
    interrupt arrives.

    Returns
    -------
    bool
        Whether interrupts are being counted.
    """
