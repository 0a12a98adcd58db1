"""Modules and parameters, under PyTorch's names."""

from tracegrad.nn.module import Module
from tracegrad.nn.parameter import Parameter

__all__ = ["Module", "Parameter"]
