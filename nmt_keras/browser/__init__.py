"""Browser: writes a translator as one HTML file, which translates without a server and without a network.

support      which models, tokenizers and searches the file can compute
rules        text rules in the syntax of JavaScript
weights      named weights as safetensors, in int8 or float16
bundling     JavaScript modules as one classic script
writing      ``write_html``

engine/      JavaScript: model, search and text rules on typed arrays
page/        JavaScript: the page's service and configuration, the worker, and the view "Look inside"

The page itself is that of the server, ``web/`` of nmt_keras_serve, whose folder the command ``nmt export`` passes.
"""

from nmt_keras.browser.support import require_supported
from nmt_keras.browser.writing import write_html

__all__ = ["require_supported", "write_html"]
