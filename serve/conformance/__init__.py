"""Conformance checks for servers of TensorFlow Serving's REST API: ``python -m nmt_keras_serve.conformance``.

The embedded server passes these checks. ``.github/workflows/serving.yml`` runs the same checks against TensorFlow
Serving's container. The expected answers follow the source of release 2.20: paths and their spellings, the order of
checks, status codes and messages, row and column format, base64, gzip, decimals, status, metadata, labels. The checks
work with any model whose ``serving_default`` takes ``text`` [B] and has several outputs, like every export of this
project. Options add checks: ``--monitoring`` checks the metrics, and ``--cors`` the headers that let web pages of other
hosts read the answers.

Some answers may differ between the servers. Only their status is compared:

- A batch of the wrong rank. TensorFlow Serving feeds the batch to the graph, which refuses it with its own message. The
  embedded server first compares the batch with the signature.
- A path without a model. TensorFlow Serving reports a missing model; the embedded server reports a malformed path.
- A version beyond 64 bits, and OPTIONS without an origin. TensorFlow Serving answers 400 without a body.
- A path outside /v1/. TensorFlow Serving answers 404; another server may have a page there.

Some answers are known to differ, and are not checked:

- Capital letters at the end of a path, ``:PREDICT`` or ``/METADATA``. The embedded server matches whole paths in any
  case. TensorFlow Serving compares the last word once more: it calls ``:PREDICT`` malformed, and answers ``/METADATA``
  with the status. Write these words in lower case.
- A gzipped body that cannot be unpacked, or that has several members. Both servers answer 400. TensorFlow Serving
  reports an empty document.
- Base64 without padding or with white space. TensorFlow Serving accepts it. The embedded server refuses it.
- A question mark at the end of a path. TensorFlow Serving refuses it. The embedded server accepts it.
- An int8, int16 or uint8 out of range. TensorFlow Serving wraps it around. The embedded server refuses it.
- ``:classify`` and ``:regress``. The embedded server refuses them and names ``:predict``.
- The headers Host and Origin. On a loopback address, the embedded server answers 403 unless Host is localhost or such
  an address. Without CORS, it answers 403 to POST from a web page of another origin.

    server      the checked server, and comparisons of its answers
    successes   requests that must succeed
    refusals    requests that must be refused
    __main__    the command

The package does not need TensorFlow. It needs httpx and tyro.
"""
