"""Products with a transposed factor, the gradients of weights, as operators of their own."""
