"""Shared by the verbs of the command line and the laboratory: arguments, tables and progress bars."""
