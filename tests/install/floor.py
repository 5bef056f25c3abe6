"""Print the lowest supported version of every dependency, core and extras, as pip constraints.

Tools of the suite, of the documents and of the benchmarks stay at their newest, and torch at the
one build that the suite names.
"""

import re
import sys
import tomllib
from pathlib import Path

NEWEST = {"bench", "dev", "docs", "test"}
REQUIREMENT = re.compile(r"([\w-]+)(?:\[\w+\])?>=([\d.]+)(?:,<[\d.]+)?")


def floors(project):
    """Return {package: lowest version}; two extras that name one package must agree."""
    extras = project["optional-dependencies"]
    users = [extras[name] for name in extras if name not in NEWEST]
    found = {}
    for requirement in sum(users, project["dependencies"]):
        if requirement.startswith((f"{project['name']}[", "torch")):
            continue
        package, lowest = REQUIREMENT.fullmatch(requirement).groups()
        if found.setdefault(package, lowest) != lowest:
            raise ValueError(f"{package} has two floors: {found[package]} and {lowest}.")
    return found


if __name__ == "__main__":
    settings = tomllib.loads(Path(sys.argv[1]).read_text())
    for package, lowest in floors(settings["project"]).items():
        print(f"{package}=={lowest}")
