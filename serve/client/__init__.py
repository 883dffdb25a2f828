"""A client of TensorFlow Serving: ``python -m serve.client "Una frase." --url http://127.0.0.1:8501``.

It speaks to TensorFlow Serving and to the embedded server alike, over REST (``http://``, ``https://``) and over gRPC
(``grpc://``, ``grpcs://``), and relies on the export's signatures:

    serving_default   text [B] -> translation, score, truncated [B]
    align             text [B] -> those, log_prob [B], source_tokens [B,S], target_tokens [B,T], their lengths [B],
                      alignment [B,T,S]: row t says how much of target token t came from each source token
    beam              text [B] -> translations, scores, log_probs, lengths [B,K], tokens [B,K,T],
                      source_tokens [B,S], source_lengths [B], alignment [B,K,T,S], truncated [B]

    answers      the records that are answered, made of a signature's outputs
    retry        when a request is sent again, and after how long
    rest         requests over HTTP and JSON
    messages     the part of TensorFlow Serving's protocol buffers that a client needs
    rpc          requests over gRPC
    sentences    text to sentences and the gaps between them
    translating  the client
    options      the options that the programs share

No module imports TensorFlow; ``rpc`` alone imports grpcio and NumPy, and is imported where a URL asks for it.
"""

from .answers import (
    Alignment,
    ClientError,
    Hypotheses,
    Hypothesis,
    ModelSpec,
    TranslatedText,
    Translation,
    Unavailable,
    VersionStatus,
)
from .retry import Retry
from .translating import DEFAULT_MODEL, DEFAULT_TEXT_BYTES, DEFAULT_URL, Client

__all__ = [
    "DEFAULT_MODEL",
    "DEFAULT_TEXT_BYTES",
    "DEFAULT_URL",
    "Alignment",
    "Client",
    "ClientError",
    "Hypotheses",
    "Hypothesis",
    "ModelSpec",
    "Retry",
    "TranslatedText",
    "Translation",
    "Unavailable",
    "VersionStatus",
]
