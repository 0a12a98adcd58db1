"""Value-and-gradient benchmarks of tracegrad beside its peers: `make bench`, or `python -m benchmarks --help`."""
