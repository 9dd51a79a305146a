"""torch._custom_op: the oldest way to declare operators."""
