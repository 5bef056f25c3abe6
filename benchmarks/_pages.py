"""Pages of ``docs/results``: which benchmarks share one, and how their sections are joined."""

import os
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = Path(os.environ.get("VICINAL_RESULTS", ROOT / "docs" / "results"))

# page -> title, benchmarks in the order of reading
PAGES: dict[str, tuple[str, tuple[str, ...]]] = {
    "auto": (
        "AutoClassifier and AutoRegressor compared with other libraries",
        ("comparison", "tables", "autogluon", "families", "auto", "frames"),
    ),
    "cost": (
        "Fit time, prediction time, memory and file size",
        ("cost", "anytime", "costs", "save"),
    ),
    "partition": (
        "Space partitioning: the paper's tables and figures, defaults, speed",
        (
            "partition_table1",
            "partition_figures",
            "partition_regression",
            "partition_tree",
            "partition_defaults",
            "partition_speed",
        ),
    ),
    "local": (
        "Local models: accuracy, LOESS, anchors, speed",
        (
            "local_accuracy",
            "loess",
            "local_anchors",
            "local_choice",
            "local_speed",
            "local_scaling",
        ),
    ),
    "surface": (
        "Decision surfaces: normals, distances, counterfactuals, calibration",
        (
            "surface_digits",
            "surface_normals",
            "surface_geometry",
            "surface_counterfactual",
            "surface_constraints",
            "surface_calibration",
        ),
    ),
    "uncertainty": (
        "Locally adaptive classification: the paper's toys and faces, other tables, speed",
        (
            "uncertainty_toys",
            "uncertainty_faces",
            "uncertainty_tables",
            "uncertainty_letter",
            "uncertainty_choices",
            "uncertainty_speed",
            "uncertainty_speed_cuda",
        ),
    ),
    "subspace": (
        "Feature subspaces: the paper's tables, fusion, divide-and-conquer SVM",
        ("subspace_tables", "subspace_fusion", "divide_conquer_svc", "subspace_decomposition"),
    ),
    "ensemble": (
        "Ensembles: spam, Friedman's problem, averaging, intervals, defaults",
        (
            "ensemble_spam",
            "oblivious",
            "lecture_figures",
            "ensemble_friedman",
            "ensemble_averaging",
            "ensemble_intervals",
            "ensemble_local",
            "ensemble_local_boost",
            "ensemble_defaults",
        ),
    ),
    "pretrained": (
        "Pretrained local models compared with tree ensembles",
        ("pretrained",),
    ),
    "metric": (
        "Learned distances: neural neighbours and kernel ridge in the gradient metric",
        ("neural_neighbors", "neural_peers", "gradient_kernel"),
    ),
    "neighbors": (
        "Neighbour search compared with scikit-learn and pynndescent",
        ("neighbors", "neighbors_tree", "neighbors_cuda"),
    ),
    "linear": ("Linear models compared with scikit-learn", ("linear",)),
    "conformal": ("Intervals, label sets, novelty and label checks", ("rows", "groups")),
    "gpu": ("GPU compared with CPU", ("devices", "auto_cuda", "cuda")),
    "distributed": ("Dask: memory and time by number of workers", ("distributed",)),
    "production": ("Serving, ONNX and the command line", ("serve", "load", "onnx", "shell")),
    "robustness": (
        "Invalid input, damaged files, signals and mutation testing",
        ("robustness", "mutants"),
    ),
}
PAGE_OF = {name: page for page, (_, names) in PAGES.items() for name in names}


def page_of(name: str) -> str:
    """Return the page that shows a benchmark; one that shares no page has its own."""
    return PAGE_OF.get(name, name)


def _markers(name: str) -> tuple[str, str]:
    return f"<!-- {name} -->\n", f"\n<!-- end of {name} -->"


def section(name: str, folder: Path = RESULTS) -> str | None:
    """Return the section of a benchmark as it stands on its page, None if it has none yet."""
    return _between(name, folder / f"{page_of(name)}.md")


def _between(name: str, path: Path) -> str | None:
    """Return the text between the markers of a section."""
    begin, end = _markers(name)
    text = path.read_text() if path.exists() else ""
    if begin not in text:
        return None
    return text.split(begin, 1)[1].split(end, 1)[0]


def slug(title: str) -> str:
    """Return the anchor of a heading."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def link(name: str, folder: Path = RESULTS) -> str:
    """Return where a reader finds a benchmark: page, and the heading of its section."""
    text = section(name, folder)
    heading = re.search(r"^## (.*)$", text or "", re.MULTILINE)
    return f"{page_of(name)}.md" + (f"#{slug(heading[1])}" if heading else "")


def write_section(name: str, text: str) -> Path:
    """Put the section of a benchmark on its page, which keeps its other sections."""
    page = page_of(name)
    title, names = PAGES.get(page, (None, (name,)))
    sections = {other: section(other) for other in names}
    text = re.sub(r"\]\((\w+)\.md\)", lambda m: f"]({page_of(m[1])}.md)", text.strip())
    sections[name] = re.sub(r"^(#+ )", r"#\1", text, flags=re.MULTILINE)
    return write_page(
        page, title, {"findings": _between("findings", RESULTS / f"{page}.md")} | sections
    )


def write_findings(page: str, text: str) -> None:
    """Put the findings of a page at its top, above the sections of its benchmarks."""
    title, names = PAGES[page]
    write_page(page, title, {"findings": text} | {name: section(name) for name in names})


def write_page(page: str, title: str | None, sections: dict[str, str | None]) -> Path:
    """Write a page of the sections that there are."""
    parts = [f"# {title}"] if title else []
    for other, found in sections.items():
        if found is not None:
            begin, end = _markers(other)
            parts.append(begin + found + end)
    path = RESULTS / f"{page}.md"
    RESULTS.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".tmp")
    draft.write_text("\n\n".join(parts) + "\n")
    draft.replace(path)
    return path
