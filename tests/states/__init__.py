"""Everything public that has a state: it is found, restored, copied, damaged and set."""
