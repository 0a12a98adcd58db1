"""The intermediate representation: types, graphs, their text, their verifier and their interpreter."""

from tracegrad.ir.dims import Dim, DimLike, evaluate, symbol
from tracegrad.ir.graph import Graph, Location, Node, Var
from tracegrad.ir.types import Type

__all__ = ["Dim", "DimLike", "Graph", "Location", "Node", "Type", "Var", "evaluate", "symbol"]
