"""Startup files of a program's Python processes: this folder is the first of PYTHONPATH."""
