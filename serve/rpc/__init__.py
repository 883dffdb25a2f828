"""The gRPC API: PredictionService and ModelService."""
