"""The settings; only this package reads settings files, secrets and environment variables.

Values come from, in this order: keyword arguments (the command line), ``PROXYD_<KEY>``, ``PROXYD_<KEY>_FILE`` (a file
that contains the value), the TOML file, the default. An unknown key or ``PROXYD_`` variable is an error.
"""
