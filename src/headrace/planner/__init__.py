"""Which way to maintain a view. So far there is one: recompute, which stays as the oracle and the fallback."""
