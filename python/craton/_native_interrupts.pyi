"""Types of the native module's count of interrupts, a part of ``craton._native``."""

def interrupts_seen() -> int:
    """How many interrupts (SIGINT) have arrived since :func:`watch_interrupts`.

    One that is counted has been handed to the action that was kept: the interpreter raises it before it goes on.
    """

def keep_interrupt_action() -> bool:
    """Keep the action on SIGINT that is in place: :func:`watch_interrupts` has it called for each interrupt.

    To be called once, while the action of a library is in place that calls the interpreter's.

    Returns
    -------
    bool
        False if the process ignores interrupts or ends by them, or an action was kept before.
    """

def watch_interrupts() -> bool:
    """Count interrupts from now on, and have the kept action called, in place of the interpreter's own.

    At the first call the interpreter's own action must be in place (``signal.signal`` puts it there). Later calls see to it
    that what is wanted is in place still, where no other than the interpreter has changed it. A system call that an
    interrupt meets is ended by it.

    Returns
    -------
    bool
        Whether interrupts are counted now.
    """
