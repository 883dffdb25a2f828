"""One set of tests for whatever claims TensorFlow Serving's APIs: ``python -m serve.conformance --url http://...``.

The embedded server passes these checks, and TensorFlow Serving's own container is to pass the same ones
(``.github/workflows/serving.yml`` runs them), so that a client cannot tell which of the two it talks to. What is asked
for is what release 2.20's source answers: paths and their spellings, the order of
checks, status codes and messages, row and column format, base64, gzip, decimals, status, metadata, labels. Any model
will do whose ``serving_default`` takes ``text`` [B] and answers several outputs, that is, every export of this project.
Further checks are switched on: ``--grpc HOST:PORT`` asks PredictionService and ModelService, their codes and messages;
``--monitoring`` reads the metrics; ``--cors`` looks for the headers that let pages of other hosts read the answers.

Some answers may differ between the servers, and are compared by their status or code alone:

- A batch of the wrong rank, or over gRPC of the wrong type. TensorFlow Serving feeds it to the graph, which refuses it
  in its own words; the embedded server compares it with the signature first.
- A path without a model. TensorFlow Serving says so; the embedded server calls it malformed.
- A version beyond 64 bits, OPTIONS without an origin: TensorFlow Serving answers 400 without a body.
- A path outside /v1/. TensorFlow Serving answers a bare 404; a server in front may have a page of its own.
- A gRPC message that cannot be decoded: INTERNAL, without a word or in the embedded server's.

Some are known to differ by the source, and are not asked for:

- Capital letters at the end of a path, ``:PREDICT`` or ``/METADATA``. Paths match in any case, and so the embedded
  server has it to their end; TensorFlow Serving compares the last word once more, as it is: it calls ``:PREDICT``
  malformed and answers ``/METADATA`` by the status. Write them small.
- A gzipped body that cannot be unpacked, or that has several members. Both answer 400. TensorFlow Serving's message
  says that the document is empty.
- Base64 without its padding or with white space, and a question mark at the end of a path. TensorFlow Serving reads the
  first two and refuses the third; the embedded server does the opposite.
- An int8, int16 or uint8 out of range. TensorFlow Serving wraps it around; the embedded server refuses it.
- ``:classify``, ``:regress`` and their gRPC methods. The embedded server refuses them and names ``:predict``.
- ``HandleReloadConfigRequest``. The embedded server answers UNIMPLEMENTED unless it was started with
  ``--enable-reload``, and nginx always does; TensorFlow Serving itself always allows it.
- A gRPC connection. The embedded server replaces each after ``--rest-api-timeout-in-ms``, which clients do not notice.

    server      the server that is examined, and what counts as a mismatch
    successes   requests that succeed, and what they answer
    refusals    requests that are refused, and in which words
    rpc         both over gRPC
    __main__    the command

Beside the standard library, httpx and tyro are needed; for ``--grpc`` also grpcio and NumPy, but not TensorFlow.
"""
