"""What the verbs of the command line and of the laboratory share: arguments, tables and progress bars."""
