"""The command line. Options are typed dataclasses and functions; heavy imports wait until a command runs."""
