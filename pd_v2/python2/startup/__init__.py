"""What the Python processes of a program start with: this folder is the first of PYTHONPATH."""
