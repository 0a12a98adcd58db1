"""Optimizers and schedules of the learning rate, under PyTorch's names."""

from tracegrad.optim import lr_scheduler
from tracegrad.optim.adam import Adam, Adamax, AdamW, NAdam, RAdam
from tracegrad.optim.lbfgs import LBFGS
from tracegrad.optim.optimizer import Optimizer
from tracegrad.optim.rmsprop import Adadelta, RMSprop
from tracegrad.optim.sgd import SGD, Adagrad

__all__ = [
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "lr_scheduler",
]
