"""Text columns: string methods, and the patterns that the kernel finds as Python does."""
