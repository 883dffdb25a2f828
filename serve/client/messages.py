"""The protocol buffers of TensorFlow Serving that the client and the conformance checks need.

The package ``tensorflow-serving-api`` has all messages, but it imports TensorFlow: five seconds and half a gigabyte for
a program that only sends strings. Names and numbers are those of ``tensor.proto``, ``tensor_shape.proto``,
``meta_graph.proto``, ``model.proto``, ``predict.proto``, ``get_model_status.proto`` and ``get_model_metadata.proto``. A
test compares them with ``tensorflow-serving-api``. On the wire, an enum is an int32 and a map is a list of entries, so
enums and maps are declared in this form. The messages have their own descriptor pool, because their names would collide
with those of TensorFlow.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto

PACKAGE = "nmt_keras.serving"

FIELDS: dict[str, dict[str, tuple[int, str]]] = {
    "Dim": {"size": (1, "int64")},
    "TensorShapeProto": {"dim": (2, "repeated Dim")},
    "TensorProto": {
        "dtype": (1, "int32"),
        "tensor_shape": (2, "TensorShapeProto"),
        "tensor_content": (4, "bytes"),
        "float_val": (5, "repeated float"),
        "int_val": (7, "repeated int32"),
        "string_val": (8, "repeated bytes"),
        "int64_val": (10, "repeated int64"),
        "bool_val": (11, "repeated bool"),
    },
    "Int64Value": {"value": (1, "int64")},
    "ModelSpec": {
        "name": (1, "string"),
        "version": (2, "Int64Value"),
        "signature_name": (3, "string"),
        "version_label": (4, "string"),
    },
    "NamedTensor": {"key": (1, "string"), "value": (2, "TensorProto")},
    "PredictRequest": {
        "model_spec": (1, "ModelSpec"),
        "inputs": (2, "repeated NamedTensor"),
        "output_filter": (3, "repeated string"),
    },
    "PredictResponse": {"outputs": (1, "repeated NamedTensor"), "model_spec": (2, "ModelSpec")},
    "GetModelStatusRequest": {"model_spec": (1, "ModelSpec")},
    "StatusProto": {"error_code": (1, "int32"), "error_message": (2, "string")},
    "ModelVersionStatus": {"version": (1, "int64"), "state": (2, "int32"), "status": (3, "StatusProto")},
    "GetModelStatusResponse": {"model_version_status": (1, "repeated ModelVersionStatus")},
    "GetModelMetadataRequest": {"model_spec": (1, "ModelSpec"), "metadata_field": (2, "repeated string")},
    "Any": {"type_url": (1, "string"), "value": (2, "bytes")},
    "NamedAny": {"key": (1, "string"), "value": (2, "Any")},
    "GetModelMetadataResponse": {"model_spec": (1, "ModelSpec"), "metadata": (2, "repeated NamedAny")},
    "TensorInfo": {"name": (1, "string"), "dtype": (2, "int32"), "tensor_shape": (3, "TensorShapeProto")},
    "NamedTensorInfo": {"key": (1, "string"), "value": (2, "TensorInfo")},
    "SignatureDef": {
        "inputs": (1, "repeated NamedTensorInfo"),
        "outputs": (2, "repeated NamedTensorInfo"),
        "method_name": (3, "string"),
    },
    "NamedSignatureDef": {"key": (1, "string"), "value": (2, "SignatureDef")},
    "SignatureDefMap": {"signature_def": (1, "repeated NamedSignatureDef")},
}
"""Fields of each message by name: their numbers and types."""

STATES = {0: "UNKNOWN", 10: "START", 20: "LOADING", 30: "AVAILABLE", 40: "UNLOADING", 50: "END"}
"""``ModelVersionStatus.State`` by number."""


def _field(name: str, number: int, kind: str) -> FieldDescriptorProto:
    *repeated, kind = kind.split()
    field = FieldDescriptorProto(name=name, number=number)
    field.label = field.LABEL_REPEATED if repeated else field.LABEL_OPTIONAL
    if kind in FIELDS:
        field.type, field.type_name = field.TYPE_MESSAGE, f".{PACKAGE}.{kind}"
    else:
        field.type = field.Type.Value(f"TYPE_{kind.upper()}")
    return field


def _messages() -> dict[str, Any]:
    file = FileDescriptorProto(name="nmt_keras/serving.proto", package=PACKAGE, syntax="proto3")
    for name, fields in FIELDS.items():
        described = [_field(field, *number_and_type) for field, number_and_type in fields.items()]
        file.message_type.append(DescriptorProto(name=name, field=described))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}")) for name in FIELDS}


MESSAGES = _messages()
"""Message name to class."""
