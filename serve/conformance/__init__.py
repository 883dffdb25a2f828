"""One set of tests for whatever claims TensorFlow Serving's REST API: ``python -m serve.conformance --url http://...``.

The embedded server passes these checks, and TensorFlow Serving's own container is to pass the same ones
(``.github/workflows/serving.yml`` runs them), so that a client cannot tell which of the two it talks to. What is asked
for is what release 2.20's source answers: paths and their spellings, the order of
checks, status codes and messages, row and column format, base64, gzip, decimals, status, metadata, labels. Any model
will do whose ``serving_default`` takes ``text`` [B] and answers several outputs, that is, every export of this project.

Some answers may differ between the servers, and are compared by their status alone:

- A batch of the wrong rank. TensorFlow Serving feeds it to the graph, which refuses it in its own words; the embedded
  server compares it with the signature first.
- A version beyond 64 bits, OPTIONS without an origin: TensorFlow Serving answers 400 without a body.
- A path outside /v1/. TensorFlow Serving answers a bare 404; a server in front may have a page of its own.

    server      the server that is examined, and what counts as a mismatch
    successes   requests that succeed, and what they answer
    refusals    requests that are refused, and in which words
    __main__    the command

Nothing but httpx and the standard library is needed, so the folder can be run against a container from anywhere.
"""
