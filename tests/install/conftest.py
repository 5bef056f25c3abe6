"""Scripts of this folder are run by tests and by make, not collected."""

collect_ignore = ["distribution.py", "floor.py", "usage.py"]
