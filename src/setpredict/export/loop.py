"""From the marks of a traced loop (`core/loops.py`) to ONNX's operator `Loop`."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from setpredict.core.loops import BEGIN, DOMAIN, END


def fold_loops(graph: ir.Graph) -> None:
    """Replace every pair of marks, and all nodes between them, by a Loop whose body are these nodes.

    What the body needs from outside (weights, z) it takes from there: ONNX lets the graph inside a node see the values
    of the graph around it.
    """
    for begin in [node for node in graph if (node.domain, node.op_type) == (DOMAIN, BEGIN)]:
        _fold(graph, begin)


def _fold(graph: ir.Graph, begin: ir.Node) -> None:
    inside, end = _between(graph, begin)
    steps, states = (end.attributes[name].as_int() for name in ("steps", "states"))
    one = ir.node("Identity", [condition := _value("loop_condition", ir.DataType.BOOL)])
    body = ir.Graph(
        [_value("loop_step", ir.DataType.INT64), condition, *(_like(value) for value in begin.outputs)],
        [],
        nodes=[one],
        name="step",
    )
    for value, inner in zip(begin.outputs, body.inputs[2:]):
        value.replace_all_uses_with(inner)
    outputs = [value for value in end.inputs if value is not None]
    scanned = [(inner, outer) for inner, outer in zip(outputs, end.outputs) if outer.uses()]
    graph.remove(inside)
    body.extend(inside)
    kept = [_identity(body, value) for value in [*outputs[:states], *(inner for inner, _ in scanned)]]
    body.outputs.extend([one.outputs[0], *kept])
    count, go_on = (
        _constant(graph, name, value)
        for name, value in (("loop_steps", np.array(steps, dtype=np.int64)), ("loop_go_on", np.array(True)))
    )
    loop = ir.node(
        "Loop",
        [count, go_on, *begin.inputs],
        attributes={"body": body},
        outputs=[*(_like(v, "last") for v in begin.outputs), *(_like(outer, "all") for _, outer in scanned)],
    )
    graph.insert_before(end, loop)
    for (_, outer), value in zip(scanned, loop.outputs[states:]):
        outer.replace_all_uses_with(value)
    graph.remove([end, begin], safe=False)


def _between(graph: ir.Graph, begin: ir.Node) -> tuple[list[ir.Node], ir.Node]:
    """The nodes that depend on what enters the loop, up to its end, in order."""
    known, inside = set(begin.outputs), []
    for node in graph:
        if known.isdisjoint(node.inputs):
            continue
        if (node.domain, node.op_type) == (DOMAIN, END):
            return inside, node
        inside.append(node)
        known.update(node.outputs)
    raise ValueError("the loop has no end")


def _identity(body: ir.Graph, value: ir.Value) -> ir.Value:
    """A copy of a value, which can be the output of a graph where the value itself comes from outside, or twice."""
    node = ir.node("Identity", [value])
    body.append(node)
    node.outputs[0].type, node.outputs[0].shape = value.type, value.shape
    return node.outputs[0]


def _constant(graph: ir.Graph, name: str, array: np.ndarray) -> ir.Value:
    value = ir.Value(name=name, const_value=ir.tensor(array, name=name))
    graph.register_initializer(value)
    return value


def _value(name: str, kind: ir.DataType) -> ir.Value:
    return ir.Value(name=name, type=ir.TensorType(kind), shape=ir.Shape([]))


def _like(value: ir.Value, suffix: str = "state") -> ir.Value:
    return ir.Value(name=f"{value.name}_{suffix}", type=value.type, shape=value.shape)
