"""A SavedModel that classifies and regresses ``tf.train.Example`` records: v1's builders still make such, v2's do not.

An example has a feature ``x``, a float, by default 0. The classes ``low`` and ``high`` score -x and x, the regression
is 2 x, and each further signature is wrong in one way of its own.
"""

from pathlib import Path

import tensorflow as tf

v1 = tf.compat.v1


def export_classifier(folder: Path) -> None:
    """Writes the model into ``folder``."""
    with v1.Session(graph=tf.Graph()) as session:
        records = v1.placeholder(tf.string, [None], "records")
        x = v1.parse_example(records, {"x": v1.FixedLenFeature([], tf.float32, 0.0)})["x"]
        scores = tf.stack([-x, x], axis=1)
        classes = tf.tile(tf.constant([["low", "high"]]), [tf.shape(records)[0], 1])
        define = v1.saved_model.signature_def_utils
        info = v1.saved_model.build_tensor_info

        def raw(method, inputs, outputs):
            inputs = {name: info(tensor) for name, tensor in inputs.items()}
            return define.build_signature_def(inputs, {name: info(t) for name, t in outputs.items()}, method)

        classify, regress = "tensorflow/serving/classify", "tensorflow/serving/regress"
        signatures = {
            "serving_default": define.classification_signature_def(records, classes, scores),
            "labels": define.classification_signature_def(records, classes, None),
            "scores": define.classification_signature_def(records, None, scores),
            "regress": define.regression_signature_def(records, 2.0 * x),
            "column": define.regression_signature_def(records, 2.0 * x[:, None]),
            "predict": define.predict_signature_def({"records": records}, {"x": x}),
            "flat": raw(classify, {"inputs": records}, {"scores": x}),
            "doubles": raw(classify, {"inputs": records}, {"scores": tf.cast(scores, tf.float64)}),
            "short": raw(classify, {"inputs": records}, {"scores": scores[:1]}),
            "uneven": raw(classify, {"inputs": records}, {"classes": classes[:, :1], "scores": scores}),
            "misnamed": raw(classify, {"examples": records}, {"scores": scores}),
            "empty": raw(classify, {"inputs": records}, {"probabilities": scores}),
            "wide": raw(regress, {"inputs": records}, {"outputs": scores}),
            "long": raw(regress, {"inputs": records}, {"outputs": tf.concat([x, x], 0)}),
            "whole": raw(regress, {"inputs": records}, {"outputs": tf.cast(x, tf.int32)}),
            "unnamed": raw(regress, {"inputs": records}, {"values": x}),
        }
        builder = v1.saved_model.builder.SavedModelBuilder(str(folder))
        builder.add_meta_graph_and_variables(session, ["serve"], signatures)
        builder.save()
