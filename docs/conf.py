"""Sphinx configuration.

``VICINAL_GALLERY=0`` builds the pages without running the examples of the gallery.
"""

import os
import tomllib
import warnings
from pathlib import Path

import vicinal

URLS = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]["urls"]

project = "vicinal"
author = "the vicinal developers"
copyright = "2026, the vicinal developers"
release = vicinal.__version__
version = release

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.extlinks",
    "sphinx.ext.mathjax",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "sphinx_sitemap",
    "sphinxext.opengraph",
]
myst_enable_extensions = ["amsmath", "attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
exclude_patterns = ["_build", "auto_examples/**/*.ipynb", "auto_examples/**/*.py"]
templates_path = ["_templates"]

autosummary_generate = True
numpydoc_show_class_members = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


def skip_methods_of_int(app, what, name, obj, skip, options):
    """Skip what an enumeration inherits from int: its docstrings are not reStructuredText."""
    return True if name in ("from_bytes", "to_bytes") else None


default_role = "literal"
extlinks = {"doi": ("https://doi.org/%s", "doi:%s")}

html_theme = "pydata_sphinx_theme"
html_title = "vicinal"
# Read the Docs sets the address of the version that it builds.
html_baseurl = os.environ.get("READTHEDOCS_CANONICAL_URL", f"{URLS['Documentation']}/en/stable/")
html_static_path = ["_static"]
html_css_files = ["vicinal.css"]
html_show_sourcelink = False
html_theme_options = {
    "show_prev_next": False,
    "navbar_align": "left",
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "icon_links": [
        {"name": "Repository", "url": URLS["Repository"], "icon": "fa-solid fa-code-branch"}
    ],
}
html_sidebars = {"index": []}

sitemap_url_scheme = "{link}"
ogp_site_url = html_baseurl
ogp_image = "_static/vicinal.png"
ogp_social_cards = {"enable": False}

linkcheck_ignore = [rf"{URLS['Repository']}.*", rf"{URLS['Documentation']}.*", r"http://127\..*"]

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"/plot_",
    "plot_gallery": os.environ.get("VICINAL_GALLERY") != "0",
    "abort_on_example_error": True,
    "show_memory": False,
    "show_signature": False,
    "download_all_examples": False,
    "min_reported_time": 10,
    "thumbnail_size": (640, 448),
    "matplotlib_animations": False,
}

if not sphinx_gallery_conf["plot_gallery"]:
    suppress_warnings = ["image.not_readable"]

# The gallery runs the examples; a warning there is a defect of the example.
warnings.filterwarnings("error", module="vicinal")


def widen_results(app, pagename, templatename, context, doctree):
    """Leave out the right sidebar of results: their tables need the width of the page."""
    if pagename.startswith("results/"):
        remove = {"html_theme.sidebar_secondary.remove": "true"}
        context["meta"] = {**(context.get("meta") or {}), **remove}


def setup(app):
    """Connect the hooks above."""
    app.connect("html-page-context", widen_results)
    app.connect("autodoc-skip-member", skip_methods_of_int)
