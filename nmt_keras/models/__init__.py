"""Models: encoders, decoders, Seq2Seq and ensembles."""
