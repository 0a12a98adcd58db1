"""`tg.autograd.graph`: nodes of the backward graph and hooks on what they save."""

from tracegrad.autograd.modes import disable_saved_tensors_hooks, save_on_cpu, saved_tensors_hooks
from tracegrad.autograd.node import BackwardNode as Node

__all__ = ["Node", "disable_saved_tensors_hooks", "save_on_cpu", "saved_tensors_hooks"]
