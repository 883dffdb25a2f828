"""A client of TensorFlow Serving: ``python -m nmt_keras_serve.client "Una frase." --url http://127.0.0.1:8501``.

It works with TensorFlow Serving and the embedded server, over REST. It uses the export's signatures:

    serving_default   text [B] -> translation, score, truncated [B]
    align             text [B] -> translation, score, truncated, log_prob [B], source_tokens [B,S],
                      target_tokens [B,T], source_lengths, target_lengths [B],
                      alignment [B,T,S]: row t holds the attention weights of target token t
    beam              text [B] -> translations, scores, log_probs, lengths [B,K], tokens [B,K,T],
                      source_tokens [B,S], source_lengths [B], alignment [B,K,T,S], truncated [B]

    answers      records of a signature's outputs
    retry        retries with growing pauses
    rest         requests over HTTP and JSON
    translating  the client

No module imports TensorFlow. Only ``rest`` imports HTTPX, and it is imported when a client is created.
"""

from nmt_keras.io.sentences import TranslatedText

from ..models.status import ModelSpec, VersionStatus
from .answers import (
    Alignment,
    ClientError,
    Hypotheses,
    Hypothesis,
    ScoredTranslation,
    Unavailable,
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
    "ScoredTranslation",
    "TranslatedText",
    "Unavailable",
    "VersionStatus",
]
