"""The command line: output, ``--json`` and failures of every command."""
