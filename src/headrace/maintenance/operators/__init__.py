"""The operators that keep state, one module each. What keeps none is evaluated by the engine between them."""
