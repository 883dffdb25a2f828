"""Models: selects versions, loads them, and answers requests with them."""
