"""Translation: strings in, translations with scores and alignments out."""
