"""The operations, one file per family. Importing this package fills the registry."""

from tracegrad.ops import arithmetic, constant, reduction, shape, stop

__all__ = ["arithmetic", "constant", "reduction", "shape", "stop"]
