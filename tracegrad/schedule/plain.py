"""Bodies of loops with plain products for `zero_multiply`, which keeps NaN out of gradients at a price.

`zero_multiply(g, p)` is `g * p`, but 0 where g is 0, whatever p is. In a loop its comparison stands between any two
steps and keeps products and sums from becoming one instruction. The two differ only where the plain product is NaN, and
a NaN cannot get lost on its way to the results as long as it only meets operations that pass it on. So a loop may run
with plain products, and once more with the real ones if there is a NaN in its results.
"""

from __future__ import annotations

from tracegrad.function import operation
from tracegrad.ir import lowering
from tracegrad.ir.graph import Graph, Node, Var
from tracegrad.schedule.live import runs_in_python

LIMIT = 2000  # nodes of a body that is worth having twice
_PASSES_NAN = frozenset(
    "add subtract multiply zero_multiply negative divide square sqrt exp expm1 log log1p sin cos tan sinh cosh tanh "
    "expit reciprocal positive absolute maximum minimum arctan arcsinh".split()
)
_CHOICES = frozenset({"where", "replaced"})
_SUMS = frozenset({"add", "multiply", "maximum", "minimum"})


def plain_products(graph: Graph, n_carry: int) -> tuple[Graph, tuple[int, ...]] | None:
    """The body with plain products, and the outputs in which a NaN shows that it differs from the real one.

    The first `n_carry` outputs are the first inputs of the next step, and so pass a NaN on to it. None where the body
    has no such product, or where a NaN could get lost.
    """
    if len(graph.nodes) > LIMIT or any(node.bodies or runs_in_python(node) for node in graph.nodes):
        return None
    replaced = [n for n in graph.nodes if n.name == "zero_multiply" and _as_product(n) is not None]
    if not replaced:
        return None
    suspect = {n.output for n in replaced}
    while True:
        for node in graph.nodes:
            if any(v in suspect for v in node.inputs):
                if not _passes_nan(node, suspect):
                    return None
                suspect.update(node.outputs)
        carried = {v for v, out in zip(graph.inputs[:n_carry], graph.outputs, strict=False) if out in suspect}
        if carried <= suspect:
            break
        suspect |= carried
    nodes = tuple(_as_product(n) or n for n in graph.nodes)
    outputs = tuple(k for k, v in enumerate(graph.outputs) if v in suspect)
    return Graph(graph.inputs, nodes, graph.outputs, graph.name), outputs


def _as_product(node: Node) -> Node | None:
    """The plain product that stands for a `zero_multiply` of floats; None for anything else."""
    if node.name != "zero_multiply" or node.output.type.dtype.kind != "f":
        return None
    multiply = operation("multiply")
    if multiply.infer(*(v.type for v in node.inputs)) != node.output.type:
        return None
    return Node(multiply, node.inputs, node.outputs, node.attrs, (), node.location)


def _passes_nan(node: Node, suspect: set[Var]) -> bool:
    """Whether a NaN in a suspect input is a NaN in an output, or makes no difference at all."""
    lower = node.op.lower
    if not all(v.type.dtype.kind == "f" for v in node.outputs):
        return False
    if isinstance(lower, lowering.IndexMap | lowering.Reshape):
        return True
    if isinstance(lower, lowering.Gather | lowering.ScatterAdd):
        return not any(v in suspect for v in node.inputs[1:])
    if isinstance(lower, lowering.Reduction):
        return lower.combine in _SUMS
    if isinstance(lower, lowering.Library):
        return lower.kernel == "matmul" or node.attrs.get("combine") in _SUMS
    if isinstance(lower, lowering.Elementwise):
        if lower.scalar == "where" or node.name in _CHOICES:
            return node.inputs[0] not in suspect
        return node.name in _PASSES_NAN or node.name in ("cast", "stop_gradient")
    return False
