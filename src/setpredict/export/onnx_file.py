"""A model as an ONNX file: names, a batch of any size, one loop for all steps, and what its numbers mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir
import torch
from onnx_ir.passes import Sequential
from onnx_ir.passes import common as passes
from onnxscript import opset18 as op
from torch.export import ExportedProgram

from setpredict.core.files import atomic
from setpredict.export.loop import fold_loops

OPSET = 18


def write_onnx(
    program: ExportedProgram,
    path: str | Path,
    inputs: Sequence[str],
    outputs: Sequence[str],
    metadata: Mapping[str, str],
) -> None:
    """Translate a traced model and write it, replacing the file completely or not at all.

    Args:
        program: The trace.
        path: The file.
        inputs: The names of its inputs. Their first axis is the batch.
        outputs: The names of its outputs.
        metadata: What the file says about itself.
    """
    translated = torch.onnx.export(
        program,
        dynamo=True,
        input_names=list(inputs),
        output_names=list(outputs),
        opset_version=OPSET,
        custom_translation_table={torch.ops.aten.sort.stable: _sort},
        verbose=False,
    )
    assert translated is not None
    model = translated.model
    fold_loops(model.graph)
    _fill(model.graph)
    model = _smallest(model).model
    _name_batch(model.graph)
    model.metadata_props.update(metadata)
    model.producer_name = "setpredict"
    model.producer_version = None
    proto = ir.to_proto(model)
    onnx.checker.check_model(proto, full_check=True)
    with atomic(path) as temporary:
        temporary.write_bytes(proto.SerializeToString())


def _sort(self: Any, stable: bool = True, dim: int = -1, descending: bool = False) -> Any:
    """A stable sort: of equal values, TopK too has the one of the lower index first."""
    shape: Any = op.Shape(self)
    axis: Any = op.Constant(value_ints=[dim])
    size: Any = op.Gather(shape, axis)
    return op.TopK(self, size, axis=dim, largest=int(descending))


_smallest = Sequential(
    passes.NameFixPass(),
    passes.ClearMetadataAndDocStringPass(),
    passes.RemoveUnusedNodesPass(),
    passes.CommonSubexpressionEliminationPass(),
    passes.RemoveUnusedNodesPass(),
    passes.DeduplicateInitializersPass(),
    passes.RemoveUnusedOpsetsPass(),
)


def _fill(graph: ir.Graph) -> None:
    """Tensors of one number as ConstantOfShape, which onnxruntime does not try to simplify where a loop needs them."""
    for node in graph.all_nodes():
        value = node.inputs[0].const_value if node.op_type == "Expand" and node.inputs[0] is not None else None
        if value is None or value.size != 1:
            continue
        fill = ir.tensor(value.numpy().reshape(1), name="value")
        new = ir.node("ConstantOfShape", [node.inputs[1]], {"value": fill})
        new.outputs[0].name = node.outputs[0].name
        assert node.graph is not None
        ir.convenience.replace_nodes_and_values(node.graph, node, [node], [new], node.outputs, new.outputs)


def _name_batch(graph: ir.Graph) -> None:
    """Name the batch axis of inputs and outputs, and forget the shapes of everything between."""
    ends = {value: list(value.shape or ()) for value in (*graph.inputs, *graph.outputs)}
    batch = ends[graph.inputs[0]][0]
    for node in graph.all_nodes():
        for value in node.outputs:
            if value not in ends:
                value.type = value.shape = None
    for value, sizes in ends.items():
        value.shape = ir.Shape("batch" if size == batch else size for size in sizes)
