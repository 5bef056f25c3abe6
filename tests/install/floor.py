"""Print the lowest supported version of every core dependency as exact requirements."""

import sys
import tomllib
from pathlib import Path

if __name__ == "__main__":
    project = tomllib.loads(Path(sys.argv[1]).read_text())["project"]
    print(*(requirement.replace(">=", "==") for requirement in project["dependencies"]))
