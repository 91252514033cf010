"""Benchmarks of pipelines: chains of steps, large outputs, shared inputs, admission, and the allocator of the steps' processes."""
