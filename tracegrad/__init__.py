"""tracegrad: a compiler for gradients of NumPy code on CPUs."""
