"""What is written and read without a graph: atomic files, folders, tensors, nested states."""
