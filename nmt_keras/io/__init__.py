"""Input and output that the library, the server and the client share.

This is the only package of nmt_keras that ``serve`` imports. It imports no TensorFlow, NumPy or tyro.

    lines       text of users: files, archives, pipes, standard input and output
    files       files that survive a power cut, and locks
    markup      variables, tags and marks in a sentence
    sentences   splits text into sentences and the gaps between them
    errors      errors with three parts: what is wrong, what was received, what to do
    usage       command lines: help texts, and errors in one line
    threads     calls that can be abandoned
    modules     modules of the user, which register layers
    startup     settings that TensorFlow reads when it starts, and its messages
"""
